#!/usr/bin/env python3
"""Every allocation of Python fails in turn while the extension is called: a MemoryError or the right result, and what comes
after is right again. CPython's own tests have the allocator that fails. Only C is called: Python 3.12 itself ends by a
signal where some allocations of its evaluator fail."""

import os
import tempfile
import unittest

import numpy as np

import multidispatch as md
from multidispatch import _core

try:
    import _testcapi
except ImportError:
    _testcapi = None

CALLS = 2000  # allocations, at most, of what is tried
F32 = np.float32


class Exporter:
    """An array that has only __dlpack__."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def equal(a, b):
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(equal, a, b))
    return np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b


@unittest.skipUnless(_testcapi, "CPython's _testcapi is not installed")
class Memory(unittest.TestCase):
    def try_all(self, call, least=1):
        """Calls it with the n-th allocation failing, for each n until none fails; at least `least` calls must fail."""
        want, n_failed, n_good = call(), 0, 0
        for n in range(1, CALLS):
            got = error = None
            _testcapi.set_nomemory(n, n + 1)
            try:
                got = call()
            except BaseException as e:  # noqa: B036: whatever comes is looked at
                error = e
            finally:
                _testcapi.remove_mem_hooks()
            if error is not None:
                is_so = isinstance(error, MemoryError) or "_ArrayMemoryError" in str(error)  # of NumPy, without memory for itself
                self.assertTrue(is_so, f"allocation {n}: {error!r}")
                n_failed += 1
            else:
                self.assertTrue(equal(got, want), f"allocation {n}: {got!r}")
            n_good = n_good + 1 if error is None else 0
            if n_good == 40:  # so many follow only where all of them are behind the call's last one
                break
        self.assertTrue(equal(call(), want))
        self.assertGreaterEqual(n_failed, least)

    def setUp(self):
        self.op = md.op("Y[b,n] = sum[k](X[b,k]*W[n,k]) + c[n]")
        self.x, self.w, self.c = np.ones((3, 4), F32), np.ones((5, 4), F32), np.arange(5, dtype=F32)

    def test_calls(self):
        out = np.zeros((3, 5), F32)
        self.try_all(lambda: self.op(self.x, self.w, self.c))
        self.try_all(lambda: self.op(self.x, self.w, c=self.c, sizes={"b": 9}))
        self.try_all(lambda: self.op(np.ones((3, 8), F32)[:, ::2], self.w, self.c, out=out).copy())
        self.try_all(lambda: self.op(Exporter(self.x), self.w, self.c))

    def test_several_outputs(self):
        op = md.op("scalar s; Y[i] = A[i] * s; N[] = sum[i](A[i]); M[] = max[i](A[i])")
        self.try_all(lambda: op(2.5, self.c))
        self.try_all(lambda: op(np.float32(2.5), self.c, out=(None, None, np.zeros((), F32))))

    def test_making(self):
        self.try_all(lambda: _core.list_read("N = sqrt(sum[t,i](G@t[i] * G@t[i]))")[1])
        self.try_all(_core.lists, least=5)
        self.try_all(_core.catalogue, least=5)

    def test_reports(self):
        self.op(self.x, self.w, self.c)
        self.try_all(lambda: len(_core.stats("host")) > 0)
        self.try_all(lambda: len(_core.info("host")) > 0)
        # a busy machine has no choice yet, and makes nothing of it
        self.try_all(lambda: len(_core.choices_export("host")) > 0, least=int(len(_core.choices_export("host")) > 0))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("MD_CACHE_DIR", folder)
        unittest.main()
