"""Which kernels of a plan run as one step without order (md/combo.h): small ones that wait for nothing, such as the
conversions of weights, and sums that nothing waits for, such as the gradients of biases."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ..lowering.tree import Buf, Gather, leaves
from .formula import Formula
from .groups import Group, Grouping

_MOST_LATE = 8  # the most kernels that are put off to run together: their inputs stay in memory until then
_MOST_TENSORS = 240  # the most tensors of a step; the extension takes 256


@dataclass(eq=False)
class Together:
    """A step that runs several kernels without order, given by their roots."""

    roots: list[Buf]


def _is_plain(group: Group, formula: Formula) -> bool:
    """True for pointwise kernels and sums over memory at known places, whose arguments are tensors."""
    return group.root.into is None and all(a.buf is not None for a in formula.arguments) \
        and all(b.kind in ("point", "reduce") for b in group.members) \
        and not any(isinstance(t, Gather) for b in group.members for t in leaves(b.tree))


def _waits_for_nothing(formula: Formula, stored: set[Buf]) -> bool:
    return all(a.buf in stored or a.buf.kind in ("input", "constant") for a in formula.arguments if a.buf is not None)


def gather(steps: list[Any], grouping: Grouping, formulas: dict[Buf, Formula]) -> list[Any]:
    """The steps in order, with those that may run together replaced by one Together."""
    early: list[Buf] = []
    late: list[Buf] = []
    out: list[Any] = []
    for step in steps:
        group = grouping.groups.get(step) if isinstance(step, Buf) else None
        if group is None or not _is_plain(group, formulas[step]):
            out.append(step)
        elif all(grouping.first_reader(b) == math.inf for b in (group.root, *group.also)):
            late.append(step)
            if len(late) == _MOST_LATE:
                out.append(Together(late))
                late = []
        elif _waits_for_nothing(formulas[step], {group.root, *group.also}):
            early.append(step)
        else:
            out.append(step)
    first = [Together(part) for part in _parts(early, formulas)]
    last = [Together(late)] if late else []
    return [s.roots[0] if isinstance(s, Together) and len(s.roots) == 1 else s for s in (*first, *out, *last)]


def _parts(roots: list[Buf], formulas: dict[Buf, Formula]) -> list[list[Buf]]:
    """Divides kernels into as few lists as _MOST_TENSORS allows."""
    out: list[list[Buf]] = []
    left = 0
    for root in roots:
        n = len(formulas[root].arguments)
        if n > left:
            out.append([])
            left = _MOST_TENSORS
        out[-1].append(root)
        left -= n
    return out
