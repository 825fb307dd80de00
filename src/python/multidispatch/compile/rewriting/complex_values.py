"""Complex tensors as pairs of real ones, such as of rotary embeddings: a plan holds no complex numbers.

Each complex value that is made by operations of the table gets two real nodes beside it. What reads it only as real
numbers then reads these; complex nodes that nothing reads any more go."""

from __future__ import annotations

from typing import Any, Callable

import torch

aten = torch.ops.aten
Pair = tuple[Any, Any]
Call = Callable[..., Any]  # adds an operation to the graph: call(target, *arguments)

# Operations that only move elements: the complex operand is the first.
_MOVES = (aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.slice.Tensor, aten.select.int, aten.unsqueeze.default,
          aten.squeeze.dim, aten.squeeze.dims, aten.permute.default, aten.transpose.int, aten.expand.default, aten.alias.default,
          aten.index_select.default, aten.index.Tensor, aten.neg.default, aten.sum.dim_IntList, aten.mean.dim)


def _product(call: Call, a: Pair, b: Pair) -> Pair:
    def times(x: Any, y: Any) -> Any:
        return call(aten.mul.Tensor, x, y)

    return (call(aten.sub.Tensor, times(a[0], b[0]), times(a[1], b[1])),
            call(aten.add.Tensor, times(a[0], b[1]), times(a[1], b[0])))


def _polar(call: Call, size: Any, angle: Any) -> Pair:
    return call(aten.mul.Tensor, size, call(aten.cos.default, angle)), call(aten.mul.Tensor, size, call(aten.sin.default, angle))


def _of_halves(call: Call, x: Any) -> Pair:
    return call(aten.select.int, x, -1, 0), call(aten.select.int, x, -1, 1)


# Operations that make complex numbers of real ones.
_MAKES: dict[Any, Callable[..., Pair]] = {
    aten.polar.default: _polar, aten.view_as_complex.default: _of_halves, aten.complex.default: lambda call, a, b: (a, b)}


def _dtype(node: Any) -> Any:
    value = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
    return value.dtype if isinstance(value, torch.Tensor) else None


def _is_complex(node: Any) -> bool:
    dtype = _dtype(node)
    return dtype is not None and dtype.is_complex


class _Pairs:
    def __init__(self, module: Any) -> None:
        self.graph, self.of, self.done = module.graph, dict[Any, Pair](), 0

    def call(self, target: Any, *args: Any) -> Any:
        node = self.graph.call_function(target, args)
        values = torch.fx.node.map_arg(args, lambda n: n.meta["val"])
        with node.all_input_nodes[0].meta["val"].fake_mode:
            node.meta["val"] = target(*values)
        return node

    def operand(self, x: Any) -> Pair | None:
        """The pair of an operand; of a complex one that no operation of the table makes, such as an argument, its halves."""
        if x not in self.of and _is_complex(x):  # it may have the conjugate bit where the graph does not say so
            self.of[x] = _of_halves(self.call, self.call(aten.view_as_real.default, self.call(aten.resolve_conj.default, x)))
        return self.of.get(x)

    def made(self, node: Any) -> Pair | None:
        """The pair that an operation makes; None: it has none."""
        target, args = node.target, node.args
        if target in _MAKES:
            return _MAKES[target](self.call, *args) if not any(map(_is_complex, args)) else None
        if not any(x in self.of for x in node.all_input_nodes):
            return None  # it begins with no pair: nothing would be gained
        if target in (aten.clone.default, aten.resolve_conj.default):
            return self.of.get(args[0])
        if node.kwargs:
            return None
        if target in _MOVES or target is aten._conj.default or target is aten._conj_physical.default:
            pair = self.of.get(args[0])
            if pair is None or target in _MOVES:
                return pair and (self.call(target, pair[0], *args[1:]), self.call(target, pair[1], *args[1:]))
            return pair[0], self.call(aten.neg.default, pair[1])
        return self._arithmetic(target, args)

    def _arithmetic(self, target: Any, args: Any) -> Pair | None:
        if len(args) != 2:
            return None
        a, b = (self.operand(x) if _is_complex(x) else x for x in args)
        if a is None or b is None:
            return None
        if target is aten.mul.Tensor and isinstance(a, tuple) and isinstance(b, tuple):
            return _product(self.call, a, b)
        if target in (aten.mul.Tensor, aten.div.Tensor) and isinstance(a, tuple) and not isinstance(b, (tuple, complex)):
            return self.call(target, a[0], b), self.call(target, a[1], b)
        if target is aten.mul.Tensor and isinstance(b, tuple) and not isinstance(a, (tuple, complex)):
            return self.call(target, a, b[0]), self.call(target, a, b[1])
        if target in (aten.add.Tensor, aten.sub.Tensor) and isinstance(a, tuple) and isinstance(b, tuple):
            return self.call(target, a[0], b[0]), self.call(target, a[1], b[1])
        return None

    def read(self, node: Any) -> Any:
        """What stands for an operation that gives real numbers of a complex value with a pair; None: another operation."""
        pair = self.of.get(node.args[0]) if node.args and isinstance(node.args[0], torch.fx.Node) else None
        if pair is None:
            return None
        if node.target is aten.view_as_real.default:
            return self.call(aten.cat.default, [self.call(aten.unsqueeze.default, x, -1) for x in pair], -1)
        if node.target is aten.abs.default:
            return self.call(aten.hypot.default, *pair)
        if node.target is aten.angle.default:
            return self.call(aten.atan2.default, pair[1], pair[0])
        return None

    def run(self) -> int:
        nodes = [n for n in self.graph.nodes if n.op == "call_function"]
        if not any(n.target in _MAKES for n in nodes):
            return 0
        for node in nodes:
            with self.graph.inserting_before(node):
                if _is_complex(node):
                    if (pair := self.made(node)) is not None:
                        self.of[node] = pair
                elif (new := self.read(node)) is not None:
                    node.replace_all_uses_with(new)
                    self.done += 1
        return self.done


def pair_complex(module: Any) -> int:
    """Gives the number of operations that read complex values and now read pairs."""
    return _Pairs(module).run()
