"""Options of a graph: `torch.compile(f, backend="multidispatch", options={...})` and `md.capture(..., options={...})`."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from typing import Any

import torch

from .. import _NUMERIC, _SELECT, ArgumentError, _number


@dataclass(frozen=True)
class Options:
    select: str | None = None  # how kernels are picked, as in md.op; None: as the environment says
    numeric: str | None = None
    eager_where_faster: bool | None = None  # None: True. Never where determinism was asked for
    eager_random: bool | None = None  # True: random numbers are PyTorch's, bit by bit, and no kernel holds them
    eager_while_building: bool | None = None  # torch.compile's graphs only. None: unless the above is False
    pieces_by_inductor: bool = False  # what no plan holds is TorchInductor's, not eager PyTorch's
    # md.capture: products may read weights in a layout of their own, which is made once beside the weights
    packed_weights: bool = False

    def numbers(self) -> tuple[int, int]:
        """`select` and `numeric` as the library has them; 0: not given."""
        return _number(_SELECT, "select", self.select), _number(_NUMERIC, "numeric", self.numeric)

    def is_deterministic(self) -> bool:
        """True where equal calls give equal bits: as asked for here, in the environment, or of PyTorch."""
        numeric = self.numeric or os.environ.get("MD_NUMERIC") or "fast"
        return numeric != "fast" or torch.are_deterministic_algorithms_enabled()


def options_of(given: dict[str, Any] | None) -> Options:
    """Refuses an option that does not exist, and values that it cannot have."""
    given = given or {}
    names = [f.name for f in fields(Options)]
    for name in given:
        if name not in names:
            raise ArgumentError(f"options: there is no option {name!r}: expected {', '.join(names)}")
    out = Options(**given)
    out.numbers()
    for name in ("eager_where_faster", "eager_random", "eager_while_building", "packed_weights", "pieces_by_inductor"):
        if getattr(out, name) not in (None, True, False):
            raise ArgumentError(f"option {name}: {getattr(out, name)!r}: expected True, False or None")
    return out
