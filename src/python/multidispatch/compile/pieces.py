"""Cuts a graph into pieces at what no plan can hold: plans and, between them, pieces that PyTorch runs."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Any, Iterator

import torch

from .described import as_described
from .lowering.lowered import check_tensor
from .sizes import Dims, Unsupported, expression
from .ties import changes, overlaps, tied

_SIZES = (torch.SymInt, torch.SymFloat, torch.SymBool)
_VIEWS = {torch.ops.aten.view.default, torch.ops.aten.permute.default, torch.ops.aten.expand.default,
          torch.ops.aten.unsqueeze.default, torch.ops.aten.slice.Tensor, torch.ops.aten.select.int,
          torch.ops.aten.squeeze.dims, torch.ops.aten.alias.default, torch.ops.aten.detach.default}
Place = tuple[torch.fx.Node, int]  # a value of the graph, or its size along an axis (-1: the value itself)


@dataclass
class Piece:
    is_plan: bool
    nodes: list[torch.fx.Node] = field(default_factory=list)
    reasons: dict[torch.fx.Node, str] = field(default_factory=dict)  # why PyTorch computes them
    module: Any = None
    reads: list[Place] = field(default_factory=list)
    writes: list[torch.fx.Node] = field(default_factory=list)
    n_visible: int = 0  # of `writes`, the first


def _leaves(x: Any) -> list[Any]:
    out: list[Any] = []
    torch.fx.node.map_aggregate(x, out.append)
    return out


def tensors_of(node: torch.fx.Node) -> list[torch.Tensor]:
    """The tensors that a node gives, as PyTorch describes them."""
    return [v for v in _leaves(node.meta.get("val")) if isinstance(v, torch.Tensor)]


def _unknown(value: Any) -> set[Any]:
    """Symbols of the value that only the data tell."""
    is_strided = isinstance(value, torch.Tensor) and value.layout == torch.strided
    sizes = [*value.shape, *value.stride()] if is_strided else [value]
    free = [s.node.expr.free_symbols for s in sizes if isinstance(s, _SIZES)]
    return {s for symbols in free for s in symbols if s.name.startswith(("u", "zuf"))}


def _is_arithmetic(node: torch.fx.Node) -> bool:
    """True if the node computes a size or a real from others: every piece does that anew."""
    if node.op != "call_function" or not isinstance(node.meta.get("val"), (*_SIZES, bool, int, float)):
        return False
    reads_tensors = any(map(tensors_of, node.all_input_nodes))
    return node.target is torch.ops.aten.sym_size.int or not reads_tensors and node.target is not operator.getitem


def _check_sizes(node: torch.fx.Node) -> None:
    """Refuses what has no text."""
    given = [n.meta.get("val") if isinstance(n, torch.fx.Node) else n for n in _leaves((node.args, node.kwargs))]
    for x in (*given, *(s for v in tensors_of(node) for s in (*v.shape, *v.stride()))):
        if isinstance(x, torch.SymFloat):
            Dims().real(x.node.expr)
        elif isinstance(x, _SIZES):
            Dims().text(expression(x) if isinstance(x, torch.SymInt) else x.node.expr)


def why_not(node: torch.fx.Node, device: torch.device) -> str:
    """Why no plan can hold the node; "" if one can, or if it is computed wherever it is read."""
    if node.op != "call_function" or _is_arithmetic(node) or node.target is operator.getitem:
        return ""
    if not isinstance(node.target, torch._ops.OpOverload):
        return f"a call of {node.target}"
    given = [n.meta.get("val") for n in node.all_input_nodes if n.op != "get_attr"]
    if node.target is torch.ops.aten._assert_scalar.default:
        return "a check of sizes that depend on data" if any(map(_unknown, given)) else ""
    known = {s for x in _leaves(given) for s in _unknown(x)}
    for v in _leaves(node.meta.get("val")):
        if new := _unknown(v) - known:
            return f"size {min(new, key=str)} depends on data"
    try:
        for n in (node, *(n for n in node.all_input_nodes if n.op != "get_attr")):
            for v in tensors_of(n):
                check_tensor(v, device)
        _check_sizes(node)
    except Unsupported as why:
        return str(why)
    return ""


def _bring_scalars(module: Any, device: torch.device) -> None:
    """Numbers in tensors on the CPU that operations on another device read are brought there by operations of their own,
    so that only these are PyTorch's."""
    moved: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in list(module.graph.nodes):
        if node.op != "call_function" or not any(v.device == device for v in tensors_of(node)):
            continue
        for n in node.all_input_nodes:
            value = n.meta.get("val")
            is_scalar = isinstance(value, torch.Tensor) and value.dim() == 0 and value.device.type == "cpu"
            if not is_scalar or n.op == "get_attr" or node.target is torch.ops.aten._to_copy.default:
                continue
            if n not in moved:
                with module.graph.inserting_before(node):
                    moved[n] = module.graph.call_function(torch.ops.aten._to_copy.default, (n,), {"device": device})
                with value.fake_mode:
                    moved[n].meta["val"] = value.to(device)
            node.replace_input_with(n, moved[n])


class Cutter:
    def __init__(self, module: Any, device: torch.device, n_visible: int | None) -> None:
        self.module, self.device = module, device
        self.nodes = list(module.graph.nodes)
        self.results = _leaves(self.nodes[-1].args[0])
        self.visible = set(self.results if n_visible is None else self.results[:n_visible])
        self.sources = self._sources()
        self.level: dict[torch.fx.Node, int] = {}

    def _sources(self) -> dict[Any, Place]:
        """Where the size that a symbol stands for is read: the arguments that are sizes first, then the first tensor."""
        out: dict[Any, Place] = {}
        values = [n for n in self.nodes if n.op in ("placeholder", "call_function") and not _is_arithmetic(n)]
        for n in sorted(values, key=lambda n: not isinstance(n.meta.get("val"), torch.SymInt)):
            value = n.meta.get("val")
            shape = value.shape if isinstance(value, torch.Tensor) else ()
            for axis, size in ((-1, value), *enumerate(shape)):
                if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                    out.setdefault(size.node.expr, (n, axis))
        return out

    def place(self, node: torch.fx.Node) -> Place | None:
        """Where a piece that does not compute the value gets it; None: it computes it from others."""
        if not _is_arithmetic(node):
            return (node, -1)
        e = getattr(getattr(node.meta["val"], "node", None), "expr", None)
        if e is not None and e.is_Symbol and e in self.sources:
            return self.sources[e]
        return (node, -1) if node in self.level else None

    def result(self, x: Any) -> Place | None:
        """Where a result of the graph is read; None: it is a constant."""
        return self.place(x) if isinstance(x, torch.fx.Node) and x.op != "get_attr" else None

    def _origins(self, node: torch.fx.Node) -> Iterator[torch.fx.Node]:
        """What is to be there before the node is computed."""
        for n in node.all_input_nodes:
            place = self.place(n)
            if place:
                yield place[0]
            else:
                yield from self._origins(n)

    def pieces(self, reasons: dict[torch.fx.Node, str]) -> list[Piece]:
        """As few as the order allows: even levels are PyTorch's, odd ones plans."""
        found: dict[int, Piece] = {}
        last = least = 0  # what is seen from outside keeps its order, and what changes tensors is a bar for all
        for node in self.nodes:
            if node.op != "call_function" or node not in reasons and _is_arithmetic(node):
                continue
            first = max((self.level.get(n, 0) for n in self._origins(node)), default=0)
            is_ordered = isinstance(node.target, torch._ops.OpOverload) and (
                node.target._schema.is_mutable or torch.Tag.nondeterministic_seeded in node.target.tags)
            is_plan = node not in reasons
            if node.target is operator.getitem:
                is_plan = found[first].is_plan
            elif changes(node):
                first = max(found, default=0)
            elif is_ordered:
                first = max(first, last)
            if node.target is not operator.getitem:
                first = max(first, least)
            level = first + (first % 2 != is_plan)
            last = level if is_ordered else last
            least = level if changes(node) else least
            self.level[node] = level
            piece = found.setdefault(level, Piece(is_plan))
            piece.nodes.append(node)
            if node in reasons:
                piece.reasons[node] = reasons[node]
        return [found[level] for level in sorted(found)]

    def fill(self, pieces: list[Piece]) -> None:
        """Gives each piece its module, and what it reads and writes."""
        made = [self._copied(p) for p in pieces]
        needed = {n for p in pieces for n, _ in p.reads} | {place[0] for x in self.results if (place := self.result(x))}
        planned = {n for p in pieces if p.is_plan for n, _ in p.reads}
        for p, (graph, env) in zip(pieces, made):
            p.writes = sorted((n for n in p.nodes if n in needed), key=lambda n: n not in self.visible)
            p.n_visible = sum(n in self.visible for n in p.writes)
            graph.output(tuple(env[n] if p.is_plan or n not in planned else as_described(graph, n, env[n])
                               for n in p.writes))
            p.module = torch.fx.GraphModule(self.module, graph)

    def _copied(self, p: Piece) -> Any:
        graph, own = torch.fx.Graph(), set(p.nodes)
        env: dict[torch.fx.Node, torch.fx.Node] = {}
        given: dict[Place, torch.fx.Node] = {}

        def placeholder(place: Place) -> torch.fx.Node:
            if place not in given:
                n, axis = place
                p.reads.append(place)
                given[place] = graph.placeholder(f"given{len(given)}")
                given[place].meta["val"] = n.meta.get("val") if axis < 0 else n.meta["val"].shape[axis]
            return given[place]

        def copy(n: torch.fx.Node) -> torch.fx.Node:
            if n not in env:
                place = None if n in own or n.op == "get_attr" else self.place(n)
                env[n] = placeholder(place) if place and place[0] not in own else graph.node_copy(n, copy)
            return env[n]

        for n in p.nodes:
            copy(n)
        if p.is_plan:  # its dims are arguments
            for symbol in sorted(_symbols([*own, *(n for n, _ in p.reads)]), key=str):
                if symbol in self.sources and self.sources[symbol][0] not in own:
                    placeholder(self.sources[symbol])
        return graph, env


def _symbols(nodes: list[torch.fx.Node]) -> set[Any]:
    sizes = [s for n in nodes for v in tensors_of(n) for s in (*v.shape, *v.stride())]
    sizes += [n.meta.get("val") for node in nodes for n in (node, *node.all_input_nodes)]
    return {x for s in sizes if isinstance(s, _SIZES) for x in s.node.expr.free_symbols}


def cut(module: Any, device: torch.device, n_visible: int | None) -> tuple[list[Piece], list[Any]]:
    """The pieces in the order in which they run ([]: one plan can hold all), and the results: where each is read, or what
    it is."""
    if device.type != "cpu":
        _bring_scalars(module, device)
    nodes = list(module.graph.nodes)
    reasons = {n: why for n in nodes if (why := why_not(n, device))}
    reasons = tied(nodes) | reasons
    for n in _leaves(nodes[-1].args[0]):
        if isinstance(n, torch.fx.Node) and n.op == "call_function" and overlaps(n.meta.get("val")):
            reasons.setdefault(n, "a result whose elements overlap")
    if not reasons:
        return [], []
    cutter = Cutter(module, device, n_visible)
    for n in cutter.results:  # sizes that are results
        if isinstance(n, torch.fx.Node) and _is_arithmetic(n) and not cutter.place(n):
            reasons[n] = "a size that is a result"
    pieces = cutter.pieces(reasons)
    for p in pieces:
        if p.is_plan and all(n.target in _VIEWS or n.target is operator.getitem for n in p.nodes):
            p.is_plan, p.reasons = False, dict.fromkeys(p.nodes, "nothing but views between pieces of PyTorch")
    cutter.fill(pieces)
    return pieces, [cutter.result(x) or Constant(_attribute(module, x)) for x in cutter.results]


@dataclass(frozen=True)
class Constant:
    value: Any


def _attribute(module: Any, x: Any) -> Any:
    return operator.attrgetter(x.target)(module) if isinstance(x, torch.fx.Node) else x
