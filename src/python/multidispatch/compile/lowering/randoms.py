"""The table, continued: random numbers, from a seed in memory and the place of the element."""

from __future__ import annotations

from typing import Any

from ..randoms import TEXT
from ..sizes import contiguous
from . import tree as T
from .table import entry
from .tree import Apply, Iota, Value


@entry("multidispatch.uniform")
def _uniform(g: Any, seed: Any, size: Any, is_wide: bool, stream: int) -> Value:
    v = g.value(seed)
    wide = T.expanded(Value([], v.dtype, g.place(v)), g.shape)
    place = Iota(tuple(contiguous(g.shape)))
    return Value(list(g.shape), g.dtype, Apply(TEXT[g.dtype] % stream, (wide.tree, place), 12))
