"""Runs a graph that is cut into pieces."""

from __future__ import annotations

import json
import time
from typing import Any, Callable

from ..pieces import Constant, Piece, Place


class Pieces:
    """The pieces of a graph, one after the other. Called as a plan: all arguments in one list.

    Threads may share it. A value is dropped as soon as no later piece reads it."""

    _boxed_call = True

    def __init__(self, arguments: list[Any], bound: dict[int, Any], pieces: list[Piece], runs: list[Callable[..., Any]],
                 results: list[Any], costs: list[Any]) -> None:
        self.plans = [run for p, run in zip(pieces, runs) if p.is_plan]
        self._slot = {n: i for i, n in enumerate([*arguments, *(n for p in pieces for n in p.writes)])}
        self._start = [bound.get(i) for i in range(len(self._slot))]
        self._given = [i for i in range(len(arguments)) if i not in bound]
        self._results = [x if isinstance(x, Constant) else self._at(x) for x in results]
        self._steps = self._made(pieces, runs, costs)
        self._n_calls = 0

    def _at(self, place: Place) -> tuple[int, int]:
        return self._slot[place[0]], place[1]

    def _made(self, pieces: list[Piece], runs: list[Callable[..., Any]], costs: list[Any]) -> list[Any]:
        """For each piece: what runs it, what it reads and writes, what nobody reads afterwards, and where its time is
        counted."""
        kept = {x[0] for x in self._results if not isinstance(x, Constant)}
        steps: list[Any] = []
        for p, run, cost in reversed(list(zip(pieces, runs, costs))):
            reads, writes = [self._at(x) for x in p.reads], [self._slot[n] for n in p.writes]
            dropped = {i for i, _ in reads} - kept
            kept |= dropped
            steps.append((run, reads, writes, sorted(dropped), cost))
        return steps[::-1]

    def __call__(self, given: list[Any]) -> Any:
        self._n_calls += 1
        values = list(self._start)
        for i, x in zip(self._given, given, strict=True):
            values[i] = x

        def read(slot: int, axis: int) -> Any:
            return values[slot] if axis < 0 else values[slot].shape[axis]

        for run, reads, writes, dropped, cost in self._steps:
            start = time.perf_counter()
            out = run([read(*x) for x in reads])
            cost.add(time.perf_counter() - start)
            for i, x in zip(writes, out):
                values[i] = x
            for i in dropped:
                values[i] = None
        return tuple(x.value if isinstance(x, Constant) else read(*x) for x in self._results)

    # ---- What reports ask of a plan

    def count(self) -> dict[str, int]:
        """The sums of the plans' counters; "calls" are the graph's."""
        total: dict[str, int] = {}
        for plan in self.plans:
            for name, n in plan.count().items():
                total[name] = total.get(name, 0) + n
        return total | {"calls": self._n_calls}

    def explain(self) -> str:
        return json.dumps({"calls": [c for p in self.plans if p.count()["sizes"] for c in json.loads(p.explain())["calls"]]})

    def wait(self) -> None:
        for plan in self.plans:
            plan.wait()
