"""md.capture: a function or module as one plan, made by torch.export; calling it does not go through Dynamo."""

from __future__ import annotations

import inspect
import itertools
import os
from typing import Any, Callable

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._guards import detect_fake_mode
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from .. import ArgumentError, Unsupported
from . import exported
from .assumed import conditions
from .attention import ours
from .backend import plan_of
from .general import sizes_may_be_0
from .lowering.decompositions import table
from .options import Options, options_of
from .recurrent import while_exported
from .report import last_report
from .rewriting.attention import no_plan_for_each_shape
from .running.pieces import Pieces

_numbers = itertools.count()


class Captured:
    """What md.capture returns. Called as the function was; only tensors may differ from the example.

    Attributes: ``plan`` (None if PyTorch computes the graph), ``program`` (the ExportedProgram)."""

    def __init__(self, program: Any, module: Any, name: str, original: Callable[..., Any],
                 options: Options, plain: Any) -> None:
        self._original, self._options, self._plain = original, options, plain
        self.program, self._spec = program, program.call_spec
        self._inputs, bound = split(program)
        self.plan = plan_of(module, name, checks=True, bound=bound, options=options, original=self._by_original)
        self._fits = conditions(program, self.plan is not None and not isinstance(self.plan, Pieces))
        self._bound, self._report = bound, last_report()
        is_plain = all(isinstance(x, pytree.LeafSpec) for x in self._spec.in_spec.children()[0].children()) \
            and not self._spec.in_spec.children()[1].children()
        self._n = len(self._inputs) if is_plain else -1
        self._returns_one = self.plan is not None and isinstance(self._spec.out_spec, pytree.LeafSpec)
        self._constants = self.constant_arguments(program)
        self._packed = list(bound.values()) if options.packed_weights and self.plan is not None else []
        self._versions = self._versions_now()

    @staticmethod
    def constant_arguments(program: Any) -> dict[int, Any]:
        """Arguments that are no tensors: their values are part of the graph."""
        specs = [s for s in program.graph_signature.input_specs if s.kind == InputKind.USER_INPUT]
        return {i: s.arg.value for i, s in enumerate(specs) if hasattr(s.arg, "value")}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not kwargs and len(args) == self._n:
            leaves = list(args)
        else:
            names = self._spec.in_spec.children()[1].context  # names of the example's keyword arguments, in its order
            kwargs = {n: kwargs[n] for n in names} if kwargs.keys() == set(names) else kwargs
            leaves, spec = pytree.tree_flatten((args, kwargs))
            if spec != self._spec.in_spec:
                raise ValueError(f"arguments {spec} are not as in the example: {self._spec.in_spec}")
        for i, value in self._constants.items():
            if leaves[i] != value:
                raise ValueError(f"argument {i} is {leaves[i]!r}, but the example had {value!r}")
        if self._fits is not None and not self._fits(leaves):
            self._report.fallbacks["sizes are not as torch.export assumed"] += 1
            with torch.no_grad():
                return self._original(*args, **kwargs)
        if self.plan is None:
            return self.program.module()(*args, **kwargs)
        if self._packed and (now := self._versions_now()) != self._versions:
            self._versions = now
            self.changed()
        out = self.plan(leaves)
        return out[0] if self._returns_one else pytree.tree_unflatten(list(out), self._spec.out_spec)

    def _by_original(self, leaves: list[Any]) -> tuple[Any, ...]:
        """The leaves of what the function itself gives: the graph holds the sizes of static axes, and what follows from
        them, as numbers."""
        args, kwargs = pytree.tree_unflatten(leaves, self._spec.in_spec)
        with torch.no_grad():
            return tuple(pytree.tree_leaves(self._original(*args, **kwargs)))

    def _versions_now(self) -> int:
        """Grows with each write of PyTorch to the weights."""
        return sum(t._version for t in self._packed if not t.is_inference())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the program for torch.export.load and md.capture, with the weights as they are now. It is PyTorch's own, so it is
        loaded without this package, unless it has ops of md.op, or layers of LSTM, GRU and RNN."""
        exported.save(self._plain, self._options, path)

    def changed(self) -> None:
        """Says that weights were written where PyTorch does not see it: kernels pack them anew (packed_weights)."""
        for plan in getattr(self.plan, "plans", [self.plan]) if self._packed else ():  # of a graph that was cut: several
            getattr(plan, "plan", plan).changed()  # `plan`: of one that is raced with eager PyTorch


def split(program: Any) -> tuple[list[int], dict[int, torch.Tensor]]:
    """Places of the user's arguments, and the tensors of all others (parameters, buffers, constants)."""
    signature = program.graph_signature
    inputs: list[int] = []
    bound: dict[int, torch.Tensor] = {}
    for at, spec in enumerate(signature.input_specs):
        if spec.kind == InputKind.USER_INPUT:
            inputs.append(at)
        elif spec.target in program.state_dict:
            bound[at] = program.state_dict[spec.target].detach()
        else:
            bound[at] = program.constants[spec.target].detach()
    if any(spec.kind != OutputKind.USER_OUTPUT for spec in signature.output_specs):
        raise Unsupported("the function changes its arguments or buffers")
    return inputs, bound


def capture(f: Any, example: Any = None, *, kwargs: Any = None, dynamic: Any = None,
            name: str | None = None, options: dict[str, Any] | None = None) -> Captured:
    """Makes one plan of a function, a torch.nn.Module, a torch.export.ExportedProgram or the path of its file, for inference.

    - ``example``: a tuple of arguments; sizes of dynamic axes must be 2 or more. A program needs none
    - ``dynamic``: as ``dynamic_shapes`` of torch.export; None: every axis of every tensor may be dynamic, and those that
      the function fixes are static
    - ``options``: ``{"select": "hybrid", "numeric": "deterministic", "eager_where_faster": False}``, as of torch.compile
    - weights are bound once, by address: change them in place only

    The result is called as `f` was, and ``.save("x.pt2")`` writes it as torch.export does. Calls that do not fit (another
    size of a static axis, sizes that torch.export assumed otherwise, another dtype or device, other strides) run in
    PyTorch; in one of a program, torch.export may refuse them. Raises what torch.export raises, ArgumentError for a
    file that it cannot load, and multidispatch.Unsupported for a function that changes its arguments."""
    if isinstance(f, (str, os.PathLike)):
        f, saved = exported.load(f)
        options = saved if options is None else options
    if example is None and not isinstance(f, torch.export.ExportedProgram):
        raise ArgumentError("md.capture: give an example, a tuple of arguments")
    chosen = options_of(options)
    plain = program_of(f, example, kwargs or {}, dynamic)
    program, module = taken_apart(plain, chosen)
    original = program.module() if isinstance(f, torch.export.ExportedProgram) else f
    return Captured(program, module, name or f"captured{next(_numbers)}", original, chosen, plain)


def program_of(f: Any, example: Any, kwargs: dict[str, Any], dynamic: Any) -> Any:
    """What torch.export makes of it, in its own operations. `f` may be that already, or the path of its file."""
    if isinstance(f, (str, os.PathLike)):
        f, _ = exported.load(f)
    if isinstance(f, torch.export.ExportedProgram):
        return f
    with torch.no_grad(), no_plan_for_each_shape():
        return _exported(f, tuple(example), kwargs, dynamic)


def taken_apart(program: Any, chosen: Options) -> tuple[Any, Any]:
    """The program, changed where that is needed, and its graph with the operations taken apart."""
    with torch.no_grad(), no_plan_for_each_shape(), ours():
        decompositions = table(bool(chosen.eager_random))
        module = _taken_apart(program, decompositions)
        if module is None:
            program = program.run_decompositions(decompositions)
            module = program.graph_module
    return program, module


def _is_pure(node: Any) -> bool:
    """True for a node that changes no tensor and runs no other graph."""
    if node.op != "call_function":
        return node.op in ("placeholder", "output")
    if isinstance(node.target, torch._ops.OpOverload):
        return not node.target._schema.is_mutable
    return not isinstance(node.target, torch._ops.OperatorBase)  # no loops or branches


def _taken_apart(program: Any, decompositions: Any) -> Any:
    """The graph with its operations taken apart, traced once; run_decompositions, which traces it twice, takes three times
    as long. None if the graph changes tensors or calls other graphs, taken apart or not: only that knows how to treat it."""
    graph = program.graph_module
    if not all(map(_is_pure, graph.graph.nodes)):
        return None
    inputs = [n.meta["val"] for n in graph.graph.nodes if n.op == "placeholder"]
    mode = detect_fake_mode(inputs)
    if mode is None:
        return None
    with mode, enable_python_dispatcher():
        apart = make_fx(torch.fx.Interpreter(graph).run, decomposition_table=decompositions)(*inputs)
    # PyTorch's pools of one element change where their result lies
    return apart if all(map(_is_pure, apart.graph.nodes)) else None


def _exported(f: Callable[..., Any], example: Any, kwargs: dict[str, Any], dynamic: Any) -> Any:
    module = f if isinstance(f, torch.nn.Module) else _Function(f)
    if dynamic is None:  # by the names of forward's parameters: *args and **kwargs have one each
        given = inspect.signature(module.forward).bind(*example, **kwargs).arguments
        dynamic = pytree.tree_map(_all_axes, dict(given))
    with sizes_may_be_0(), while_exported():
        return torch.export.export(module, example, kwargs, dynamic_shapes=dynamic, strict=False)


def _all_axes(x: Any) -> Any:
    return dict.fromkeys(range(x.dim()), torch.export.Dim.AUTO) if isinstance(x, torch.Tensor) else None


class _Function(torch.nn.Module):
    def __init__(self, f: Callable[..., Any]) -> None:
        super().__init__()
        self._f = f

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._f(*args, **kwargs)
