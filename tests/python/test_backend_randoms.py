#!/usr/bin/env python3
"""Random numbers in graphs: dropout that is fused and that the backward draws again, and PyTorch's other draws."""

import os
import unittest

import needs_torch  # noqa: F401
import torch
import torch.nn.functional as F
import torch.utils.checkpoint

import multidispatch as md
from multidispatch.compile import backend, randoms
import strict  # noqa: F401 (faults are errors)

SEED = int(os.environ.get("MD_TEST_SEED", "18"))
DRAWS = ["multidispatch.seed.default", "multidispatch.seeds.default"]


class Randoms(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        torch.manual_seed(SEED)
        self.before = len(md.explain_graph())

    def reports(self):
        return md.explain_graph()[self.before:]

    def compiled(self, f, **options):
        return torch.compile(f, backend=backend, dynamic=True, options={"eager_where_faster": False} | options)

    def check_ours(self):
        """No operation but the draw of the seeds is PyTorch's."""
        for r in self.reports():
            self.assertEqual((r.get("reason"), r["fallbacks"]), (None, 0))
            self.assertLessEqual({e["op"] for e in r["eager"]}, set(DRAWS))
            self.assertLessEqual(len(r["eager"]), 1)

    def test_dropout_is_fused_and_drawn_again(self):
        def f(x, w):
            return F.dropout(torch.tanh(F.dropout(x, 0.25) * 2.0), 0.5) * w

        compiled = self.compiled(f)
        for batch in (64, 1, 333):
            x, w = torch.rand(batch, 40) + 1.0, torch.ones(40)
            given = x.clone().requires_grad_()
            y = compiled(given, w)
            y.sum().backward()
            kept = y != 0
            if batch > 1:
                self.assertAlmostEqual(kept.float().mean().item(), 0.375, delta=0.05)
            # of elements that are 0 the second mask is not known: their gradient is 0 or that of tanh(0), which is 2
            first = torch.where(kept, x / 0.75 * 2.0, 0.0)
            torch.testing.assert_close(y, torch.where(kept, torch.tanh(first) * 2.0, 0.0))
            exact = (1 - torch.tanh(first) ** 2) * 2.0 / 0.75 * 2.0
            torch.testing.assert_close(given.grad[kept], exact[kept], rtol=1e-4, atol=1e-4)
            self.assertTrue((given.grad[~kept] == 0).all())
        self.check_ours()
        forward, backward = self.reports()
        self.assertEqual((len(forward["kernels"]), len(backward["kernels"])), (1, 1))
        for r in (forward, backward):
            self.assertEqual(r["kernels"][0]["formula"].count("rand("), 2, "the masks are drawn, not stored")

    def test_checkpoints_draw_once(self):
        """What a backward computes again has the mask of the forward."""
        def f(x, w):
            return torch.utils.checkpoint.checkpoint(lambda x: F.dropout(torch.tanh(x @ w), 0.5) * 3, x, use_reentrant=False)

        compiled = self.compiled(f)
        for batch in (30, 4):
            x, w = torch.randn(batch, 8, requires_grad=True), torch.randn(8, 5)
            y = compiled(x, w)
            y.sum().backward()
            kept = (y != 0).double()
            exact = (6 * kept * (1 - torch.tanh(x.double() @ w.double()) ** 2)) @ w.double().t()
            torch.testing.assert_close(x.grad.double(), exact.detach(), rtol=1e-5, atol=1e-5)
        self.check_ours()

    def test_generator(self):
        compiled = self.compiled(lambda x: F.dropout(x, 0.5))
        x = torch.ones(1000)
        torch.manual_seed(5)
        first, second = compiled(x), compiled(x)
        self.assertFalse(torch.equal(first, second))
        torch.manual_seed(5)
        self.assertTrue(torch.equal(compiled(x), first))
        state = torch.get_rng_state()
        with torch.random.fork_rng():
            again = compiled(x)
        self.assertTrue(torch.equal(torch.get_rng_state(), state))
        self.assertTrue(torch.equal(compiled(x), again))

    def test_eager_draws_the_same(self):
        """A call that PyTorch serves gives the numbers that the plan gives: a forward by the one fits a backward by the other."""
        compiled = self.compiled(lambda x: (torch.rand_like(x) + x, torch.randn(3, 5, dtype=torch.float64)))
        x = torch.zeros(7, 9)
        torch.manual_seed(5)
        ours = compiled(x)
        torch.manual_seed(5)
        seed = torch.ops.multidispatch.seeds(2, x.device)
        self.assertTrue(torch.equal(ours[0], torch.ops.multidispatch.uniform(seed[0], x.shape, False, 0)))
        u, v = (torch.ops.multidispatch.uniform(seed[1], (3, 5), True, i) for i in range(2))
        normal = torch.sqrt(-2.0 * torch.log(1.0 - u)) * torch.cos(2.0 * torch.pi * v)
        torch.testing.assert_close(ours[1], normal, rtol=1e-12, atol=1e-12)

    def test_draws(self):
        """Moments and dtypes of what PyTorch draws."""
        x, n = torch.zeros(100, 300), 30000

        def near(a, mean, std, kurtosis):
            a = a.double()
            self.assertAlmostEqual(a.mean().item(), mean, delta=5 * std / n ** 0.5)
            self.assertAlmostEqual(a.var().item(), std ** 2, delta=5 * std ** 2 * ((kurtosis - 1) / n) ** 0.5)

        for f, *moments in ((torch.rand_like, 0.5, 12 ** -0.5, 1.8), (torch.randn_like, 0.0, 1.0, 3.0),
                            (lambda x: torch.rand(x.shape) * 2, 1.0, 3 ** -0.5, 1.8),
                            (lambda x: torch.randn(x.shape) + 1, 1.0, 1.0, 3.0),
                            (lambda x: torch.bernoulli(x + 0.25), 0.25, 0.1875 ** 0.5, 2.4),
                            (lambda x: x.clone().bernoulli_(0.25), 0.25, 0.1875 ** 0.5, 2.4),
                            (lambda x: x.clone().uniform_(-1, 3), 1.0, (16 / 12) ** 0.5, 1.8),
                            (lambda x: x.clone().normal_(3, 2), 3.0, 2.0, 3.0),
                            (lambda x: x.clone().exponential_(2), 0.5, 0.5, 9.0)):
            torch._dynamo.reset()
            near(self.compiled(f)(x), *moments)
        self.check_ours()

    def test_narrow_draws_are_below_1(self):
        for dtype in (torch.bfloat16, torch.float16, torch.float64):
            torch._dynamo.reset()
            u = self.compiled(torch.rand_like)(torch.zeros(100, 300, dtype=dtype))
            self.assertEqual(u.dtype, dtype)
            self.assertTrue(((u >= 0) & (u < 1)).all())
            self.assertAlmostEqual(u.double().mean().item(), 0.5, delta=0.01)

    def test_dropout_of_all_and_of_nothing(self):
        x = torch.ones(5, 3)
        for f, kept in ((lambda x: F.dropout(x, 1.0), 0), (lambda x: torch.ops.aten.native_dropout(x, 0.5, False)[0], 1)):
            torch._dynamo.reset()
            self.assertEqual(self.compiled(lambda x, f=f: f(x) * 2)(x).tolist(), (x * 2 * kept).tolist())
            self.assertEqual(md.explain_graph()[-1]["eager"], [])

    def test_what_is_no_number_is_seen(self):
        """As in eager PyTorch, dropped or not."""
        self.assertTrue(self.compiled(lambda x: F.dropout(x, 0.5))(torch.full((100,), torch.nan)).isnan().all())

    def test_other_devices_draw_by_themselves(self):
        draw = randoms.decompositions()[torch.ops.aten.rand.default]
        self.assertIs(draw((3,), device=torch.device("xpu")), NotImplemented)

    def test_what_is_left_to_pytorch(self):
        """A generator of the caller's, dtypes and devices that are not ours, pinned memory, other layouts."""
        x, other, g, aten = torch.zeros(3), torch.zeros(3, dtype=torch.int64), torch.Generator(), torch.ops.aten
        far, draws = torch.empty(3, device="meta"), randoms.decompositions()
        for op, *arguments in ((aten.bernoulli.default,), (aten.bernoulli.p, 0.5), (aten.uniform.default, 0.0, 1.0),
                               (aten.normal_functional.default, 0.0, 1.0), (aten.exponential.default, 1.0)):
            draw = draws[op]
            self.assertIs(draw(x, *arguments, generator=g), NotImplemented, op)
            self.assertIs(draw(far, *arguments), NotImplemented, op)
            self.assertIsInstance(draw(x, *arguments, generator=None), torch.Tensor, op)
            if "bernoulli" not in str(op):  # which compares f32 numbers for any dtype
                self.assertIs(draw(other, *arguments), NotImplemented, op)
        for op in (aten.rand_like.default, aten.randn_like.default):
            for options in ({"pin_memory": True}, {"memory_format": torch.contiguous_format}, {"dtype": torch.int64},
                            {"device": "meta"}):
                self.assertIs(draws[op](x, **options), NotImplemented, options)
            self.assertEqual(draws[op](x, dtype=torch.float64, memory_format=torch.preserve_format).dtype, torch.float64)
        for op in (aten.rand.default, aten.randn.default):
            self.assertIs(draws[op]((3,), pin_memory=True), NotImplemented)
            self.assertIs(draws[op]((3,), dtype=torch.int64), NotImplemented)
            self.assertEqual(draws[op]((3,), dtype=torch.float16).dtype, torch.float16)

    def test_layouts(self):
        """PyTorch says which views a result has before the backend sees the graph."""
        x = torch.rand(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
        for f in (torch.rand_like, torch.randn_like, lambda x: F.dropout(x, 0.5), lambda x: x.clone().uniform_(),
                  lambda x: x.clone().normal_(), lambda x: x.clone().exponential_()):
            torch._dynamo.reset()
            compiled = self.compiled(lambda x, f=f: (f(x), f(x).permute(0, 2, 3, 1).view(-1, 3)))
            y, rows = compiled(x)
            self.assertEqual((y.stride(), rows.stride()), (x.stride(), (3, 1)))
        torch._dynamo.reset()
        self.assertTrue(self.compiled(lambda x: torch.bernoulli(x, 0.5))(x).is_contiguous())
        self.check_ours()

    def test_attention_with_dropout(self):
        def f(q, k, v):
            return F.scaled_dot_product_attention(q, k, v, dropout_p=0.5)

        q, k = torch.randn(2, 3, 16, 8), torch.randn(2, 3, 16, 8)
        v = torch.eye(16).expand(2, 3, 16, 16).contiguous().requires_grad_()  # the result is the weights
        weights = torch.softmax(q @ k.transpose(-1, -2) / 8 ** 0.5, -1)
        y = self.compiled(f)(q, k, v)
        kept = y != 0
        self.assertAlmostEqual(kept.float().mean().item(), 0.5, delta=0.08)
        torch.testing.assert_close(y, torch.where(kept, 2 * weights, 0.0), rtol=1e-4, atol=1e-5)
        dy = torch.randn_like(y)
        y.backward(dy)
        torch.testing.assert_close(v.grad, y.detach().transpose(-1, -2) @ dy, rtol=1e-4, atol=1e-5)
        self.check_ours()

    def test_constants_of_f64(self):
        """A number beside f64 is f64, and no operation of PyTorch."""
        x = torch.rand(5, dtype=torch.float64)
        y = self.compiled(lambda x: 0.1 - x * 0.3 + torch.where(x > 0.5, x, 0.7))(x)
        torch.testing.assert_close(y, 0.1 - x * 0.3 + torch.where(x > 0.5, x, 0.7), rtol=1e-15, atol=1e-15)
        self.check_ours()


if __name__ == "__main__":
    unittest.main(verbosity=int(os.environ.get("TEST_VERBOSE", "0")))
