"""Serves a plan's graph from eager PyTorch at the sizes where that was faster, as measured in the first calls.

Calls take turns until each way has been timed often enough: all of them are real ones, so nothing is computed twice. On a
GPU, where eager is rarely faster, the first of sizes that are alike decides for all of them, and what is captured is the
plan's."""

from __future__ import annotations

import functools
import threading
import time
from typing import Any, Callable

import torch

from ..options import Options

_SKIPPED = 2  # calls at new sizes before any is timed: they choose kernels, and fill caches
_TIMED = 4  # calls of each way that are timed: the fastest counts
_GAIN = 0.9  # eager serves where its time is below this share of the plan's
_MOST_SIZES = 4096  # more are the plan's
_GROWTH = 8  # where kernels are still being built the turns begin anew, so many times at most


class _Race:
    """The calls at one tuple of sizes. `keys`: as Faster looks them up, and those of sizes that are alike."""

    def __init__(self, key: Any, sizes: list[int]) -> None:
        self.keys, self.sizes = [key], sizes
        self.n_calls = self.n_timed = 0
        self.open: list[tuple[int, Any]] = []  # calls whose times are not known yet: who served, and the clock
        self.best = [float("inf"), float("inf")]  # seconds: plan, eager
        self.winner: int | None = None
        self.n_anew = 0


class _Clock:
    """Of a call on a CPU, which ends with its work."""

    def __init__(self, _: torch.device) -> None:
        self._start, self._end = time.perf_counter(), 0.0

    def stop(self) -> None:
        self._end = time.perf_counter()

    def seconds(self) -> float | None:
        return self._end - self._start


class _Events:
    """Of a call on a GPU: what its stream took for it, or the host, if that was longer. Known when the work is done."""

    def __init__(self, device: torch.device) -> None:
        self._start, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._stream = torch.cuda.current_stream(device)  # a graph may be of another device than the current one
        self._start.record(self._stream)

    def stop(self) -> None:
        self._end.record(self._stream)

    def seconds(self) -> float | None:
        return self._start.elapsed_time(self._end) * 1e-3 if self._end.query() else None


def _key_of(dims: list[tuple[int, int]]) -> Callable[[list[Any]], Any]:
    """Tells from arguments what their sizes depend on: whole shapes are read faster than sizes."""
    parts = dict.fromkeys(f"x[{at}]" if axis < 0 else f"x[{at}].shape" for at, axis in dims)
    return eval(f"lambda x: ({''.join(part + ', ' for part in parts)})")  # made of numbers only


class Faster:
    """A plan, called as one; `eager` computes the same in PyTorch. `dims` has the place of each size among the arguments:
    (argument, axis), with axis -1 where the argument is the size."""

    _boxed_call = True

    def __init__(self, plan: Any, eager: Callable[[list[Any]], Any], dims: list[tuple[int, int]],
                 device: torch.device = torch.device("cpu")) -> None:
        self.plan, self._eager, self._dims, self._device = plan, eager, dims, device
        self._is_cuda = device.type == "cuda"
        self._key = _key_of(dims)
        self._ways: dict[Any, Callable[[list[Any]], Any]] = {}  # by key: what serves a call
        self._races: dict[Any, _Race] = {}  # by key, or what is alike
        self._built = threading.Event()
        self._waiter: threading.Thread | None = None
        self._lock = threading.Lock()
        self.n_eager = 0

    def __call__(self, given: list[Any]) -> Any:
        try:
            way = self._ways.get(self._key(given), self._begin)
        except (AttributeError, IndexError, TypeError):  # of md.capture: the plan says what is wrong
            return self.plan(given)
        return way(given)

    def _begin(self, given: list[Any]) -> Any:
        key = self._key(given)
        with self._lock:
            if key not in self._ways and len(self._ways) < _MOST_SIZES:
                self._ways[key] = self._way_of(key, given)
        return self._ways.get(key, self.plan)(given)

    def _way_of(self, key: Any, given: list[Any]) -> Callable[[list[Any]], Any]:
        sizes = [given[at] if axis < 0 else given[at].shape[axis] for at, axis in self._dims]
        alike = tuple(n.bit_length() for n in sizes) if self._is_cuda else key
        race = self._races.get(alike)
        if race is None:
            self._races[alike] = race = _Race(key, sizes)
            return functools.partial(self._timed, race)
        race.keys.append(key)
        return self._by_eager if race.winner else self.plan

    def _by_eager(self, given: list[Any]) -> Any:
        if self._is_captured():
            return self.plan(given)
        self.n_eager += 1
        try:
            return self._eager(given)
        except torch.OutOfMemoryError:  # the plan may need less
            return self.plan(given)

    def _is_captured(self) -> bool:
        return self._is_cuda and torch.cuda.is_current_stream_capturing()

    def _timed(self, race: _Race, given: list[Any]) -> Any:
        if self._is_captured():
            return self.plan(given)
        with self._lock:
            n = race.n_calls
            race.n_calls += 1
            if self._waiter is None:
                self._waiter = threading.Thread(target=self._wait_for_kernels, daemon=True)
                self._waiter.start()
        way = (n - _SKIPPED) % 2 if n >= _SKIPPED else 0
        clock = (_Events if self._is_cuda else _Clock)(self._device)
        out = self._by_eager(given) if way else self.plan(given)
        clock.stop()
        if n >= _SKIPPED:
            with self._lock:
                race.open.append((way, clock))
                self._read(race)
        return out

    def _read(self, race: _Race) -> None:
        """Takes the times that are known."""
        while race.open and (seconds := race.open[0][1].seconds()) is not None:
            way, _ = race.open.pop(0)
            race.best[way] = min(race.best[way], seconds)
            race.n_timed += 1
            if race.n_timed >= 2 * _TIMED and race.winner is None:
                self._decide(race)

    def _wait_for_kernels(self) -> None:
        self.plan.wait()
        self._built.set()

    def _decide(self, race: _Race) -> None:
        if not self._built.is_set() and race.n_anew < _GROWTH:
            race.n_anew, race.n_calls, race.n_timed, race.best = race.n_anew + 1, 0, 0, [float("inf"), float("inf")]
            race.open.clear()
            return
        race.winner = int(race.best[1] < _GAIN * race.best[0])
        self._ways |= dict.fromkeys(race.keys, self._by_eager if race.winner else self.plan)

    def served(self) -> list[dict[str, Any]]:
        """Sizes that eager serves, with the times that decided, in microseconds."""
        return [{"sizes": r.sizes, "plan_us": round(r.best[0] * 1e6, 1), "eager_us": round(r.best[1] * 1e6, 1)}
                for r in self._races.values() if r.winner]

    # ---- What reports ask of a plan

    def count(self) -> dict[str, int]:
        counted = self.plan.count()
        return counted | {"calls": counted["calls"] + self.n_eager, "eager_calls": self.n_eager}

    def explain(self) -> str:
        return self.plan.explain()

    def wait(self) -> None:
        self.plan.wait()


def is_wanted(options: Options) -> bool:
    """Unless told otherwise. The bits of two ways differ."""
    return options.eager_where_faster is not False and not options.is_deterministic()
