"""Layers of torch.nn.LSTM, GRU and RNN: one operation each, in graphs of this backend without gradients.

PyTorch takes such a layer apart into its steps, a graph for each length, and so Dynamo cuts the graph there. The operation
is PyTorch's own kernel, between kernels of the plan."""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
from typing import Any, Callable, Iterator

import torch
from torch._dynamo.variables.builder import VariableBuilder

from . import attention, scans

_log = logging.getLogger("multidispatch")
_local = threading.local()
_library = torch.library.Library("multidispatch", "FRAGMENT")
_PACKED = ("data", "_packed")  # the form of packed sequences, and what its name has besides
_OPERATIONS = [(kind, form, kind + suffix) for kind in ("lstm", "gru", "rnn_tanh", "rnn_relu")
               for form, suffix in (("input", ""), _PACKED)]


def _fake(form: str) -> Callable[..., Any]:
    def described(x: Any, *given: Any) -> tuple[torch.Tensor, ...]:
        state = given[0] if form == "input" else given[1]
        is_bidirectional = given[-2 if form == "input" else -1]
        states = state if isinstance(state, (list, tuple)) else [state]
        width = states[0].shape[-1] * (2 if is_bidirectional else 1)
        # Row-major with the batch first, too. There PyTorch's is a transposed one, and what reads it asks for its order.
        return (x.new_empty([*x.shape[:-1], width]), *(s.new_empty(s.shape) for s in states))

    return described


def _is_random(op: Any, args: tuple[Any, ...]) -> bool:
    names = [a.name for a in op._schema.arguments]
    return bool(args[names.index("train")] and args[names.index("dropout")])


def _has_gradient(args: Any) -> bool:
    tensors = [x for a in args for x in (a if isinstance(a, (list, tuple)) else [a]) if isinstance(x, torch.Tensor)]
    return torch.is_grad_enabled() and any(x.requires_grad for x in tensors)


def _instead(op: Any, ours: Any, known: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(known)
    def layer(*args: Any) -> Any:
        is_whole = _is_traced() and not _is_random(op, args) and not _has_gradient(args) \
            and not torch.is_autocast_enabled(args[0].device.type)
        return ours(*args) if is_whole else known(*args)

    return layer


@contextlib.contextmanager
def while_exported() -> Iterator[None]:
    """While torch.export traces a graph for this package in this thread."""
    _local.is_exported = True
    try:
        yield
    finally:
        _local.is_exported = False


def _is_traced() -> bool:
    return attention.is_ours() or getattr(_local, "is_exported", False) or _dynamo_traces()


def _dynamo_traces() -> bool:
    """True while Dynamo traces a graph for this backend."""
    try:
        return scans.is_traced_for_ours()
    except Exception:  # it traces nothing, or is another version
        return False


def _why_cut(layer: Any) -> str:
    """Why Dynamo cuts a graph of this backend at the layer; "": the graph holds it as one operation."""
    is_cast = torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")
    whys = {"gradients are recorded, which torch.no_grad() ends": torch.is_grad_enabled(),
            "it drops at random": layer.training and layer.dropout, "autocast is on": is_cast}
    return next((why for why, holds in whys.items() if holds), "")


def _stays_whole(layer: Any) -> bool:
    if not _dynamo_traces():
        return False
    why = _why_cut(layer)
    if why:
        _log.info("a layer of %s cuts the graph, since %s", type(layer).__name__, why)
    return not why


def one_operation() -> None:
    """Dynamo goes into these layers, and the operation that it finds there is the package's."""
    keys = torch._C.DispatchKey
    for kind, form, name in _OPERATIONS:
        op = getattr(getattr(torch.ops.aten, kind), form)
        _library.define(str(op._schema).replace(f"aten::{kind}.{form}", name))
        _library.impl(name, op, "CompositeExplicitAutograd")
        torch.library.register_fake(f"multidispatch::{name}", _fake(form), lib=_library)
        ours = getattr(torch.ops.multidispatch, name).default
        for key in [k for k in (keys.Autograd, keys.CompositeImplicitAutograd) if k in op.py_kernels]:
            op.py_kernels[key] = _instead(op, ours, op.py_kernels[key])
    # Lengths are data: where the layer does not cut the graph, Dynamo of PyTorch 2.11 fails there. Later ones cut it.
    torch._dynamo.disallow_in_graph(torch._VF._pad_packed_sequence)  # type: ignore[attr-defined]
    wrap = VariableBuilder.wrap_module

    @functools.wraps(wrap)
    def wrap_module(self: Any, value: Any) -> Any:
        is_whole = isinstance(value, torch.nn.RNNBase) and _stays_whole(value)
        with torch._dynamo.config.patch(allow_rnn=True) if is_whole else contextlib.nullcontext():
            return wrap(self, value)

    VariableBuilder.wrap_module = wrap_module  # type: ignore[method-assign]
