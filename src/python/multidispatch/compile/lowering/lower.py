"""From a graph of ATen (torch.fx) to Bufs: the table where it has a row, PyTorch's own kernels elsewhere."""

from __future__ import annotations

import operator
from typing import Any, Sequence

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from ..report import fault
from ..sizes import Dims, Unsupported, contiguous, expression, is_dense, magnitude, real, same
from . import attention as _attention, bags as _bags, places as _places  # noqa: F401 (they fill the table)
from . import orders as _orders, products as _products  # noqa: F401
from . import randoms as _randoms, reductions as _reductions, scatters as _scatters  # noqa: F401
from . import views as _views, windows as _windows  # noqa: F401
from . import tree as T
from .lowered import DTYPES, Eager, Held, Lowered, Number, Real, check_tensor, dtype_of
from .results import Results
from .table import TABLE
from .tree import Apply, Buf, Const, Iota, Leaf, Value, cost

_UNCOMPUTED = ("u16", "u32", "u64")  # memory for operations of PyTorch, such as the state of a random generator
_EIGHT_BITS = ("f8e4m3", "f8e5m2")  # reals that only products compute with
_MOVING = ("view", "_unsafe_view", "reshape", "permute", "transpose.int", "t", "expand", "alias", "detach", "clone")
_SHARED = 2  # a value that is used twice is computed by both readers up to this cost


def _name(target: Any) -> str:
    """The name of an operation in the table: without the namespace if it is PyTorch's."""
    name = str(target).removesuffix(".default")
    return name.removeprefix(target.namespace + ".") if target.namespace in ("aten", "prims") else name


class Lowering:
    """Walks a graph. Handlers of the table are given it: `name`, `shape` and `dtype` are those of the node's result."""

    def __init__(self, module: Any, dims: Dims, device: Any, n_visible: int | None = None,
                 is_deterministic: bool = False, given_up: "dict[Any, str] | None" = None) -> None:
        self.module, self.dims, self.device = module, dims, device
        self.given_up = given_up or {}  # operations that are PyTorch's, and why
        self.is_deterministic = is_deterministic  # equal calls give equal bits
        self.n_visible = n_visible  # results that the user sees, the first; None: all
        self.out = Lowered()
        self.env: dict[Any, Any] = {}
        self.name = ""
        self.node: Any = None
        self.shapes: list[list[Any]] = []
        self.dtypes: list[str] = []

    @property
    def shape(self) -> list[Any]:
        return self.shapes[0]

    @property
    def dtype(self) -> str:
        return self.dtypes[0]

    # ---- What handlers use

    def buf(self, kind: str, shape: Sequence[Any], dtype: str, **more: Any) -> Buf:
        b = Buf(kind, list(shape), dtype, len(self.out.bufs), **{"node": self.node} | more)
        self.out.bufs.append(b)
        return b

    def value(self, x: Any) -> Value:
        if isinstance(x, Value):
            return x
        if isinstance(x, (bool, int, float)):
            return Value([], "bool" if isinstance(x, bool) else "i64" if isinstance(x, int) else "f32", Const(x))
        if isinstance(x, torch.SymFloat):
            return self._real(x)
        if isinstance(x, torch.SymBool) or x is None or isinstance(x, (list, tuple, str)):
            raise Unsupported(f"an operand of type {type(x).__name__}")
        return Value([], "i64", Const(expression(x)))

    def _real(self, x: Any) -> Value:
        """A real made of sizes: computed in f64, then a number for any dtype, as a constant is."""
        def number(value: Any) -> Any:
            return Const(value) if isinstance(value, float) else Apply("f64({0})", (Const(value),), 1)

        tree = real(x.node.expr, number, lambda text, parts: Apply(text, tuple(parts), 1))
        return Value([], "f64", tree) if self.dtype == "f64" else Value([], "f32", Apply("f32({0})", (tree,), 1))

    def shared(self, v: Value) -> Value:
        """The same value, computed once although it is used several times."""
        is_cheap = cost(v.tree) <= _SHARED and T.n_large(v.tree) < 2
        return v if is_cheap else self.point(v, T.memory_order(v))

    def whole(self, v: Value) -> Value:
        """The value for readers that cut it into parts or read it twice: the end of a product's kernel becomes a
        result, so that the product is computed once."""
        return self.point(v, T.memory_order(v)) if T.ends_product(v.tree) else v

    def point(self, v: Value, order: Sequence[int]) -> Value:
        """The value as a result of its own, whose memory has its axes in this order, the outermost first."""
        moved = T.permuted(v, order)
        b = self.buf("point", moved.shape, v.dtype, tree=moved.tree)
        stride: list[Any] = [0] * len(order)
        for axis, s in zip(order, b.stride):
            stride[axis] = s
        return Value(list(v.shape), v.dtype, Leaf(b, tuple(stride)))

    def place(self, v: Value) -> Leaf:
        """The value as one result, which need not be memory."""
        # memory of a wider dtype is not yet rounded to the value's
        if not isinstance(v.tree, Leaf) or v.tree.buf.dtype != v.dtype:
            v = self.point(v, T.memory_order(v))
        assert isinstance(v.tree, Leaf)
        return v.tree

    def leaf(self, v: Value) -> Leaf:
        """The value as memory."""
        leaf = self.place(v)
        leaf.buf.is_memory = True
        return leaf

    def stored(self, v: Value) -> Value:
        """The value as a result of its own, row-major."""
        return self.point(v, range(len(v.shape)))

    def broadcast(self, shapes: Sequence[Sequence[Any]]) -> list[Any]:
        rank = max((len(s) for s in shapes), default=0)
        out: list[Any] = [1] * rank
        for s in shapes:
            for a, size in enumerate(s, rank - len(s)):
                if same(out[a], 1):
                    out[a] = size
                elif not same(size, 1) and not same(size, out[a]):
                    raise Unsupported(f"shapes {[list(s) for s in shapes]} are not known to broadcast")
        return out

    def is_used(self, i: int) -> bool:
        """True if somebody reads result i of the node."""
        return not self._is_unused(self.node, i, 2)

    def same_device(self, device: Any) -> None:
        if device is not None and torch.device(device).type != self.device.type:
            raise Unsupported(f"a tensor on {device}")

    def check_tensor(self, value: Any) -> None:
        check_tensor(value, self.device)

    # ---- The walk

    def run(self) -> Lowered:
        for node in self.module.graph.nodes:
            getattr(self, "_" + node.op)(node)
        return self.out

    def _placeholder(self, node: Any) -> None:
        at = self.out.n_args
        self.out.n_args += 1
        value = node.meta.get("val")
        if isinstance(value, (torch.SymInt, int)) and not isinstance(value, bool):
            self.env[node] = value
            if isinstance(value, torch.SymInt):
                self.out.symbols.append((at, expression(value)))
            return
        if not isinstance(value, torch.Tensor):
            if node.users:
                raise Unsupported(f"argument {node.name} of type {type(value).__name__}")
            self.env[node] = None
            return
        check_tensor(value, self.device)
        shape = [expression(s) for s in value.shape]
        b = self.buf("input", shape, dtype_of(value), stride=[expression(s) for s in value.stride()] or [],
                     node=node, is_memory=True)
        self.out.inputs.append((at, b))
        self.env[node] = Value(shape, b.dtype, Leaf(b, tuple(b.stride)))

    def _get_attr(self, node: Any) -> None:
        value: Any = self.module
        for part in node.target.split("."):
            value = getattr(value, part)
        if not isinstance(value, torch.Tensor):
            self.env[node] = value
            return
        if value.dim() == 0 and value.device.type == "cpu" and not isinstance(value, torch.nn.Parameter):
            dtype = dtype_of(value)
            self.env[node] = Value([], dtype, Const(value.item()))
            return
        check_tensor(value, self.device)
        b = self.buf("constant", list(value.shape), dtype_of(value), stride=list(value.stride()), data=value,
                     is_memory=True)
        self.env[node] = Value(b.shape, b.dtype, Leaf(b, tuple(b.stride)))

    def _call_module(self, node: Any) -> None:
        raise Unsupported(f"a call of the module {node.target}")

    _call_method = _call_module

    def _call_function(self, node: Any) -> None:
        value = node.meta.get("val")
        self.node = node
        if node.target is operator.getitem:
            self.env[node] = self.env[node.args[0]][node.args[1]]
            self._settle(node)
            return
        if isinstance(value, (torch.SymInt, int, float, torch.SymFloat, torch.SymBool)):
            self.env[node] = value
            return
        if not isinstance(node.target, torch._ops.OpOverload):
            raise Unsupported(f"a call of {node.target}")
        if node.target is torch.ops.aten._assert_scalar.default and self._is_known(node.args[0]):
            return
        if node.target._schema.is_mutable:
            raise Unsupported(f"{node.target} changes its arguments")
        values = list(value) if isinstance(value, (list, tuple)) else [value]
        try:
            if node in self.given_up:
                raise Unsupported(self.given_up[node])
            self.env[node] = self._tabled(node, values)
        except Unsupported as why:
            self.env[node] = self._eager(node, values, str(why))
        except Exception:  # the user's program is not to blame
            self.env[node] = self._eager(node, values, fault(f"PyTorch computes {node.target}"))
        if not isinstance(value, (list, tuple)):
            self._settle(node)

    def _settle(self, node: Any) -> None:
        """Gives a node's value a buf of its own where it is a result of the graph (all later readers then read that
        memory), and where several readers share it."""
        v = self.env[node]
        if not isinstance(v, Value) or isinstance(v.tree, Leaf) and v.tree.buf.dtype == v.dtype:
            return
        if any(u.op == "output" for u in node.users) and not isinstance(v.tree, (Const, Iota)):
            stride = [expression(s) for s in node.meta["val"].stride()]
            if not any(same(s, 0) for s, n in zip(stride, v.shape) if not same(n, 1)):
                self.env[node] = self._ordered(v, stride)
        elif len(node.users) > 1:
            is_rounded = isinstance(v.tree, Apply) and v.tree.text == v.dtype + "({0})"
            self.env[node] = self.point(v, T.memory_order(v)) if is_rounded else self.shared(self.whole(v))

    def _is_known(self, condition: Any) -> bool:
        value = self.env[condition] if isinstance(condition, torch.fx.Node) else condition
        return value is True or isinstance(value, torch.SymBool) and statically_known_true(value)

    def _tabled(self, node: Any, values: list[Any]) -> Any:
        self.name = _name(node.target)
        handler = TABLE.get(self.name)
        if handler is None:
            raise Unsupported("no row in the table")
        tensors = [v for v in values if isinstance(v, torch.Tensor)]
        for v in tensors:
            check_tensor(v, self.device)
        self.shapes = [[expression(s) for s in v.shape] for v in tensors]
        self.dtypes = [dtype_of(v) for v in tensors]
        given = [n.meta.get("val") for n in node.all_input_nodes]
        types = [*self.dtypes, *(DTYPES.get(v.dtype) for v in given if isinstance(v, torch.Tensor))]
        if any(t in _UNCOMPUTED for t in types) and self.name not in _MOVING:
            raise Unsupported("whole numbers without a sign")
        if any(t in _EIGHT_BITS for t in types) and self.name not in (*_MOVING, "_scaled_mm"):
            raise Unsupported("reals of 8 bits")
        n_bufs = len(self.out.bufs)
        try:
            out = handler(self, *self._mapped(node.args), **self._mapped(node.kwargs))
            for v, shape, dtype in zip(out if isinstance(out, list) else [out], self.shapes, self.dtypes):
                if v is None:
                    continue
                if len(v.shape) != len(shape) or not all(map(same, v.shape, shape)):
                    raise Unsupported(f"the table gives shape {v.shape}, PyTorch {shape}")
                v.dtype = dtype
        except Exception:
            del self.out.bufs[n_bufs:]
            raise
        return out

    def _mapped(self, x: Any) -> Any:
        return torch.fx.node.map_arg(x, lambda n: self.env[n])

    # ---- PyTorch's own

    def _eager(self, node: Any, values: list[Any], reason: str) -> Any:
        reads: list[tuple[Leaf, list[Any]]] = []

        def convert(x: Any) -> Any:
            if isinstance(x, (list, tuple)):
                return [convert(y) for y in x] if isinstance(x, list) else tuple(map(convert, x))
            if isinstance(x, torch.fx.Node):
                described, x = x.meta.get("val"), self.env[x]
                if isinstance(x, Value):
                    reads.append((self.described(x, described), x.shape))
                    return Held(len(reads) - 1)
            if isinstance(x, torch.SymFloat):
                return Real(x.node.expr)
            if isinstance(x, torch.SymBool):
                return Number(x.node.expr)
            if isinstance(x, torch.SymInt):
                return Number(expression(x))
            return x

        args = convert(tuple(node.args))
        kwargs = {k: convert(v) for k, v in node.kwargs.items()}
        outputs: list[Buf | None] = []
        for i, v in enumerate(values):
            if not isinstance(v, torch.Tensor) or self._is_unused(node, i, len(values)):
                outputs.append(None)
                continue
            check_tensor(v, self.device)
            shape = [expression(s) for s in v.shape]
            outputs.append(self.buf("eager", shape, dtype_of(v), stride=dense_strides(v), node=node, is_memory=True))
        number = outputs[0].number if outputs and outputs[0] else len(self.out.bufs)
        self.out.eager.append(Eager(node, args, kwargs, reads, outputs, number, reason))
        results = [b and Value(b.shape, b.dtype, Leaf(b, tuple(b.stride))) for b in outputs]
        results = [v if isinstance(v, (int, torch.SymInt)) else r for r, v in zip(results, values)]
        return results if isinstance(node.meta.get("val"), (list, tuple)) else results[0]

    def described(self, v: Value, described: Any) -> Leaf:
        """The value as memory whose strides are those that PyTorch's description of it promises: its operations rely on
        them (a view, as_strided, kernels that read row by row)."""
        if not isinstance(described, torch.Tensor):
            return self.leaf(v)
        stride, t = [expression(s) for s in described.stride()], v.tree
        axes = [a for a, n in enumerate(v.shape) if not same(n, 1)]
        is_so = isinstance(t, Leaf) and all(same(t.stride[a], stride[a]) for a in axes)
        return self.leaf(v if is_so or not is_dense(v.shape, stride) else self._ordered(v, stride))

    def _ordered(self, v: Value, stride: Sequence[Any]) -> Value:
        """The value as a result whose axes of more than one element lie in these strides' order."""
        axes = [a for a, n in enumerate(v.shape) if not same(n, 1)]
        ordered = iter(sorted(axes, key=lambda a: -magnitude(stride[a])))
        return self.point(v, [next(ordered) if a in axes else a for a in range(len(v.shape))])

    @staticmethod
    def _is_unused(node: Any, i: int, n: int) -> bool:
        if not isinstance(node.meta.get("val"), (list, tuple)):
            return False
        return all(u.target is operator.getitem and (u.args[1] != i or not u.users) for u in node.users)

    def _output(self, node: Any) -> None:
        results = node.args[0] if isinstance(node.args[0], (list, tuple)) else [node.args[0]]
        Results(self).add(results)


def dense_strides(value: Any) -> list[Any]:
    """The tensor's strides if its elements lie without gaps, else row-major ones."""
    shape = [expression(s) for s in value.shape]
    stride = [expression(s) for s in value.stride()]
    return stride if is_dense(shape, stride) else contiguous(shape)
