"""Operations of PyTorch that are steps of a plan: each as a function that runs it on the plan's memory."""

from __future__ import annotations

import itertools
import math
import time
from typing import Any, Callable

import torch

from ..described import WITHOUT_VIEWS
from ..lowering.lowered import Eager, Held, Number, Real
from ..lowering.tree import Buf
from ..report import Cost
from ..sizes import Dims



def _numbers(x: Any, dims: Dims) -> None:
    if isinstance(x, Number):
        dims.text(x.size)
    elif isinstance(x, Real):
        dims.real(x.real)
    elif isinstance(x, (list, tuple)):
        for y in x:
            _numbers(y, dims)
    elif isinstance(x, dict):
        _numbers(list(x.values()), dims)


def note_numbers(e: Eager, dims: Dims) -> None:
    """Tells the dims of all numbers among the operation's arguments, which its function takes from the plan."""
    _numbers((e.args, e.kwargs), dims)


def _with_strides(x: torch.Tensor, stride: tuple[int, ...]) -> torch.Tensor:
    """The tensor with its memory in the order that the graph says."""
    return x if x.stride() == stride else torch.empty_strided(x.shape, stride, dtype=x.dtype, device=x.device).copy_(x)


def function_of(e: Eager, dims: Dims, adopted: dict[Buf, int], carried: dict[Buf, int],
                cost: Cost) -> Callable[..., Any]:
    """fn(tensors, sizes, arguments): runs the operation on views of the plan's memory and on arguments of the call that are
    carried, and copies its results there. It gives those that are adopted."""
    constants: list[Any] = []
    held = [f"a[{carried[leaf.buf]}]" if leaf.buf in carried else None for leaf, _ in e.reads]
    numbers = itertools.count()
    held = [h or f"t[{next(numbers)}]" for h in held]

    def source(x: Any) -> str:
        if isinstance(x, Held):
            return held[x.number]
        if isinstance(x, Number):
            return dims.text(x.size)
        if isinstance(x, Real):
            return dims.real(x.real)
        if isinstance(x, list):
            return "[" + ", ".join(map(source, x)) + "]"
        if isinstance(x, tuple):
            return "(" + "".join(source(y) + ", " for y in x) + ")"
        constants.append(x)
        return f"c[{len(constants) - 1}]"

    args = ", ".join([*map(source, e.args), *(f"{k}={source(v)}" for k, v in e.kwargs.items())])
    names = ", ".join(f"d{i}" for i in range(len(dims.names)))
    lines = ["def run(t, s, a):", "    start = now()"]
    if names:
        lines.append(f"    {names}{',' if len(dims.names) == 1 else ''} = s")
    lines.append(f"    out = op({args})")
    at = next(numbers)
    many = isinstance(e.node.meta.get("val"), (list, tuple))
    given = []
    for i, b in enumerate(e.outputs):
        result = f"out[{i}]" if many else "out"
        if b in adopted:
            given.append(f"fit({result}, ({''.join(dims.text(s) + ', ' for s in b.stride)})), ")
        elif b is not None:
            lines.append(f"    t[{at}].copy_({result})")
            at += 1
    lines += ["    cost.add(now() - start)", f"    return ({''.join(given)})"]
    space: dict[str, Any] = {"op": WITHOUT_VIEWS.get(e.node.target, e.node.target), "c": constants, "fit": _with_strides,
                             "sqrt": math.sqrt, "now": time.perf_counter, "cost": cost}
    exec("\n".join(lines), space)  # the text is made of numbers and names of this module only
    return space["run"]


