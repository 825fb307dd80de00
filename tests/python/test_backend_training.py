#!/usr/bin/env python3
"""Training steps through the backend of torch.compile: gradients against PyTorch's, and which kernels the graphs have.
Skipped, loudly, where PyTorch is missing."""

import os
import unittest

import needs_torch  # noqa: F401
import torch

import multidispatch as md
from multidispatch.compile import backend
from multidispatch.compile.lowering import embedding
import strict  # noqa: F401 (faults are errors)

SEED = int(os.environ.get("MD_TEST_SEED", "18"))


class Attention(torch.nn.Module):
    """q, k and v are parts of one product, and so are their gradients."""

    def __init__(self, width=16, heads=2):
        super().__init__()
        self.heads, self.qkv = heads, torch.nn.Linear(width, 3 * width)

    def forward(self, x):
        b, n, width = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        return torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, width)


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = torch.nn.LayerNorm(16), torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class Case(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        torch.manual_seed(SEED)
        self.before = len(md.explain_graph())

    def train(self, model, inputs, is_autocast=False, tolerance=1e-5):
        """Compares results and gradients for each input. Gives the kernels' texts of the forward and of the backward, and
        the reports."""
        compiled = torch.compile(model, backend=backend, dynamic=True)
        for x in inputs:
            results = []
            for f in (model, compiled):
                model.zero_grad()
                given = x.clone().requires_grad_(x.is_floating_point())
                with torch.autocast("cpu", dtype=torch.bfloat16, enabled=is_autocast):
                    y = f(given)
                (y.float() * torch.linspace(-1, 1, y.shape[-1])).sum().backward()
                results.append([y.detach(), *([given.grad] if given.grad is not None else []),
                                *(p.grad.clone() for p in model.parameters())])
            for a, b in zip(*results):
                torch.testing.assert_close(b, a, rtol=tolerance, atol=tolerance * max(1.0, a.abs().max().item())
                                           if a.numel() else 0.0)
        reports = md.explain_graph()[self.before:]
        self.assertEqual(len(reports), 2, "recompiled")
        for r in reports:
            self.assertNotIn("reason", r)
            self.assertEqual(r["fallbacks"], 0)
        return [[k["formula"] for k in r["kernels"]] for r in reports] + [reports]


class Kernels(Case):
    def batches(self, *shape):
        return [torch.randn(b, *shape) for b in (3, 1, 7)]

    def test_weights_are_converted_once(self):
        """bf16 autocast: one conversion a weight, which the product, the backward and its result read."""
        forward, backward, _ = self.train(Network(), self.batches(5, 16), is_autocast=True, tolerance=0.03)
        self.assertFalse([text for text in backward if text.startswith("Y:bf16[x0, x1] = bf16(A0:f32[")], backward)
        self.assertFalse([text for text in backward if text.startswith("Y:bf16[x0] = bf16(A0:f32[")][1:], backward)
        conversions = [text for text in forward if text == "Y:bf16[x0] = bf16(A0:f32[x0])"]
        self.assertEqual(len(conversions), 2, forward)
        self.assertFalse([text for text in forward if text == "Y:f32[x0] = A0:f32[x0]"], forward)

    def test_a_kernel_stores_what_others_read(self):
        """The mean and the deviation of a norm are the backward's, too, and come of the kernel that needs them."""
        forward, backward, _ = self.train(Network(), self.batches(5, 16), is_autocast=True, tolerance=0.03)
        norms = [text for text in forward if "mean[" in text]
        self.assertEqual((len(norms), norms[0].count(":f32[x0] =")), (1, 2), forward)
        self.assertFalse([text for text in forward if "mean[" not in text and "var[" in text], forward)
        sums = [text for text in backward if "Y1" in text and text.count("sum[x1]") == 2 and "A0[x1, x0]" in text]
        self.assertEqual(len(sums), 1, backward)

    def test_a_text_says_how_tensors_lie(self):
        """The gradient of a bias is a sum over columns; a matrix that is read transposed says so."""
        _, backward, _ = self.train(torch.nn.Linear(16, 8), self.batches(16))
        self.assertTrue([text for text in backward if "sum[x1](A0:f32[x1, x0])" in text], backward)
        self.assertTrue([text for text in backward if "A0:f32[x2, x0] * A1:f32[x2, x1]" in text], backward)

    def test_order_of_loops_is_that_of_the_result(self):
        """A square matrix that is transposed must not be taken for one that is not."""
        compiled = torch.compile(lambda x: (torch.tanh(x.t()), torch.tanh(x).sum(0)), backend=backend, dynamic=True)
        for n in (8, 8, 5):
            x = torch.randn(n, n)
            torch.testing.assert_close(compiled(x), (torch.tanh(x.t()), torch.tanh(x).sum(0)))

    def test_gradients_are_written_where_they_are_joined(self):
        """q, k and v are parts of each row, as in GPT-2: their gradients go there, without copies."""
        class Rows(Attention):
            def forward(self, x):
                b, n, width = x.shape
                q, k, v = (t.view(b, n, self.heads, width // self.heads).transpose(1, 2)
                           for t in self.qkv(x).split(width, dim=2))
                return torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, width)

        _, texts, _ = self.train(Rows(), self.batches(5, 16), tolerance=1e-4)
        self.assertFalse([t for t in texts if t.startswith("Y:f32[x0, x1] = A0:f32[x0, x1]")], texts)

    def test_sums_down_columns_store_nothing_else(self):
        """The gradient of a bias sums what another kernel stores: one kernel of both would read columns by rows."""
        class Block(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.up, self.norm = torch.nn.Linear(16, 32), torch.nn.LayerNorm(16)
                self.down, self.bias = (torch.nn.Parameter(torch.randn(s)) for s in ((32, 16), (16,)))

            def forward(self, x):  # GPT-2's weights are not transposed
                h = torch.tanh(self.up(x)).view(-1, 32)
                return self.norm(x + torch.addmm(self.bias, h, self.down).view(x.shape))

        _, texts, _ = self.train(Block(), self.batches(5, 16), is_autocast=True, tolerance=5e-2)
        sums = [t for t in texts if "sum[x1]" in t and "[x1, x0]" in t]
        self.assertTrue(sums)
        for text in sums:
            self.assertNotRegex(text, r"Y\d?:\w+\[x1, x0\]")

    def test_cheap_results_are_computed_again(self):
        """A forward stores for the backward what is dear, not each step of a chain."""
        class Gelu(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.up = torch.nn.Linear(16, 32)

            def forward(self, x):
                h = self.up(x)
                return (h * 0.5) * (1.0 + torch.tanh((h + h * h * h * 0.044715) * 0.8))

        texts, _, _ = self.train(Gelu(), self.batches(5, 16), tolerance=1e-4)
        text, = (t for t in texts if "tanh" in t)
        self.assertNotIn("Y1", text)

    def test_parts_are_views(self):
        """q, k and v are written once, by the product, and their gradients where the next product reads them."""
        forward, backward, _ = self.train(Attention(), self.batches(6, 16))
        self.assertEqual(len(forward), 2, forward)  # the product, attention
        self.assertFalse([text for text in forward + backward if "sum" not in text], forward + backward)

    def test_views_share_memory(self):
        """Results of the user stay apart."""
        def f(x):
            y = torch.tanh(x)
            return y, y[1:], y.t()

        a, b, c = torch.compile(f, backend=backend, dynamic=True)(torch.randn(4, 3))
        a.zero_()
        self.assertTrue(b.abs().min() > 0 and c.abs().min() > 0)

    def test_small_kernels_are_one_step(self):
        class Gamma(torch.nn.Module):  # PyTorch's, forward and backward: a plan with callbacks
            def forward(self, x):
                return torch.lgamma(x.abs() + 1)

        model = torch.nn.Sequential(torch.nn.Linear(16, 16), Attention(), Gamma(), torch.nn.Linear(16, 8))
        *_, (forward, backward) = self.train(model, self.batches(6, 16), is_autocast=True, tolerance=0.05)
        for r in (forward, backward):
            together = [k for k in r["kernels"] if "together" in k]
            self.assertGreater(len(together), 2)
            self.assertEqual(r["steps"], len(r["kernels"]) - len(together) + len(r["eager"]) + 1)


class Operations(Case):
    def test_dropout_drops_the_same_twice(self):
        """What a backward computes again is no random number."""
        def f(x, w):
            return torch.nn.functional.dropout(torch.sigmoid(torch.nn.functional.dropout(x, 0.5) * 2) @ w, 0.3) * 3

        compiled = torch.compile(f, backend=backend, dynamic=True)
        for n in (64, 33):
            x, w = torch.ones(n, 32, requires_grad=True), torch.eye(32)
            y = compiled(x, w)
            y.sum().backward()
            inner = y.detach() / 3 * 0.7  # sigmoid(0) where the first dropped, sigmoid(4), or 0 where the second did
            kept, dropped = ((inner - torch.sigmoid(torch.tensor(v))).abs() < 1e-3 for v in (4.0, 0.0))
            self.assertTrue(bool((kept | dropped | (y == 0)).all()))
            self.assertTrue(bool((x.grad != 0).eq(kept).all()))

    def test_embeddings_on_gpus(self):
        """The operator that adds rows, against PyTorch's."""
        for padding, step in ((-1, 1), (2, 1), (-1, 2)):
            ids, gradient = torch.randint(0, 5, (3, 7)), torch.randn(3, 7, 8 * step)[..., ::step]
            want = torch.ops.aten.embedding_dense_backward(gradient, ids, 5, padding, False)
            torch.testing.assert_close(torch.ops.multidispatch.embedding_backward(gradient, ids, 5, padding), want)
        torch.library.opcheck(torch.ops.multidispatch.embedding_backward.default, (gradient, ids, 5, padding))
        self.assertIs(embedding.decompose(gradient, ids, 5, -1, False), NotImplemented)

    def test_results_are_not_copied(self):
        """An embedding's gradient is the tensor that PyTorch makes."""
        model = torch.nn.Embedding(9, 4, scale_grad_by_freq=True)
        ids = [torch.randint(0, 9, (n, 3)) for n in (4, 1, 0, 6)]
        _, _, reports = self.train(model, ids)
        self.assertEqual([e["op"] for e in reports[1]["eager"]], ["aten.embedding_dense_backward.default"])
        y = torch.compile(model, backend=backend, dynamic=True)(ids[0])
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            y.backward(torch.ones(y.shape))
        copies = [e.name for e in profile.events() if e.name == "aten::copy_"]
        self.assertEqual(copies, [])

    def test_numbers_without_a_sign(self):
        """As the state of random numbers that attention on a GPU gives its backward; and a size among the results."""
        torch.library.define("md_test::draw", "(Tensor x) -> (Tensor, Tensor, SymInt)")
        torch.library.define("md_test::back", "(Tensor g, Tensor state, SymInt n) -> Tensor")
        state = [3, 2 ** 63 + 5]

        @torch.library.impl("md_test::draw", "CPU")
        def draw(x):
            return x * 2, torch.tensor(state, dtype=torch.uint64), x.shape[0]

        @torch.library.register_fake("md_test::draw")
        def draw_fake(x):
            return torch.empty_like(x), torch.empty(2, dtype=torch.uint64, device=x.device), x.shape[0]

        @torch.library.impl("md_test::back", "CPU")
        def back(g, given, n):
            self.assertEqual((given.dtype, given.tolist(), n), (torch.uint64, state, g.shape[0]))
            return g * 2

        @torch.library.register_fake("md_test::back")
        def back_fake(g, given, n):
            return torch.empty_like(g)

        def setup(ctx, inputs, output):
            ctx.save_for_backward(output[1])
            ctx.n = output[2]

        torch.library.register_autograd("md_test::draw", lambda ctx, g, *_: torch.ops.md_test.back(
            g, ctx.saved_tensors[0], ctx.n), setup_context=setup)

        class Draws(torch.nn.Module):
            def forward(self, x):
                return torch.ops.md_test.draw(x.sin())[0].cos()

        self.train(Draws(), [torch.randn(5, 4), torch.randn(9, 4)])


if __name__ == "__main__":
    unittest.main(verbosity=0)
