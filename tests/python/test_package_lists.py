#!/usr/bin/env python3
"""md.foreach with NumPy: one op over lists of arrays."""

import os
import unittest

import numpy as np

import multidispatch as md

SEED = int(os.environ.get("MD_TEST_SEED", "19"))


class Lists(unittest.TestCase):
    def setUp(self):
        self.random = np.random.default_rng(SEED)

    def arrays(self, *lengths):
        return [self.random.random(n, dtype=np.float32) for n in lengths]

    def test_results_are_those_of_single_calls(self):
        op = md.op("scalar s; Y[i] = exp(A[i]) * s; N[] = sum[i](A[i])")
        a, s = self.arrays(3, 0, 1000, 1, 77), [1.0, 2.0, 3.0, 4.0, 5.0]
        ys, ns = md.foreach(op, a, s=s)
        for i, x in enumerate(a):
            y, n = op(s[i], x)
            self.assertTrue(np.array_equal(y, ys[i]) and np.array_equal(n, ns[i]))

    def test_many_small_ones_in_place(self):
        a = self.arrays(*self.random.integers(1, 65, 3000))
        want = [x + x for x in a]
        self.assertIsNone(md.foreach("Y[i] = A[i] + A[i]", a, out=a))
        self.assertTrue(all(np.array_equal(x, y) for x, y in zip(a, want)))

    def test_refusals(self):
        a = self.arrays(4, 5)
        for wrong, said in ((lambda: md.foreach("Y[i] = A[i]", a, out=a[:1]), "is a list of"),
                            (lambda: md.foreach("Y[i] = A[i]", [a[0], a[1].astype(np.float64)]), "item 1: other dtypes"),
                            (lambda: md.foreach("Y[i] = A[i]", [a[0]] * 2, out=[a[1][:4]] * 2), "item 1.*overlaps.*item 0"),
                            (lambda: md.foreach("Y[i] = A[i]", [a[0], None]), "argument 'A'"),
                            (lambda: md.foreach("Y[i] = A[i] + B[i]", a, [a[1], a[0]]), "item 0")):
            with self.assertRaisesRegex(md.ArgumentError, said):
                wrong()
        self.assertEqual(md.foreach("Y[i] = A[i]", []), [])


if __name__ == "__main__":
    unittest.main()
