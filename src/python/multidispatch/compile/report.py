"""What became of each graph: its kernels, what PyTorch computes and why. `md.explain_graph()` shows it."""

from __future__ import annotations

import collections
import json
import logging
import sys
from dataclasses import dataclass, field
from typing import Any, Iterator


_log = logging.getLogger("multidispatch")


class Cost:
    """Seconds that the host spent in something, and how often. Threads may add: a lost call does no harm."""

    def __init__(self) -> None:
        self.seconds, self.n = 0.0, 0

    def add(self, seconds: float) -> None:
        self.seconds += seconds
        self.n += 1

    def us(self) -> float:
        """Of one, on average, in microseconds."""
        return round(self.seconds / max(self.n, 1) * 1e6, 1)


@dataclass
class Rows:
    """The steps of a plan, or of a piece of PyTorch."""

    kernels: list[dict[str, Any]] = field(default_factory=list)  # "together": kernels with one number are one step
    eager: list[dict[str, Any]] = field(default_factory=list)

    def clear(self) -> None:
        self.kernels.clear()
        self.eager.clear()


@dataclass
class Report:
    name: str
    nodes: int = 0
    rows: list[Rows] = field(default_factory=list)
    reason: str = ""  # why the whole graph is PyTorch's
    # plans and pieces of PyTorch, in order; [] if not cut
    pieces: list[dict[str, Any]] = field(default_factory=list)
    rewrites: list[str] = field(default_factory=list)
    seconds: float = 0.0
    fallbacks: collections.Counter[str] = field(default_factory=collections.Counter)
    plan: Any = None  # what runs it: a _core.Plan, or what is called as one; or None
    raced: list[Any] = field(default_factory=list)  # plans that eager PyTorch serves where it is faster

    def new_rows(self) -> Rows:
        self.rows.append(Rows())
        return self.rows[-1]

    @property
    def kernels(self) -> list[dict[str, Any]]:
        """With the numbers of kernels that run together: each is one step of the graph."""
        out: list[dict[str, Any]] = []
        n = 0
        for rows in self.rows:
            out += [k | {"together": n + k["together"]} if "together" in k else k for k in rows.kernels]
            n += len({k["together"] for k in rows.kernels if "together" in k})
        return out

    @property
    def eager(self) -> list[dict[str, Any]]:
        return [e for rows in self.rows for e in rows.eager]

    def surrender(self, reason: str) -> None:
        """PyTorch computes the whole graph."""
        self.reason, self.plan = reason, None
        for rows in self.rows:
            rows.kernels.clear()
        self.pieces.clear()
        self.raced.clear()

    def n_steps(self) -> int:
        """Kernels, those that run together as one, and operations of PyTorch."""
        kernels = self.kernels
        together = {k["together"] for k in kernels if "together" in k}
        return len(self.eager) + len(together) + sum("together" not in k for k in kernels)

    def as_dict(self) -> dict[str, Any]:
        out: dict[str, Any] = {"graph": self.name, "nodes": self.nodes, "kernels": self.kernels,
                               "eager": list(map(_with_cost, self.eager)),
                               "rewrites": self.rewrites, "seconds": round(self.seconds, 3), "steps": self.n_steps()}
        if self.pieces:
            out["pieces"] = [_with_cost(p | {"kernels": len(p["kernels"])}) for p in self.pieces]
        if served := [s for r in self.raced for s in r.served()]:
            out["eager_is_faster"] = served
        if self.reason:
            out["reason"] = self.reason
        if self.plan is not None:
            out |= self.plan.count()
            out["forms"] = _forms(self.plan) if out["sizes"] else {}
        if self.fallbacks:
            out["fallback_reasons"] = dict(self.fallbacks)
        return out


def _with_cost(row: dict[str, Any]) -> dict[str, Any]:
    """A row of a report, with the time that a call takes: on a GPU, what the host takes to launch it."""
    cost = row.get("cost")
    return {k: v for k, v in row.items() if k != "cost"} | ({"us": cost.us(), "runs": cost.n} if cost else {})


def fault(consequence: str) -> str:
    """Logs the error at hand, which is a fault of this package, with its traceback. Gives the reason for reports."""
    error = sys.exc_info()[1]
    _log.error("a fault of multidispatch, please report it; %s", consequence, exc_info=True)
    return f"a fault of multidispatch: {type(error).__name__}: {error}"


def _forms(plan: Any) -> dict[str, int]:
    """How the steps run at the sizes of the last call, and how many do so."""
    return dict(collections.Counter(call["form"] for call in json.loads(plan.explain())["calls"]))


def log_made(report: Report) -> None:
    """What TORCH_LOGS="multidispatch" shows of a graph, and TORCH_LOGS="+multidispatch" of its steps."""
    _log.info("%s: %d nodes, %d kernels, %d ops of PyTorch, in %.2f s%s", report.name, report.nodes, len(report.kernels),
              len(report.eager), report.seconds, f"; all of it is PyTorch's: {report.reason}" if report.reason else "")
    for k in report.kernels:
        _log.debug("%s: kernel %s%s", report.name, k["formula"], f" with {k['sizes']}" if k["sizes"] else "")
    for e in report.eager:
        _log.debug("%s: PyTorch computes %s (%s): %s", report.name, e["node"], e["op"], e["reason"])


_REPORTS: collections.deque[Report] = collections.deque(maxlen=64)


def new_report(name: str) -> Report:
    _REPORTS.append(Report(name))
    return _REPORTS[-1]


def last_report() -> Report:
    return _REPORTS[-1]


class Graphs(list[dict[str, Any]]):
    """The reports of graphs; printed, a table."""

    def __repr__(self) -> str:
        return "\n".join(line for g in self for line in _table(g))

    __str__ = __repr__


def _rows(g: dict[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """(what, who computes it, microseconds a call, why)"""
    for i, p in enumerate(g.get("pieces", [])):
        yield f"piece {i}: {p['nodes']} nodes, {p['kernels']} kernels", p["by"], str(p["us"]), "; ".join(p["reasons"])
    alike: dict[tuple[str, str], list[float]] = {}
    for e in g["eager"]:
        alike.setdefault((e["op"], e["reason"]), []).append(e.get("us", 0.0))
    for (op, reason), us in alike.items():
        yield f"{len(us)} x {op}", "PyTorch", str(round(sum(us), 1)) if any(us) else "", reason
    for why, n in g.get("fallback_reasons", {}).items():
        yield f"{n} calls", "PyTorch", "", why
    for s in g.get("eager_is_faster", []):
        yield f"sizes {s['sizes']}", "PyTorch", str(s["eager_us"]), f"faster than the plan, which took {s['plan_us']}"


def _table(g: dict[str, Any]) -> list[str]:
    lines = [f"{g['graph']}: {g['nodes']} nodes, {len(g['kernels'])} kernels, {len(g['eager'])} ops of PyTorch, "
             f"{g['steps']} steps, {g.get('calls', 0)} calls"]
    if "reason" in g:
        lines.append(f"  all of it is PyTorch's: {g['reason']}")
    rows = list(_rows(g))
    if rows:
        rows.insert(0, ("what", "computed by", "us a call", "why"))
    wide = [max((len(r[i]) for r in rows), default=0) for i in range(3)]
    return lines + [f"  {what:<{wide[0]}}  {by:<{wide[1]}}  {us:>{wide[2]}}  {why}".rstrip() for what, by, us, why in rows]


def explain_graph(*, text: bool = False) -> Any:
    """What became of the graphs that torch.compile or md.capture gave to this package, the last 64 of them.

    A list of dicts, which prints as a table (``text=True``: the table): ``kernels`` (their formulas), ``eager`` (operations
    that PyTorch computes, each with the reason and the microseconds of the host that a run takes), ``steps`` (kernels that
    run together count as one), ``pieces`` (of a graph that is cut: who computes each, a plan or PyTorch, why, and its
    microseconds), ``reason`` (why the whole graph is PyTorch's, if it is), ``calls``, ``fallbacks`` (calls that did not fit
    the plan), ``fallback_reasons``, ``eager_is_faster`` (sizes that PyTorch serves since it was measured to be faster),
    ``forms`` (how its steps run at the last sizes)."""
    graphs = Graphs(r.as_dict() for r in _REPORTS)
    return str(graphs) if text else graphs


def wait_graphs() -> None:
    """Waits until all kernels of the graphs that explain_graph() lists are built. Until then each runs its first kernel,
    or one that is slower."""
    for r in list(_REPORTS):
        if r.plan is not None:
            r.plan.wait()
