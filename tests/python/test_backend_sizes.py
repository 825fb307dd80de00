#!/usr/bin/env python3
"""Expressions over sizes: the table that C's users share, as values of a plan; long ones of PyTorch's graphs."""

import pathlib
import re
import unittest

from test_backend import Case, md, torch

from multidispatch import _core

TABLE = pathlib.Path(__file__).resolve().parent.parent / "expr" / "whole.inc"


def plan_of(texts):
    """A plan that gives the values of expressions over its arguments d0, d1 and d2, and what its fallback was told."""
    told = []
    plan = _core.Plan("host", "values")
    for d in range(3):
        plan.dim(f"d{d}", 0, 0)
    results = [(2, i, None, -1, "f32", (), ()) for i in range(len(texts))]
    functions = (lambda arguments, why: told.append(why) or (None,), torch.empty_strided, torch.as_strided)
    plan.finish(3, 0, False, [(d, -1) for d in range(3)], [], results, 0, texts, torch.empty(0), functions, None)
    return plan, told


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


if __name__ == "__main__":
    unittest.main()
