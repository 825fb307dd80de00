"""What became of each graph: its kernels, what PyTorch computes and why. `md.explain_graph()` shows it."""

from __future__ import annotations

import collections
import json
import logging
import sys
from dataclasses import dataclass, field
from typing import Any


_log = logging.getLogger("multidispatch")


@dataclass
class Report:
    name: str
    nodes: int = 0
    kernels: list[dict[str, Any]] = field(default_factory=list)  # "together": kernels with one number are one step
    eager: list[dict[str, str]] = field(default_factory=list)
    reason: str = ""  # why the whole graph is PyTorch's
    pieces: list[dict[str, Any]] = field(default_factory=list)  # plans and pieces of PyTorch, in order; [] if not cut
    rewrites: list[str] = field(default_factory=list)
    seconds: float = 0.0
    n_together: int = 0
    fallbacks: collections.Counter[str] = field(default_factory=collections.Counter)
    plan: Any = None  # the _core.Plan, or None

    def surrender(self, reason: str) -> None:
        """PyTorch computes the whole graph."""
        self.reason, self.plan, self.n_together = reason, None, 0
        self.kernels.clear()
        self.pieces.clear()

    def n_steps(self) -> int:
        """Kernels, those that run together as one, and operations of PyTorch."""
        return len(self.eager) + self.n_together + sum("together" not in k for k in self.kernels)

    def as_dict(self) -> dict[str, Any]:
        out: dict[str, Any] = {"graph": self.name, "nodes": self.nodes, "kernels": self.kernels, "eager": self.eager,
                               "rewrites": self.rewrites, "seconds": round(self.seconds, 3), "steps": self.n_steps()}
        if self.pieces:
            out["pieces"] = self.pieces
        if self.reason:
            out["reason"] = self.reason
        if self.plan is not None:
            out |= self.plan.count()
            out["forms"] = _forms(self.plan) if out["sizes"] else {}
        if self.fallbacks:
            out["fallback_reasons"] = dict(self.fallbacks)
        return out


def fault(consequence: str) -> str:
    """Logs the error at hand, which is a fault of this package, with its traceback. Gives the reason for reports."""
    error = sys.exc_info()[1]
    _log.error("a fault of multidispatch, please report it; %s", consequence, exc_info=True)
    return f"a fault of multidispatch: {type(error).__name__}: {error}"


def _forms(plan: Any) -> dict[str, int]:
    """How the steps run at the sizes of the last call, and how many do so."""
    return dict(collections.Counter(call["form"] for call in json.loads(plan.explain())["calls"]))


_REPORTS: collections.deque[Report] = collections.deque(maxlen=64)


def new_report(name: str) -> Report:
    _REPORTS.append(Report(name))
    return _REPORTS[-1]


def last_report() -> Report:
    return _REPORTS[-1]


def explain_graph(*, text: bool = False) -> Any:
    """What became of the graphs that torch.compile or md.capture gave to this package, the last 64 of them.

    A list of dicts: ``kernels`` (their formulas), ``eager`` (operations that PyTorch computes, each with the reason),
    ``steps`` (kernels that run together count as one), ``pieces`` (of a graph that is cut: who computes each, a plan or
    PyTorch, and why), ``reason`` (why the whole graph is PyTorch's, if it is), ``calls``,
    ``fallbacks`` (calls that PyTorch computed), ``fallback_reasons``, ``forms`` (how its steps run at the last sizes).
    With ``text=True`` a short text."""
    graphs = [r.as_dict() for r in _REPORTS]
    if not text:
        return graphs
    lines = []
    for g in graphs:
        lines.append(f"{g['graph']}: {g['nodes']} nodes, {len(g['kernels'])} kernels, {len(g['eager'])} ops of PyTorch, "
                     f"{g['steps']} steps")
        if "reason" in g:
            lines.append(f"  all of it is PyTorch's: {g['reason']}")
        lines += [f"  piece of {p['by']}: {p['nodes']} nodes{'; ' * bool(p['reasons'])}{'; '.join(p['reasons'])}"
                  for p in g.get("pieces", [])]
        counted = collections.Counter((e["op"], e["reason"]) for e in g["eager"])
        lines += [f"  {n} x {op}: {reason}" for (op, reason), n in counted.items()]
        lines += [f"  {n} calls were PyTorch's: {why}" for why, n in g.get("fallback_reasons", {}).items()]
    return "\n".join(lines)


def wait_graphs() -> None:
    """Waits until all kernels of the graphs that explain_graph() lists are built. Until then each runs its first kernel,
    or one that is slower."""
    for r in list(_REPORTS):
        if r.plan is not None:
            r.plan.wait()
