"""A line on a terminal that tells how many kernels of graphs are built, of those that calls wait for."""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import Callable, Iterator

_lock = threading.Lock()
_left = [0, 0]  # of all graphs that are being built: kernels that are built, and all


def _add(n_built: int, n_all: int) -> None:
    """The line goes when nothing is left."""
    with _lock:
        _left[:] = _left[0] + n_built, _left[1] + n_all
        built, every = _left
        if built == every:
            _left[:] = 0, 0
        if sys.stderr is not None and sys.stderr.isatty():
            text = f"multidispatch: {built} of {every} kernels are built" if built < every else ""
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()


@contextlib.contextmanager
def of(n: int) -> Iterator[Callable[[], None]]:
    """Announces n kernels. What it gives is to be called for each that is built; at the end the others count no more."""
    told: list[None] = []

    def built() -> None:
        told.append(None)
        _add(1, 0)

    _add(0, n)
    try:
        yield built
    finally:
        _add(n - len(told), 0)
