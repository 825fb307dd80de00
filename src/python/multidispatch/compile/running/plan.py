"""Makes the plan of a graph: an md_sequence of kernels and of PyTorch's own operations, called from C."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable

import torch

from ... import _core
from ..options import Options
from ..lowering.lower import Lowering
from ..lowering.lowered import DTYPES, Eager, Lowered
from ..lowering.tree import Buf, Leaf
from ..report import Cost, Rows
from ..sizes import Dims, Unsupported, expression, same
from . import progress
from .eager import function_of, note_numbers
from .formula import Formula, Unmeasured, write
from .groups import Grouping
from .together import Together, gather

_INPUT, _OUTPUT, _CONSTANT = 1, 2, 3
# Operations whose results are never memory of their operands.
_MAKES_NEW = ("scaled_dot_product", "embedding_dense_backward", "multidispatch.embedding_backward", "convolution",
              "embedding_bag", "native_dropout")
_PAIRS = {"cpu": ("f16", "bf16", "f32", "f64"), "cuda": ("f16", "bf16")}  # what the kernels for pairs.py take as operands
_MOST_THREADS = 64  # each waits for a compiler; the library bounds how many of those run
_MOST_PER_CPU = 4  # of a plan that may be stopped: more would be under way then, fewer let kernels of no hurry begin


class Failed(Exception):
    """A step cannot be added; the cause says why. `nodes`: the operations that it computes."""

    def __init__(self, nodes: list[Any], why: str) -> None:
        super().__init__(why)
        self.nodes = nodes


def _numbers(module: Any) -> "frozenset[Any]":
    """The symbols of whole numbers among the arguments that are no axis of a tensor: they may be negative."""
    values = [n.meta.get("val") for n in module.graph.nodes if n.op == "placeholder"]
    axes = {expression(s) for v in values if isinstance(v, torch.Tensor) for s in v.shape}
    return frozenset(expression(v) for v in values if isinstance(v, torch.SymInt)) - axes


class Builder:
    """Lowers a graph and adds its steps, in order, to a _core.Plan. `given_up`: operations that are PyTorch's, and why."""

    def __init__(self, module: Any, device: torch.device, name: str, rows: Rows,
                 bound: "dict[int, torch.Tensor] | None" = None, n_visible: int | None = None,
                 options: Options = Options(), given_up: "dict[Any, str] | None" = None) -> None:
        self.module, self.rows, self.bound = module, rows, bound or {}
        self.dims, self.device = Dims(_numbers(module)), device
        self.lowered: Lowered = Lowering(module, self.dims, device, n_visible, options.is_deterministic(),
                                         given_up or {}).run()
        self.grouping, self.formulas = self._kernels()
        self.adopted = self._adopted()
        self.kept: list[Any] = []
        self.packs = options.packed_weights
        self.costs: dict[int, Cost] = {}  # of operations of PyTorch, by their numbers
        given = [at for at in range(self.lowered.n_args) if at not in self.bound]
        # place in the graph's inputs -> place in the list of arguments of a call
        self.place = {at: i for i, at in enumerate(given)}
        self.carried = self._carried()
        self.core = _core.Plan("host" if device.type == "cpu" else str(device), name,
                               *options.numbers())

    def _kernels(self) -> tuple[Grouping, dict[Buf, Formula]]:
        reads = [(leaf.buf, e.number - 0.5) for e in self.lowered.eager for leaf, _ in e.reads]
        while True:
            grouping = Grouping(self.lowered.bufs, reads, _PAIRS.get(self.device.type, ()))
            formulas, unmeasured = {}, list[Buf]()
            for b, g in grouping.groups.items():
                try:
                    formulas[b] = write(g, self.dims)
                except Unmeasured:
                    if not g.inline:
                        raise Unsupported("a kernel with a size that none of its tensors has") from None
                    unmeasured += g.inline
            if not unmeasured:
                return grouping, formulas
            for b in unmeasured:
                b.is_memory = True

    def begin(self) -> None:
        """All that may find that no plan can hold the graph; and the report of its steps."""
        self.inputs, self.results, self.steps = self._inputs(), self._results(), self._steps()
        self.read = self._dims()  # of all sizes that steps and results read, so after both
        tensors = self._tensors()
        # of each dim: the argument that is it, or (argument, axis)
        self.places = [(at if axis < 0 else self.place[tensors[at][0]], axis) for at, axis, _ in self.read]
        for step in self.steps:
            self._report(step)

    def nodes_of_steps(self) -> list[list[Any]]:
        """For each step, the operations that it computes."""
        return [self._nodes(step) for step in self.steps]

    def _nodes(self, step: Any) -> list[Any]:
        if isinstance(step, Eager):
            return [step.node]
        roots = step.roots if isinstance(step, Together) else [step]
        return list(dict.fromkeys(b.node for root in roots for b in self.grouping.groups[root].members if b.node is not None))

    def finish(self, fallback: Callable[..., Any], ran: Callable[[Any], None] | None, checks: bool,
               check: Callable[[], None] | None = None) -> Any:
        """The plan, once each of its ops has a kernel. `ran` is told of its first run. `check` is called now and then, and
        may raise to stop it."""
        inputs, results, steps, dims = self.inputs, self.results, self.steps, self.read
        for name in [f"d{i}" for i in range(len(self.dims.names))]:
            self.core.dim(name, 0, 0)
        slots = 0
        ports = []
        for at, b in self.lowered.inputs:
            if at in self.bound:
                b.data = self.bound[at]
                self._tensor(b, _CONSTANT)
                continue
            if b in self.carried:
                continue
            self._tensor(b, _INPUT)
            ports.append((self.place[at], slots, b.dtype, *inputs[at]))
            slots += 1
        rows = []
        for kind, number, thing, b, size, stride in results:
            if b is not None:
                self._tensor(b, _OUTPUT)
                slots += 1
            rows.append((kind, number, thing, slots - 1 if b else -1, b.dtype if b else "f32", size, stride))
        functions = (fallback, ran, self._empty_strided(), _view_of)
        self._make_ops(check)
        for step in steps:
            try:
                self._emit(step)
            except Exception as error:
                raise Failed(self._nodes(step), str(error)) from error
        n_args = self.lowered.n_args - len(self.bound)
        self.core.finish(n_args, slots, checks, dims, ports, rows, self.lowered.n_hidden,
                         self.dims.value_texts, torch.empty(0, device=self.device), functions, self.kept)
        return self.core

    def _empty_strided(self) -> Callable[..., Any]:
        device = self.device
        return lambda size, stride, dtype: torch.empty_strided(size, stride, dtype=dtype, device=device)

    # ---- Arguments and results

    def _adopted(self) -> dict[Buf, int]:
        """Results that an operation of PyTorch makes and nothing else reads, with their places: they are not copied."""
        read = {leaf.buf for e in self.lowered.eager for leaf, _ in e.reads} | set(self.grouping.readers)
        outputs = self.lowered.outputs
        bases = {o.value for o in outputs if o.kind == "view"}
        made = {b for e in self.lowered.eager if any(name in str(e.node.target) for name in _MAKES_NEW)
                for b in e.outputs if b is not None}
        return {o.buf: i for i, o in enumerate(outputs[:len(outputs) - self.lowered.n_hidden])
                if o.kind == "new" and o.buf in made and o.buf not in read and i not in bases
                and len(o.shape) == len(o.buf.shape) and all(map(same, o.shape, o.buf.shape))}

    def _carried(self) -> dict[Buf, int]:
        """Integers that only operations of PyTorch read, with their places among the arguments: these get them as the caller gave
        them. The state of random numbers of attention lies on the CPU where PyTorch's description says GPU, unless a
        CUDA graph is captured."""
        read = {leaf.buf for e in self.lowered.eager for leaf, _ in e.reads}
        others = set(self.grouping.readers) | {o.buf for o in self.lowered.outputs}
        return {b: self.place[at] for at, b in self.lowered.inputs
                if at not in self.bound and not b.shape and b.dtype in ("i64", "u64") and b in read - others}

    def _inputs(self) -> dict[int, Any]:
        return {at: (self.dims.values(b.shape), self.dims.values(b.stride)) for at, b in self.lowered.inputs
                if at not in self.bound}

    def _bound_result(self, o: Any) -> "torch.Tensor | None":
        """A result that is a tensor bound to the plan, or a view of one; None: another result."""
        if o.kind == "argument":
            return self.bound.get(o.value)
        x = self.bound.get(-1 - o.value) if o.kind == "view" and o.value < 0 else None
        if x is None:
            return None
        if not all(isinstance(n, int) for n in (*o.shape, *o.stride, o.offset)):
            raise Unsupported("a result that is a part, of a size that varies, of a tensor bound to the plan")
        return torch.as_strided(x, o.shape, o.stride, x.storage_offset() + o.offset)

    def _results(self) -> list[Any]:
        out: list[Any] = []
        for o in self.lowered.outputs:
            bound = self._bound_result(o)
            if bound is not None:
                out.append((3, 0, bound, None, (), ()))
            elif o.kind == "argument":
                out.append((1, self.place[o.value], None, None, (), ()))
            elif o.kind == "size":
                out.append((2, self.dims.value(o.value), None, None, (), ()))
            elif o.kind == "object":
                out.append((3, 0, o.value, None, (), ()))
            elif o.kind == "view":
                base = o.value if o.value >= 0 else -1 - self.place[-1 - o.value]
                out.append((4, base, self.dims.value(o.offset), None, self.dims.values(o.shape),
                            self.dims.values(o.stride)))
            elif o.buf in self.adopted:
                out.append((5, 0, None, None, (), ()))
            else:
                assert o.buf is not None
                dtype = next(t for t, name in DTYPES.items() if name == o.buf.dtype)
                out.append((0, 0, dtype, o.buf, self.dims.values(o.shape), self.dims.values(o.stride)))
        return out

    def _dims(self) -> list[tuple[int, int, int]]:
        """Where each dim is read: an argument that is a size, or an axis of a tensor; and what is added to it."""
        for b in self.lowered.bufs:
            self.dims.texts([*b.shape, *b.stride])
        known: dict[Any, tuple[int, int]] = {}
        for i, (_, b) in enumerate(self._tensors()):
            for axis, size in enumerate(b.shape):
                if not isinstance(size, int) and size.is_Symbol:
                    known.setdefault(size, (i, axis))
        for at, size in self.lowered.symbols:
            if not isinstance(size, int) and size.is_Symbol:
                known[size] = (self.place[at], -1)
        for symbol in self.dims.names:
            if symbol not in known:
                raise Unsupported(f"size {symbol} is no argument's")
        return [(*known[symbol], self.dims.added(symbol)) for symbol in self.dims.names]

    def _tensors(self) -> list[tuple[int, Buf]]:
        """The tensors that a call gives and the plan reads."""
        return [(at, b) for at, b in self.lowered.inputs if at not in self.bound and b not in self.carried]

    # ---- Steps

    def _steps(self) -> list[Any]:
        steps: list[tuple[float, Any]] = [(b.number, b) for b in self.formulas]
        steps += [(e.number - 0.5, e) for e in self.lowered.eager]
        # every size is asked for once here, since the plan's dims must be declared before its steps are added
        for f in self.formulas.values():
            for a in f.arguments:
                self.dims.texts([*a.size, *a.stride, a.offset])
        for e in self.lowered.eager:
            for b in e.outputs:
                if b is not None:
                    self.dims.texts([*b.shape, *b.stride, *(b.into or ())[1:]])
            for leaf, shape in e.reads:
                self.dims.texts([*shape, *leaf.stride, leaf.offset])
            note_numbers(e, self.dims)
        ordered = [s for _, s in sorted(steps, key=lambda s: s[0])]
        # A step of kernels without order is a callback, so on a GPU the plan is no single graph. Operations of PyTorch
        # are callbacks, too: where there are some, nothing is lost.
        return gather(ordered, self.grouping, self.formulas) if self.lowered.eager else ordered

    def _tensor(self, b: Buf, role: int = 0) -> int:
        """The memory of a buf; a part of a cat is a view of the whole."""
        if b.id:
            return b.id
        if b.into:
            b.id = self._view(Leaf(b.into[0], tuple(b.stride), b.into[1]), b.shape, b.dtype)
            return b.id
        data = 0
        if b.data is not None:
            self.kept.append(b.data)
            role, data = _CONSTANT, b.data.data_ptr()
        b.id = self.core.tensor(f"b{b.number}", role, b.dtype, self.dims.texts(b.shape),
                                self.dims.texts(b.stride) or None, 0, None, 0, data)
        return b.id

    def _view(self, leaf: Leaf, shape: list[Any], dtype: str) -> int:
        base = self._tensor(leaf.buf)
        return self.core.tensor(f"v{leaf.buf.number}", 0, dtype, self.dims.texts(shape),
                                self.dims.texts(leaf.stride) or None, base, self.dims.text(leaf.offset), 0, 0)

    def _make_ops(self, check: Callable[[], None] | None) -> None:
        """Makes the ops of all kernels side by side: each waits for its first kernel, which others compile behind it."""
        ops = {self._op(b) for b in self.formulas}

        def make(op: tuple[str, str, str, tuple[int, ...]]) -> Exception | None:
            if check is not None:
                check()
            try:
                self.core.make(*op)
            except Exception as error:
                return error
            finally:
                built()
            return None

        ordered = sorted(ops)
        most = _MOST_THREADS if check is None else _MOST_PER_CPU * (os.cpu_count() or 1)
        with progress.of(len(ordered)) as built, ThreadPoolExecutor(max(1, min(len(ops), most))) as threads:
            failed = {op: error for op, error in zip(ordered, threads.map(make, ordered)) if error is not None}
        for op, error in failed.items():  # the first; others show when the plan is made anew
            roots = [b for b in self.formulas if self._op(b) == op]
            raise Failed(list(dict.fromkeys(n for b in roots for n in self._nodes(b))), str(error)) from error

    def _report(self, step: Any) -> None:
        if isinstance(step, Eager):
            self.costs[step.number] = cost = Cost()
            self.rows.eager.append({"op": str(step.node.target), "node": step.node.name, "reason": step.reason,
                                    "cost": cost})
            return
        is_together = isinstance(step, Together)
        more = {"together": len({k["together"] for k in self.rows.kernels if "together" in k})} if is_together else {}
        for b in step.roots if is_together else [step]:
            self.rows.kernels.append({"formula": self.formulas[b].text, "sizes": self.formulas[b].sizes} | more)

    def _emit(self, step: Any) -> None:
        if isinstance(step, Eager):
            self._emit_eager(step)
            return
        if isinstance(step, Together):
            self._emit_together(step)
            return
        text, sizes, name, constants = self._op(step)
        self.core.call(text, sizes, name, self._arguments(step), constants)

    def _op(self, step: Buf) -> tuple[str, str, str, tuple[int, ...]]:
        """Formula, sizes and name of a kernel, and which of its arguments are weights that it may pack once."""
        f = self.formulas[step]
        constants = tuple(i for i, a in enumerate(f.arguments)
                          if self.packs and a.buf is not None and not a.buf.into and a.buf.data is not None)
        return f.text, f.sizes, f"b_{step.kind}", constants

    def _arguments(self, step: Buf) -> list[Any]:
        f, group = self.formulas[step], self.grouping.groups[step]
        stored = {group.root, *group.also}
        arguments: list[Any] = []
        for a in f.arguments:
            if a.buf is None:
                arguments.append(self.dims.text(a.offset))
                continue
            offset = a.offset
            if a.buf.into and a.buf in stored:
                whole, start = a.buf.into
                arguments.append(self._view(Leaf(whole, tuple(a.stride), start), a.size, a.buf.dtype))
                continue
            arguments.append(self._view(Leaf(a.buf, tuple(a.stride), offset), a.size, a.buf.dtype))
        return arguments

    def _emit_together(self, step: Together) -> None:
        parts: dict[tuple[str, str, str], list[int]] = {}
        for root in step.roots:
            f = self.formulas[root]
            parts.setdefault((f.text, f.sizes, f"b_{root.kind}"), []).extend(self._arguments(root))
        self.core.together([(*op, ids) for op, ids in parts.items()])

    def _emit_eager(self, e: Eager) -> None:
        ids = [self._view(leaf, shape, leaf.buf.dtype) for leaf, shape in e.reads if leaf.buf not in self.carried]
        written = [b for b in e.outputs if b is not None and b not in self.adopted]
        whole = [b.into or (b, 0) for b in written]
        outputs = [self._view(Leaf(base, tuple(b.stride), offset), b.shape, b.dtype)
                   for b, (base, offset) in zip(written, whole)]
        places = [self.adopted[b] for b in e.outputs if b in self.adopted]
        self.core.eager(function_of(e, self.dims, self.adopted, self.carried, self.costs[e.number]), [*ids, *outputs],
                        places)


def _view_of(base: torch.Tensor, size: Any, stride: Any, offset: int) -> torch.Tensor:
    """A tensor over part of another one's memory, without the ties that PyTorch's views have."""
    return base.new_empty(0).set_(base.untyped_storage(), base.storage_offset() + offset, size, stride)


_view_of = getattr(torch._C._dynamo.guards, "_reinterpret_tensor", _view_of)
