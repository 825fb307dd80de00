"""Serves a graph from eager PyTorch while its kernels are built, in a thread of its own. All calls are real ones."""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401 (its end of the process is then after ours)
import os
import threading
from typing import Any, Callable

import torch

from ..options import Options

_AT_EXIT_S = 60.0  # how long the end of the process waits for the kernels that are being compiled

_unfinished: "set[Building]" = set()


class Stopped(Exception):
    """The process ends."""


class Building:
    """Called as a plan. `make(check)` makes that, and calls `check` now and then, which raises Stopped. A forked child, where
    no thread goes on, makes it by `again`, once a graph is called there: the workers of a DataLoader call none. `failed` is
    told why there is no plan: PyTorch then goes on serving. A call that a stream captures waits for the plan, since the
    CUDA graph keeps what it was captured with."""

    _boxed_call = True

    def __init__(self, make: Callable[..., Any], again: Callable[..., Any], eager: Callable[[list[Any]], Any],
                 failed: Callable[[Exception], None], device: torch.device) -> None:
        self._make, self._again, self._eager, self._failed = make, again, eager, failed
        self._is_cuda = device.type == "cuda"
        self._plan: Any = None
        self._serve: Callable[[list[Any]], Any] = self._by_eager
        self._is_stopped = False
        self.n_eager = 0
        _unfinished.add(self)
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        """Starts the thread, once in a process."""
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._run, daemon=True, name="multidispatch builds a plan")
                thread.start()
                self._thread = thread

    def _check(self) -> None:
        if self._is_stopped:
            raise Stopped

    def _run(self) -> None:
        try:
            self._plan = self._make(self._check)
            self._serve = self._plan
        except Stopped:
            return
        except Exception as error:
            self._failed(error)
        _unfinished.discard(self)
        self._make = self._again = lambda check: None  # they hold the graph

    def _by_eager(self, given: list[Any]) -> Any:
        self._begin()
        if self._is_cuda and torch.cuda.is_current_stream_capturing():
            self.join()
            if self._plan is not None:
                return self._plan(given)
        self.n_eager += 1
        try:
            return self._eager(given)
        except torch.OutOfMemoryError:  # a plan may need less
            self.join()
            if self._plan is None:
                raise
        return self._plan(given)

    def __call__(self, given: list[Any]) -> Any:
        return self._serve(given)

    # ---- The process

    def stop(self) -> None:
        self._is_stopped = True

    def join(self, seconds: float | None = None) -> None:
        if self._thread is not None:
            self._thread.join(seconds)

    def forget_thread(self) -> None:
        self._make, self._thread, self._lock = self._again, None, threading.Lock()

    # ---- What reports ask of a plan

    def count(self) -> dict[str, int]:
        if self._plan is None:
            return {"calls": self.n_eager, "eager_calls": self.n_eager, "fallbacks": 0, "sizes": 0}
        counted = self._plan.count()
        return counted | {"calls": counted["calls"] + self.n_eager,
                          "eager_calls": counted.get("eager_calls", 0) + self.n_eager}

    def explain(self) -> str:
        return self._plan.explain()

    def wait(self) -> None:
        self._begin()
        self.join()
        if self._plan is not None:
            self._plan.wait()


def _at_exit() -> None:
    """A thread in the library must not outlive what it uses."""
    left = list(_unfinished)
    for b in left:
        b.stop()
    for b in left:
        b.join(_AT_EXIT_S)


def _after_fork() -> None:
    for b in _unfinished:
        b.forget_thread()


threading._register_atexit(_at_exit)  # type: ignore[attr-defined] (atexit comes when executors have done all their work)
os.register_at_fork(after_in_child=_after_fork)


def is_wanted(options: Options) -> bool:
    """The bits of two ways differ. Who wants no eager PyTorch where it is faster wants none here, unless told."""
    if options.is_deterministic():
        return False
    return options.eager_where_faster is not False if options.eager_while_building is None else options.eager_while_building
