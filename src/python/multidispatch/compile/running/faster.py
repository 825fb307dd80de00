"""Serves a plan's graph from eager PyTorch at the sizes where that was faster, as measured in the first calls.

Calls take turns until each way has been timed often enough: all of them are real ones, so nothing is computed twice."""

from __future__ import annotations

import threading
import time
from typing import Any, Callable

import torch

_SKIPPED = 2  # calls at new sizes before any is timed: they choose kernels, and fill caches
_TIMED = 4  # calls of each way that are timed: the fastest counts
_GAIN = 0.9  # eager serves where its time is below this share of the plan's
_MOST_SIZES = 4096  # more are the plan's
_GROWTH = 8  # where kernels are still being built the turns begin anew, so many times at most


class _Race:
    """The calls at one tuple of sizes."""

    def __init__(self) -> None:
        self.n_calls = 0
        self.best = [float("inf"), float("inf")]  # seconds: plan, eager
        self.winner: int | None = None
        self.n_anew = 0


class Faster:
    """A plan, called as one. `module` is what PyTorch runs."""

    _boxed_call = True

    def __init__(self, plan: Any, eager: Callable[[list[Any]], Any], dims: list[tuple[int, int]]) -> None:
        self.plan, self._eager, self._dims = plan, eager, dims
        self._built = threading.Event()
        self._waiter: threading.Thread | None = None
        self._races: dict[tuple[int, ...], _Race] = {}
        self._lock = threading.Lock()
        self.n_eager = 0

    def __call__(self, given: list[Any]) -> Any:
        try:
            sizes = tuple([given[at] if axis < 0 else given[at].shape[axis] for at, axis in self._dims])
        except (AttributeError, IndexError):  # of md.capture: the plan says what is wrong
            return self.plan(given)
        race = self._races.get(sizes)
        if race is None:
            if len(self._races) >= _MOST_SIZES:
                return self.plan(given)
            race = self._races.setdefault(sizes, _Race())
        if race.winner is None:
            return self._timed(race, given)
        return self._by_eager(given) if race.winner else self.plan(given)

    def _by_eager(self, given: list[Any]) -> Any:
        self.n_eager += 1
        return self._eager(given)

    def _timed(self, race: _Race, given: list[Any]) -> Any:
        with self._lock:
            n = race.n_calls
            race.n_calls += 1
            if self._waiter is None:
                self._waiter = threading.Thread(target=self._wait_for_kernels, daemon=True)
                self._waiter.start()
        way = (n - _SKIPPED) % 2 if n >= _SKIPPED else 0
        start = time.perf_counter()
        out = self._by_eager(given) if way else self.plan(given)
        seconds = time.perf_counter() - start
        if n >= _SKIPPED:
            with self._lock:
                race.best[way] = min(race.best[way], seconds)
                if n + 1 >= _SKIPPED + 2 * _TIMED and race.winner is None:
                    self._decide(race)
        return out

    def _wait_for_kernels(self) -> None:
        self.plan.wait()
        self._built.set()

    def _decide(self, race: _Race) -> None:
        if not self._built.is_set() and race.n_anew < _GROWTH:
            race.n_anew, race.n_calls, race.best = race.n_anew + 1, 0, [float("inf"), float("inf")]
            return
        race.winner = int(race.best[1] < _GAIN * race.best[0])

    def served(self) -> list[dict[str, Any]]:
        """Sizes that eager serves, with the times that decided, in microseconds."""
        return [{"sizes": list(sizes), "plan_us": round(r.best[0] * 1e6, 1), "eager_us": round(r.best[1] * 1e6, 1)}
                for sizes, r in self._races.items() if r.winner]

    # ---- What reports ask of a plan

    def count(self) -> dict[str, int]:
        counted = self.plan.count()
        return counted | {"calls": counted["calls"] + self.n_eager, "eager_calls": self.n_eager}

    def explain(self) -> str:
        return self.plan.explain()

    def wait(self) -> None:
        self.plan.wait()


def is_wanted(wanted: bool | None, device: torch.device, numeric: str | None) -> bool:
    """Timing is cheap on a CPU, where a call ends with its work. The bits of two ways differ, so never where the user asked
    for determinism."""
    if numeric not in (None, "fast") or torch.are_deterministic_algorithms_enabled():
        return False
    return device.type == "cpu" if wanted is None else wanted
