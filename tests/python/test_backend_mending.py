#!/usr/bin/env python3
"""What fails although it was thought to be ours goes to PyTorch alone: failures are injected while a graph is lowered, while
formulas are written, when ops are made, when kernels are built, and in the first call."""

import logging
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest
from unittest import mock

import needs_torch  # noqa: F401
import torch

import multidispatch as md
from multidispatch.compile.lowering.lower import Lowering
from multidispatch.compile.running import plan
from multidispatch.compile.sizes import Unsupported

OURS = {"eager_where_faster": False, "eager_while_building": False}
write = plan.write


def model(x, w):
    y = torch.tanh(torch.softmax(x @ w, -1) * 2 + 1)
    return torch.exp(y - y.mean(-1, keepdim=True)), y.sum(0)


def apart(x, w):
    """With a kernel that has tanh and no operation that others need."""
    y = torch.softmax(x @ w, -1)
    return torch.exp(y.sum(0)), torch.tanh(torch.relu(w)), y


class Mending(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        torch.manual_seed(77)

    def inputs(self):
        return [(torch.randn(b, 6), torch.randn(6, 5)) for b in (4, 9, 1)]

    def check(self, f, calls, reason, ops=("aten.tanh.default",)):
        """All calls are right; these ops are PyTorch's, for the reason; all else is in kernels."""
        compiled = torch.compile(f, backend="multidispatch", dynamic=True, options=OURS)
        for given in calls:
            torch.testing.assert_close(compiled(*given), f(*given))
        report = md.explain_graph()[-1]
        self.assertNotIn("reason", report)
        self.assertEqual([e["op"] for e in report["eager"] if reason in e["reason"]], list(ops), report["eager"])
        self.assertGreaterEqual(len(report["kernels"]), 3)
        self.assertIn(reason, md.explain_graph(text=True))
        return report

    def refuse(self, error, word="tanh"):
        """Lowering an operation fails, beyond its row of the table."""
        settle = Lowering._settle

        def broken(lowering, node):
            if node.target is getattr(torch.ops.aten, word).default and node not in lowering.given_up:
                raise error
            settle(lowering, node)

        return mock.patch.object(Lowering, "_settle", broken)

    def change(self, change):
        """Changes the formulas that have tanh."""
        def changed(group, dims):
            formula = write(group, dims)
            if "tanh(" in formula.text:
                change(formula)
            return formula

        return mock.patch.object(plan, "write", changed)

    def test_lowering(self):
        with self.refuse(Unsupported("not today")):
            report = self.check(model, self.inputs(), "not today")
        self.assertEqual((report["fallbacks"], report["calls"]), (0, 3))

    def test_a_fault_of_lowering(self):
        with self.refuse(KeyError("of our own")), self.assertLogs("multidispatch", logging.ERROR) as log:
            self.check(model, self.inputs(), "a fault of multidispatch: KeyError: 'of our own'")
        self.assertIn("Traceback", log.output[0])

    def test_two(self):
        with self.refuse(Unsupported("not today")), self.refuse(Unsupported("nor that"), "exp"):
            self.check(lambda x, w: model(torch.tanh(x), w), self.inputs(), "not today", ["aten.tanh.default"] * 2)
            self.check(model, self.inputs(), "nor that", ["aten.exp.default"])

    def test_a_formula(self):
        def refuse(formula):
            raise Unsupported("nobody writes that")

        with self.change(refuse):
            self.check(model, self.inputs(), "nobody writes that")

    def test_making_an_op(self):
        def spoil(formula):
            formula.text += "; Z["

        with self.change(spoil):
            report = self.check(apart, self.inputs(), "expected")
        self.assertEqual((report["fallbacks"], report["calls"]), (0, 3))

    def test_the_first_call(self):
        """The call is PyTorch's; those that follow are the plan's again."""
        def spoil(formula):
            formula.sizes = "x0=4099"

        with self.change(spoil):
            report = self.check(apart, self.inputs(), "(call ")
        self.assertEqual((report["fallbacks"], report["calls"]), (1, 3))
        self.assertGreater(report["launches"], 0)

    def test_a_call_that_is_wrong(self):
        """It is PyTorch's to refuse, and the plan stays."""
        f = torch.compile(lambda x, i: x[i] * 2 + 1, backend="multidispatch", dynamic=True, options=OURS)
        x = torch.randn(5, 3)
        f(x, torch.tensor([1, 4]))
        with self.assertRaises(IndexError):
            f(x, torch.tensor([1, 5, 0]))
        torch.testing.assert_close(f(x, torch.tensor([1, 2, 3])), x[1:4] * 2 + 1)
        self.assertEqual(md.explain_graph()[-1]["eager"], [])

    def test_in_one_of_several_pieces(self):
        def f(x, w):
            y = torch.nonzero(torch.exp(x @ w) > 1)
            return torch.tanh(y.float() * 3 + 1).sum(0), torch.softmax(x @ w, -1)

        with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True), self.refuse(Unsupported("not today")):
            report = self.check(f, self.inputs(), "not today")
        self.assertEqual([p["by"] for p in report["pieces"]], ["a plan", "PyTorch", "a plan"])

    def test_building(self):
        """A compiler that fails for kernels with tanh: no evaluator serves where PyTorch can."""
        with tempfile.TemporaryDirectory() as folder:
            compiler = pathlib.Path(folder) / "cc"
            compiler.write_text(textwrap.dedent("""\
                #!/bin/sh
                for a in "$@"; do
                    case "$a" in *.c) grep -q "tanh_f32" "$a" && exit 1;; esac
                done
                exec cc "$@"
                """), encoding="utf-8")
            compiler.chmod(0o755)
            program = textwrap.dedent(f"""\
                import sys
                sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})
                import test_backend_mending as t
                case = t.Mending()
                case.setUp()
                case.check(t.apart, case.inputs(), "none of its kernels could be built")
                """)
            env = os.environ | {"MD_CC": str(compiler), "MD_CACHE_DIR": folder + "/store"}
            ran = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)
        self.assertEqual(ran.returncode, 0, ran.stderr[-3000:])


if __name__ == "__main__":
    unittest.main()
