#!/usr/bin/env python3
"""Windows in graphs of PyTorch: pools, unfold, diagonals; running extremes; searches among sorted values."""

import importlib
import os
import sys
import unittest

import needs_torch  # noqa: F401
import torch
import torch.nn.functional as F

import multidispatch as md
import strict  # noqa: F401 (faults are errors)

scans = importlib.import_module("torch._higher_order_ops.associative_scan")
SEED = int(os.environ.get("MD_TEST_SEED", "18"))
OURS = {"eager_where_faster": False}


def images(b=2, h=8, w=11, dtype=torch.float32):
    """With ties, infinities and a NaN."""
    x = torch.randint(-9, 9, (b, 3, h, w)).to(dtype)
    x[0, 0, h // 2, w // 2], x[-1, 1, 0, 0], x[-1, 2, -1, -1] = torch.nan, torch.inf, -torch.inf
    return x


class Windows(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        torch.manual_seed(SEED)

    def check(self, f, *calls, is_ours=True, **near):
        compiled = torch.compile(f, backend="multidispatch", dynamic=True, options=OURS)
        for given in calls:
            torch.testing.assert_close(compiled(*given), f(*given), equal_nan=True, **near)
        report = md.explain_graph()[-1]
        self.assertNotIn("reason", report)
        self.assertEqual((report["eager"] == [], report["fallbacks"]), (is_ours, 0), report["eager"])

    def each(self, functions, *calls, **more):
        for i, f in enumerate(functions):
            with self.subTest(i):
                self.setUp()
                self.check(f, *calls, **more)

    def test_linear_scans(self):
        """PyTorch's associative_scan of pairs: one graph for all lengths, in any dtype, also backwards."""
        def combine(left, right):
            return right[0] * left[0], left[1] * right[0] + right[1]

        def loop(a, b, dim, reverse):
            out = []
            for x, y in zip(*((z.flip(dim) if reverse else z).double().unbind(dim) for z in (a, b))):
                out.append((x * out[-1][0], x * out[-1][1] + y) if out else (x, y))
            both = [torch.stack(z, dim) if out else torch.empty_like(a).double() for z in (zip(*out) if out else ((), ()))]
            return [z.flip(dim) if reverse else z for z in both]

        for dtype, dim, reverse in ((torch.float32, 0, False), (torch.float64, 1, True), (torch.bfloat16, -1, False)):
            self.setUp()
            before = len(md.explain_graph())
            f = torch.compile(lambda a, b: scans.associative_scan(combine, (torch.sin(a), b + 1), dim, reverse, "generic"),
                              backend="multidispatch", dynamic=True, options=OURS | {"eager_while_building": False})
            for size in ((3, 7, 5), (4, 33, 2), (2, 1, 9), (2, 64, 3)):
                a, b = torch.randn(size).to(dtype), torch.randn(size).to(dtype)
                a.view(-1)[3], b.view(-1)[7], b.view(-1)[-1] = torch.nan, torch.inf, torch.nan
                with torch.no_grad():
                    got = f(a, b)
                near = {"rtol": 0.03, "atol": 0.03} if dtype == torch.bfloat16 else {"rtol": 1e-5, "atol": 1e-5}
                for x, wanted in zip(got, loop(torch.sin(a), b + 1, dim, reverse), strict=True):
                    self.assertEqual(x.dtype, dtype)
                    # a NaN is any of those that infinities give
                    torch.testing.assert_close(x.double().nan_to_num(0, 0, 0), wanted.nan_to_num(0, 0, 0), **near)
            report = md.explain_graph()[before:]
            self.assertEqual(([len(r["eager"]) for r in report], [r["fallbacks"] for r in report]), ([0], [0]), report)
            self.assertEqual(f(torch.ones(2, 0, 3, dtype=dtype), torch.ones(2, 0, 3, dtype=dtype))[1].shape, (2, 0, 3))

    def test_scans_that_are_pytorchs(self):
        """Of other functions, for a backward, and of other backends."""
        a, b = torch.rand(6, 4), torch.rand(6, 4)
        functions = [lambda x, y: (x[0] + y[0], x[1] + y[1]), lambda x, y: (torch.maximum(x[0], y[0]), x[1] * y[1]),
                     lambda x, y: (x[0] * y[0], y[0] * x[1] + y[1])]
        for i, combine in enumerate(functions):
            for name in ("multidispatch", "aot_eager"):
                with self.subTest(i, backend=name):
                    self.setUp()
                    f = torch.compile(lambda a, b: scans.associative_scan(combine, (a, b), 0, combine_mode="generic"), backend=name)
                    out = [(a[0], b[0])]
                    for x, y in zip(a[1:], b[1:]):
                        out.append(combine(out[-1], (x, y)))
                    got = f(a.clone().requires_grad_(i == 2), b)
                    for x, wanted in zip(got, zip(*out), strict=True):
                        torch.testing.assert_close(x, torch.stack(wanted))
                    self.assertEqual(got[1].requires_grad, i == 2)

    def test_max_pools(self):
        """NaN hides the place: PyTorch's is that of the last one."""
        functions = [lambda x: F.max_pool2d(x, 2), lambda x: F.max_pool2d(x, (3, 2), (2, 1), 1), lambda x: F.max_pool2d(x, 3, 2, 1, 2),
                     lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True), lambda x: F.max_pool1d(x.flatten(2), 4, 3) * 2,
                     lambda x: F.max_pool2d(x.permute(0, 1, 3, 2), 2)]
        self.each(functions, (images(),), (images(3, 9, 12),), (images(1, 6, 8),))
        self.check(functions[1], (images(dtype=torch.bfloat16),))

    def test_places(self):
        def without_nan(*size):
            return images(*size).nan_to_num(3.0)

        functions = [lambda x: F.max_pool2d(x, 2, return_indices=True), lambda x: F.max_pool2d(x, (3, 2), (2, 1), 1, return_indices=True),
                     lambda x: F.max_pool2d(x, 3, 2, 1, 2, return_indices=True)]
        self.each(functions, (without_nan(),), (without_nan(3, 9, 12),), (without_nan(1, 6, 8),))

    def test_places_in_borders(self):
        """Where all of a window is -inf, the border is no place: PyTorch's gradient would write beyond the plane."""
        functions = [lambda x, a=a: F.max_pool2d(x, *a, return_indices=True)
                     for a in ((3, 1, 1), (3, 2, 1, 2), (2, 3, 1, 1, True))]
        some = torch.full((2, 2, 6, 8), -torch.inf)
        some[0, 1, 2, 3] = some[1, 0, 5, 7] = -1e30
        self.each(functions, (torch.full((1, 2, 5, 7), -torch.inf),), (some,))

    def test_mean_pools(self):
        functions = [lambda x: F.avg_pool2d(x, 2), lambda x: F.avg_pool2d(x, (3, 2), (2, 1), 1), lambda x: F.avg_pool2d(x, 3, 2, 1, False, False),
                     lambda x: F.avg_pool2d(x, 3, 1, 1, divisor_override=5), lambda x: F.avg_pool1d(x.flatten(2), 4, 3, 2, False, False)]
        self.each(functions, (images(),), (images(3, 9, 12),), (images(1, 6, 8),))
        self.check(functions[2], (images(dtype=torch.bfloat16),), rtol=1e-2, atol=1e-2)
        self.check(functions[2], (images(dtype=torch.float64),))
        self.setUp()
        self.check(lambda x: F.avg_pool2d(x, 3, 2, ceil_mode=True), (images(),))

    def test_adaptive_pools(self):
        compiled = torch.compile(lambda x: F.adaptive_avg_pool2d(x, (4, 3)) + 1, backend="multidispatch", dynamic=False, options=OURS)
        for h, w, is_ours in ((8, 9, True), (8, 11, False)):
            torch._dynamo.reset()
            x = images(2, h, w)
            torch.testing.assert_close(compiled(x), F.adaptive_avg_pool2d(x, (4, 3)) + 1, equal_nan=True)
            self.assertEqual(md.explain_graph()[-1]["eager"] == [], is_ours)

    def test_unfold(self):
        self.each([lambda x: x.unfold(3, 3, 2) * 2, lambda x: x.unfold(2, 2, 1).unfold(3, 4, 3).sum(-1), lambda x: (x + 1).unfold(1, 3, 1).amax(-1)],
                  (images(),), (images(3, 9, 12),))

    def test_diagonals(self):
        self.each([lambda x: torch.diagonal(x, 0, 2, 3) * 2, lambda x: torch.diagonal(x * 2, 2, 3, 2).sum(-1), lambda x: torch.diagonal(x, -1, 1, 3) + 1],
                  (images(),), (images(3, 9, 12),))

    def test_running_extremes(self):
        self.each([lambda x: torch.cummax(x, -1), lambda x: torch.cummin(x, 1), lambda x: torch.cummax(x.permute(0, 3, 2, 1), 2)[0] * 2,
                   lambda x: torch.cummin(x.nan_to_num(1.0, 2.0, 3.0).long(), -1)], (images(),), (images(3, 9, 12),), (images(1, 1, 1),))

    def test_running_sums_of_exp(self):
        """Of large numbers, after infinities, and nan from where one is."""
        self.each([lambda x: torch.logcumsumexp(x * 30, -1), lambda x: torch.logcumsumexp(x + 1, 1) * 2, lambda x: torch.logcumsumexp(x.double(), 2)],
                  (images(),), (images(3, 9, 12),), (images(1, 1, 1),))
        only = torch.full((2, 1, 3, 5), -torch.inf)
        only[1, 0, 1, 2:] = 1.0
        self.setUp()
        self.check(lambda x: torch.logcumsumexp(x, 3), (only,))

    def test_searches(self):
        class Search(torch.nn.Module):
            def __init__(self, f, bounds):
                super().__init__()
                self.f = f
                self.register_buffer("bounds", bounds)

            def forward(self, x):
                return self.f(x, self.bounds)

        bounds = torch.tensor([-4.0, -1.0, 0.0, 0.0, 3.0, torch.inf])
        functions = [torch.bucketize, lambda x, b: torch.bucketize(x, b, right=True, out_int32=True), lambda x, b: torch.searchsorted(b, x),
                     lambda x, b: torch.searchsorted(b, x, side="right"),
                     lambda x, b: torch.bucketize(x.nan_to_num(1.0, 2.0, 3.0).long(), b.clamp(max=5).long())]
        self.each([Search(f, bounds) for f in functions], (images(),), (images(3, 9, 12),))
        self.check(Search(torch.bucketize, torch.arange(600.0)), (images(),), is_ours=False)

    def test_searches_in_rows(self):
        """Each row among sorted values of its own, in another number of them."""
        def f(x, bounds):
            return torch.searchsorted(bounds, x), torch.searchsorted(bounds, x, right=True, out_int32=True)

        calls = []
        for rows, n in ((5, 7), (1, 3), (33, 1)):
            x, bounds = torch.randint(-3, 4, (rows, n)).float(), torch.randint(-3, 4, (rows, 6)).float().sort(-1)[0]
            x[0, 0], bounds[0, -1], bounds[-1, 0] = torch.nan, torch.inf, -torch.inf
            torch._dynamo.mark_static(bounds, 1)
            calls.append((x, bounds))
        self.check(f, *calls)

    def test_copysign(self):
        x = torch.tensor([1.0, -2.0, 0.0, -0.0, torch.inf, 3.0])
        f = torch.compile(torch.copysign, backend="multidispatch", dynamic=True, options=OURS)
        y = torch.tensor([-0.0, 0.0, -1.0, 1.0, -torch.inf, torch.inf])
        self.assertEqual(f(x, y).tolist(), torch.copysign(x, y).tolist())
        self.assertEqual((1 / f(x, y)).tolist(), (1 / torch.copysign(x, y)).tolist())


if __name__ == "__main__":
    print("seed", SEED, file=sys.stderr)
    unittest.main()
