"""Mixtures of experts as transformers writes them: tokens are sorted by expert, multiplied by grouped_mm, and put back.

Each row is computed alone, so the order cancels: rows stay where they are, and products are told the expert of each."""

from __future__ import annotations

import math
import operator
from typing import Any

import torch

from .. import experts as _experts  # noqa: F401 (the operation)
from ..sizes import expression, same
from .attention import new_node

aten = torch.ops.aten
_SORTS = (aten.sort.default, aten.sort.stable)
_COPIES = (aten._to_copy.default, aten.clone.default, aten.alias.default, aten.detach.default, aten.lift_fresh_copy.default)
_VIEWS = (aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.expand.default)
# Operations that are told a dim, or dims, of their first argument; and where.
_ALONG = {aten.unsqueeze.default: 1, aten.split_with_sizes.default: 2, aten.slice.Tensor: 1, aten.select.int: 1,
          aten.sum.dim_IntList: 1, aten.mean.dim: 1, aten.amax.default: 1, aten._softmax.default: 1, aten.squeeze.dims: 1}
_COUNTS = (aten.histc.default, aten.bincount.default)


def _shape(node: Any) -> list[Any]:
    return [expression(s) for s in node.meta["val"].shape]


class _Sorted:
    """What becomes of the results of a sort: `rows` are in its order along their first axis, `inverse` puts them back."""

    def __init__(self, sort: Any) -> None:
        self.sort, self.ids = sort, sort.args[0]
        self.rows: set[Any] = set()
        self.inverse: set[Any] = set()
        self.order: set[Any] = set()  # the places that the sort gives
        self.back: list[Any] = []  # reads of rows by the inverse
        self.products: list[Any] = []
        self.n = _shape(self.ids)[0]

    def follow(self, nodes: list[Any]) -> bool:
        """True if all rows are put back. `nodes`: those behind the sort."""
        for node in nodes:
            given = [n for n in node.all_input_nodes if n in self.rows or n in self.inverse or n is self.sort]
            if given and not self._takes(node):
                return False
        return bool(self.back and self.products)

    def _takes(self, node: Any) -> bool:
        if node.args and node.args[0] is self.sort:
            (self.order if node.args[1] == 1 else self.rows).add(node)
            self.rows.add(node)
            return True
        if any(n in self.inverse for n in node.all_input_nodes):
            is_back = node.target is aten.index.Tensor and node.args[0] in self.rows - self.inverse \
                and len(node.args[1]) == 1 and node.args[1][0] in self.inverse
            self.back += [node] * is_back
            return is_back
        if self._is_inverse(node):
            self.inverse.add(node)
            return True
        if node.target in _COUNTS:
            return node.args[0] in self.rows and node.meta["val"].dim() == 1
        if self._is_product(node):
            self.products.append(node)
        elif not self._is_by_row(node):
            return False
        self.rows.add(node)
        return True

    def _is_inverse(self, node: Any) -> bool:
        if node.target is not aten.index_put.default or len(node.args) > 3 and node.args[3]:
            return False
        base, places, values = node.args[:3]
        return len(places) == 1 and places[0] in self.order and values not in self.rows and base not in self.rows \
            and _is_range(values, self.n) and len(_shape(base)) == 1 and same(_shape(base)[0], self.n)

    def _is_product(self, node: Any) -> bool:
        if str(node.target) not in ("aten._grouped_mm.default", "transformers.grouped_mm_fallback.default"):
            return False
        x, weights, ends = (*node.args, *node.kwargs.values())[:3]
        rest = [v for v in (*node.args[3:], *(v for k, v in node.kwargs.items() if k not in ("offs", "input", "weight")))
                if v is not None and v != node.meta["val"].dtype]
        return x in self.rows and weights not in self.rows and not rest and len(_shape(x)) == 2 \
            and len(_shape(weights)) == 3 and self._are_ends(ends, _shape(weights)[0])

    def _are_ends(self, node: Any, n_groups: Any) -> bool:
        """True for the running sums of how many rows each group has."""
        while node.target in _COPIES:
            node = node.args[0]
        if node.target is not aten.cumsum.default or node.args[1] != 0:
            return False
        counts = node.args[0]
        while counts.target in _COPIES:
            counts = counts.args[0]
        if counts.target is not aten.histc.default:
            return False
        ids = counts.args[0]
        while ids.target in _COPIES:
            ids = ids.args[0]
        return ids in self.rows and ids.args[:2] == (self.sort, 0) and isinstance(n_groups, int) \
            and list(counts.args[1:]) == [n_groups, 0, n_groups - 1]

    def _is_by_row(self, node: Any) -> bool:
        """True if each row of the result is made of the same row of what is in order, and of nothing else in order."""
        target = node.target
        value = node.meta.get("val")
        first = node.args[0] if node.args else None
        if target is operator.getitem:
            return first in self.rows
        if target in _ALONG:
            at = _ALONG[target]
            dims = node.args[at] if len(node.args) > at else node.kwargs.get("dim", 0)
            rank = first.meta["val"].dim() + (target is aten.unsqueeze.default)
            return all(d % rank != 0 for d in (dims if isinstance(dims, (list, tuple)) else [dims]))
        if not isinstance(value, torch.Tensor) or value.dim() == 0 or not same(_shape(node)[0], self.n):
            return False
        if target in _VIEWS or target in _COPIES:
            return same(_shape(first)[0], self.n) and (target is not aten.expand.default or len(_shape(first)) == value.dim())
        if target is aten.index.Tensor:
            return first not in self.rows and len(node.args[1]) == 1 and len(_shape(node.args[1][0])) == 1
        if target is aten.mm.default:
            return node.args[1] not in self.rows
        if torch.Tag.pointwise not in getattr(target, "tags", ()):
            return False
        return all(self._is_aligned(n, value.dim()) for n in node.all_input_nodes if isinstance(n.meta.get("val"), torch.Tensor))

    def _is_aligned(self, n: Any, rank: int) -> bool:
        shape = _shape(n)
        if n in self.rows:
            return len(shape) == rank
        return len(shape) < rank or same(shape[0], 1)


def _is_range(node: Any, n: Any) -> bool:
    if not isinstance(node, torch.fx.Node) or node.target is not aten.arange.start_step or node.args[0] != 0 \
            or len(node.args) > 2 and node.args[2] != 1:
        return False
    return same(_shape(node)[0], n)


def _places(graph: Any, ids: Any) -> Any:
    """0, 1, .. for the rows."""
    value = ids.meta["val"]
    size = new_node(graph, aten.sym_size.int, (ids, 0))
    node = graph.call_function(aten.arange.start_step, (0, size), {"device": value.device})
    with value.fake_mode:
        node.meta["val"] = torch.arange(value.shape[0], device=value.device)
    return node


def _most(ids: Any) -> float:
    """Places along an axis of n elements are below n; of other numbers nothing is known."""
    while ids.target in (*_VIEWS[:3], *_COPIES):
        ids = ids.args[0]
    if ids.target is not operator.getitem or ids.args[0].target is not aten.topk.default or ids.args[1] != 1:
        return math.inf
    x, _, dim, *_ = (*ids.args[0].args, -1)
    size = _shape(x)[dim]
    return size if isinstance(size, int) else math.inf


def _drop_masks(test: Any) -> None:
    """Drops what a test that never holds would hide."""
    for reader in list(test.users):
        if reader.target is aten.unsqueeze.default:
            _drop_masks(reader)
        elif reader.target is aten.masked_fill.Scalar and reader.args[1] is test:
            reader.replace_all_uses_with(reader.args[0])


def _leave_in_place(graph: Any, s: _Sorted) -> None:
    most = _most(s.ids)
    with graph.inserting_before(s.sort):
        places = _places(graph, s.ids)
    for node in [n for n in s.rows if n.target is aten.ge.Scalar and n.args[0].args[:2] == (s.sort, 0) and n.args[1] >= most]:
        _drop_masks(node)
    for node in s.products:
        x, weights = (*node.args, *node.kwargs.values())[:2]
        with graph.inserting_before(node):
            n_groups = _shape(weights)[0]
            groups = s.ids if most <= n_groups else new_node(graph, aten.clamp.default, (s.ids, 0, n_groups - 1))
            new = new_node(graph, torch.ops.multidispatch.grouped_rows.default, (x, weights, groups))
        node.replace_all_uses_with(new)
    for node in s.back:
        node.replace_all_uses_with(node.args[0])
    for node in [n for n in s.rows if n.target is operator.getitem and n.args[0] is s.sort]:
        if node.args[1] == 1:
            for reader in [u for u in node.users if u.target is aten.index.Tensor and same(_shape(u.args[0])[0], s.n)]:
                reader.replace_all_uses_with(reader.args[0])
        node.replace_all_uses_with(places if node.args[1] == 1 else s.ids)


def leave_experts_in_place(module: Any) -> int:
    """Products by groups whose rows are not sorted. Gives the number of sorts that are dropped."""
    done = 0
    for sort in [n for n in module.graph.nodes if n.target in _SORTS]:
        nodes = list(module.graph.nodes)
        ids = sort.args[0].meta["val"]
        if ids.dim() != 1 or ids.dtype != torch.int64:
            continue
        found = _Sorted(sort)
        if found.follow(nodes[nodes.index(sort) + 1:]):
            _leave_in_place(module.graph, found)
            module.graph.eliminate_dead_code()
            done += 1
    return done
