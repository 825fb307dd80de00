#!/usr/bin/env python3
"""Attention in the backend of torch.compile and in md.capture: scaled_dot_product_attention in all its forms, and attention
that is written out; its gradients: test_backend_attention_back.py. Errors are measured against PyTorch in f64, and may be
twice eager's own.
MD_TEST_TORCH_DEVICE names the device; on a GPU f32 stays PyTorch's."""

import os
import sys
import unittest

import needs_torch  # noqa: F401
import torch

import multidispatch as md
from multidispatch.compile import backend
import quick  # noqa: F401 (kernels of -O0)
import strict  # noqa: F401 (faults are errors)

SEED = int(os.environ.get("MD_TEST_SEED", "18"))
DEVICE = os.environ.get("MD_TEST_TORCH_DEVICE", "cpu")
DTYPES = (torch.float32, torch.bfloat16) if DEVICE == "cpu" else (torch.bfloat16,)
FLOOR = {torch.float64: 1e-14, torch.float32: 2e-6, torch.bfloat16: 2e-2, torch.float16: 2e-3}
OURS = {"eager_where_faster": False}  # no call is eager's
attend = torch.nn.functional.scaled_dot_product_attention
SIZES = ((2, 5, 9), (1, 12, 7), (3, 1, 4), (2, 33, 70))  # batch, queries, keys
LARGER = ((2, 5, 9), (3, 12, 7), (2, 33, 70))  # where PyTorch asks whether a size is 1, before the backend is called


def heads(x, n, size):
    return x.unflatten(-1, (n, size)).transpose(1, 2)


def rows(y):
    return y.transpose(1, 2).flatten(2)


def repeated(x, n):
    """As transformers repeats keys for several heads."""
    b, h, keys, size = x.shape
    return x[:, :, None].expand(b, h, n, keys, size).reshape(b, h * n, keys, size)


class Layer(torch.nn.Module):
    """f(q, k, v, ..) of heads that are parts of rows. The sizes of a module are constants of its graph."""

    def __init__(self, f, queries, keys, size, size_of_values):
        super().__init__()
        self.f, self.queries, self.keys, self.sizes = f, queries, keys, (size, size_of_values)

    def forward(self, q, k, v, *more):
        q, k, v = heads(q, self.queries, self.sizes[0]), heads(k, self.keys, self.sizes[0]), heads(v, self.keys, self.sizes[1])
        y = self.f(q, k, v, *more)
        return (rows(y[0]), *y[1:]) if isinstance(y, tuple) else rows(y)


class Case(unittest.TestCase):
    H, K, D, E = 4, 4, 16, 16  # heads of queries and of keys; sizes of a head

    def setUp(self):
        torch._dynamo.reset()
        torch.manual_seed(SEED)
        self.before = {r["graph"] for r in md.explain_graph()}  # the last 64

    def reports(self):
        return [r for r in md.explain_graph() if r["graph"] not in self.before]

    def parts(self, b, n, m, dtype):
        shapes = (b, n, self.H * self.D), (b, m, self.K * self.D), (b, m, self.K * self.E)
        return [torch.randn(s).to(dtype).to(DEVICE) for s in shapes]

    def layer(self, f):
        return Layer(f, self.H, self.K, self.D, self.E)

    def near(self, got, eager, exact, dtype):
        self.assertEqual((got.shape, got.dtype), (eager.shape, eager.dtype))
        if exact.numel() == 0:
            return
        self.assertTrue(torch.equal(got.isnan(), exact.isnan()))
        got, eager, exact = (x.nan_to_num().double() for x in (got, eager, exact))
        bound = 2 * (eager - exact).abs().max() + FLOOR[dtype] * exact.abs().max()
        self.assertLessEqual((got - exact).abs().max(), bound)

    def compare(self, f, *inputs, dtype=torch.float32):
        """Compiles f, compares each call, and gives the reports of the graphs."""
        compiled = torch.compile(f, backend=backend, dynamic=True, options=OURS)
        with torch.no_grad():
            for given in inputs:
                exact = f(*(x.double() if x.is_floating_point() else x for x in given))
                eager, got = f(*given), compiled(*given)
                self.near(got, eager, exact, dtype)
                self.assertEqual(got.stride(), eager.stride()) if min(got.shape) > 1 else None
        return self.reports()

    def check_one_kernel(self, reports, kernels=1):
        """All is ours, and attention is one formula: its product, its rows, its weights times values."""
        self.assertEqual(len(reports), 1)
        for r in reports:
            self.assertNotIn("reason", r)
            self.assertEqual((r["eager"], r["fallbacks"]), ([], 0))
            self.assertEqual(len(r["kernels"]), kernels, r["kernels"])
            self.assertEqual(sum("max[" in k["formula"] and k["formula"].count("sum[") == 3 for k in r["kernels"]), 1)

    def variant(self, f, *more, sizes=SIZES, dtypes=DTYPES):
        """f(q, k, v, *more(b, n, m)), over heads that were split."""
        for dtype in dtypes:
            with self.subTest(dtype):
                self.setUp()
                inputs = [(*self.parts(b, n, m, dtype), *(x(b, n, m, dtype) for x in more)) for b, n, m in sizes]
                self.check_one_kernel(self.compare(self.layer(f), *inputs, dtype=dtype))


class Variants(Case):
    def test_plain_and_scaled(self):
        self.variant(attend)
        self.variant(lambda q, k, v: attend(q, k, v, scale=0.3))

    def test_causal(self):
        """Query i sees keys up to i, also where there are more queries than keys, or fewer."""
        self.variant(lambda q, k, v: attend(q, k, v, is_causal=True))

    def test_masks(self):
        """Of truths and reals, of every shape that is broadcast; some rows are masked as a whole."""
        for shape in (lambda b, n, m: (b, 4, n, m), lambda b, n, m: (b, 1, n, m), lambda b, n, m: (n, m),
                      lambda b, n, m: (b, 1, 1, m), lambda b, n, m: (1, 4, n, m)):
            def truths(b, n, m, dtype):
                mask = torch.rand(shape(b, n, m)) > 0.4
                mask[..., 0, :] = False
                return mask.to(DEVICE)

            def reals(b, n, m, dtype):
                return torch.randn(shape(b, n, m)).to(dtype).to(DEVICE)

            for mask in (truths, reals):
                with self.subTest(shape=shape(2, 3, 4), mask=mask.__name__):
                    self.variant(attend, mask, sizes=((2, 5, 9), (3, 12, 7)), dtypes=DTYPES[-1:])

    def test_minus_infinity(self):
        """A row of reals that are all -inf gives 0, as PyTorch's kernels do."""
        def mask(b, n, m, dtype):
            out = torch.zeros(b, 1, n, m)
            out[:, :, 0], out[:, :, :, 0] = -torch.inf, -torch.inf
            return out.to(dtype).to(DEVICE)

        self.variant(attend, mask, sizes=((2, 5, 9), (3, 12, 7)))

    def test_nothing(self):
        """An empty batch, no queries, no keys. On a GPU eager PyTorch 2.11 returns None for some of them."""
        inputs = [self.parts(*sizes, DTYPES[-1]) for sizes in ((2, 5, 9), (0, 5, 9), (2, 0, 9), (2, 5, 0), (2, 5, 1))]
        if DEVICE == "cuda":
            inputs = [given for given in inputs if attend(*(heads(x, 1, x.shape[-1]) for x in given)) is not None]
        for r in self.compare(self.layer(attend), *inputs, dtype=DTYPES[-1]):
            self.assertNotIn("reason", r)
            self.assertEqual((r["eager"], r["fallbacks"]), ([], 0))

    def test_grouped_heads(self):
        """On a GPU causal attention of other numbers of keys than queries, with shared heads, is PyTorch's math kernel. Its
        result lies so that flatten asks, before the backend is called, whether there is one query."""
        self.K = 2
        several, one = [s for s in SIZES if s[1] > 1], [(3, 1, 4), (2, 1, 7)]
        for sizes in [SIZES] if DEVICE == "cpu" else [several, one]:
            self.variant(lambda q, k, v: attend(q, k, v, is_causal=True, enable_gqa=True), sizes=sizes)
        self.K = 1
        self.variant(lambda q, k, v: attend(q, k, v, enable_gqa=True), dtypes=DTYPES[-1:])

    def test_grouped_heads_with_a_mask(self):
        self.K = 2
        self.variant(lambda q, k, v, mask: attend(q, k, v, mask, enable_gqa=True),
                     lambda b, n, m, dtype: (torch.rand(b, 4, n, m) > 0.3).to(DEVICE), dtypes=DTYPES[-1:],
                     sizes=LARGER)

    def test_other_size_of_values(self):
        self.E = 24
        self.variant(attend, dtypes=DTYPES[-1:], sizes=LARGER)

    def test_other_dtypes(self):
        self.variant(attend, dtypes=(torch.float16,), sizes=SIZES[:2])
        if DEVICE == "cpu":
            self.variant(attend, dtypes=(torch.float64,), sizes=SIZES[:2])

    def test_three_axes(self):
        """Without heads; and with more axes than one for the batch."""
        for shape in ((5,), (), (2, 3, 2)):
            with self.subTest(shape):
                self.setUp()
                inputs = [[torch.randn(*shape, n, 16).to(DTYPES[-1]).to(DEVICE) for n in sizes]
                          for sizes in ((7, 9, 9), (4, 6, 6))]
                self.check_one_kernel(self.compare(lambda q, k, v: attend(q * 1, k, v, is_causal=True), *inputs,
                                                   dtype=DTYPES[-1]))

    def test_memory_with_gaps(self):
        """Parts of one product, as a layer makes them: memory that is not contiguous."""
        class Block(torch.nn.Module):
            width = 64

            def forward(self, x):
                q, k, v = (heads(p, 4, 16) for p in torch.cat([x, x * 2, x * 3], -1).split(self.width, -1))
                return rows(attend(q, k, v))

        inputs = [(torch.randn(b, n, 64).to(DTYPES[-1]).to(DEVICE),) for b, n in ((2, 7), (3, 20))]
        reports = self.compare(Block(), *inputs, dtype=DTYPES[-1])
        self.check_one_kernel(reports, len(reports[0]["kernels"]))

    def test_what_is_pytorchs(self):
        """Dropout; batches that are broadcast; f32 on a GPU."""
        def dropped(q, k, v):
            return attend(q, k, v, dropout_p=0.5)

        q, k, v = (torch.randn(2, 4, 6, 8) for _ in range(3))
        with torch.no_grad():
            torch.compile(dropped, backend=backend, dynamic=True, options=OURS)(q, k, v)
            self.assertFalse(any("exp(" in k["formula"] and "max[" in k["formula"] and not r["eager"]
                                 for r in self.reports() for k in r["kernels"] if not r["rewrites"]))
            compiled = torch.compile(lambda q, k, v: attend(q, k[:1], v[:1]), backend=backend, dynamic=True, options=OURS)
            torch.testing.assert_close(compiled(q, k, v), attend(q, k[:1], v[:1]))


class Written(Case):
    """Attention that is written out as transformers do it."""

    def test_softmax(self):
        self.variant(lambda q, k, v: torch.softmax(q @ k.transpose(-1, -2) * 0.25, -1) @ v, sizes=LARGER)

    def test_softmax_in_f32_with_shared_heads(self):
        self.K = 2

        def f(q, k, v, mask):
            scores = q @ repeated(k, 2).transpose(2, 3) * 0.25 + mask
            return torch.softmax(scores.float(), -1).to(q.dtype) @ repeated(v, 2)

        self.variant(lambda q, k, v, mask: f(q, k, v, mask),
                     lambda b, n, m, dtype: torch.randn(b, 1, n, m).to(dtype).to(DEVICE), dtypes=DTYPES[-1:],
                     sizes=LARGER)

    def test_scores_of_ones_own(self):
        """Soft caps, and a bias that is computed from the places of queries and keys."""
        def f(q, k, v):
            s = torch.tanh(q @ k.transpose(2, 3) * 0.25 / 30) * 30
            far = torch.arange(k.shape[2], device=q.device) - torch.arange(q.shape[2], device=q.device)[:, None]
            return torch.softmax(s + far.abs().to(s.dtype) * -0.125, -1) @ v

        self.variant(f, sizes=LARGER[:2])

    def test_lengths_above_the_keys(self):
        """PyTorch takes them, though a formula's `j < n` is a length, which must not be above the size."""
        def f(q, k, v, n):
            keep = torch.arange(k.shape[2], device=q.device) < n[:, None, None, None]
            s = torch.where(keep, (q @ k.transpose(2, 3)).float() * 0.25, float("-inf"))
            return torch.softmax(s, -1).to(q.dtype) @ v

        self.variant(f, lambda b, n, m, dtype: torch.randint(m, 2 * m + 2, (b,)).to(DEVICE), dtypes=DTYPES[-1:],
                     sizes=LARGER)

    def test_keys_that_are_scaled_behind_a_transpose(self):
        """They lie in memory as they did, a key's elements side by side: kernels of GPUs read lines of them."""
        def f(q, k, v):
            scores = torch.bmm(q, k.transpose(-1, -2) / 3.7)
            return torch.bmm(torch.softmax(scores, -1), v)

        compiled = torch.compile(f, backend=backend, dynamic=True, options=OURS | {"eager_while_building": False})
        for b, n, m in ((3, 9, 21), (2, 33, 64)):
            q, k, v = (torch.randn(b, size, 16, device=DEVICE, dtype=DTYPES[-1]) for size in (n, m, m))
            wanted = f(q.double(), k.double(), v.double())
            self.assertLess((compiled(q, k, v).double() - wanted).abs().max().item(), 0.03)
        scaled = [x["formula"] for x in md.explain_graph()[-1]["kernels"] if "3.7" in x["formula"]]
        self.assertRegex(scaled[0], r"^Y:\w+\[([x0-9, ]+)\] = \(A0:\w+\[\1\] / 3.7\)$")

    def test_weights_that_are_read_elsewhere(self):
        """Then they are memory, and so attention is not one kernel."""
        def f(q, k, v):
            w = torch.softmax(q @ k.transpose(2, 3) * 0.25, -1)
            return w @ v + w.sum()

        reports = self.compare(self.layer(f), *(self.parts(b, n, m, DTYPES[-1]) for b, n, m in SIZES[:2]), dtype=DTYPES[-1])
        self.assertFalse(any(k["formula"].count("sum[") == 3 and "max[" in k["formula"] for k in reports[0]["kernels"]))


class Elsewhere(Case):
    def test_capture(self):
        self.K = 2
        f = self.layer(lambda q, k, v: attend(q, k, v, is_causal=True, enable_gqa=True))
        dtype = DTYPES[-1]
        with torch.no_grad():
            plan = md.capture(f, tuple(self.parts(2, 5, 9, dtype)), options=OURS)
        for b, n, m in SIZES:
            given = self.parts(b, n, m, dtype)
            self.near(plan(*given), f(*given), f(*(x.double() for x in given)), dtype)
        self.check_one_kernel(self.reports(), kernels=2)  # torch.export's strides are not known to be the kernel's

    def test_growing_cache(self):
        """A step of decoding: one query, keys that grow; one graph."""
        def f(q, k, v, past_k, past_v):
            k, v = torch.cat([past_k, k], 2), torch.cat([past_v, v], 2)
            return attend(q, k, v), k, v

        step = self.layer(f)
        compiled = torch.compile(step, backend=backend, dynamic=True, options=OURS)
        dtype = DTYPES[-1]
        with torch.no_grad():
            k, v = (heads(x, self.K, self.D).contiguous() for x in self.parts(2, 6, 6, dtype)[1:])
            for _ in range(5):
                given = self.parts(2, 1, 1, dtype)
                exact = step(*(x.double() for x in (*given, k, v)))[0]
                eager, (got, k, v) = step(*given, k, v)[0], compiled(*given, k, v)
                self.near(got, eager, exact, dtype)
        self.assertEqual(len(self.reports()), 1)
        self.assertEqual((self.reports()[0]["eager"], self.reports()[0]["fallbacks"]), ([], 0))

    def test_another_backend(self):
        """Graphs of others keep PyTorch's attention."""
        found = []

        def other(module, _):
            from torch._dynamo.backends.common import aot_autograd

            def see(graph, _):
                found.extend(str(n.target) for n in graph.graph.nodes)
                return graph

            return aot_autograd(fw_compiler=see)(module, _)

        q = torch.randn(2, 4, 6, 8)
        torch.compile(attend, backend=other)(q, q, q)
        self.assertFalse([name for name in found if "multidispatch" in name])

    def test_transforms(self):
        """Under vmap and jvp, for which the operations have no rules."""
        q = torch.randn(3, 2, 4, 6, 8)
        f = torch.compile(lambda q: torch.vmap(lambda x: attend(x, x, x))(q), backend=backend, dynamic=True, options=OURS)
        torch.testing.assert_close(f(q), attend(q, q, q), rtol=1e-5, atol=1e-5)

    def test_operations(self):
        """PyTorch runs the operations where a call does not fit its plan: the same values."""
        q, k, v = (torch.randn(2, h, n, 8, dtype=torch.float64, requires_grad=True) for h, n in ((4, 5), (2, 7), (2, 7)))
        mask = torch.rand(2, 1, 5, 7) > 0.3
        mask[:, :, 0] = False
        expected = attend(q, k, v, mask, scale=0.3, enable_gqa=True)
        got, lse = torch.ops.multidispatch.attention_saving(q, k, v, mask, False, 0.3)
        torch.testing.assert_close(got, expected)
        self.assertTrue((lse[:, :, 0] == -torch.inf).all())
        dy = torch.randn_like(got)
        for a, b in zip(torch.autograd.grad(got, (q, k, v), dy), torch.autograd.grad(expected, (q, k, v), dy)):
            torch.testing.assert_close(a, b)


if __name__ == "__main__":
    print("seed", SEED, file=sys.stderr)
    unittest.main()
