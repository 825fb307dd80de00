#!/usr/bin/env python3
"""Expressions over sizes: the table that C's users share, as values of a plan; long ones of PyTorch's graphs."""

import pathlib
import random
import re
import unittest
import unittest.mock

from test_backend import SEED, Case, md, torch

import sympy
from torch.fx.experimental.symbolic_shapes import ShapeEnv, guard_or_false, guard_or_true
from torch.utils._sympy.functions import CeilToInt, FloatTrueDiv, FloorDiv, Max, Min, Mod, ToFloat

from multidispatch import _core
from multidispatch.compile.normal import normal
from multidispatch.compile.sizes import Dims, magnitude

TABLE = pathlib.Path(__file__).resolve().parent.parent / "expr" / "whole.inc"


def plan_of(texts):
    """A plan that gives the values of expressions over its arguments d0, d1 and d2, and what its fallback was told."""
    told = []
    plan = _core.Plan("host", "values")
    for d in range(3):
        plan.dim(f"d{d}", 0, 0)
    results = [(2, i, None, -1, "f32", (), ()) for i in range(len(texts))]
    functions = (lambda arguments, why, *_: told.append(why) or (None,), None, torch.empty_strided, torch.as_strided)
    plan.finish(3, 0, False, [(d, -1, 0) for d in range(3)], [], results, 0, texts, torch.empty(0), functions, None)
    return plan, told


class Normal(unittest.TestCase):
    """Expressions in one form (compile/normal.py)."""

    def setUp(self):
        self.s, self.t, self.u = sympy.symbols("s0 s1 s2", integer=True, nonnegative=True)

    def test_forms(self):
        """What models make of sizes: lengths rounded up, windows, sizes that a view leaves open."""
        s, t = self.s, self.t
        up = FloorDiv(s, 2) + Mod(4 - Mod(FloorDiv(s, 2), 4), 4)
        windows = FloorDiv(up, 4)
        for e, text in ((up, 4 * FloorDiv(s + 6, 8)), (windows, FloorDiv(s + 6, 8)), (FloorDiv(s ** 2, s), s),
                        (FloorDiv(16 * t * windows ** 2, up ** 2), t), (FloorDiv(FloorDiv(s, 2) + 1, 2), FloorDiv(s + 2, 4)),
                        (FloorDiv(s / 2 + 3, 4), FloorDiv(s + 6, 8)), (Mod(4 * s + 3, 4), sympy.Integer(3)),
                        (Min(2 ** 63 - 1, FloorDiv(2 * s, 2)), s), (Max(t, FloorDiv(2 * t, 2)), t)):
            self.assertEqual(normal(e), text)

    def test_reals(self):
        """Lengths of ranges of reals, where PyTorch rounds nothing."""
        s = self.s
        for e, text in ((CeilToInt(FloatTrueDiv(ToFloat(-s) - ToFloat(s), sympy.Float(-1.0))), 2 * s),
                        (CeilToInt(FloatTrueDiv(ToFloat(s) - 0.5, sympy.Float(0.25))), 4 * s - 2),
                        (CeilToInt(FloatTrueDiv(ToFloat(s), sympy.Float(3.0))), FloorDiv(s + 2, 3))):
            self.assertEqual(normal(e), text)
        rounded = CeilToInt(FloatTrueDiv(ToFloat(s), sympy.Float(0.1)))
        self.assertEqual(normal(rounded), rounded)

    def test_order(self):
        """Also of quotients that are known to be whole, where numbers leave a remainder."""
        s, t = self.s, self.t
        up = FloorDiv(s, 4) + Mod(3 - Mod(FloorDiv(s, 4), 3), 3)
        sizes = [4, s / 4, up * 3, s * t, FloorDiv(s / 4, 3) * s * t * 16, s * s * t * 16]
        self.assertEqual(sorted(sizes, key=magnitude), sizes)

    def grown(self, rng, depth):
        kind = rng.randrange(7) if depth else rng.randrange(2)
        if kind == 0:
            return rng.choice([self.s, self.t, self.u])
        small = sympy.Integer(rng.randrange(1, 9))
        if kind == 1:
            return small
        a, b = self.grown(rng, depth - 1), self.grown(rng, depth - 1)
        return {2: lambda: a + b, 3: lambda: a * b, 4: lambda: FloorDiv(a, b), 5: lambda: Mod(a, small),
                6: lambda: FloorDiv(a, small)}[kind]()

    def test_values_stay(self):
        """Random expressions at random sizes: as SymPy has them, and as the text that plans read."""
        print(f"seed {SEED}")
        rng, n = random.Random(SEED), 0
        for _ in range(150):
            try:
                e = self.grown(rng, 3)
            except ZeroDivisionError:
                continue
            f, dims = normal(e), Dims()
            text = dims.text(f)
            for _ in range(3):
                at = {x: sympy.Integer(rng.randrange(1, 40)) for x in (self.s, self.t, self.u)}
                try:
                    want = int(e.subs(at))
                except (ZeroDivisionError, TypeError):  # a quotient by an expression that is 0 there
                    continue
                names = {f"d{d}": int(at[x]) for x, d in dims.names.items()}
                self.assertEqual((int(f.subs(at)), eval(text, names)), (want, want), f"{e} -> {f} at {at}")
                n += 1
        self.assertGreater(n, 200)


class Table(unittest.TestCase):
    def test_values(self):
        names = {"m": "d0", "n": "d1", "z": "d2"}
        rows = re.findall(r'^(VALUE|NONE)\("(.*?)"(?:, (-?\d+))?\)', TABLE.read_text(encoding="utf-8"), flags=re.M)
        self.assertGreater(len(rows), 30)
        for kind, text, value in rows:
            text = re.sub(r"\b[mnz]\b", lambda m: names[m[0]], text)
            with self.subTest(text):
                plan, told = plan_of([text])
                got = plan([3, 1000, 0])
                if kind == "VALUE":
                    self.assertEqual(got, (int(value),))
                else:
                    self.assertEqual(told, ["arguments are not as the graph was made for: "
                                            f"'{text}' divides by 0 or exceeds 64 bits at these sizes"])

    def test_mistakes(self):
        with self.assertRaisesRegex(md.ArgumentError, "a size: 1:6: 'd3' is no dim; did you mean"):
            plan_of(["d0 + d3"])


class Numbers(Case):
    def test_negative_arguments(self):
        """Whole numbers among the arguments, which are symbols of the graph, may be negative where sizes are not."""
        def f(x, n):
            return x * n + torch.arange(n, n + x.shape[1]) + n // 3 + n % 3

        for g, numbers in ((f, (3, -5, -1, 7)), (lambda x, n: torch.nn.functional.pad(x, (n, 1)), (2, -3, 4)),
                           (lambda x, n: torch.zeros(n) + x.sum(), (3, 5, 2))):
            torch._dynamo.reset()
            compiled = torch.compile(g, backend="multidispatch", dynamic=True, options={"eager_where_faster": False})
            for n in numbers:
                x = torch.randn(4, 9)
                torch.testing.assert_close(compiled(x, n), g(x, n))
            self.assertEqual((md.explain_graph()[-1]["fallbacks"], md.explain_graph()[-1]["eager"]), (0, []))


class Long(Case):
    def test_300_operations(self):
        def f(x):
            n = sum(x.shape[0] // k for k in range(2, 153))
            return torch.ones(n) * x.sum()

        self.check_all_ours(self.compare(f, *((torch.randn(b),) for b in (200, 333, 0))))

    def test_nested_operations(self):
        def f(x):
            n = x.shape[0]
            for k in range(30):
                n = (n * 3 + k) // 2 % (1000 + k)
            return torch.ones(n) * x.sum()

        self.check_all_ours(self.compare(f, *((torch.randn(b),) for b in (200, 333, 0))))


class Exact(Case):
    def test_parts_with_a_remainder(self):
        """What PyTorch has checked to be a multiple is divided exactly, though parts of it are none: (s - 1)/2 + 1."""
        def f(x, y):
            n, m = x.shape[0], y.shape[0]
            if (n - 1) % 2 != 0 or (n + 3 * m) % m != 0:
                raise ValueError("other sizes")
            return torch.ones((n - 1) // 2 + 1, (n + 3 * m) // m + 2) * x.sum() + y.sum()

        self.check_all_ours(self.compare(f, *((torch.randn(n), torch.randn(m)) for n, m in ((15, 5), (21, 7), (9, 3)))))


class Conditions(Case):
    def test_examples_disprove(self):
        """What fails for the example holds for some sizes at most: SymPy is not asked. It is where the example says nothing."""
        asked = []
        known = ShapeEnv._maybe_evaluate_static

        def evaluate(env, condition, *args, **options):
            asked.append(str(condition))
            return known(env, condition, *args, **options)

        evaluate.cache_clear, evaluate.cache_info = known.cache_clear, known.cache_info

        def f(x):
            n = x.shape[0]
            out = [guard_or_false(n == 5), guard_or_true(n != 5), guard_or_false(n == 7), guard_or_true(n != 7)]
            return x + sum(2 ** i for i, holds in enumerate(out) if holds)

        with unittest.mock.patch.object(ShapeEnv, "_maybe_evaluate_static", evaluate):
            compiled = torch.compile(f, backend="multidispatch", dynamic=True)
            for n in (7, 5, 2):
                torch.testing.assert_close(compiled(torch.zeros(n)), torch.full((n,), 2.0 + 8))
        self.assertTrue(any("7" in x for x in asked))
        self.assertFalse([x for x in asked if "5" in x])


if __name__ == "__main__":
    unittest.main()
