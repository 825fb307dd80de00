"""Attention: PyTorch's scaled_dot_product_attention as operations of this package.

While a graph is traced for this backend, `instead` puts `multidispatch::attention` in the place of PyTorch's operation
before that chooses one of its kernels: one operation for all devices, sizes and masks, without conditions on sizes. For
a backward it also gives the logarithm of the sum of exponentials of each row (lse), which the gradient is made of."""

from __future__ import annotations

import contextlib
import math
import threading
from typing import Any, Callable, Iterator

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true, sym_eq
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

_local = threading.local()
_library = torch.library.Library("multidispatch", "FRAGMENT")
_ARGUMENTS = "Tensor q, Tensor k, Tensor v, Tensor? mask, bool is_causal, float? scale"
_library.define(f"attention({_ARGUMENTS}) -> Tensor")
_library.define(f"attention_saving({_ARGUMENTS}) -> (Tensor y, Tensor lse)")
_library.define(f"attention_backward(Tensor dy, {_ARGUMENTS}, Tensor y, Tensor lse) -> (Tensor, Tensor, Tensor)")
_HALF = (torch.float16, torch.bfloat16)
_SERVED = {"cpu": (*_HALF, torch.float32, torch.float64), "cuda": _HALF}  # others have no fused kernel here


# ---- The operations, where PyTorch computes them

def _pytorch(q: Any, k: Any, v: Any, mask: Any, is_causal: bool, scale: Any) -> torch.Tensor:
    with _as(False):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, mask, 0.0, is_causal, scale=scale,
                                                                enable_gqa=_n_shared(q, k) != 1)


def _n_shared(q: Any, k: Any) -> Any:
    """How many heads of queries share one of keys."""
    return q.shape[-3] // k.shape[-3] if q.dim() > 2 and not statically_known_true(q.shape[-3] == k.shape[-3]) else 1


def _wide(x: torch.Tensor) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _scale(q: Any, scale: Any) -> Any:
    return 1 / math.sqrt(q.shape[-1]) if scale is None else scale


def _repeated(x: Any, n: Any) -> Any:
    """Keys or values, once for each head of queries."""
    return x.repeat_interleave(n, -3) if x.dim() > 2 else x


def _scores(q: Any, k: Any, mask: Any, is_causal: bool, scale: Any) -> torch.Tensor:
    q, k = q.to(_wide(q)), k.to(_wide(q))
    s = q @ k.transpose(-1, -2) * _scale(q, scale)
    if is_causal:
        mask = torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).tril()
    if mask is None:
        return s
    return s.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else s + mask


def _saving(q: Any, k: Any, v: Any, mask: Any, is_causal: bool, scale: Any) -> tuple[torch.Tensor, torch.Tensor]:
    scores = _scores(q, _repeated(k, _n_shared(q, k)), mask, is_causal, scale)
    return _pytorch(q, k, v, mask, is_causal, scale), scores.logsumexp(-1)


def _backward(dy: Any, q: Any, k: Any, v: Any, mask: Any, is_causal: bool, scale: Any, y: Any,
              lse: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    n, wide = _n_shared(q, k), _wide(q)
    keys, values = _repeated(k, n), _repeated(v, n)
    p = (_scores(q, keys, mask, is_causal, scale) - lse.unsqueeze(-1)).exp()
    p = p.masked_fill(lse.unsqueeze(-1) == -torch.inf, 0)
    dy = dy.to(wide)
    ds = p * (dy @ values.to(wide).transpose(-1, -2) - (dy * y.to(wide)).sum(-1, keepdim=True))
    ds = ds * _scale(q, scale)
    dk, dv = ds.transpose(-1, -2) @ q.to(wide), p.transpose(-1, -2) @ dy
    if q.dim() > 2:
        dk, dv = (g.unflatten(-3, (k.shape[-3], n)).sum(-3) for g in (dk, dv))
    return tuple(g.to(q.dtype) for g in (ds @ keys.to(wide), dk, dv))  # type: ignore[return-value]


def _fake(q: Any, k: Any, v: Any, _: Any, is_causal: bool, scale: Any) -> torch.Tensor:
    """The result without data, laid out as PyTorch's. A mask does not matter for that, and PyTorch would ask whether its
    sizes are 1."""
    return _pytorch(q, k, v, None, is_causal, scale)


def _fake_saving(q: Any, k: Any, v: Any, *options: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return _fake(q, k, v, *options), q.new_empty(q.shape[:-1], dtype=_wide(q))


def _fake_backward(dy: Any, q: Any, k: Any, v: Any, *_: Any) -> tuple[torch.Tensor, ...]:
    return tuple(map(torch.empty_like, (q, k, v)))


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    q, k, v, mask, ctx.is_causal, ctx.scale = inputs
    ctx.save_for_backward(q, k, v, mask, *output)


def _gradients(ctx: Any, dy: torch.Tensor, _: Any) -> tuple[Any, ...]:
    q, k, v, mask, y, lse = ctx.saved_tensors
    return (*torch.ops.multidispatch.attention_backward(dy, q, k, v, mask, ctx.is_causal, ctx.scale, y, lse),
            None, None, None)


def _register(name: str, compute: Callable[..., Any], fake: Callable[..., Any]) -> None:
    _library.impl(name, compute, "CompositeExplicitAutograd")
    torch.library.register_fake(f"multidispatch::{name}", fake, lib=_library)


_register("attention", _pytorch, _fake)
_register("attention_saving", _saving, _fake_saving)
_register("attention_backward", _backward, _fake_backward)
torch.library.register_autograd("multidispatch::attention_saving", _gradients, setup_context=_save, lib=_library)


# ---- Which attentions become ours

@contextlib.contextmanager
def _as(ours: bool) -> Iterator[None]:
    before = getattr(_local, "is_ours", False)
    _local.is_ours = ours
    try:
        yield
    finally:
        _local.is_ours = before


def is_ours() -> bool:
    """True while a graph of this backend is traced by this thread."""
    return getattr(_local, "is_ours", False)


def ours() -> Any:
    """While a graph is traced for this backend in this thread."""
    return _as(True)


def _is_plain(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.layout == torch.strided and not x.is_nested \
        and not is_traceable_wrapper_subclass(x)


def serves(q: Any, k: Any, v: Any, mask: Any = None) -> bool:
    """True for tensors whose attention this package computes."""
    given = [q, k, v] if mask is None else [q, k, v, mask]
    if not all(map(_is_plain, given)) or any(x.device != q.device for x in given) or q.dim() < 2 \
            or any(x.dtype != q.dtype or x.dim() != q.dim() for x in (k, v)):
        return False
    if q.dtype not in _SERVED.get(q.device.type, ()) or mask is not None and mask.dim() > q.dim():
        return False
    heads = statically_known_true(sym_eq(q.shape[:-2], k.shape[:-2])) or _shares_heads(q, k)
    return heads and all(statically_known_true(sym_eq(a, b)) for a, b in (
        (k.shape[:-2], v.shape[:-2]), (k.shape[-2:-1], v.shape[-2:-1]), (q.shape[-1:], k.shape[-1:])))


def _shares_heads(q: Any, k: Any) -> bool:
    return q.dim() > 2 and statically_known_true(sym_eq(q.shape[:-3], k.shape[:-3])) \
        and all(isinstance(x.shape[-3], int) and x.shape[-3] > 0 for x in (q, k)) and q.shape[-3] % k.shape[-3] == 0


def _is_transformed() -> bool:
    """True under vmap, jvp and the like, for which the operations have no rules."""
    return torch._C._functorch.peek_interpreter_stack() is not None or torch.autograd.forward_ad._current_level >= 0


def instead(q: Any, k: Any, v: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, *,
            scale: Any = None, enable_gqa: bool = False) -> Any:
    """For aten.scaled_dot_product_attention while a graph is traced: NotImplemented where it stays PyTorch's."""
    if not is_ours() or not isinstance(dropout_p, (int, float)) or dropout_p != 0.0 \
            or is_causal and attn_mask is not None or _is_transformed() or not serves(q, k, v, attn_mask) \
            or not enable_gqa and not statically_known_true(sym_eq(q.shape[:-2], k.shape[:-2])):
        return NotImplemented
    with_gradient = [x for x in (q, k, v, attn_mask) if x is not None and x.requires_grad and torch.is_grad_enabled()]
    if any(x is attn_mask for x in with_gradient):
        return NotImplemented
    options = (attn_mask, is_causal, scale)
    if with_gradient:
        return torch.ops.multidispatch.attention_saving(q, k, v, *options)[0]
    return torch.ops.multidispatch.attention(q, k, v, *options)
