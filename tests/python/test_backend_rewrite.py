#!/usr/bin/env python3
"""Rewrites of a graph before it is cut into kernels: what they find, what they must leave, and that results stay right.
Skipped, loudly, where PyTorch is missing."""

import functools
import unittest

import needs_torch  # noqa: F401
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import multidispatch as md
from multidispatch.compile import backend
from multidispatch.compile.rewriting.causal import name_causal_of_training
from multidispatch.compile.rewriting.rewrite import rewrite
from multidispatch.compile.rewriting.uniform import Values
import strict  # noqa: F401 (faults are errors)

FOLDED, NAMED = "operations on constants folded", "attentions named"
CAUSAL = "masks left to causal attention"


class Case(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        torch.manual_seed(18)
        self.before = len(md.explain_graph())

    def rewrites(self, f, *inputs, tolerance=2e-6):
        """Compiles f, compares each call, and gives what was rewritten in its one graph, by kind."""
        compiled = torch.compile(f, backend=backend, dynamic=True)
        for arguments in inputs:
            torch.testing.assert_close(compiled(*arguments), f(*arguments), rtol=tolerance, atol=tolerance)
        report, = md.explain_graph()[self.before:]
        self.assertEqual(report["fallbacks"], 0)
        self.kernels = report["kernels"]
        return {line.partition(" ")[2]: int(line.partition(" ")[0]) for line in report["rewrites"]}


class Constants(unittest.TestCase):
    def test_what_is_one_number(self):
        """Constants of a graph, and the number that all their elements are; None: none is known."""
        nan = float("nan")
        for constant, number in ((torch.ones(3, 4), 1.0), (torch.full((2,), 2.5), 2.5), (torch.tensor(7), 7),
                                 (torch.tensor([True, True]), True), (torch.tensor([1.0, 1.0, 2.0]), None),
                                 (torch.tensor([2.0, 1.0, 1.0]), None), (torch.arange(3), None), (torch.tensor([nan, nan]), None),
                                 (torch.zeros(0), None), (torch.ones(4096), 1.0), (torch.ones(4097), None),
                                 (torch.ones(2, dtype=torch.complex64), None), (torch.nn.Parameter(torch.ones(2)), None)):
            module = torch.nn.Module()
            module.part = torch.nn.Module()
            module.part.constant = constant
            graph = torch.fx.Graph()
            node = graph.get_attr("part.constant")
            node.meta["val"] = constant.detach()
            graph.output(node)
            values = Values(torch.fx.GraphModule(module, graph))
            self.assertEqual(values.number(node), number, constant)
            self.assertFalse(values.is_all(node, 3.5))

    def test_numbers_that_operations_give(self):
        """Of known numbers, rounded to the dtype; operations that change their operand or draw are not known."""
        aten = torch.ops.aten
        for op, arguments, dtype, number in (
                (aten.full.default, ([3], 0.1), torch.float32, torch.tensor(0.1).item()),
                (aten.full.default, ([3], 0.1), torch.bfloat16, torch.tensor(0.1, dtype=torch.bfloat16).item()),
                (aten.full.default, ([3], 2.7), torch.int32, 2), (aten.zeros.default, ([2],), torch.float32, 0.0),
                (aten.ones.default, ([2],), torch.bool, True), (aten.full.default, ([3], 1.0), torch.complex64, None),
                (aten.rand.default, ([3],), torch.float32, None)):
            graph = torch.fx.Graph()
            node = graph.call_function(op, arguments)
            node.meta["val"] = torch.empty(3, dtype=dtype)
            added = graph.call_function(aten.add.Tensor, (node, 1))
            added.meta["val"] = torch.empty(3, dtype=torch.add(torch.empty(1, dtype=dtype), 1).dtype)
            moved = graph.call_function(aten.unsqueeze.default, (node, 0))
            moved.meta["val"] = torch.empty(1, 3, dtype=dtype)
            drawn = graph.call_function(aten.bernoulli.p, (node, 0.5))
            drawn.meta["val"] = torch.empty(3, dtype=dtype)
            values = Values(torch.fx.GraphModule(torch.nn.Module(), graph))
            self.assertEqual(values.number(node), number, (op, dtype))
            self.assertEqual(values.number(moved), number)
            self.assertIsNone(values.number(drawn))
            if number is None:
                self.assertIsNone(values.number(added))
            else:
                self.assertEqual(values.number(added), (torch.tensor(number, dtype=dtype) + 1).item())


class Fold(Case):
    def inputs(self):
        return [(torch.randn(b, 6),) for b in (3, 1, 0, 7)]

    def test_masks_of_zeros(self):
        def f(x):
            mask = torch.where(torch.ones(x.shape, dtype=torch.bool), 0.0, -torch.inf) * 1.0
            return (x * 2 + mask).relu()

        self.assertGreaterEqual(self.rewrites(f, *self.inputs())[FOLDED], 1)
        self.assertNotIn("inf", self.kernels[0]["formula"])

    def test_branches_never_taken(self):
        def f(x):
            keep = torch.ones_like(x, dtype=torch.bool) & (x > 0)
            never = torch.zeros_like(x, dtype=torch.bool)
            return torch.where(never, x.exp(), x.sin()).masked_fill(never, 3.0).cos() + torch.where(keep, x, 0)

        self.assertEqual(self.rewrites(f, *self.inputs())[FOLDED], 3)
        self.assertNotIn("exp", self.kernels[0]["formula"])

    def test_neutral_numbers(self):
        def f(x):
            return ((x * 1.0 + 0) / 1 - torch.zeros(6)).pow(1).sin()

        self.assertGreaterEqual(self.rewrites(f, *self.inputs())[FOLDED], 3)

    def test_what_must_stay(self):
        """A zero times x (NaN), numbers that are scaled, whole numbers' bits, and sums that change the dtype."""
        def f(x, i):
            scaled = torch.add(torch.zeros_like(x), x, alpha=2)
            return x * torch.zeros(6), scaled.sin(), (i & torch.ones_like(i)).sum(), (i + torch.zeros(6)).sin()

        x = torch.randn(3, 6)
        x[0, 0] = torch.nan
        compiled = torch.compile(f, backend=backend, dynamic=True)
        i = torch.randint(0, 9, (3, 6))
        torch.testing.assert_close(compiled(x, i), f(x, i), equal_nan=True)
        report, = md.explain_graph()[self.before:]
        self.assertFalse([line for line in report["rewrites"] if FOLDED in line])

    def test_results_are_new(self):
        """A result is never the argument itself, though nothing changes it."""
        compiled = torch.compile(lambda x: x + 0, backend=backend, dynamic=True)
        x = torch.randn(4, 6)
        y = compiled(x)
        self.assertNotEqual(y.data_ptr(), x.data_ptr())
        torch.testing.assert_close(y, x)

    def test_masks_of_attention(self):
        def f(q):
            n = q.shape[2]
            return torch.nn.functional.scaled_dot_product_attention(q, q, q, torch.zeros(1, 1, n, n))

        self.assertEqual(self.rewrites(f, *((torch.randn(b, 2, 5, 8),) for b in (3, 4)), tolerance=1e-5)[FOLDED], 1)


class Attention(Case):
    def parts(self, *shapes, dtype=torch.float32):
        return [tuple(torch.randn(b, 4, n, 8, dtype=dtype) for _ in range(3)) + (torch.randn(b, 1, n, n, dtype=dtype),)
                for b, n in shapes]

    def check(self, f, named, dtype=torch.float32):
        found = self.rewrites(f, *self.parts((2, 6), (1, 9), (0, 5), (7, 3), dtype=dtype),
                              tolerance=1e-5 if dtype == torch.float32 else 3e-2)
        self.assertEqual(found.get(NAMED, 0), named)

    def test_scaled_and_masked(self):
        def f(q, k, v, mask):
            return torch.softmax(q @ k.transpose(-1, -2) / 8 ** 0.5 + mask, -1) @ v

        for dtype in (torch.float32, torch.bfloat16):
            with self.subTest(dtype):
                self.setUp()
                self.check(f, 1, dtype)

    def test_softmax_in_f32(self):
        """As transformers write it; the scale is on the queries, the mask on the left."""
        def f(q, k, v, mask):
            scores = mask + (q * 0.3) @ k.transpose(2, 3)
            return (torch.softmax(scores.float(), -1).to(q.dtype) @ v).transpose(1, 2) * 2

        self.check(f, 1, torch.bfloat16)

    def test_two_attentions(self):
        def f(q, k, v, mask):
            v = torch.softmax(q @ k.transpose(2, 3) * 0.5, -1) @ v
            return torch.softmax(q @ k.transpose(2, 3) * 0.5 + mask, -1) @ v

        self.check(f, 2)

    def test_what_is_no_attention(self):
        """Scores or weights that are read elsewhere, a mask inside of the scale, another axis."""
        def weights(q, k, v, mask):
            w = torch.softmax(q @ k.transpose(2, 3) + mask, -1)
            return w @ v, w.sum()

        def scores(q, k, v, mask):
            s = q @ k.transpose(2, 3)
            return torch.softmax(s + mask, -1) @ v, s.amax()

        def inside(q, k, v, mask):
            return torch.softmax((q @ k.transpose(2, 3) + mask) * 0.5, -1) @ v

        def axis(q, k, v, mask):
            return torch.softmax(q @ k.transpose(2, 3) + mask, -2) @ v

        for f in (weights, scores, inside, axis):
            with self.subTest(f.__name__):
                self.setUp()
                found = self.rewrites(f, *self.parts((2, 6), (3, 9)), tolerance=2e-5)
                self.assertEqual(found.get(NAMED, 0), 0)

    def test_training_keeps_its_softmax(self):
        def f(q, k, v):
            return torch.softmax(q @ k.transpose(2, 3), -1) @ v

        q, k, v = (torch.randn(2, 4, 5, 8, requires_grad=True) for _ in range(3))
        expected = torch.autograd.grad(f(q, k, v).sin().sum(), (q, k, v))
        got = torch.autograd.grad(torch.compile(f, backend=backend, dynamic=True)(q, k, v).sin().sum(), (q, k, v))
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


def packed(n):
    """As transformers writes it: tokens see earlier ones of their sequence, which ends where positions jump."""
    positions = torch.arange(n).unsqueeze(0)
    steps = torch.diff(positions, prepend=positions[:, :1] - 1, dim=-1)
    sequence = (steps != 1).cumsum(-1)
    q, k = torch.arange(n).view(1, 1, n, 1), torch.arange(n).view(1, 1, 1, n)
    zero = torch.arange(1).view(1, 1, 1, 1)
    return torch.ones((), dtype=torch.bool) & (positions[zero, k] <= positions[zero, q]) \
        & (sequence[zero, q] == sequence[zero, k])


def rows(n):
    return torch.arange(n).unsqueeze(1)


def columns(n):
    return torch.arange(n).unsqueeze(0)


def traced(f, q, k, v):
    def call(q, k, v):
        return f(q, k, v)

    return make_fx(call)(q, k, v)


def unpadded(n, first=0):
    """As transformers' masks where nothing is padded."""
    kept, batch = torch.ones(2, n).bool(), torch.arange(2)[:, None, None, None]
    return (columns(n) <= rows(n)) & kept[batch, torch.arange(first, n + first)[None, None, None, :]]


def on_gpu(size, dtype):
    """Fake q, k and v, as projections leave them."""
    return (torch.empty(2, 9, 4, size, dtype=dtype, device="cuda").transpose(1, 2) for _ in range(3))


class Causal(Case):
    """Masks that are known from the places alone."""

    ALIKE = (packed, unpadded,
             lambda n: torch.ones(n, n, dtype=torch.bool).tril(),
             lambda n: torch.full((n, n), -torch.inf).triu(1),
             lambda n: ~(columns(n) > rows(n)),
             lambda n: torch.zeros(n, n).masked_fill(columns(n) >= 1 + rows(n), -torch.inf),
             lambda n: torch.where(rows(n) - columns(n) >= 0, 0.0, torch.finfo(torch.float32).min))
    OTHERS = (lambda n: 3 * columns(n) < 3 * rows(n) + 1,  # causal, but not seen to be
              lambda n: torch.where(columns(n) < rows(n), 0.0, torch.finfo(torch.float32).min),
              lambda n: columns(n) <= rows(n) + 1,
              lambda n: columns(n) >= rows(n),
              lambda n: (columns(n) <= rows(n)) & (rows(n) - columns(n) < 3),
              lambda n: columns(n) <= rows(n).flip(0),
              lambda n: torch.cat([columns(n)[:, 1:], columns(n)[:, :1]], 1) <= rows(n),
              lambda n: columns(n) - n <= torch.arange(n)[rows(n) - n],  # places that count from the end
              lambda n: unpadded(n, -n),
              lambda n: torch.where(columns(n) <= rows(n), 0.0, -1.0))

    def found(self, mask, queries=None):
        def f(q, k):
            return torch.nn.functional.scaled_dot_product_attention(q, k, 2 * k, mask(k.shape[2]))

        self.setUp()
        sizes = (7, 12, 1 if queries is None else 9)
        inputs = [(torch.randn(2, 3, queries or n, 8), torch.randn(2, 3, n, 8)) for n in sizes]
        return self.rewrites(f, *inputs, tolerance=1e-5).get(CAUSAL, 0)

    def test_causal_masks(self):
        for i, mask in enumerate(self.ALIKE):
            with self.subTest(i):
                self.assertEqual(self.found(mask), 1)

    def test_captured(self):
        """A captured size may be 0, and its first element min(1, n) elements."""
        def f(x):
            q = x.view(1, 1, -1, 8)
            return torch.nn.functional.scaled_dot_product_attention(q, q, q, packed(x.shape[0]))

        captured = md.capture(f, (torch.randn(7, 8),))
        for n in (9, 30):
            x = torch.randn(n, 8)
            torch.testing.assert_close(captured(x), f(x), rtol=1e-5, atol=1e-5)
        self.assertNotIn("i64", str([k["formula"] for k in md.explain_graph()[-1]["kernels"]]))

    def test_other_masks(self):
        for i, mask in enumerate(self.OTHERS):
            with self.subTest(i):
                self.assertEqual(self.found(mask), 0)

    def test_other_numbers_of_queries_and_keys(self):
        """Query i sees keys up to i, however many there are."""
        self.assertEqual(self.found(lambda n: columns(n) <= rows(5), 5), 1)

    def test_positions_that_are_given(self):
        def f(q, positions):
            sees = positions.unsqueeze(-1) >= positions.unsqueeze(-2)
            return torch.nn.functional.scaled_dot_product_attention(q, q, q, sees.unsqueeze(1))

        inputs = [(torch.randn(2, 3, n, 8), torch.arange(n).flip(0).expand(2, n)) for n in (7, 12)]
        self.assertEqual(self.rewrites(f, *inputs, tolerance=1e-5).get(CAUSAL, 0), 0)

    def test_training(self):
        def f(q, k):
            n = k.shape[2]
            return torch.nn.functional.scaled_dot_product_attention(q, k, 2 * k, columns(n) <= rows(n))

        compiled = torch.compile(f, backend=backend, dynamic=True)
        for n in (7, 12, 1):
            given = [torch.randn(2, 3, n, 8, requires_grad=True) for _ in range(2)]
            results = [g(*given) for g in (f, compiled)]
            torch.testing.assert_close(results[1], results[0], rtol=1e-5, atol=1e-5)
            expected, got = (torch.autograd.grad((y * torch.linspace(-1, 1, 8)).sum(), given) for y in results)
            torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
        self.assertNotIn("bool", str([r["kernels"] for r in md.explain_graph()[self.before:]]))

    @staticmethod
    def mask_on_gpu(q):
        n = q.shape[2]
        at = torch.arange(n, device="cuda")
        mask = torch.where(at.unsqueeze(0) <= at.unsqueeze(1), 0.0, -torch.inf).to(q.dtype)
        return torch.constant_pad_nd(mask, [0, 16 - n % 16])[:, :n].expand(2, 4, n, n)

    @classmethod
    def attention_on_gpu(cls, op, q, k, v):
        return op(q, k, v, cls.mask_on_gpu(q), False, scale=0.1)[0]

    def test_who_forbids_flash_attention_gets_none(self):
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.EFFICIENT_ATTENTION), FakeTensorMode():
            q, k, v = on_gpu(64, torch.bfloat16)
            efficient = torch.ops.aten._scaled_dot_product_efficient_attention
            module = traced(functools.partial(self.attention_on_gpu, efficient), q, k, v)
            self.assertIn(f"1 {CAUSAL}", rewrite(module))
            attention, = (n for n in module.graph.nodes if "attention" in str(n.target))
            self.assertIs(attention.target, efficient.default)

    @classmethod
    def efficient_training(cls, q, k, v):
        mask, aten = cls.mask_on_gpu(q), torch.ops.aten
        y, sums, seed, offset = aten._scaled_dot_product_efficient_attention(q, k, v, mask, True, 0.1, scale=0.1)
        return y, *aten._scaled_dot_product_efficient_attention_backward(
            y, q, k, v, mask, y, sums, seed, offset, 0.1, [True, True, True, False], scale=0.1)[:3]

    @classmethod
    def cudnn_training(cls, q, k, v):
        mask, aten = cls.mask_on_gpu(q), torch.ops.aten
        y, sums, at_q, at_k, n_q, n_k, seed, offset, _ = aten._scaled_dot_product_cudnn_attention(
            q, k, v, mask, True, 0.1, False, False, scale=0.1)
        return y, *aten._scaled_dot_product_cudnn_attention_backward(
            y, q, k, v, y, sums, seed, offset, mask, at_q, at_k, n_q, n_k, 0.1, False, scale=0.1)

    def test_training_on_gpus(self):
        """By fake tensors: forward and backward lose the same mask, or both keep theirs."""
        for f in (self.efficient_training, self.cudnn_training):
            with self.subTest(f.__name__), FakeTensorMode():
                q, k, v = on_gpu(64, torch.bfloat16)
                module = traced(f, q, k, v)
                self.assertEqual(name_causal_of_training(module), 1)
                forward, backward = (n for n in module.graph.nodes if "attention" in str(n.target))
                for node in (forward, backward):
                    self.assertIn(True, node.args)
                    self.assertIn(0.1, node.args)
                    self.assertEqual(node.kwargs, {"scale": 0.1})
                self.assertFalse(any(n.target is torch.ops.aten.where.self for n in module.graph.nodes))
                module(q, k, v)  # the arguments are what the operations take
                module = traced(f, q, k, v)
                backward = [n for n in module.graph.nodes if "attention" in str(n.target)][1]
                at = 4 if f == self.efficient_training else 8
                backward.args = (*backward.args[:at], backward.args[1], *backward.args[at + 1:])  # another mask
                self.assertEqual(name_causal_of_training(module), 0)

    def test_operations_of_gpus(self):
        """By fake tensors: each of PyTorch's operations for GPUs, and a head that flash attention does not take."""
        aten = torch.ops.aten
        efficient, cudnn = aten._scaled_dot_product_efficient_attention, aten._scaled_dot_product_cudnn_attention
        flash = aten._scaled_dot_product_flash_attention
        cases = ((efficient, torch.bfloat16, 64, flash), (cudnn, torch.bfloat16, 64, cudnn),
                 (efficient, torch.float32, 64, efficient), (efficient, torch.float16, 20, efficient))
        for op, dtype, size, expected in cases:
            with self.subTest(op=op, dtype=dtype, size=size), FakeTensorMode():
                q, k, v = on_gpu(size, dtype)
                module = traced(functools.partial(self.attention_on_gpu, op), q, k, v)
                self.assertIn(f"1 {CAUSAL}", rewrite(module))
                attention, = (n for n in module.graph.nodes if "attention" in str(n.target))
                self.assertIs(attention.target, expected.default)
                self.assertIn(True, attention.args)
                self.assertEqual(attention.kwargs, {"scale": 0.1})
                self.assertFalse(any(n.target is aten.where.self for n in module.graph.nodes))


if __name__ == "__main__":
    unittest.main(verbosity=0)
