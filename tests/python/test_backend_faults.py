#!/usr/bin/env python3
"""What the backend of torch.compile does with faults of its own, with options that it does not have, and with backwards
that run twice."""

import logging
import sys
import unittest
from unittest import mock

import torch

import multidispatch as md
from multidispatch.compile import backend
from multidispatch.compile.lowering import lower
from multidispatch.compile.rewriting import rewrite

whole = sys.modules["multidispatch.compile.backend"]


def broken(*_, **__):
    return {}["of our own"]


class Faults(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()

    def runs(self, f, *inputs):
        """The compiled function gives what the function gives, and the fault is logged with its traceback."""
        with self.assertLogs("multidispatch", logging.ERROR) as log:
            got = torch.compile(f, backend=backend, dynamic=True)(*inputs)
        torch.testing.assert_close(got, f(*inputs))
        self.assertIn("a fault of multidispatch", log.output[0])
        self.assertIn("Traceback", log.output[0])
        self.assertIn("KeyError: 'of our own'", log.output[0])
        return md.explain_graph()[-1]

    def test_of_an_operation(self):
        with mock.patch.dict(lower.TABLE, relu=broken):
            report = self.runs(lambda x: (x * 3 + 2).relu().exp(), torch.randn(3, 4))
        self.assertEqual([e["op"] for e in report["eager"]], ["aten.relu.default"])
        self.assertIn("a fault of multidispatch: KeyError", report["eager"][0]["reason"])
        self.assertEqual(len(report["kernels"]), 2)

    def test_of_a_rewrite(self):
        def half(module):
            product = next(n for n in module.graph.nodes if n.op == "call_function")
            product.replace_all_uses_with(next(iter(module.graph.nodes)))
            broken()
        lines = rewrite.REWRITES
        with mock.patch.object(rewrite, "REWRITES", (*lines[:3], ("half of it", half), *lines[3:])):
            report = self.runs(lambda x: (x * 3 + 2).relu(), torch.randn(3, 4))
        self.assertEqual((report["eager"], len(report["kernels"])), ([], 1))

    def test_of_all(self):
        with mock.patch.object(whole, "Builder", broken):
            report = self.runs(lambda x: (x * 3 + 2).relu(), torch.randn(3, 4))
            self.assertIn("a fault of multidispatch: KeyError", report["reason"])
            torch._dynamo.reset()
            w = torch.randn(4, requires_grad=True)
            self.runs(lambda x: torch.autograd.grad((x * w).sum(), w)[0], torch.randn(3, 4))
            x = torch.randn(3, 4)
            with self.assertLogs("multidispatch", logging.ERROR):
                captured = md.capture(lambda x: x.relu() + 1, (x,))
            torch.testing.assert_close(captured(x), x.relu() + 1)

    def test_of_training(self):
        w = torch.randn(4, requires_grad=True)
        with mock.patch.object(whole, "name_causal_of_training", broken):
            self.runs(lambda x: (x * w).exp().sum(), torch.randn(3, 4))

    def test_the_users(self):
        """An error of the program stays its own."""
        def f(x):
            raise RuntimeError("the user's")
        with self.assertRaisesRegex(RuntimeError, "the user's"):
            torch.compile(f, backend=backend, dynamic=True)(torch.randn(3))


class Calls(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()

    def test_vmap(self):
        """A number for one item, which vmap converts."""
        for f, x in ((lambda y: y * 2 + 1, torch.randn(8)), (lambda y: y * 2 + 1, torch.randn(3, 4)),
                     (lambda y: y * 2 + 1, torch.arange(8)), (lambda y: torch.where(y > 0.5, 1, y), torch.randn(8))):
            torch._dynamo.reset()
            got = torch.compile(lambda x, f=f: torch.vmap(f)(x), backend=backend, dynamic=True)(x)
            torch.testing.assert_close(got, torch.vmap(f)(x))
            self.assertNotIn("reason", md.explain_graph()[-1])

    def test_options(self):
        x = torch.randn(3)
        for options, text in (({"mode": "nonsense"}, "mode='nonsense'"),
                              ({"options": {"x": 1}}, "no option 'x': expected select, numeric, eager_where_faster"),
                              ({"options": {"select": "best"}}, "option select: 'best'"),
                              ({"options": {"numeric": "exact"}}, "option numeric: 'exact'"),
                              ({"options": {"eager_where_faster": "yes"}}, "eager_where_faster: 'yes'"),
                              ({"mode": "max-autotune"}, "mode='max-autotune'")):
            torch._dynamo.reset()
            with self.assertRaisesRegex(Exception, text):
                torch.compile(lambda x: x + 1, backend=backend, **options)(x)
        torch._dynamo.reset()
        torch.testing.assert_close(torch.compile(lambda x: x + 1, backend=backend, mode="default")(x), x + 1)
        torch._dynamo.reset()
        given = {"select": "model", "numeric": "deterministic", "eager_where_faster": None}
        torch.testing.assert_close(torch.compile(lambda x: x + 1, backend=backend, options=given)(x), x + 1)

    def test_retain_graph(self):
        w, v = torch.randn(4, 5, requires_grad=True), torch.randn(5, 5, requires_grad=True)

        def f(x):
            return torch.tanh(torch.softmax(x @ w, -1) @ v).sum()

        x = torch.randn(3, 4)
        want = torch.autograd.grad(f(x), (w, v))
        y = torch.compile(f, backend=backend, dynamic=True)(x)
        for last in (False, False, True):
            for got, right in zip(torch.autograd.grad(y, (w, v), retain_graph=not last), want):
                torch.testing.assert_close(got, right)
        with self.assertRaisesRegex(RuntimeError, "second time|freed"):
            torch.autograd.grad(y, w)


if __name__ == "__main__":
    unittest.main()
