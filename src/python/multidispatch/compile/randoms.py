"""Random numbers as functions of a seed and a place: what a kernel drew in the forward, the backward draws again.

While a graph is traced, PyTorch's operations that draw become `multidispatch::seed`, which takes one number from PyTorch's
generator, and `multidispatch::uniform`, which is pure: `rand(seed, place)` of the formula language (Philox4x32-10). So the
bits are not eager's, and the generator moves by one number of 64 bits an operation, not by one or two an element."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any, Callable

import torch
from torch._decomp.decompositions import native_dropout
from torch._functorch import partitioners
from torch._prims_common import compute_elementwise_output_logical_to_physical_perm
from torch.utils.checkpoint import CheckpointPolicy

from .. import Op

aten = torch.ops.aten
_library = torch.library.Library("multidispatch", "FRAGMENT")
_DRAWS = {"tags": (torch.Tag.nondeterministic_seeded,)}
# The number keeps two draws from being taken for one.
_library.define("seed(int number, Device device) -> Tensor", **_DRAWS)
_library.define("seeds(int n, Device device) -> Tensor", **_DRAWS)
_library.define("uniform(Tensor seed, SymInt[] size, bool is_wide, int stream) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))
_numbers = itertools.count()

# Reals in [0, 1) from a seed, a place and a stream: multiples of 2^-24, of 2^-53 in f64.
TEXT = {"f32": "rand({0}, {1}, %d)", "f64": "(f64(philox({0}, {1}, %d) >> 11 & 9007199254740991) * 1.1102230246251565e-16)"}


# ---- The operations, where PyTorch computes them

def _seeds(n: int, device: torch.device) -> torch.Tensor:
    return torch.randint(-2 ** 63, 2 ** 63 - 1, (n,), dtype=torch.int64, device=device)


def _seed(_: int, device: torch.device) -> torch.Tensor:
    return _seeds(1, device)[0]


@functools.cache
def _op(dtype: str, stream: int) -> Op:
    return Op(f"Y:{dtype}[i] = " + (TEXT[dtype] % stream).format("S:i64[]", "i"))


def _uniform(seed: torch.Tensor, size: Any, is_wide: bool, stream: int) -> torch.Tensor:
    out = torch.empty(size, dtype=torch.float64 if is_wide else torch.float32, device=seed.device)
    if out.numel():
        _op("f64" if is_wide else "f32", stream).call(out.view(-1), seed)
    return out


def _register(name: str, real: Callable[..., Any], fake: Callable[..., Any]) -> None:
    _library.impl(name, real, "CompositeExplicitAutograd")
    torch.library.register_fake(f"multidispatch::{name}", fake, lib=_library)


_register("seed", _seed, lambda number, device: torch.empty((), dtype=torch.int64, device=device))
_register("seeds", _seeds, lambda n, device: torch.empty((n,), dtype=torch.int64, device=device))
_register("uniform", _uniform, lambda seed, size, is_wide, stream: seed.new_empty(
    size, dtype=torch.float64 if is_wide else torch.float32))


# ---- What PyTorch's operations become

_BITS = {torch.bfloat16: 8, torch.float16: 11}  # of numbers below 1 that the dtype has at equal distances


def _uniforms(size: Any, dtype: Any, device: Any, n: int = 1) -> list[torch.Tensor]:
    """n tensors of numbers in [0, 1), in f32 or f64."""
    device = torch.empty(0, device=device).device  # with its number
    seed = torch.ops.multidispatch.seed(next(_numbers), device)
    return [torch.ops.multidispatch.uniform(seed, size, dtype == torch.float64, i) for i in range(n)]


def _rand(size: Any, dtype: Any, device: Any) -> torch.Tensor:
    u, bits = _uniforms(size, dtype, device)[0], _BITS.get(dtype)
    return u if bits is None else (torch.floor(u * 2.0 ** bits) * 2.0 ** -bits).to(dtype)


def _randn(size: Any, dtype: Any, device: Any) -> torch.Tensor:
    """By Box and Muller (A note on the generation of random normal deviates, 1958)."""
    u, v = _uniforms(size, dtype, device, 2)
    return (torch.sqrt(-2.0 * torch.log(1.0 - u)) * torch.cos(2.0 * math.pi * v)).to(dtype)


def _is_ours(dtype: Any, device: Any) -> bool:
    return dtype in (torch.float64, torch.float32, *_BITS) and torch.device(device).type in ("cpu", "cuda")


def _laid_as_given(draw: Callable[..., Any]) -> Callable[..., Any]:
    """The result lies in memory as the first argument does: PyTorch may have been asked whether a view of it exists."""
    @functools.wraps(draw)
    def laid(x: torch.Tensor, *args: Any, **options: Any) -> Any:
        order, _ = compute_elementwise_output_logical_to_physical_perm(x)
        if order == sorted(order):
            return draw(x, *args, **options)
        y = draw(x.permute(order), *args, **options)
        return y if y is NotImplemented else y.permute([order.index(axis) for axis in range(x.dim())])

    return laid


def _sized(draw: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    def made(size: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None) -> Any:
        dtype, device = dtype or torch.get_default_dtype(), device or torch.get_default_device()
        return draw(size, dtype, device) if _is_ours(dtype, device) and not pin_memory else NotImplemented

    return made


def _like(draw: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    @_laid_as_given
    def made(x: torch.Tensor, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None,
             memory_format: Any = None) -> Any:
        dtype, device = dtype or x.dtype, device or x.device
        is_plain = not pin_memory and memory_format in (None, torch.preserve_format)
        return draw(x.shape, dtype, device) if is_plain and _is_ours(dtype, device) else NotImplemented

    return made


def _bernoulli(x: torch.Tensor, p: Any = None, generator: Any = None) -> Any:
    """1 with probability p, else 0; without p that is x."""
    if generator is not None or not _is_ours(torch.float32, x.device):
        return NotImplemented
    u = _uniforms(x.shape, torch.float32, x.device)[0]
    return (u < (x if p is None else p)).to(x.dtype)


@_laid_as_given
def _between(x: torch.Tensor, low: float = 0.0, high: float = 1.0, generator: Any = None) -> Any:
    if generator is not None or not _is_ours(x.dtype, x.device):
        return NotImplemented
    return (_rand(x.shape, x.dtype, x.device) * (high - low) + low).to(x.dtype)


@_laid_as_given
def _normal(x: torch.Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Any:
    if generator is not None or not _is_ours(x.dtype, x.device):
        return NotImplemented
    return _randn(x.shape, x.dtype, x.device) * std + mean


@_laid_as_given
def _exponential(x: torch.Tensor, rate: float = 1.0, generator: Any = None) -> Any:
    if generator is not None or not _is_ours(x.dtype, x.device):
        return NotImplemented
    u = _uniforms(x.shape, x.dtype, x.device)[0]
    return (-torch.log(1.0 - u) / rate).clamp(min=torch.finfo(u.dtype).tiny).to(x.dtype)  # never 0, as PyTorch's


def _dropout(x: torch.Tensor, p: float, train: Any) -> Any:
    if train is False or not _is_ours(x.dtype, x.device) or p in (0.0, 1.0):
        return native_dropout(x, p, train)  # which draws nothing, or by an operation of PyTorch
    keeps = _uniforms(x.shape, torch.float32, x.device)[0] >= p
    return x * keeps * (1.0 / (1.0 - p)), keeps  # x first: the result lies in memory as it does


def decompositions() -> dict[Any, Any]:
    return {aten.rand.default: _sized(_rand), aten.randn.default: _sized(_randn), aten.rand_like.default: _like(_rand),
            aten.randn_like.default: _like(_randn), aten.bernoulli.p: _bernoulli,
            aten.bernoulli.default: _bernoulli, aten.uniform.default: _between, aten.normal_functional.default: _normal,
            aten.exponential.default: _exponential, aten.native_dropout.default: _dropout}


# ---- Seeds of a graph

def draw_together(module: Any) -> int:
    """Makes one draw of the seeds of a device. Gives the number of those that went."""
    draws: dict[torch.device, list[torch.fx.Node]] = {}
    for node in module.graph.nodes:
        if node.target is torch.ops.multidispatch.seed.default:
            draws.setdefault(node.args[1], []).append(node)
    many = [nodes for nodes in draws.values() if len(nodes) > 1]
    for nodes in many:
        value = nodes[0].meta["val"]
        with module.graph.inserting_before(nodes[0]), value.fake_mode:
            drawn = module.graph.call_function(torch.ops.multidispatch.seeds.default, (len(nodes), nodes[0].args[1]))
            drawn.meta["val"] = value.new_empty((len(nodes),))
            for i, node in enumerate(nodes):
                one = module.graph.call_function(aten.select.int, (drawn, 0, i))
                one.meta["val"] = drawn.meta["val"][i]
                node.replace_all_uses_with(one)
                module.graph.erase_node(node)
    return sum(len(nodes) - 1 for nodes in many)


def keep_seeds(joint: Any) -> None:
    """A backward that computes a checkpoint again has the seeds of the forward."""
    for node in joint.graph.nodes:
        if node.target is torch.ops.multidispatch.seed.default:
            node.meta["recompute"] = CheckpointPolicy.MUST_SAVE


def _backward_draws_again() -> None:
    """PyTorch divides a graph by a list of operations that the backward may compute again: `uniform` is one, beside its own."""
    known = partitioners.get_default_op_list

    @functools.wraps(known)
    def get_default_op_list() -> Any:
        out = known()
        for ops in (out.fusible_ops, out.recomputable_ops):
            ops.add(torch.ops.multidispatch.uniform)
        return out

    partitioners.get_default_op_list = get_default_op_list


_backward_draws_again()
