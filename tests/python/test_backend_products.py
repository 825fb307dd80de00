#!/usr/bin/env python3
"""Graphs with products of integers and of rows by groups, as of experts. Skipped, loudly, where PyTorch is missing."""

import os
import unittest

import needs_torch  # noqa: F401
import torch

import multidispatch as md
from multidispatch.compile import backend
import strict  # noqa: F401 (faults are errors)

SEED = int(os.environ.get("MD_TEST_SEED", "35"))


class Case(unittest.TestCase):
    def setUp(self):
        print(f"MD_TEST_SEED={SEED}")
        torch._dynamo.reset()
        torch.manual_seed(SEED)
        self.before = len(md.explain_graph())

    def compare(self, f, *inputs, tolerance=0.0):
        """All calls by kernels, whose number in the graph is the result."""
        compiled = torch.compile(f, backend=backend, dynamic=True,
                                 options={"eager_while_building": False, "eager_where_faster": False})
        for arguments in inputs:
            torch.testing.assert_close(compiled(*arguments), f(*arguments), rtol=tolerance, atol=tolerance)
        reports = md.explain_graph()[self.before:]
        self.assertEqual(len(reports), 1, "recompiled")
        self.assertEqual((reports[0]["eager"], reports[0]["fallbacks"], reports[0].get("eager_calls", 0)), ([], 0, 0))
        return [k["formula"] for k in reports[0]["kernels"]]


class Integers(Case):
    def test_int_mm(self):
        """Sums are exact, and what follows is in the product's kernel."""
        def f(a, b, s):
            return torch._int_mm(a, b).to(torch.float32) * s

        sizes = ((24, 40, 32), (17, 8, 16), (33, 264, 8))
        inputs = [(torch.randint(-128, 128, (m, k), dtype=torch.int8), torch.randint(-128, 128, (k, n), dtype=torch.int8),
                   torch.rand(n)) for m, k, n in sizes]
        kernels = self.compare(f, *inputs, tolerance=1e-7)
        self.assertEqual(len(kernels), 1, kernels)


class EightBitReals(Case):
    def test_scaled_mm(self):
        """A scale for each operand, or for each row; a bias."""
        def f(a, b, sa, sb, bias):
            return torch._scaled_mm(a, b, sa, sb, bias=bias, out_dtype=torch.bfloat16)

        def data(m, k, n, by_row):
            a, b = (torch.randn(*size).to(torch.float8_e4m3fn) for size in ((m, k), (n, k)))
            sizes = ((m, 1), (1, n)) if by_row else ((1,), (1,))
            return a, b.t(), torch.rand(sizes[0]), torch.rand(sizes[1]), torch.randn(n).to(torch.bfloat16)

        for by_row in (False, True):
            torch._dynamo.reset()
            self.before = len(md.explain_graph())
            kernels = self.compare(f, data(32, 64, 16, by_row), data(48, 128, 32, by_row), tolerance=0.02)
            self.assertEqual(len(kernels), 1, kernels)


class Groups(Case):
    def data(self, rows, groups, k, n, dtype, counts=None):
        counts = torch.bincount(torch.randint(0, groups, (rows,)), minlength=groups) if counts is None else counts
        weights = torch.randn(groups, n, k).to(dtype).transpose(-1, -2)
        return torch.randn(rows, k).to(dtype), weights, torch.cumsum(counts, 0).to(torch.int32)

    def test_grouped_mm(self):
        """Rows by where their groups end: empty groups, one group for all, more groups than rows."""
        if not hasattr(torch, "_grouped_mm"):
            self.skipTest("SKIPPED: this PyTorch has no _grouped_mm")
        inputs = [self.data(24, 5, 64, 32, torch.bfloat16), self.data(7, 16, 32, 16, torch.bfloat16),
                  self.data(40, 3, 64, 32, torch.bfloat16, torch.tensor([0, 40, 0]))]
        kernels = self.compare(lambda x, w, offs: torch._grouped_mm(x, w, offs=offs), *inputs, tolerance=0.02)
        self.assertEqual(len(kernels), 2, kernels)
        self.assertRegex(kernels[1], r"sum\[x2\]\(A0:bf16\[x0, x2\] \* A2:bf16\[A1:i64\[x0\], x1, x2\]\)")

    def test_of_transformers(self):
        """The operation that transformers has for other types; rows behind the last group are zeros."""
        try:
            import transformers.integrations.moe  # noqa: F401
        except ImportError:
            self.skipTest("SKIPPED: no transformers with experts: tools/test --full installs it")
        x, w, offs = self.data(24, 5, 64, 32, torch.float32)
        short = offs.clamp(max=20)
        self.compare(lambda *a: torch.ops.transformers.grouped_mm_fallback(*a), (x, w, offs), (x, w, short),
                     tolerance=2e-5)


if __name__ == "__main__":
    unittest.main()
