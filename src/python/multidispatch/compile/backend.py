"""The backend of torch.compile: `torch.compile(f, backend="multidispatch", dynamic=True)`."""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import time
from dataclasses import dataclass
from typing import Any, Callable

import torch
from functorch.compile import min_cut_rematerialization_partition
from torch._dynamo.backends.common import aot_autograd
from torch.utils._python_dispatch import _disable_current_modes

from .. import ArgumentError, MdError
from .attention import ours
from .described import for_any_order
from .general import one_graph_for_all_sizes
from .lowering.decompositions import table as decompositions
from .options import Options, options_of
from .original import Original
from .pieces import Piece, cut, tensors_of
from .randoms import keep_seeds
from .report import Cost, Report, Rows, fault, log_made, new_report
from .rewriting.attention import no_plan_for_each_shape
from .rewriting.causal import name_causal_of_training
from .rewriting.rewrite import copy_of, rewrite
from .running import building
from .running.faster import Faster, is_wanted
from .running.inductor import compiled
from .running.mending import Mending
from .running.pieces import Pieces
from .running.plan import Builder
from .sizes import Unsupported

_log = logging.getLogger("multidispatch")
_numbers = itertools.count()


def device_of(module: Any) -> torch.device:
    """The device of a graph's tensors: one that is not the CPU, if there is one."""
    devices = (v.device for node in module.graph.nodes for v in tensors_of(node))
    return next((d for d in devices if d.type != "cpu"), torch.device("cpu"))


def eagerly(module: Any, bound: Any) -> Callable[..., Any]:
    """Runs a graph op by op, as PyTorch does."""
    n = sum(node.op == "placeholder" for node in module.graph.nodes)
    made = functools.cache(lambda: for_any_order(module))

    def run(arguments: list[Any]) -> Any:
        given = iter(arguments)
        # The graph has what __torch_function__ of a subclass did, so it must not do it again; AOTAutograd's modes
        # refuse such tensors.
        is_strange = any(isinstance(a, torch.Tensor) and type(a) not in (torch.Tensor, torch.nn.Parameter)
                         for a in arguments)
        hidden = _disable_current_modes() if is_strange else contextlib.nullcontext()
        with torch.no_grad(), torch._C.DisableTorchFunctionSubclass(), hidden:
            return tuple(made()(*(bound[i] if bound and i in bound else next(given) for i in range(n))))

    return run


@dataclass(frozen=True)
class _Graph:
    """What is known of a graph besides its operations."""

    device: torch.device
    report: Report
    checks: bool  # arguments are checked in full
    options: Options
    original: Callable[[list[Any]], Any] | None = None  # what the whole graph was made of; None: the graph itself is right


def _plan(module: Any, g: _Graph, bound: Any, n_visible: int | None, eager: Callable[[list[Any]], Any] | None = None) -> Any:
    """The plan; with what serves it from eager PyTorch where that is faster. `eager`: None: the graph, op by op."""
    eager, serves_eager = eager or eagerly(module, bound), is_wanted(g.options)

    def mending(report: Report) -> Mending:
        def make(rows: Rows, given_up: dict[Any, str]) -> Builder:
            builder = Builder(module, g.device, report.name, rows, bound, n_visible, g.options, given_up)
            builder.begin()
            return builder

        return Mending(module, report, make, eager, g.checks)

    def finished(mending: Mending, builder: Builder, check: Callable[[], None] | None = None) -> Any:
        builder, plan = mending.finished(builder, check)
        if not serves_eager:
            return plan
        faster = Faster(plan, eager, builder.places, g.device)
        g.report.raced.append(faster)
        return faster

    def again(check: Callable[[], None]) -> Any:
        anew = mending(Report(g.report.name))
        return finished(anew, anew.begun(), check)

    first = mending(g.report)
    builder = first.begun()
    if g.checks or not building.is_wanted(g.options):
        return finished(first, builder)

    def failed(error: Exception) -> None:
        why = str(error) if isinstance(error, (Unsupported, MdError)) else fault("PyTorch computes what it was to build")
        _log.warning("%s: PyTorch goes on: %s", g.report.name, why)
        g.report.fallbacks[why] += 1

    return building.Building(lambda check: finished(first, builder, check), again, eager, failed, g.device)


def _whole_or_pieces(module: Any, g: _Graph, bound: Any, n_visible: int | None) -> Any:
    pieces, results = cut(module, g.device, n_visible)
    if not pieces:
        return _plan(module, g, bound, n_visible, g.original)
    arguments = [n for n in module.graph.nodes if n.op == "placeholder"]
    tensors = {arguments[i]: x for i, x in (bound or {}).items()}
    runs = [_piece(p, g, tensors) for p in pieces]
    if not any(p.is_plan for p in pieces):
        raise Unsupported("; ".join(dict.fromkeys(why for p in pieces for why in p.reasons.values())))
    return Pieces(arguments, bound or {}, pieces, runs, results, [p["cost"] for p in g.report.pieces])


def _piece(p: Piece, g: _Graph, tensors: dict[Any, Any]) -> Callable[..., Any]:
    """What runs a piece. One that no plan can hold after all is PyTorch's."""
    report = g.report
    bound = {i: tensors[n] for i, (n, axis) in enumerate(p.reads) if p.is_plan and axis < 0 and n in tensors}
    n_rows = len(report.rows)
    run = eagerly(p.module, None)
    if p.is_plan:
        try:
            run = _plan(p.module, g, bound, p.n_visible)
            p.reads = [x for i, x in enumerate(p.reads) if i not in bound]
        except Exception as error:
            why = str(error) if isinstance(error, (Unsupported, MdError)) else fault("PyTorch computes a piece")
            del report.rows[n_rows:]
            p.is_plan, p.reasons = False, dict.fromkeys(p.nodes, why)
    by_inductor = compiled(p.module, report.name) if g.options.pieces_by_inductor and not p.is_plan else None
    if not p.is_plan:
        report.new_rows().eager += [{"op": str(n.target), "node": n.name, "reason": why} for n, why in p.reasons.items()]
    reasons = list(dict.fromkeys(p.reasons.values()))
    report.pieces.append({"by": "a plan" if p.is_plan else "TorchInductor" if by_inductor else "PyTorch", "nodes": len(p.nodes),
                          "kernels": report.rows[n_rows].kernels, "reasons": reasons, "cost": Cost()})
    return by_inductor or run


def plan_of(module: Any, name: str, checks: bool = False, bound: Any = None, n_visible: int | None = None,
            options: Options = Options(), original: Callable[[list[Any]], Any] | None = None) -> Any:
    """The plan of a graph, or its pieces; None if PyTorch computes all, with the reason in the report. The user sees
    the first n_visible results (None: all). `original` serves calls that do not fit a plan of the whole graph."""
    report = new_report(name)
    start = time.perf_counter()
    report.nodes = sum(n.op == "call_function" for n in module.graph.nodes)
    try:
        device = device_of(module)
        if device.type not in ("cpu", "cuda"):
            raise Unsupported(f"tensors on {device}")
        report.rewrites = rewrite(module)
        with _disable_current_modes():  # the tensors made here are real
            report.plan = _whole_or_pieces(module, _Graph(device, report, checks, options, original), bound, n_visible)
    except (Unsupported, MdError) as why:
        report.surrender(str(why))
        _log.warning("%s: PyTorch computes the whole graph: %s", name, why)
    except Exception:  # the user's program is not to blame
        report.surrender(fault(f"PyTorch computes the whole graph {name}"))
    report.seconds = time.perf_counter() - start
    log_made(report)
    return report.plan


def _n_visible(facts: Any) -> int | None:
    """How many results of a forward are the user's; the others only the backward reads."""
    return getattr(facts, "num_forward", None)


def _keep_saved(facts: Any) -> None:
    """A backward leaves what the forward saved for it: retain_graph=True may ask for it again."""
    if getattr(facts, "bw_donated_idxs", None):
        facts.bw_donated_idxs.clear()  # the list is AOTAutograd's own, which its calls read


def _compiler(kind: str, options: Options, given: Original | None = None) -> Callable[..., Any]:
    def compile_graph(module: Any, _: Any) -> Any:
        context = torch._guards.TracingContext.try_get()
        known = context.fw_metadata if context else None
        facts = known if kind == "forward" else None
        _keep_saved(facts)
        original = given.of(module.graph, known) if given else None
        plan = plan_of(module, f"{kind}{next(_numbers)}", n_visible=_n_visible(facts), options=options, original=original)
        plan = plan if plan is not None else original or eagerly(module, None)

        def run(arguments: list[Any]) -> Any:
            return plan(arguments)

        run._boxed_call = True  # type: ignore[attr-defined] (PyTorch copies the attributes of functions only)
        return run

    return compile_graph


def _divide(joint: Any, inputs: Any, **options: Any) -> Any:
    """Divides a graph into a forward and a backward, which computes again what is cheap instead of reading it."""
    kept = copy_of(joint.graph)
    try:
        name_causal_of_training(joint)
    except Exception:  # the graph may be half changed
        fault("masks of this training stay as they are")
        joint.graph = kept
        joint.recompile()
    keep_seeds(joint)
    return min_cut_rematerialization_partition(joint, inputs, **options)


def _options(given: dict[str, Any]) -> Options:
    """torch.compile's options=. Its modes are TorchInductor's."""
    for name, value in given.items():
        if name != "options" and value is not None:
            raise ArgumentError(f"torch.compile({name}={value!r}): backend multidispatch has no {name}s: leave it out")
    return options_of(given.get("options"))


def backend(module: Any, inputs: Any, **options: Any) -> Any:
    """The function that torch.compile calls, found by its name "multidispatch"."""
    chosen = _options(options)
    compiler = aot_autograd(fw_compiler=_compiler("forward", chosen), bw_compiler=_compiler("backward", chosen),
                            inference_compiler=_compiler("inference", chosen, Original(module, inputs)),
                            decompositions=decompositions(bool(chosen.eager_random)),
                            partition_fn=_divide)
    is_dynamic = any(isinstance(n, torch.SymInt) for x in inputs
                     for n in (x.shape if isinstance(x, torch.Tensor) else (x,)))
    with ours(), no_plan_for_each_shape() if is_dynamic else contextlib.nullcontext():
        return compiler(module, inputs)


one_graph_for_all_sizes()
