#!/usr/bin/env python3
"""Graphs with what no plan can hold: cut there, all else in plans. Skipped, loudly, where PyTorch is missing."""

import contextlib
import copy
import sys
import unittest
from unittest import mock

import needs_torch  # noqa: F401
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import multidispatch as md
from multidispatch.compile import pieces
from multidispatch.compile.rewriting.rewrite import rewrite
import strict  # noqa: F401 (faults are errors)

torch._dynamo.config.capture_scalar_outputs = True
torch._dynamo.config.capture_dynamic_output_shape_ops = True


def plans(report):
    """Nodes of each plan, and the reasons of each piece of PyTorch."""
    return [p["nodes"] if p["by"] == "a plan" else p["reasons"] for p in report["pieces"]]


class Pieces(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(53)
        torch._dynamo.reset()

    def compare(self, f, *calls, kernels=1):
        """One graph for all calls, which gives what PyTorch gives, with at least so many kernels. Its report."""
        compiled = torch.compile(f, backend="multidispatch", dynamic=True, fullgraph=True)
        before = [r["graph"] for r in md.explain_graph()]
        for inputs in calls:
            torch.testing.assert_close(compiled(*inputs), f(*inputs))
        reports = [r for r in md.explain_graph() if r["graph"] not in before]
        self.assertEqual(len(reports), 1)
        self.assertNotIn("reason", reports[0])
        self.assertEqual((reports[0]["fallbacks"], reports[0]["calls"]), (0, len(calls)), reports[0])
        self.assertGreaterEqual(len(reports[0]["kernels"]), kernels)
        return reports[0]

    def test_by_inductor(self):
        """Pieces that are TorchInductor's by an option; eager PyTorch's where it cannot compile them."""
        def f(x):
            y = torch.exp(x) * 2
            return (torch.nonzero(y > 1) * 2 + 1).float().sum(-1), torch.fft.rfft(y).abs()

        for fails in (False, True):
            torch._dynamo.reset()
            inner = mock.Mock(side_effect=ValueError("no C++"))
            with mock.patch("torch._inductor.compile_fx.compile_fx_inner", inner) if fails else contextlib.nullcontext(), \
                    self.assertLogs("multidispatch", "WARNING") if fails else contextlib.nullcontext():
                compiled = torch.compile(f, backend="multidispatch", dynamic=True, options={"pieces_by_inductor": True})
                for n in (4, 7):
                    x = torch.randn(n, 6)
                    torch.testing.assert_close(compiled(x), f(x))
            by = [p["by"] for p in md.explain_graph()[-1]["pieces"]]
            self.assertEqual(("TorchInductor" in by, "PyTorch" in by), (not fails, fails), by)

    def test_nonzero(self):
        def f(x):
            y = torch.exp(x) * 2
            return (torch.nonzero(y > 1) * 2 + 1).float().sum(-1), y.softmax(-1)

        report = self.compare(f, (torch.randn(4, 6),), (torch.randn(3, 5),), (torch.full((3, 5), -9.0),), kernels=3)
        self.assertEqual([type(p) for p in plans(report)], [int, list, int])
        self.assertIn("size u0 depends on data", plans(report)[1])
        table = md.explain_graph(text=True)
        self.assertEqual(str(md.explain_graph()), table)
        self.assertRegex(table, r"what +computed by +us a call +why")
        self.assertRegex(table, r"piece 1: \d+ nodes, 0 kernels +PyTorch +\d+\.\d  .*size u0 depends on data")
        self.assertRegex(table, r"piece 2: \d+ nodes, 1 kernels +a plan +\d+\.\d")

    def test_mask(self):
        def f(x, w):
            y = torch.tanh(x @ w)
            z = y[y > 0]
            return (z.exp() * 2).sum() + y.sum(), z * 3

        def inputs(b):
            return torch.randn(b, 6), torch.randn(6, 5)

        report = self.compare(f, inputs(4), inputs(9), (-torch.ones(3, 6), torch.ones(6, 5)), kernels=3)
        self.assertEqual([type(p) for p in plans(report)], [int, list, int])
        self.compare(lambda x: x[x > 0].sum(), (torch.randn(4, 6),), (torch.randn(7, 1),), (-torch.ones(2, 3),))

    def test_item(self):
        """As BLOOM's alibi: a number and places that the mask tells."""
        def f(mask, x):
            n, places = mask.sum().item(), torch.nonzero(mask[0]).flatten()
            y = (x * 2).exp()
            return y[:, places].sum(-1) + y.sum() * n

        report = self.compare(f, (torch.tensor([[1, 0, 1, 1]]), torch.randn(3, 4)),
                              (torch.tensor([[1, 0, 1, 1, 0]]), torch.randn(2, 5)), kernels=3)
        self.assertEqual([type(p) for p in plans(report)], [int, list, int])

    def test_length_from_data(self):
        def f(x, n):
            return (x.exp()[:n.item()] * 2).relu() + 1

        x = torch.randn(4, 6)
        self.compare(f, *((x, torch.tensor(n)) for n in (2, 4, 1, 0, 9, -1)))

    def test_checks_of_data(self):
        """A check is made before a plan reads what it promises."""
        def f(x, mask):
            n = mask.sum().item()
            torch._check(n >= 0)
            torch._check(n <= x.shape[0])
            return x.exp().narrow(0, 0, n) * 2

        x, compiled = torch.randn(4, 6), torch.compile(f, backend="multidispatch", dynamic=True)
        for n in (2, 4, 0):
            torch.testing.assert_close(compiled(x, torch.arange(6) < n), f(x, torch.arange(6) < n))
        self.assertIn("a check of sizes that depend on data", str(md.explain_graph()[-1]["pieces"]))
        with self.assertRaisesRegex(RuntimeError, "u0 <= "):
            compiled(x, torch.arange(6) < 5)

    def test_other_sizes_from_data(self):
        self.compare(lambda x: torch.unique(x.abs().ceil()).exp() + 1, (torch.randn(3, 4),), (torch.randn(5, 2),))
        self.compare(lambda x, n: (torch.repeat_interleave(x.exp(), n, dim=0) * 2).tanh(),
                     (torch.randn(3, 4), torch.tensor([1, 0, 2])), (torch.randn(2, 4), torch.tensor([1, 4])))
        self.compare(lambda x: (x[x > 0].shape[0] * 2, x.exp() + 1), (torch.randn(3, 4),), (torch.randn(5, 2),))

    def test_dtypes_without_formula(self):
        def f(x):
            z = torch.view_as_complex((x * 2).exp().reshape(x.shape[0], -1, 2)) * (1 + 2j)
            return torch.view_as_real(z).relu() * 3

        report = self.compare(f, (torch.randn(3, 4),), (torch.randn(5, 2),), kernels=2)
        self.assertEqual(plans(report)[1], ["tensors of torch.complex64"])

    def test_reals_made_of_sizes(self):
        """They are numbers of a kernel: nothing is cut, nothing is PyTorch's."""
        x, y = torch.randn(3, 4), torch.randn(5, 2)
        labels = torch.tensor([1, 0, 3]), torch.tensor([1, 0, 1, 1, 0])
        for f, *calls in ((lambda x: (x / x.shape[1]).relu() * (1.5 / x.shape[0]), (x,), (y,)),
                          (lambda x: (x * x.shape[1] ** 0.5).relu(), (x,), (y,)),
                          (lambda x: (x * (1 / x.shape[1] ** 0.5) ** 0.5).relu(), (x,), (y,)),
                          (lambda x: x * (1 / (x.shape[0] + 0.1)), (x.double(),), (y.double(),)),
                          (lambda x, l: F.cross_entropy(x, l, label_smoothing=0.1), (x, labels[0]), (y, labels[1]))):
            report = self.compare(f, *calls)
            self.assertEqual((report["eager"], report.get("pieces")), ([], None))

    def test_batch_norm_in_training(self):
        m = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU())
        other = copy.deepcopy(m)
        compiled = torch.compile(other, backend="multidispatch", dynamic=True)
        before = len(md.explain_graph())
        for b, h in ((2, 8), (3, 9), (5, 7)):
            x = torch.randn(b, 3, h, h)
            for module, call in ((m, m), (other, compiled)):
                module.zero_grad()
                call(x).square().sum().backward()
            for p, q in zip(m.parameters(), other.parameters()):
                torch.testing.assert_close(q.grad, p.grad, rtol=2e-4, atol=2e-4)
            for p, q in zip(m.buffers(), other.buffers()):
                torch.testing.assert_close(q, p)
        for report in md.explain_graph()[before:]:
            self.assertNotIn("reason", report)
            self.assertGreaterEqual(len(report["kernels"]), 2)

    def test_training(self):
        """A piece in a forward, and sizes from data in the backward."""
        def f(x, w):
            y = torch.tanh(x @ w)
            return (y[y > 0].exp() * 2).sum()

        compiled = torch.compile(f, backend="multidispatch", dynamic=True)
        before = len(md.explain_graph())
        for b in (4, 7):
            x, w = torch.randn(b, 6), torch.randn(6, 5)
            grads = [torch.autograd.grad(g(x, w.requires_grad_()), w)[0] for g in (f, compiled)]
            torch.testing.assert_close(grads[1], grads[0])
        self.assertEqual(["reason" in r for r in md.explain_graph()[before:]], [False, False])

    def test_order_of_random_numbers(self):
        """Eager's bits by option; without it, equal ones where the seed is."""
        def f(x):
            y = x[x > 0] * 2
            return torch.rand(3) + 1, torch.bernoulli(y.sigmoid()), torch.rand(2) * x.exp().sum()

        for eager_random in (True, False):
            torch._dynamo.reset()
            compiled = torch.compile(f, backend="multidispatch", dynamic=True, options={"eager_random": eager_random})
            for x in (torch.randn(4, 6), torch.randn(3, 3)):
                torch.manual_seed(7)
                expected = f(x) if eager_random else compiled(x)
                torch.manual_seed(7)
                torch.testing.assert_close(compiled(x), expected)

    def test_capture(self):
        m = torch.nn.Linear(6, 5)

        def f(x):
            y = torch.tanh(m(x))
            return y.sum(-1), (y[y > 0] * 3).exp()

        class M(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.m = m

            def forward(self, x):
                return f(x)

        captured = md.capture(M(), (torch.randn(3, 6),))
        with torch.no_grad():
            for b in (2, 5, 1, 0):
                x = torch.randn(b, 6)
                torch.testing.assert_close(captured(x), f(x), rtol=2e-6, atol=2e-6)
        self.assertEqual([type(p) for p in plans(md.explain_graph()[-1])], [int, list, int])

    def test_a_piece_that_no_plan_holds(self):
        """What only the building of a plan shows makes that piece PyTorch's, not the graph."""
        from multidispatch.compile import sizes
        backend = sys.modules["multidispatch.compile.backend"]
        real, calls = backend._plan, []

        def second_fails(*args):
            calls.append(args)
            if len(calls) == 2:
                raise sizes.Unsupported("for this test")
            return real(*args)

        with mock.patch.object(backend, "_plan", second_fails):
            report = self.compare(lambda x: (torch.nonzero(x.exp() > 1) * 2).sum() + x.exp().sum(), (torch.randn(4, 6),),
                                  (torch.randn(2, 3),))
        self.assertEqual([p["by"] for p in report["pieces"]], ["a plan", "PyTorch", "PyTorch"])

    def test_numbers_on_the_cpu(self):
        """As DeBERTa's: beside tensors of a GPU they are brought there by operations of their own."""
        def f(x, n):
            scale = torch.sqrt(n * 3)
            return (x / scale).softmax(-1) * n

        with FakeTensorMode(allow_non_fake_inputs=True):
            x, n = torch.empty(3, 4, device="cuda"), torch.empty(())
            graph = make_fx(f)(x, n)
        made, results = pieces.cut(graph, torch.device("cuda", 0), None)
        self.assertEqual([p.is_plan for p in made], [False, True])
        self.assertEqual([str(n.target) for n in made[1].nodes][::2], ["aten.div.Tensor", "aten.mul.Tensor"])
        self.assertEqual([str(n.target) for n in made[0].nodes],
                         ["aten.mul.Tensor", "aten.sqrt.default", "aten._to_copy.default", "aten._to_copy.default"])

    def test_known_numbers_on_the_cpu(self):
        """As DeBERTa's, made of constants: no operation of PyTorch is left."""
        def f(x):
            scale = torch.sqrt(torch.tensor(x.size(-1), dtype=torch.float) * 3)
            return (x / scale.to(x.dtype)).softmax(-1) * torch.log(torch.tensor(2.5))

        with FakeTensorMode(allow_non_fake_inputs=True):
            graph = make_fx(f)(torch.empty(3, 4, device="cuda", dtype=torch.bfloat16))
        rewrite(graph)
        self.assertEqual(pieces.cut(graph, torch.device("cuda", 0), None), ([], []))
        made = [n.args[1] for n in graph.graph.nodes if n.target is torch.ops.aten.full.default]
        self.assertEqual(sorted(made), sorted([torch.tensor(12.0).sqrt().bfloat16().item(), torch.tensor(2.5).log().item()]))


class Memory(unittest.TestCase):
    """What PyTorch computes between kernels reads memory that lies as its description says."""

    setUp, compare = Pieces.setUp, Pieces.compare

    def test_rows_of_a_bag(self):
        ids, w, starts = torch.randint(0, 10, (8, 4)), torch.randn(10, 5), torch.tensor([0, 3])
        self.compare(lambda i, w, o: F.embedding_bag(i[:, 0], w, o), (ids, w, starts), (ids[:5], w, starts))
        self.compare(lambda i, w, o: F.embedding_bag(i.t()[0], w.t().contiguous().t() * 2, o, mode="max") + 1,
                     (ids, w, starts))

    def test_as_strided(self):
        for f in (lambda x: x.t().contiguous().as_strided((4,), (1,)) + 0, lambda x: (x * 2).t().as_strided((4,), (1,)) + 0,
                  lambda x: (x[:, 1:] + 1).clone().as_strided((3,), (2,), 1) + 0):
            self.compare(f, (torch.randn(6, 8),), (torch.randn(5, 3),))
        x = torch.randn(2, 3, 4, 5)
        self.compare(lambda x: (x * 2).contiguous(memory_format=torch.channels_last).as_strided((4, 3), (1, 2), 1) + 0, (x,))
        self.compare(lambda x: (x.permute(0, 2, 3, 1) * 2).as_strided((4, 3), (1, 2), 1) + 0, (x,))

    def test_as_strided_around_a_part(self):
        def f(x):
            return (x * 2)[:, 1:].as_strided((3,), (2,), 1) + 0

        x = torch.randn(4, 5)
        torch.testing.assert_close(torch.compile(f, backend="multidispatch", dynamic=True)(x), f(x))

    def test_views_that_no_strides_say(self):
        self.compare(lambda x: x.t().contiguous().view(4, -1) + 1, (torch.randn(6, 8),), (torch.randn(10, 4),))
        self.compare(lambda x: x.transpose(1, 2).reshape(x.shape[0], 4, -1).mean(-1), (torch.randn(3, 6, 8),),
                     (torch.randn(2, 4, 4),))

    def test_static_sizes_of_0(self):
        for shape in ((3, 0), (0, 3), (0, 0)):
            x = torch.randn(shape)
            torch._dynamo.reset()
            self.compare(lambda x: (x.softmax(-1), x.logsumexp(-1), x.sum(-1), x.prod(0)), (x,), kernels=0)
            self.compare(lambda x: torch.cat([x * 2, x + 1], -1).relu(), (x,), kernels=0)
            self.compare(lambda x: (x @ x.t()).relu() + 1, (x,), kernels=0)


if __name__ == "__main__":
    unittest.main(verbosity=0)
