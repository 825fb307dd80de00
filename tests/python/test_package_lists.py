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

    def test_strided_items(self):
        """Items that do not lie row by row: every other column, columns first, parts of rows, one row many times."""
        base = [self.random.random((n, 2 * n), dtype=np.float32) - 0.5 for n in (3, 1, 40)]
        for a in ([x[:, ::2] for x in base], [x.T for x in base], [x[:, 1:] for x in base],
                  [np.broadcast_to(x[:1], x.shape) for x in base], [base[0], base[1].T, base[2][:, 5:9]]):
            flat = np.concatenate([x.ravel() for x in a]).astype(np.float64)
            self.assertAlmostEqual(float(md.foreach("N = sum[t,i,j](A@t[i,j])", a)), flat.sum(), places=3)
            self.assertEqual(float(md.foreach("N = max[t,i,j](A@t[i,j])", a)), flat.max())
            each = [np.empty(x.shape, np.float32) for x in a]
            md.foreach("let n = min[t,i,j](A@t[i,j]); Y@t[i,j] = A@t[i,j] * 2 - n", a, out=each)
            self.assertTrue(all(np.allclose(y, x * 2 - flat.min(), atol=1e-6) for x, y in zip(a, each)))

    def test_many_small_ones_in_place(self):
        a = self.arrays(*self.random.integers(1, 65, 3000))
        want = [x + x for x in a]
        self.assertIsNone(md.foreach("Y[i] = A[i] + A[i]", a, out=a))
        self.assertTrue(all(np.array_equal(x, y) for x, y in zip(a, want)))

    def test_norm_of_all_and_update(self):
        p, g = self.arrays(3, 0, 5000, 1, 4096), self.arrays(3, 0, 5000, 1, 4096)
        want = np.sqrt(sum(np.sum(x.astype(np.float64)**2) for x in g))
        norm = md.foreach("N = sqrt(sum[t,i](G@t[i] * G@t[i]))", g)
        self.assertAlmostEqual(float(norm) / want, 1, places=6)
        new = [x - 0.5 * y / want for x, y in zip(p, g)]
        formula = """scalar lr; let n = sum[t,i](f32(G@t[i]) * f32(G@t[i]));
                     P@t[i] = P@t[i] - lr * G@t[i] / sqrt(n)"""
        self.assertIsNone(md.foreach(formula, P=p, G=g, lr=0.5))
        self.assertTrue(all(np.allclose(x, y, atol=1e-6) for x, y in zip(p, new)))

    def test_named_ones(self):
        g = self.arrays(3, 0, 5000, 1, 4096)
        want = [x.copy() for x in g]
        norm = md.foreach("clip_by_global_norm", g, max_norm=2.0)
        self.assertAlmostEqual(float(norm), float(np.sqrt(sum(np.sum(x * x) for x in want))), places=3)
        self.assertTrue(all(np.allclose(x, y * (2.0 / norm), atol=1e-6) for x, y in zip(g, want)))
        g[2][77] = np.inf
        self.assertEqual(md.foreach("unscale", g, scale=4.0), 1)
        self.assertEqual(md.foreach("unscale", g[3:], scale=4.0), 0)

    def test_dtypes_and_outputs_of_lists(self):
        a = [x.astype(np.float64) for x in self.arrays(4, 9000)]
        y, total = [np.empty_like(x) for x in a], np.zeros((), np.float64)
        md.foreach("scalar s:f64; Y@t[i] = A@t[i] * s; T = sum[t,i](Y@t[i])", 2.0, a, out=(y, None))
        self.assertTrue(all(np.array_equal(x * 2, z) for x, z in zip(a, y)))
        md.foreach("T[] = sum[t,i](A@t[i])", a, out=total)
        self.assertAlmostEqual(float(total), sum(x.sum() for x in a), places=9)

    def test_refusals_of_lists(self):
        a = self.arrays(4, 5)
        for wrong, said in ((lambda: md.foreach("Y@t[i] = A@s[i]", a), r"1:12: the list index"),
                            (lambda: md.foreach("Y@t[i] = A@t[i]", a), "argument 'Y' is missing"),
                            (lambda: md.foreach("Y@t[i] = A@t[i]", a, out=a[:1]), "has 2 items, but Y has 1"),
                            (lambda: md.foreach("Y@t[i] = A@t[i]", a, a, out=a), "too many"),
                            (lambda: md.foreach("Y@t[i] = A@t[i]", a, out=(a, None)), "has 1 outputs that are no inputs"),
                            (lambda: md.foreach("Y@t[i] = A@t[i]; Z@t[i] = 1", a, out=(a,)), "has 2 outputs that"),
                            (lambda: md.foreach("A@t[i] = 2 * A@t[i]", a, out=a), "has 0 outputs that are no inputs"),
                            (lambda: md.foreach("A@t[i] = 2 * A@t[i]", [a[0], a[0][:2]]), "overlaps"),
                            (lambda: md.foreach("A@t[i] = 2 * A@t[i]", B=a, A=a), "no argument 'B'")):
            with self.assertRaisesRegex(md.MdError, said):
                wrong()

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
