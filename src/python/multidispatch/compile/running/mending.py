"""Makes the plan of a graph, and makes it anew without the operations with which it fails: PyTorch then computes these,
between the kernels.

A failure shows while the graph is lowered (which operation it is, halving finds), when an op is made, when none of its
kernels can be built, and in a call that PyTorch can compute."""

from __future__ import annotations

import itertools
import json
import logging
import operator
import re
import threading
from typing import Any, Callable, Iterable

import torch

from ... import MdError, info
from ..report import Report, Rows, fault
from ..sizes import Unsupported
from .plan import Builder, Failed

_log = logging.getLogger("multidispatch")
_MOST = 16  # operations that are found by halving; then the whole graph is PyTorch's
# Failures of a run for which a kernel is to blame, not the memory or the device: numbers of md_status.
_OF_KERNELS = {1: "MD_INVALID_ARGUMENT", 3: "MD_UNSUPPORTED", 4: "MD_NOT_FOUND", 6: "MD_COMPILE", 10: "MD_INTERNAL"}
_NO_MEMORY = 2  # MD_OUT_OF_MEMORY
_MOST_EMPTIED = 3  # how often a graph makes PyTorch give back the memory that it keeps unused
_NOT_TRIED = "not tried"
_NO_KERNEL = "none of its kernels could be built"

Made = Callable[[Rows, dict[Any, str]], Builder]


class Mending:
    """`make(rows, given_up)` lowers the graph, without the operations that are given up (each with the reason). `compute(
    arguments)` is PyTorch's way."""

    def __init__(self, module: Any, report: Report, make: Made, compute: Callable[[list[Any]], Any], checks: bool) -> None:
        self._report, self._make, self._compute, self._checks = report, make, compute, checks
        self._operations = [n for n in module.graph.nodes if n.op == "call_function" and n.target is not operator.getitem
                            and isinstance(n.target, torch._ops.OpOverload)]
        self.rows = report.new_rows()
        self._given_up: dict[Any, str] = {}
        self._lock = threading.Lock()

    # ---- Making

    def begun(self) -> Builder:
        """The graph lowered: what can be."""
        for _ in range(_MOST):
            self.rows.clear()
            try:
                return self._make(self.rows, self._given_up)
            except (Unsupported, MdError) as error:
                failure, why = error, str(error)
            except Exception as error:
                failure, why = error, fault("PyTorch computes the operations that it concerns")
            culprit = self._culprit()
            if culprit is None or culprit in self._given_up:
                raise failure
            self._give_up([culprit], why)
        raise failure

    def _fails(self, n: int) -> bool:
        """True if lowering fails where only the first n operations are tried."""
        rest = dict.fromkeys(self._operations[n:], _NOT_TRIED)
        try:
            self._make(Rows(), rest | self._given_up)
        except Exception:
            return True
        return False

    def _culprit(self) -> Any:
        """The operation with which lowering fails; None: it fails without any."""
        low, high = 0, len(self._operations)
        if self._fails(low):
            return None
        while high - low > 1:
            middle = (low + high) // 2
            if self._fails(middle):
                high = middle
            else:
                low = middle
        return self._operations[low]

    def finished(self, builder: Builder, check: Callable[[], None] | None = None) -> tuple[Builder, Any]:
        """The plan with its ops, and what it was made from."""
        while True:
            try:
                return builder, builder.finish(self._fallback(builder), self._ran(builder), self._checks, check)
            except Failed as error:
                why = str(error) if isinstance(error.__cause__, (Unsupported, MdError)) else fault("PyTorch computes it")
                if not self._give_up(error.nodes, why):
                    raise error.__cause__ from None  # type: ignore[misc] (there is one)
            builder = self.begun()

    def _give_up(self, nodes: Iterable[Any], why: str) -> bool:
        """False if all operations from which these nodes follow were given up before."""
        while nodes:
            new = [n for n in nodes if n in self._operations and n not in self._given_up]
            if new:
                _log.warning("%s: PyTorch computes %s: %s", self._report.name, ", ".join(n.name for n in new), why)
                self._given_up |= dict.fromkeys(new, why)
                return True
            nodes = list(dict.fromkeys(m for n in nodes for m in n.all_input_nodes))
        return False

    # ---- What shows in calls

    def _fallback(self, builder: Builder) -> Callable[..., Any]:
        nodes, is_cuda = builder.nodes_of_steps(), builder.device.type == "cuda"
        emptied = itertools.count()

        def run(arguments: list[Any], why: str, status: int, plan: Any) -> Any:
            self._report.fallbacks[why] += 1
            if self._report.fallbacks[why] == 1:
                _log.warning("%s: PyTorch computes the graph: %s", self._report.name, why)
            out = self._compute(arguments)  # raises where the call is wrong
            if status == _NO_MEMORY and is_cuda and not torch.cuda.is_current_stream_capturing() and next(emptied) < _MOST_EMPTIED:
                torch.cuda.empty_cache()  # what eager PyTorch left, such as while kernels were built
            step = re.search(r"\(call (\d+) of sequence ", why)
            if status in _OF_KERNELS and step:
                self._mend(plan, [nodes[int(step[1])]], why)
            return out

        return run

    def _ran(self, builder: Builder) -> Callable[[Any], None]:
        """After the first run: what has no kernel, although others have, is given up."""
        nodes, device = builder.nodes_of_steps(), builder.device

        def look(plan: Any) -> None:
            calls = [c for c in json.loads(plan.explain())["calls"] if "reference" in c["variants"]]
            if calls and info("host" if device.type == "cpu" else str(device)).get("can_compile"):
                self._mend(plan, [nodes[c["call"]] for c in calls], _NO_KERNEL)

        return look

    def _mend(self, plan: Any, steps: list[list[Any]], why: str) -> None:
        """Replaces a plan by one that leaves these steps to PyTorch. Fails to do so where that fails."""
        with self._lock:
            try:
                if all([self._give_up(nodes, why) for nodes in steps]):
                    plan.replace(self.finished(self.begun())[1])
            except Exception:
                fault("the plan stays as it is")
