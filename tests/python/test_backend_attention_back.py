#!/usr/bin/env python3
"""Gradients of attention in the backend of torch.compile. Errors are as in test_backend_attention.py."""

import re
import sys
import unittest
import unittest.mock

from test_backend_attention import DEVICE, DTYPES, OURS, SEED, Case, attend, backend, md, torch
from multidispatch.compile.running import plan



class Backward(Case):
    def gradients(self, f, given, weights, wide=False):
        given = [(x.double() if wide else x).detach().clone().requires_grad_() if x.is_floating_point() else x
                 for x in given]
        y = f(*given)
        (y * weights.to(y.dtype)).sum().backward()
        return [y.detach(), *(x.grad for x in given if x.is_floating_point() and x.grad is not None)]

    def train(self, f, *more, dtypes=DTYPES, sizes=((2, 5, 9), (1, 12, 7), (3, 33, 20))):
        for dtype in dtypes:
            with self.subTest(dtype):
                self.setUp()
                g = self.layer(f)
                compiled = torch.compile(g, backend=backend, dynamic=True, options=OURS)
                for b, n, m in sizes:
                    given = [*self.parts(b, n, m, dtype), *(x(b, n, m) for x in more)]
                    weights = torch.randn(b, n, self.H * self.E).to(DEVICE)
                    self.all_near(compiled, g, given, weights)
                self.assertEqual(len(self.reports()), 2)
                for r in self.reports():
                    self.assertNotIn("reason", r)
                    self.assertEqual((r["eager"], r["fallbacks"]), ([], 0))
                self.assertEqual(self.results_of_pairs(), [3])

    def results_of_pairs(self):
        """The numbers of results of the kernels of the backward that have several products, as pairs do."""
        texts = [k["formula"] for r in self.reports() if "backward" in r["graph"] for k in r["kernels"]]
        return [len(re.findall(r"(?:^|; )Y", t)) for t in texts if len(re.findall(r"Y\d*:\w+\[[^=]*= sum", t)) > 1]

    def all_near(self, compiled, f, given, weights):
        results = (self.gradients(h, given, weights, wide) for h, wide in ((compiled, False), (f, False), (f, True)))
        for got, eager, exact in zip(*results):
            self.near(got, eager, exact, given[0].dtype)

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

    def test_bias(self):
        """Added to the scores, of all heads and batches or of some."""
        for bias in (lambda b, n, m: torch.randn(n, m), lambda b, n, m: torch.randn(b, 1, 1, m)):
            self.train(lambda q, k, v, mask: attend(q, k, v, mask.detach().to(q.dtype)),
                       lambda *sizes, bias=bias: bias(*sizes).bfloat16().float().to(DEVICE))

    def test_other_sizes_of_values(self):
        self.E = 8
        self.train(lambda q, k, v: attend(q, k, v, is_causal=True, scale=1.5))

    def test_gradients_of_some(self):
        """Of two of the three tensors it is one kernel, too; of one it is no pair."""
        for wanted, n in (((0, 1), [2]), ((1, 2), [2]), ((0, 2), [2]), ((2,), [])):
            with self.subTest(wanted):
                self.setUp()
                compiled = torch.compile(lambda q, k, v: attend(q, k, v, is_causal=True), backend=backend, dynamic=True,
                                         options=OURS)
                given = [torch.randn(2, 3, 11, 8, device=DEVICE, dtype=DTYPES[-1], requires_grad=i in wanted) for i in range(3)]
                wide = [x.detach().double().requires_grad_(x.requires_grad) for x in given]
                weights = torch.randn(2, 3, 11, 8, device=DEVICE)
                for f, parts in ((compiled, given), (lambda *x: attend(*x, is_causal=True), wide)):
                    (f(*parts) * weights).sum().backward()
                for i in wanted:
                    torch.testing.assert_close(given[i].grad.double(), wide[i].grad, rtol=0.03, atol=0.03)
                self.assertEqual(self.results_of_pairs(), n)

    def test_stacked_projections(self):
        """Queries, keys and values of one product: the gradients are written into one tensor, between each other."""
        def layer(x, w):
            b, n, _ = x.shape
            q, k, v = (x @ w).view(b, n, 3, 2, 16).permute(2, 0, 3, 1, 4).unbind(0)
            return attend(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, 32)

        compiled = torch.compile(layer, backend=backend, dynamic=True, options=OURS)
        for b, n in ((2, 9), (3, 40), (2, 65)):
            given = [torch.randn(*s).to(DTYPES[0]).to(DEVICE) for s in ((b, n, 32), (32, 96))]
            self.all_near(compiled, layer, given, torch.randn(b, n, 32).to(DEVICE))
        self.assertEqual(self.results_of_pairs(), [3])

    def test_library_serves_pairs(self):
        """The formula that is written is a stage of the library, not a stage for each product."""
        compiled = torch.compile(lambda q, k, v: attend(q, k, v, is_causal=True), backend=backend, dynamic=True, options=OURS)
        for dtype in DTYPES:
            self.setUp()
            given = [torch.randn(2, 3, 11, 32).to(dtype).to(DEVICE) for _ in range(3)]
            self.gradients(compiled, given, torch.ones(2, 3, 11, 32, device=DEVICE))
            text = next(k for r in self.reports() for k in r["kernels"] if "Y2:" in k["formula"])
            op = md.op(text["formula"], static={k: int(v) for k, v in re.findall(r"(x\d+)=(\d+)", text["sizes"])})
            sizes = {name: 40 for name in set(re.findall(r"x\d+", text["formula"])) if f"{name}=" not in text["sizes"]}
            self.assertRegex(op.explain(sizes, device="host" if DEVICE == "cpu" else DEVICE, text=True), r"pairs(_\w+)?/")

    def test_types_of_operands(self):
        """What the device's kernels do not take is a kernel for each product."""
        taken = str(DTYPES[-1]).replace("torch.bfloat16", "bf16")
        for types, n in (((taken,), 1), (("f16",), 0)):
            with unittest.mock.patch.dict(plan._PAIRS, {DEVICE: types}):
                for dtype in DTYPES:
                    with self.subTest(types=types, dtype=dtype):
                        self.setUp()
                        compiled = torch.compile(lambda q, k, v: attend(q, k, v, is_causal=True), backend=backend,
                                                 dynamic=True, options=OURS)
                        given = [torch.randn(2, 3, 11, 8).to(dtype).to(DEVICE) for _ in range(3)]
                        self.gradients(compiled, given, torch.ones(2, 3, 11, 8, device=DEVICE))
                        self.assertEqual(self.results_of_pairs(), [3] * (n * (dtype == DTYPES[-1])))

    def test_two_layers(self):
        """Gradients that flow through two attentions, each a kernel."""
        def layer(q, k, v):
            y = attend(q, k, v, is_causal=True)
            return attend(y, y * 0.5, v)

        compiled = torch.compile(layer, backend=backend, dynamic=True, options=OURS)
        for n in (7, 33):
            given = [torch.randn(2, 2, n, 16).to(DTYPES[0]).to(DEVICE) for _ in range(3)]
            self.all_near(compiled, layer, given, torch.randn(2, 2, n, 16).to(DEVICE))
        self.assertEqual(self.results_of_pairs(), [3, 3])

    def test_projections_are_no_pairs(self):
        """Queries that two products read, as with relative positions, are memory."""
        def f(x, w, c, k, p):
            q = torch.nn.functional.linear(x, w, c) / 3
            return torch.softmax(q @ k.mT + q @ p.mT, -1) @ k

        compiled = torch.compile(f, backend=backend, dynamic=True, options=OURS)
        for n in (5, 40):
            given = [torch.randn(*s).to(DEVICE) for s in ((2, n, 16), (16, 16), (16,), (2, 9, 16), (2, 9, 16))]
            torch.testing.assert_close(compiled(*given), f(*given), rtol=1e-4, atol=1e-4)
        self.assertEqual([(r.get("reason"), r["eager"]) for r in self.reports()], [(None, [])])

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
