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

    def test_gradient(self):
        """Of the matrices: each group's rows alone are multiplied."""
        if not hasattr(torch, "_grouped_mm"):
            self.skipTest("SKIPPED: this PyTorch has no _grouped_mm")

        def data(*counts):
            rows = sum(counts)
            ends = torch.cumsum(torch.tensor(counts), 0).to(torch.int32)
            return torch.randn(rows, 64).bfloat16(), torch.randn(rows, 32).bfloat16(), ends
        inputs = [data(7, 0, 16, 1, 9), data(0, 40, 0), data(1, 1, 1, 1, 1, 1, 1)]
        kernels = self.compare(lambda x, g, ends: torch._grouped_mm(x.t(), g, offs=ends), *inputs, tolerance=0.02)
        self.assertRegex(kernels[-1], r"sum\[x3\]\(where\(.* <= \(x3\) and \(x3\) < ")

    def test_training(self):
        if not hasattr(torch, "_grouped_mm"):
            self.skipTest("SKIPPED: this PyTorch has no _grouped_mm")
        x, w, ends = self.data(24, 5, 64, 32, torch.bfloat16)
        grads = []
        for f in (lambda *a: torch._grouped_mm(*a), torch.compile(lambda *a: torch._grouped_mm(*a), backend="multidispatch")):
            leaves = [v.detach().clone().requires_grad_() for v in (x, w)]
            f(leaves[0], leaves[1], ends).float().square().sum().backward()
            grads.append([v.grad for v in leaves])
        for want, got in zip(*grads):
            torch.testing.assert_close(got, want, rtol=0.02, atol=0.5)

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


def mixture(hidden, logits, up, down, by=torch.sort, masks=True, back=None):
    """Experts as transformers writes them (integrations/moe.py)."""
    n_experts = up.shape[0]
    weights, chosen = torch.topk(torch.softmax(logits.float(), -1), 2)
    ids = chosen.reshape(-1)
    sorted_ids, order = by(ids)
    counts = torch.histc(sorted_ids.float(), bins=n_experts, min=0, max=n_experts - 1)
    ends = torch.cumsum(counts, 0, dtype=torch.int32)
    x = hidden[order // 2]
    mask = (sorted_ids >= n_experts).unsqueeze(-1)
    x = x.masked_fill(mask, 0.0) if masks else x
    gate, y = torch._grouped_mm(x, up, ends).chunk(2, -1)
    y = torch._grouped_mm(torch.nn.functional.silu(gate) * y, down, ends)
    y = y * weights.reshape(-1)[order].to(y.dtype).unsqueeze(-1)
    inverse = torch.empty_like(order)
    inverse[order] = torch.arange(order.shape[0])
    y = y[inverse] if back is None else back(y, inverse, order)
    return y.view(hidden.shape[0], 2, -1).sum(1)


class Experts(Case):
    """Rows that are sorted for grouped_mm and put back stay where they are."""

    E, D, H = 5, 16, 24

    def inputs(self, *tokens):
        up, down = torch.randn(self.E, self.D, 2 * self.H) / 4, torch.randn(self.E, self.H, self.D) / 4
        up, down = up.bfloat16(), down.bfloat16()
        for x in (up, down):
            torch._dynamo.mark_static(x)
        calls = [(torch.randn(n, self.D).bfloat16(), torch.randn(n, self.E).bfloat16(), up, down) for n in tokens]
        for call in calls:
            torch._dynamo.mark_static(call[1], 1)
        return calls

    def test_rows_stay(self):
        for f in (mixture, lambda *a: mixture(*a, by=lambda ids: torch.sort(ids, stable=True, descending=False), masks=False)):
            self.setUp()
            kernels = self.compare(f, *self.inputs(7, 33, 2), tolerance=0.02)
            self.assertFalse([k for k in kernels if "cumsum" in k or "Y:i64[A" in k], kernels)
            self.assertEqual(sum("A2:bf16[A1:i64[x0], x" in k for k in kernels), 2, kernels)

    def test_rows_that_do_not(self):
        """Results in the sorted order, also by mistake; and tokens that meet others."""
        wrong = {"order": lambda y, inverse, order: y[order], "none": lambda y, inverse, order: y,
                 "sum": lambda y, inverse, order: y[inverse] + y.sum(0), "flip": lambda y, inverse, order: y[inverse] * y.flip(0),
                 "rows": lambda y, inverse, order: y[inverse] + torch.arange(y.shape[0])[:, None] * y,
                 "running": lambda y, inverse, order: y.float().cumsum(0).to(y.dtype)[inverse]}
        for name, back in wrong.items():
            with self.subTest(name):
                self.setUp()
                compiled = torch.compile(lambda *a, back=back: mixture(*a, back=back), backend=backend, dynamic=True,
                                         options={"eager_while_building": False, "eager_where_faster": False})
                for arguments in self.inputs(9, 4):
                    wanted = mixture(*arguments, back=back)
                    torch.testing.assert_close(compiled(*arguments), wanted, rtol=0.05, atol=0.05 * wanted.abs().max().item())
                self.assertFalse([x for x in md.explain_graph()[self.before:] if any("sorted by expert" in r for r in x.get("rewrites", ()))])

    def test_alone(self):
        """The operation, where PyTorch computes it: also of no rows and of groups without rows."""
        x, w = torch.randn(6, 4), torch.randn(3, 4, 2)
        groups = torch.tensor([2, 0, 0, 2, 0, 2])
        got = torch.ops.multidispatch.grouped_rows(x, w, groups)
        torch.testing.assert_close(got, torch.stack([a @ w[g] for a, g in zip(x, groups)]))
        self.assertEqual(torch.ops.multidispatch.grouped_rows(x[:0], w, groups[:0]).shape, (0, 2))


class Orders(unittest.TestCase):
    """The greatest of few elements, and few elements in order."""

    def check(self, f, *calls, is_ours=True, ties=True):
        torch._dynamo.reset()
        compiled = torch.compile(f, backend=backend, dynamic=True,
                                 options={"eager_while_building": False, "eager_where_faster": False})
        for x in calls:
            torch._dynamo.mark_static(x, 1)
            got, wanted = compiled(x), f(x)
            torch.testing.assert_close(got[0], wanted[0], rtol=0, atol=0, equal_nan=True)
            if ties:
                torch.testing.assert_close(got[1], wanted[1], rtol=0, atol=0)
            else:  # of equal elements PyTorch promises no order
                torch.testing.assert_close(x.gather(1, got[1]), got[0], rtol=0, atol=0, equal_nan=True)
            self.assertEqual(got[1].dtype, torch.int64)
        self.assertEqual(not md.explain_graph()[-1]["eager"], is_ours)

    def data(self, rows, n, dtype):
        x = torch.randint(-4, 5, (rows, n)).to(dtype)
        if dtype.is_floating_point:
            x.view(-1)[::5], x.view(-1)[1], x.view(-1)[-1], x.view(-1)[2] = torch.nan, torch.inf, -torch.inf, -0.0
        return x

    def test_orders(self):
        for dtype in (torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.int8):
            for descending in (False, True):
                with self.subTest(dtype, descending=descending):
                    calls = [self.data(rows, 9, dtype) for rows in (4, 1, 0, 37) if rows or not dtype.is_floating_point]
                    self.check(lambda x, d=descending: torch.sort(x, dim=1, descending=d, stable=True), *calls)
        self.check(lambda x: torch.sort(x, dim=1, stable=True), torch.rand(5, 7) > 0.5, torch.rand(3, 7) > 0.5)
        self.check(lambda x: torch.sort(x.t(), dim=0, stable=True), self.data(4, 6, torch.float32))

    def test_greatest(self):
        for dtype in (torch.float32, torch.bfloat16, torch.int64):
            for i, f in enumerate((lambda x: torch.topk(x, 1), lambda x: torch.topk(x, 3, 1, False), lambda x: torch.topk(x, 9, 1))):
                with self.subTest(dtype, f=i):
                    self.check(f, *(self.data(rows, 9, dtype) for rows in (4, 1, 37)), ties=False)
        self.check(lambda x: torch.kthvalue(x, 2, 1, True), torch.rand(5, 7), torch.rand(2, 7))
        self.check(lambda x: [y[:, None] for y in torch.kthvalue(x, 7, 1)], torch.rand(5, 7), torch.rand(2, 7))

    def test_many(self):
        """Of many elements, and of as many as a size says, the order is PyTorch's."""
        self.check(lambda x: torch.sort(x, 1), torch.rand(3, 100), is_ours=False)
        self.check(lambda x: torch.topk(x, x.shape[0], 1), torch.rand(3, 9), torch.rand(4, 9), is_ours=False)


if __name__ == "__main__":
    unittest.main()
