#!/usr/bin/env python3
"""The backend of torch.compile: small graphs against PyTorch's own result. Skipped, loudly, where PyTorch is missing."""

import math
import os
import unittest

import needs_torch  # noqa: F401
import torch

import multidispatch as md
from multidispatch.compile import backend
import strict  # noqa: F401 (faults are errors)

SEED = int(os.environ.get("MD_TEST_SEED", "18"))
BATCHES = (3, 1, 0, 7, 31)


class Case(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        torch.manual_seed(SEED)
        self.before = len(md.explain_graph())

    def reports(self):
        return md.explain_graph()[self.before:]

    def compare(self, f, *inputs, tolerance=2e-6, **options):
        """Compiles f, compares each call, and gives the reports of the graphs."""
        compiled = torch.compile(f, backend=backend, dynamic=True, **options)
        for arguments in inputs:
            expected, got = f(*arguments), compiled(*arguments)
            torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance)
            for a, b in zip(torch.utils._pytree.tree_leaves(got), torch.utils._pytree.tree_leaves(expected)):
                if b.numel() > 0:
                    self.assertEqual([s for s, n in zip(a.stride(), a.shape) if n > 1],
                                     [s for s, n in zip(b.stride(), b.shape) if n > 1])
        return self.reports()

    def check_all_ours(self, reports, kernels=None):
        self.assertEqual(len(reports), 1, "recompiled")
        self.assertNotIn("reason", reports[0])
        self.assertEqual((reports[0]["eager"], reports[0]["fallbacks"]), ([], 0))
        if kernels is not None:
            self.assertEqual(len(reports[0]["kernels"]), kernels, reports[0]["kernels"])


class Narrow(Case):
    def test_comparisons(self):
        """Numbers and results of 16 bits are compared as what they are, not as the f32 that they are computed in."""
        for dtype in (torch.bfloat16, torch.float16):
            x, y = torch.tensor([0.1, 0.2, 0.3, 1, -0.1, 0]).to(dtype), torch.rand(1000).to(dtype)
            for f, inputs in ((lambda x: (x == 0.1, x > 0.1, x <= 0.3, x != 0.2, x >= 1, x > 0), (x,)),
                              (lambda x, y: (x * 3 == y * 3, x + y > 1, torch.where(x * y >= 0.25, x, y)),
                               (y, y.roll(1)))):
                torch._dynamo.reset()
                self.before = len(md.explain_graph())
                self.check_all_ours(self.compare(f, inputs, tolerance=0))


class Graphs(Case):
    def test_batches_are_one_graph(self):
        def f(x, w, c):
            y = torch.relu(x @ w + c) * 2
            return torch.softmax(y.sum(0, keepdim=True) * 0.1 + y, -1)

        w, c = torch.randn(16, 24), torch.randn(24)
        self.check_all_ours(self.compare(f, *((torch.randn(b, 16), w, c) for b in BATCHES)), 3)

    def test_real_of_a_module(self):
        """It is a constant of the graph until it changes; then one more graph serves all values."""
        class Scaled(torch.nn.Module):
            scale = 0.5

            def forward(self, x):
                return x * self.scale

        module, x = Scaled(), torch.randn(5, 3)
        compiled = torch.compile(module, backend=backend, dynamic=True)
        for scale, graphs in ((0.5, 1), (0.25, 2), (3.0, 2), (4.0, 2)):
            module.scale = scale
            torch.testing.assert_close(compiled(x), x * scale)
            self.assertEqual(len(self.reports()), graphs)
        self.assertIn("0.5", self.reports()[0]["kernels"][0]["formula"])

    def test_many_loops(self):
        """A kernel of six loops: none of their names may be a word of the language, as i4 is."""
        def f(x):
            return (x.permute(0, 5, 4, 3, 2, 1) + 1).contiguous()

        self.check_all_ours(self.compare(f, *((torch.randn(b, 2, 9, 4, 5, 6),) for b in BATCHES)), 1)

    def test_product_with_epilogue_is_one_kernel(self):
        def f(x, w, c, r):
            return torch.nn.functional.gelu(torch.nn.functional.linear(x, w, c)) + r

        w, c = torch.randn(24, 16), torch.randn(24)
        inputs = ((torch.randn(b, 5, 16), w, c, torch.randn(b, 5, 24)) for b in (2, 1, 7))
        self.check_all_ours(self.compare(f, *inputs), 1)

    def test_residuals_end_products(self):
        """The stream of a model's layers is stored with the product that changes it, and no kernel adds it up again."""
        d, h = 16, 40

        def f(x, gain, out, gate, up, down):
            for _ in range(3):
                x = x + torch.nn.functional.rms_norm(x, (d,), gain, 1e-6) @ out
                n = torch.nn.functional.rms_norm(x, (d,), gain, 1e-6)
                x = x + (torch.nn.functional.silu(n @ gate) * (n @ up)) @ down
            return x

        weights = [torch.randn(s) * 0.3 for s in ((d,), (d, d), (d, h), (d, h), (h, d))]
        reports = self.compare(f, *((torch.randn(b, d), *weights) for b in BATCHES), tolerance=2e-4)
        self.check_all_ours(reports, 15)
        self.assertEqual(len({(k["formula"], k["sizes"]) for k in reports[0]["kernels"]}), 3)
        self.assertEqual(max(k["formula"].count("sum[") for k in reports[0]["kernels"]), 2)  # silu(x W) * (x V)

    def test_rotary_embedding_is_one_kernel(self):
        def f(q, cos, sin):
            q = q.view(q.shape[0], 5, 4, 16).transpose(1, 2)
            a, b = q.chunk(2, -1)
            return q * cos + torch.cat((-b, a), -1) * sin

        inputs = [(torch.randn(b, 5, 64), torch.randn(5, 16), torch.randn(5, 16)) for b in BATCHES]
        self.check_all_ours(self.compare(f, *inputs), 1)

    def test_parts_of_one_tensor(self):
        """Cats of shifted, repeated and transposed parts of one tensor, as a result, an operand and a view."""
        def f(x, w):
            y = torch.cat((x[:, 4:], x[:, :4] * 2, x[:, 2:6]), 1)
            z = torch.cat((x.t()[3:], x.t()[:3].exp()), 0)
            return y, y @ w, z.t(), torch.cat((x, x), 1)[:, 5:11] + 1

        self.check_all_ours(self.compare(f, *((torch.randn(b, 10), torch.randn(14, 5)) for b in BATCHES)))

    def test_integers_for_operations_of_pytorch(self):
        """They get them as the caller gave them: the state of random numbers lies elsewhere than PyTorch says."""
        seen = []
        library = torch.library.Library("mdtest_backend", "DEF")
        library.define("shift(Tensor x, Tensor by) -> Tensor")
        library.impl("shift", lambda x, by: seen.append(getattr(by, "mark", None)) or x + by, "CompositeExplicitAutograd")
        torch.library.register_fake("mdtest_backend::shift", lambda x, by: torch.empty_like(x), lib=library)

        def f(x, by, other):
            return torch.ops.mdtest_backend.shift(x * 2, by) * 3 + other

        def numbers(n):
            by, other = torch.tensor(n), torch.tensor(7 * n)
            by.mark = other.mark = "caller's"
            return by, other

        reports = self.compare(f, *((torch.randn(b, 4), *numbers(b)) for b in BATCHES))
        self.assertEqual((len(reports), reports[0]["fallbacks"], len(reports[0]["eager"])), (1, 0, 1))
        self.assertEqual((len(seen), set(seen)), (2 * len(BATCHES), {"caller's"}))

    def test_sizes_of_rounded_quotients(self):
        """As attention's kernels on a GPU have them."""
        def f(x):
            up, down = math.ceil(x.shape[0] / 3), math.floor(x.shape[0] / 3)
            return x * 2, torch.full((up, 2), 1.5) + x[0, 0], torch.full((down, 2), 1.5) - x[0, 0]

        self.check_all_ours(self.compare(f, *((torch.randn(b, 4),) for b in (3, 1, 5, 7, 31))))

    def test_graph_that_only_gives_a_size(self):
        def f(x):
            n = 2 * x.shape[0]
            torch._dynamo.graph_break()
            return torch.arange(n)

        self.assertEqual([r["fallbacks"] for r in self.compare(f, *((torch.randn(b),) for b in (5, 3, 7)))], [0, 0])

    def test_norms_are_one_kernel(self):
        def layer(x, g, b):
            return torch.nn.functional.layer_norm(x, (32,), g, b)

        def rms(x, g, b):
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * g + b

        for f in (layer, rms):
            with self.subTest(f.__name__):
                self.setUp()
                inputs = ((torch.randn(b, 5, 32), torch.randn(32), torch.randn(32)) for b in BATCHES)
                self.check_all_ours(self.compare(f, *inputs), 1)

    def test_reductions(self):
        def f(x):
            return x.sum(), x.mean(1), x.amax(-1), x.argmax(1), x.var(1), (x > 0).any(1), x.max(1).values

        self.check_all_ours(self.compare(f, *((torch.randn(b, 9),) for b in (3, 1, 7))))

    def test_views_and_strides(self):
        def f(x):
            a, b = x.split(4, -1)
            turned = torch.cat([-b, a], -1).transpose(0, 1)
            return turned * 2, x[:, 1:3].transpose(0, 1) + 1, x.unsqueeze(1).expand(-1, 3, -1).sum(1)

        self.check_all_ours(self.compare(f, *((torch.randn(b, 8),) for b in BATCHES)))

    def test_by_index(self):
        def f(table, ids, x):
            return table[ids] * 2, torch.nn.functional.embedding(ids, table), x.gather(1, ids), x[:, -1]

        table = torch.randn(11, 6)
        inputs = ((table, torch.randint(0, 5, (b, 4)), torch.randn(b, 5)) for b in (3, 1, 7))
        self.check_all_ours(self.compare(f, *inputs))

    def test_by_position(self):
        """An index that counts up: as an axis of the table, as one that is read in part, as the last axis."""
        def f(table, x):
            i = torch.arange(x.shape[1])
            return torch.nn.functional.embedding(i, table) + x, table[i] * 2, x.gather(1, i.flip(0).expand(x.shape)), \
                x.gather(1, i.expand(x.shape)), table[:, i]

        table = torch.randn(9, 9)
        inputs = ((table[:, :n].contiguous(), torch.randn(n, n)) for n in (3, 1, 7))
        self.compare(f, *inputs)
        self.assertEqual(self.reports()[0]["fallbacks"], 0)
        with self.assertRaises(IndexError):
            torch.compile(f, backend=backend, dynamic=True)(torch.randn(4, 5), torch.randn(5, 5))

    def test_six_loops(self):
        """No name of a loop is a word of the language (i4)."""
        def f(x, w):
            return x * w.permute(2, 0, 4, 1, 3)

        w = torch.randn(3, 2, 2, 3, 4)
        self.check_all_ours(self.compare(f, *((torch.randn(b, 2, 3, 4, 2, 3), w) for b in (8, 1))), 1)

    def test_running_sums(self):
        def f(x):
            return (x + 1).cumsum(-1), x.cumsum(0), (x > 0).cumsum(1)

        self.check_all_ours(self.compare(f, *((torch.randn(b, 5),) for b in BATCHES)))

    def test_size_one_broadcasts(self):
        """A size that is 1 when a graph is traced stays 1: also in a graph that begins at a graph break."""

        def f(x, y):
            z = x + 1
            torch._dynamo.graph_break()
            return z * y, x * y[:1]

        self.compare(f, (torch.randn(4, 3), torch.randn(1, 3)), (torch.randn(1, 3), torch.randn(1, 3)),
                     (torch.randn(0, 3), torch.randn(1, 3)), (torch.randn(5, 3), torch.randn(5, 3)))

    def test_attention(self):
        """Also with rows that are masked as a whole."""
        def f(q, k, v, mask):
            attend = torch.nn.functional.scaled_dot_product_attention
            return attend(q, k, v, is_causal=True), attend(q, k, v, mask), attend(q, k, v, mask.float(), scale=0.3)

        def inputs(b, n):
            mask = torch.rand(b, 1, n, n) > 0.5
            mask[:, :, 0] = False
            return (*(torch.randn(b, 2, n, 8) for _ in range(3)), mask)

        with torch.no_grad():
            self.check_all_ours(self.compare(f, inputs(3, 5), inputs(2, 7), inputs(4, 16)))

    def test_attention_with_large_scores(self):
        """Scores are not rounded to bf16: the result is about as near to f64's as PyTorch's."""
        attend = torch.nn.functional.scaled_dot_product_attention
        parts = [torch.randn(4, 2, 9, 32).bfloat16() * 4 for _ in range(3)]
        exact = attend(*(p.double() for p in parts))
        got, eager = torch.compile(attend, backend=backend, dynamic=True)(*parts), attend(*parts)
        self.check_all_ours(self.reports())
        self.assertLess((got.double() - exact).abs().max(), 2 * (eager.double() - exact).abs().max())

    def test_numbers_as_arguments(self):
        def f(x, n):
            return x * n + x[:, n:].sum()

        self.compare(f, *((torch.randn(4, 6), n) for n in (0, 1, 3)))

    def test_causal_mask(self):
        def f(s):
            n = s.shape[-1]
            i = torch.arange(n, device=s.device)
            return torch.softmax(torch.where(i[None, :] <= i[:, None], s, -torch.inf), -1)

        self.check_all_ours(self.compare(f, *((torch.randn(2, n, n),) for n in (5, 1, 9))))


class Backward(Case):
    def check(self, f, *inputs):
        compiled = torch.compile(f, backend=backend, dynamic=True)
        for arguments in inputs:
            grads = []
            for g in (f, compiled):
                leaves = [a.clone().requires_grad_() if a.is_floating_point() else a for a in arguments]
                out = g(*leaves)
                out.sum().backward() if out.dim() else out.backward()
                grads.append([out, *(a.grad for a in leaves if a.is_floating_point())])
            torch.testing.assert_close(grads[1], grads[0], rtol=1e-5, atol=1e-5)
        for report in self.reports():
            self.assertNotIn("reason", report)
            self.assertEqual(report["fallbacks"], 0)
        return self.reports()

    def test_layer(self):
        """A product, a norm, an activation; one graph forward and one backward over three batches."""
        def f(x, w, c, g, b):
            h = torch.nn.functional.gelu(torch.nn.functional.linear(x, w, c))
            return torch.softmax(torch.nn.functional.layer_norm(h + x, (16,), g, b), -1).pow(2)

        parts = (torch.randn(16, 16), torch.randn(16), torch.randn(16), torch.randn(16))
        self.assertEqual(len(self.check(f, *((torch.randn(b, 5, 16), *parts) for b in (4, 2, 7)))), 2)

    def test_attention(self):
        """The forward is one kernel, and leaves the logarithm of the sum of exponentials to the backward: a sum and a kernel."""
        def f(q, k, v):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

        reports = self.check(f, *([torch.randn(b, 2, n, 8) for _ in range(3)] for b, n in ((3, 5), (2, 7))))
        self.assertEqual([(len(r["kernels"]), r["eager"]) for r in reports], [(1, []), (2, [])])

    def test_embedding_and_loss(self):
        def f(table, w, ids):
            h = torch.nn.functional.embedding(ids, table)
            return torch.nn.functional.cross_entropy(h @ w, ids)

        self.check(f, *((torch.randn(11, 6), torch.randn(6, 11), torch.randint(0, 11, (b,))) for b in (5, 3)))


class Eager(Case):
    """What is not in the table is PyTorch's, and the answer is right."""

    def test_operation_between_kernels(self):
        def f(x):
            return torch.sort(x * 2, -1).values + 1

        report, = self.compare(f, *((torch.randn(b, 6),) for b in (3, 1, 7)))
        self.assertEqual([(e["op"], e["reason"]) for e in report["eager"]],
                         [("aten.sort.default", "the order of many elements")])
        self.assertEqual((report["fallbacks"], len(report["kernels"])), (0, 2))

    def test_random_numbers(self):
        def f(x):
            return torch.nn.functional.dropout(x, 0.5) * 1

        y = torch.compile(f, backend=backend, dynamic=True)(torch.ones(1000))
        self.assertEqual(sorted(set(y.tolist())), [0.0, 2.0])

    def test_in_place(self):
        def f(x, y):
            x.add_(y)
            return x * 2

        x, y = torch.randn(4), torch.randn(4)
        kept = x.clone()
        result = torch.compile(f, backend=backend, dynamic=True)(x, y)
        torch.testing.assert_close(x, kept + y)
        torch.testing.assert_close(result, (kept + y) * 2)

    def test_view_as_result(self):
        def f(x):
            y = x + 1
            return y, y.t(), x[1:], y[:, ::2]

        self.compare(f, (torch.randn(3, 4),), (torch.randn(5, 4),))

    def test_expanded_result(self):
        """Its memory has one element where it is expanded."""
        def f(x, y):
            return x[:, None].expand(-1, 4, -1), (y * 2).expand(x.shape[0], 3), x + 1

        self.check_all_ours(self.compare(f, *((torch.randn(b, 5), torch.randn(3)) for b in (8, 1, 0, 7))))

    def test_narrow_results_of_norms(self):
        """Mean and deviation are computed in f32, and given in bf16, also to operations of PyTorch."""
        def f(x, w, b):
            y, mean, deviation = torch.native_layer_norm(x, (32,), w, b, 1e-5)
            return y, mean, deviation, torch.sort(mean, 0).values

        parts = (torch.randn(5, 32), torch.randn(32), torch.randn(32))
        self.compare(f, [p.bfloat16() for p in parts], tolerance=1e-2)

    def test_exception(self):
        def f(table, ids):
            return torch.nn.functional.embedding(ids, table) * 2

        with self.assertRaises(IndexError):
            torch.compile(f, backend=backend, dynamic=True)(torch.randn(4, 3), torch.tensor([1, 9]))

    def test_data_dependent_size(self):
        def f(x):
            return torch.nonzero(x).sum() + x.sum()

        self.compare(f, (torch.tensor([0.0, 1.0, 2.0]),), (torch.zeros(5),))


if __name__ == "__main__":
    unittest.main(verbosity=0)
