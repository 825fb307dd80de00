#!/usr/bin/env python3
"""Values at the edges, through plans, against eager PyTorch: nan, signed zeros, narrow types, division by 0, indices out of
range, pads and views of memory, tensors that are changed. Graphs are traced without Dynamo, and formulas run in the
reference evaluator: what is under test is what a graph is lowered to."""

import os
import sys
import unittest

import needs_torch  # noqa: F401
os.environ["MD_CC"] = "/no/compiler"

import logging

import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import multidispatch as md
from multidispatch.compile import backend
from multidispatch.compile.lowering.decompositions import table
from multidispatch.compile.lowering.lower import Lowering
from multidispatch.compile.rewriting.rewrite import rewrite
from multidispatch.compile.sizes import Dims
import strict  # noqa: F401 (faults are errors)

plan_of = sys.modules[backend.__module__].plan_of
NAN, INF = float("nan"), float("inf")
SEED = int(os.environ.get("MD_TEST_SEED", "34"))


def bits(x):
    """With the signs of zeros."""
    return torch.copysign(torch.ones(()), x) if x.is_floating_point() else x


class Case(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(SEED)
        logging.getLogger("multidispatch").setLevel(logging.ERROR)

    def planned(self, f, *inputs):
        """What a plan of f gives, what f gives, and the report. Inputs that f changes are compared, too."""
        names = ", ".join("abcdef"[:len(inputs)])
        traced = eval(f"lambda f: lambda {names}: f({names})")(lambda *x: tuple(f(*x)))
        module = make_fx(traced, decomposition_table=table(), tracing_mode="symbolic")(*inputs)
        plan = plan_of(module, "values")
        theirs, ours = [x.clone() for x in inputs], [x.clone() for x in inputs]
        want = f(*theirs)
        got = plan(list(ours))
        torch.testing.assert_close(ours, theirs, equal_nan=True)
        return got, want, md.explain_graph()[-1]

    def compare(self, f, *inputs, left=(), signs=True):
        """As eager, with the signs of zeros (unless `signs` is False); only the operations `left` are PyTorch's."""
        got, want, report = self.planned(f, *inputs)
        for a, b in zip(got, want, strict=True):
            torch.testing.assert_close(a, b, equal_nan=True)
            if signs and a.is_floating_point():
                torch.testing.assert_close(bits(a.nan_to_num()), bits(b.nan_to_num()))
        self.assertNotIn("reason", report)
        self.assertEqual(report["fallbacks"], 0, report.get("fallback_reasons"))
        self.assertEqual(sorted({e["op"].split(".")[1] for e in report["eager"]}), sorted(left), report["eager"])
        return report


class Values(Case):
    def test_sign_of_nan(self):
        x = torch.tensor([NAN, -NAN, INF, -2.5, 0.0, -0.0, 1e-40])
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            self.compare(lambda x: (x.sign(), torch.sgn(x * 2)), x.to(dtype))
        self.compare(lambda x: (x.sign(),), torch.tensor([3, 0, -7]))

    def test_signed_zeros(self):
        x = torch.tensor([-0.5, 0.5, -0.0, 0.0])
        self.compare(lambda x: (1 / (x.ceil() + torch.zeros_like(x)), 1 / (x.ceil() + 0), 1 / (0.0 + x.ceil()),
                                1 / (x.ceil() - 0.0), 1 / (x.ceil() * 1), 1 / -(x * 0)), x)
        self.compare(lambda x: (torch.full_like(x, -0.0), torch.where(x > 9, 1.0, -0.0), 1 / (x * 0 + -0.0)), x)
        self.compare(lambda x: (1 / x.ceil()[:, None].sum(1), 1 / x.ceil()[:, None].mean(1),
                                1 / (x.ceil()[:, None] @ torch.ones(1, 1))), x)

    def test_parts_of_a_tensor_beside_numbers(self):
        """The first part of a cat is shorter than the whole, and no part behind it is read by a further index."""
        def parts(a):
            assert a.shape[1] == 4  # not dynamic
            one = torch.ones_like(a[:, :3])
            return (torch.cat([a[:, 1:3], one], 1) * 2, torch.cat([a[:, :2], a[:, 1:2].expand(-1, 3)], 1) * 2,
                    torch.cat([a[:, :1], one, a[:, 2:4]], 1) * 2)

        self.compare(parts, torch.randn(5, 4))

    def test_zeros_that_no_one_sees_go(self):
        """A mask of zeros before a softmax costs nothing."""
        report = self.compare(lambda x: ((x * 2 + torch.zeros(4)).softmax(-1),), torch.randn(3, 4))
        self.assertIn("folded", str(report["rewrites"]))

    def test_whole_numbers_by_zero(self):
        x = torch.tensor([7, -7, 0])
        for f in (lambda x, y: (x // y,), lambda x, y: (x % y,), lambda x, y: (torch.fmod(x, y),)):
            for y in (torch.tensor(0), torch.tensor([1, 0, 2])):
                with self.assertRaisesRegex(RuntimeError, "ZeroDivision"):
                    self.planned(f, x, y)[0]
        for y in (3, -2):
            self.compare(lambda x, y=y: (x // y, x % y), x)
        self.compare(lambda x: (torch.arange(x.shape[1]) // x.shape[0], torch.arange(x.shape[0]) % x.shape[1]),
                     torch.randn(3, 5))

    def test_conversions(self):
        x = torch.tensor([-1.0, -1.9, 255.0, 256.0, 300.5, -300.5, 0.5])
        for dtype in (torch.uint8, torch.int8, torch.int16, torch.int64):
            self.compare(lambda x, dtype=dtype: ((x * 1).to(dtype),), x)
            self.compare(lambda x, dtype=dtype: (x.to(dtype),), x.bfloat16())

    def test_narrow_steps(self):
        """Steps show the rounding of what they are given."""
        for dtype in (torch.bfloat16, torch.float16):
            x = torch.linspace(-2, 2, 37).to(dtype)
            self.compare(lambda x: ((x * 0.999).floor(), (x + 0.001).ceil(), (x * 1.003).round(), (x * 2.999).long(),
                                    torch.remainder(x * 1.003, 1), torch.fmod(x * 1.003, 0.125), (x * 1e38 * 10).isinf(),
                                    torch.logical_not(x * 1e-30 * 1e-30), (x * 1e-30 * 1e-30).bool(),
                                    (x * 1.001).argmax(), (x + 1.0).max(0)[1]), x, signs=False)

    def test_floor_division_of_reals(self):
        x = torch.tensor([5.0, -5.0, 0.3, -0.3, 0.0, -0.0, INF, NAN, 1e30])[:, None]
        y = torch.tensor([2.0, -2.0, 0.1, 0.0, -0.0, INF, NAN])[None]
        self.compare(lambda x, y: (x // y,), x, y)
        self.compare(lambda x: (x // 0.3, torch.div(x, -0.7, rounding_mode="floor")), torch.randn(50).bfloat16())

    def test_division_by_numbers_on_a_gpu(self):
        """By the inverse, as PyTorch does there, also of a scalar on the CPU; what a tensor holds is divided by."""
        def f(x, y):
            return x / 3.0, x / torch.tensor(3.0), x / y, x / x.shape[0]

        for device, inverses in (("cuda:0", [True, True, False, True]), ("cpu", [False] * 4)):
            with FakeTensorMode(allow_non_fake_inputs=True):
                graph = make_fx(f)(torch.empty(4, 8, device=device), torch.empty(8, device=device))
            rewrite(graph)
            lowered = Lowering(graph, Dims(), torch.device(device), None, False, {}).run()
            trees = [o.buf.tree for o in lowered.outputs]
            self.assertEqual(["1.0 / " in str(getattr(t, "text", "")) for t in trees], inverses)

    def test_variance(self):
        x = torch.randn(3, 5)
        self.compare(lambda x: (x.var(1, correction=2), x.var((0, 1), correction=3), x.std(1, correction=2)), x)

    def test_hypot(self):
        """Squares overflow and underflow; infinite where one is, beside nan, too."""
        x = torch.tensor([0.0, -0.0, 1.0, -3.0, INF, -INF, NAN, 1e-30, 1e30, 3e38]).repeat(10, 1)
        for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
            self.compare(lambda x, y: (torch.hypot(x, y),), x.to(dtype), x.t().to(dtype))

    def test_shifts_and_powers_of_whole_numbers(self):
        """Counts beyond the width, results that do not fit."""
        for dtype in (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8):
            x, n = (torch.tensor(v).to(dtype) for v in ([-128, 127, 64, -1, 3, 0, 5, 77], [1, 2, 7, 0, 3, 8, 63, 9]))
            self.compare(lambda x, n: (x << 1, x >> 2, torch.bitwise_left_shift(x, n), x >> n, x ** 0, x ** 1, x ** 5, x ** 8), x, n)

    def test_other_rows(self):
        x, y = torch.tensor([NAN, 1.0, -2.0, INF]), torch.tensor([1.0, NAN, 3.0, NAN])
        self.compare(lambda x, y: (torch.fmax(x, y), torch.fmin(x, y), F.leaky_relu(x, 0.2)), x, y)
        self.compare(lambda x: (x ** 2, x ** 3, (x > 0) + (x < 0)), torch.tensor([3, -2, 0], dtype=torch.int8))


class Indices(Case):
    def test_out_of_range(self):
        """As eager: -1 counts from the end, or is an error."""
        w, ones = torch.randn(5, 3), torch.ones(2, 3)
        for i in (torch.tensor([0, 4]), torch.tensor([-1, 0]), torch.tensor([0, 5])):
            for f in (lambda w, i, ones: (w.index_add(0, i, ones),), lambda w, i, ones: (w.index_copy(0, i, ones),),
                      lambda w, i, ones: (w.index_fill(0, i, 2.0),), lambda w, i, ones: (w[i] * 2,),
                      lambda w, i, ones: (w.index_select(0, i) * 2,), lambda w, i, ones: (F.embedding(i, w) * 2,),
                      lambda w, i, ones: (w.gather(0, i[:, None]) * 2,), lambda w, i, ones: (w.index_put((i,), ones) * 2,),
                      lambda w, i, ones: (w.scatter_add(0, i[:, None].expand(2, 3), ones) * 2,)):
                try:
                    want = f(w, i, ones)
                except (RuntimeError, IndexError):
                    with self.assertRaises((RuntimeError, IndexError)):
                        self.planned(f, w, i, ones)
                else:
                    torch.testing.assert_close(self.planned(f, w, i, ones)[0], want)


    def test_first_positions(self):
        """Fewer than an axis has, which is not the outermost in memory: relative positions of XLNet."""
        x = torch.randn(3, 9, 2)
        self.compare(lambda x: (torch.index_select(x * 2, 1, torch.arange(x.shape[0])) * 3, x.exp()[:, torch.arange(4)] + 1,
                                torch.index_select(x.transpose(0, 1) + 1, 1, torch.arange(2)).sum(2),
                                (x * 2).gather(1, torch.arange(4)[None, :, None].expand(3, 4, 2))), x)


class Places(Case):
    def test_pads(self):
        x = torch.randn(3, 5)
        for pad in ((1, 2), (1, 0, 0, 2), (0, 3), (-1, 2), (2, -1, 1, -1), (0, 0)):
            self.compare(lambda x, pad=pad: (F.pad(x, pad, value=3.0), F.pad(x.exp(), pad) * 2), x)
            self.compare(lambda x, pad=pad: (F.pad(x.t(), pad), F.pad(x > 0, pad, value=True)), x)
        self.compare(lambda x: ((F.pad(x, (2, 2)) * 2).sum(1), F.pad(x, (1, 0)).cumsum(1), F.pad(x, (0, 1)).argmax(1),
                                F.pad(x, (1, 1)).softmax(-1), F.pad(x, (1, 1)) @ F.pad(x, (1, 1)).t()), x)
        self.compare(lambda x: (F.pad(x, (0, 4 - x.shape[1] % 4)), F.pad(x, (x.shape[0], 0, 0, x.shape[1]))), x)

    def test_aranges_of_reals(self):
        """As of relative positions; PyTorch counts their elements in reals."""
        x = torch.randn(6, 4)
        self.compare(lambda x: (torch.arange(x.shape[0], -x.shape[0], -1.0) + x.sum(), torch.arange(0, x.shape[0], 3.0) * 2,
                                torch.arange(0.5, x.shape[0], 0.25) + x.sum(), torch.arange(x.shape[1] / 2, 9.0) + x.sum(),
                                torch.arange(0.0, 1.0, 0.1) + x.sum(), torch.arange(5.0, dtype=torch.bfloat16) * 2,
                                torch.empty_permuted((4, 6), (1, 0)).shape[0] + x), x)

    def test_flips_and_repeats(self):
        x = torch.randn(3, 5)
        self.compare(lambda x: (x.flip(1), x.flip(0, 1) * 2, x.t().flip(0), x[:1].flip(0)), x)
        self.compare(lambda x: (x.repeat(2, 1), x.repeat(3, 2, 2), x[:, :1].repeat(1, 4) + 1, x.repeat(0, 2)), x)

    def test_sizes_that_no_tensor_has(self):
        self.compare(lambda x: (torch.arange(x.shape[0]).sum(), torch.ones(x.shape[1]).cumsum(0),
                                (torch.arange(x.shape[1]) > 2).float().mean() * x), torch.randn(3, 5))


def turned(x, by):
    """Rotary embeddings as Llama's reference code writes them."""
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * by[:, None]).flatten(3).type_as(x)


class Complex(Case):
    """As pairs of real numbers, if they are made of such: nothing of it is PyTorch's."""

    def test_rotary(self):
        def by(n):
            return torch.polar(torch.ones(n, 4), torch.arange(n)[:, None] / 10.0 ** torch.arange(4))

        x = torch.randn(2, 5, 3, 8)
        self.compare(lambda x: (turned(x, by(x.shape[1])) * 2,), x)
        self.compare(lambda x: (turned(x, by(x.shape[1])),), x.bfloat16())

    def test_operations(self):
        x, y = torch.randn(3, 4), torch.randn(3, 4)
        self.compare(lambda x, y: (torch.view_as_real(torch.complex(x, y) * torch.polar(x, y)), torch.complex(x, y).angle(),
                                   torch.view_as_real(torch.complex(x, y) / 3), torch.view_as_real(x * torch.complex(y, x)),
                                   torch.view_as_real((torch.complex(x, y) - torch.polar(y, x))[1:].t().unsqueeze(1)),
                                   torch.view_as_real((torch.complex(x, y) * torch.complex(y, x).conj()).sum(1)),
                                   torch.view_as_real(-torch.complex(x, y).clone()) + 1), x, y, signs=False)

    def test_what_stays(self):
        """Arguments are read as real numbers by PyTorch; complex results are its own."""
        x = torch.randn(5, 4)
        for f, given in ((lambda x, c: (torch.view_as_real(torch.complex(x, x) * c) * 2,), (x, torch.randn(5, 4, dtype=torch.complex64))),
                         (lambda x, c: (torch.view_as_real(torch.complex(x, x) * c.conj()) * 2,), (x, torch.randn(5, 4, dtype=torch.complex64))),
                         (lambda x, c: (torch.view_as_real(torch.complex(x, x) * torch.conj(c) * torch.ops.aten._conj(2j)) * 2,),
                          (x, torch.randn(5, 4, dtype=torch.complex64))),
                         (lambda x: (torch.polar(x, x) * torch.polar(x, x), x * 2), (x,)), (lambda x: (torch.polar(x, x).abs() * 2,), (x,))):
            got, want, report = self.planned(f, *given)
            torch.testing.assert_close(got, want)
            self.assertNotIn("reason", report)
            self.assertTrue(report["kernels"])


SLICES = {
    "last": lambda x: x / (x[:, -1:] + 3), "last two": lambda x: x[:, -2:] * x[:, :2], "all but": lambda x: x[:, 1:] - x[:, :-1],
    "first": lambda x: x / (x[:, :1] + 3), "beyond": lambda x: x[:, 2:100] + 1, "steps": lambda x: x[:, -4:-1:2] * 2,
    "a size": lambda x: x[:, -x.shape[0]:] + x[:, :x.shape[0]],
    "from a size": lambda x: x[:, -(x.shape[0] + 1):-1] + x[:, -x.shape[0]:],
    "of a part": lambda x: x.unflatten(0, (-1, 1))[:, 0].cumsum(1)[:, -1:] + x, "places": lambda x: x[:, -1:, -2:] + x[:, :, -1:]}


class Slices(Case):
    """By torch.compile: PyTorch asks there what the sizes of slices are, before the backend is called."""

    def test_from_the_end(self):
        """At sizes that they do not reach, too."""
        for name, f in SLICES.items():
            torch._dynamo.reset()
            compiled = torch.compile(f, backend=backend, dynamic=True, options={"eager_where_faster": False})
            for shape in ((2, 5, 4), (3, 7, 4), (2, 3, 4), (1, 4, 4), (1, 1, 4), (2, 0, 4)):
                x = torch.randn(shape)
                with self.subTest(name, shape=shape):
                    torch.testing.assert_close(compiled(x), f(x))

    def test_one_graph(self):
        """For all sizes that a slice reaches."""
        torch._dynamo.reset()
        before = {r["graph"] for r in md.explain_graph()}
        compiled = torch.compile(lambda x: x[:, -2:] / x[:, -1:], backend=backend, dynamic=True)
        for size in (5, 9, 3, 2):
            compiled(torch.ones(3, size, 4))
        self.assertEqual(sum(r["graph"] not in before for r in md.explain_graph()), 1)


class Memory(Case):
    def check(self, f, *inputs):
        got, want, report = self.planned(f, *inputs)
        torch.testing.assert_close(got, want)
        self.assertNotIn("reason", report)
        self.assertEqual(report["fallbacks"], 0, report.get("fallback_reasons"))
        self.assertGreater(len(report["kernels"]), 0)
        return str(report.get("pieces"))

    def test_as_strided(self):
        x = torch.randn(4, 6)
        self.check(lambda x: ((x * 2)[1:].as_strided((2, 3), (6, 2), 1) * 2,), x)
        self.check(lambda x: (x[1:].as_strided((4,), (1,), 0) + 1, x.exp().as_strided((3, 3), (1, 2)) * 2), x)
        self.assertIn("elements overlap", self.check(lambda x: (x.as_strided((3, 3), (1, 2)), x.exp()), x))
        self.check(lambda x: (x.unfold(1, 3, 2), x.unfold(1, 2, 1).exp()), x)

    def test_views_that_symbols_do_not_show(self):
        """A view of memory in another order is no error where PyTorch computes it."""
        def f(x):
            y = F.pad(x.t(), (0, (4 - x.shape[0] % 4) % 4)).exp()
            return y.reshape(y.shape[0], -1, 4).sum(-1), y.t().reshape(-1, 4, y.shape[0]) * 2
        for n in (8, 6):
            self.check(f, torch.randn(n, 3))

    def test_changes(self):
        def through_views(x):
            y = x * 2
            v = y[1:]
            z = v.exp()
            v.add_(1)
            return y * 3, z + v

        def of_arguments(x):
            a, b = x.t().relu(), x[0]
            b.mul_(2)
            c = x.sum()
            x.add_(1)
            return a + c, x * 2

        def of_new(x):
            y = torch.zeros(4, 6)
            y[1] = x[0]
            y[:, 2:].add_(x[:, 2:])
            return y * 2, y.sum(0)

        for f in (through_views, of_arguments, of_new):
            self.assertIn("it changes its arguments", self.check(f, torch.randn(4, 6)))


if __name__ == "__main__":
    unittest.main()
