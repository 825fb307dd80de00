#!/usr/bin/env python3
"""Gradients of attention in the backend of torch.compile. Errors are as in test_backend_attention.py."""

import sys
import unittest

from test_backend_attention import DEVICE, DTYPES, OURS, SEED, Case, attend, backend, md, torch


class Backward(Case):
    def gradients(self, f, given, weights, wide=False):
        given = [(x.double() if wide else x).detach().clone().requires_grad_() if x.is_floating_point() else x
                 for x in given]
        y = f(*given)
        (y * weights.to(y.dtype)).sum().backward()
        return [y.detach(), *(x.grad for x in given if x.is_floating_point())]

    def train(self, f, *more, dtypes=DTYPES, sizes=((2, 5, 9), (1, 12, 7), (3, 33, 20))):
        for dtype in dtypes:
            with self.subTest(dtype):
                self.setUp()
                g = self.layer(f)
                compiled = torch.compile(g, backend=backend, dynamic=True, options=OURS)
                for b, n, m in sizes:
                    given = [*self.parts(b, n, m, dtype), *(x(b, n, m) for x in more)]
                    weights = torch.randn(b, n, self.H * self.E).to(DEVICE)
                    results = (self.gradients(h, given, weights, wide)
                               for h, wide in ((compiled, False), (g, False), (g, True)))
                    for got, eager, exact in zip(*results):
                        self.near(got, eager, exact, dtype)
                self.assertEqual(len(self.reports()), 2)
                for r in self.reports():
                    self.assertNotIn("reason", r)
                    self.assertEqual((r["eager"], r["fallbacks"]), ([], 0))

    def test_causal(self):
        self.train(lambda q, k, v: attend(q, k, v, is_causal=True))

    def test_masked(self):
        """Rows that are masked as a whole have no gradient."""
        def mask(b, n, m):
            out = torch.rand(b, 1, n, m) > 0.3
            out[:, :, 0] = False
            return out.to(DEVICE)

        self.train(attend, mask)

    def test_grouped_heads(self):
        self.K = 2
        self.train(lambda q, k, v: attend(q, k, v, is_causal=True, enable_gqa=True, scale=0.4))

    def test_finite_differences(self):
        if DEVICE != "cpu":
            self.skipTest("f64 is PyTorch's on a GPU")
        compiled = torch.compile(lambda q, k, v: attend(q, k, v, is_causal=True, scale=0.7), backend=backend,
                                 dynamic=True, options=OURS)
        given = [torch.randn(2, 2, n, 4, dtype=torch.float64, requires_grad=True) for n in (3, 5, 5)]
        self.assertTrue(torch.autograd.gradcheck(compiled, given, fast_mode=True))

    def test_deterministic(self):
        q, k, v = (x.to(DTYPES[-1]).to(DEVICE) for x in (torch.randn(2, 4, 40, 16) for _ in range(3)))
        # Of fixed sizes: few kernels, which the test waits for.
        compiled = torch.compile(lambda q, k, v: attend(q, k, v, is_causal=True), backend=backend, dynamic=False,
                                 options={"numeric": "deterministic"})
        runs = [self.gradients(compiled, (q, k, v), torch.ones(2, 4, 40, 16, device=DEVICE)) for _ in range(3)]
        md.wait_graphs()
        runs = [self.gradients(compiled, (q, k, v), torch.ones(2, 4, 40, 16, device=DEVICE)) for _ in range(3)]
        for other in runs[1:]:
            for a, b in zip(runs[0], other):
                self.assertTrue(torch.equal(a, b))

    def test_gradient_of_a_mask(self):
        """PyTorch's."""
        def f(q, mask):
            return attend(q, q, q, mask)

        q, mask = torch.randn(2, 2, 5, 8, device=DEVICE), torch.randn(5, 5, device=DEVICE)
        weights = torch.randn(2, 2, 5, 8, device=DEVICE)
        compiled = torch.compile(f, backend=backend, dynamic=True, options=OURS)
        for a, b in zip(self.gradients(compiled, (q, mask), weights), self.gradients(f, (q, mask), weights)):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


if __name__ == "__main__":
    print("seed", SEED, file=sys.stderr)
    unittest.main()
