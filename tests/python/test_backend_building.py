#!/usr/bin/env python3
"""Calls of a graph whose kernels are being built: eager PyTorch serves them, then the plan."""

import io
import logging
import os
import subprocess
import sys
import threading
import types
import unittest
from unittest import mock

import needs_torch  # noqa: F401
import torch

import multidispatch as md
from multidispatch.compile import backend
from multidispatch.compile.options import Options
from multidispatch.compile.running import building, faster, progress
from multidispatch.compile.report import Report
from multidispatch.compile.running.mending import Mending
from multidispatch.compile.running.plan import Builder
import strict  # (faults are errors)

OPTIONS = {"eager_while_building": True, "eager_where_faster": False}


def f(x, w):
    return torch.tanh(x @ w).sum(1)


def compiled(f, **options):
    return torch.compile(f, backend=backend, dynamic=True, options=OPTIONS | options)


class Building(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        torch.manual_seed(18)
        self.go = threading.Event()
        self.addCleanup(self.go.set)
        make_ops = Builder._make_ops

        def waiting(builder, check):
            self.go.wait()
            make_ops(builder, check)

        patched = mock.patch.object(Builder, "_make_ops", waiting)
        patched.start()
        self.addCleanup(patched.stop)

    def test_eager_then_the_plan(self):
        c, w = compiled(f), torch.randn(8, 5)
        for batch in (3, 7, 1, 3):
            x = torch.randn(batch, 8)
            torch.testing.assert_close(c(x, w), f(x, w), rtol=0, atol=0)
        report = md.explain_graph()[-1]
        self.assertEqual((report["calls"], report["eager_calls"], len(report["kernels"])), (4, 4, 2))
        self.go.set()
        md.wait_graphs()
        for batch in (3, 1, 0):
            x = torch.randn(batch, 8)
            torch.testing.assert_close(c(x, w), f(x, w))
        report = md.explain_graph()[-1]
        self.assertEqual((report["calls"], report["eager_calls"], report["fallbacks"]), (7, 4, 0))

    def test_memory_in_another_order(self):
        """Attention with a mask lies in another order than the graph says, which has a view of it."""
        def attend(x, mask):
            y = torch.nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=mask).transpose(1, 2)
            return y.reshape(y.shape[0], y.shape[1], 32)

        c, mask = compiled(attend), torch.randn(12, 12, 4).permute(2, 0, 1)
        for batch in (2, 3):
            x = torch.randn(batch, 12, 4, 8).transpose(1, 2)
            torch.testing.assert_close(c(x, mask), attend(x, mask))
        self.assertEqual(md.explain_graph()[-1]["eager_calls"], 2)

    def test_a_backward_of_the_plan_after_eagers_forward(self):
        c, w = compiled(lambda x, w: torch.nn.functional.dropout(torch.tanh(x @ w), 0.5) * 3), torch.randn(8, 5)
        x = torch.randn(30, 8, requires_grad=True)
        y = c(x, w)
        self.go.set()
        md.wait_graphs()
        y.sum().backward()
        kept = (y != 0).double()
        exact = (6 * kept * (1 - torch.tanh(x.double() @ w.double()) ** 2)) @ w.double().t()
        torch.testing.assert_close(x.grad.double(), exact, rtol=1e-5, atol=1e-5)
        self.assertIn("rand(", md.explain_graph()[-1]["kernels"][0]["formula"])

    def test_what_cannot_be_built(self):
        def broken(builder, check):
            raise md.MdError("no room")

        w = torch.randn(8, 5)
        with mock.patch.object(Builder, "_make_ops", broken), self.assertLogs("multidispatch", logging.WARNING) as log:
            c = compiled(f)
            for batch in (3, 2):
                x = torch.randn(batch, 8)
                torch.testing.assert_close(c(x, w), f(x, w), rtol=0, atol=0)
            md.wait_graphs()
            c(x, w)
        self.assertEqual(len(log.output), 1, log.output)
        report = md.explain_graph()[-1]
        self.assertEqual((report["eager_calls"], report["fallback_reasons"]), (3, {"no room": 1}))

    @unittest.skipUnless(hasattr(os, "fork"), "no fork")
    def test_a_forked_child_builds_by_itself(self):
        """When it calls the graph, not before."""
        c, w, x = compiled(f), torch.randn(8, 5), torch.randn(3, 8)
        expected = c(x, w)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                self.go.set()
                at_once = [t for t in threading.enumerate() if "multidispatch" in t.name]
                torch.testing.assert_close(c(x, w), expected)
                md.wait_graphs()
                torch.testing.assert_close(c(x, w), expected)
                status = 0 if md.explain_graph()[-1]["eager_calls"] == 2 and not at_once else 2
            finally:
                os._exit(status)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)

    def test_options(self):
        with self.assertRaisesRegex(Exception, "eager_while_building: 3: expected True, False or None"):
            compiled(f, eager_while_building=3)(torch.randn(3, 8), torch.randn(8, 5))


class OnAGPU(unittest.TestCase):
    """What concerns streams, without a device."""

    def test_a_call_that_is_captured_waits_for_the_plan(self):
        asked = threading.Event()

        def is_capturing():
            asked.set()
            return True

        def make(check):
            asked.wait()
            return lambda given: ("plan", *given)

        b = building.Building(make, make, lambda given: ("eager", *given), lambda error: None, torch.device("cuda"))
        with mock.patch("torch.cuda.is_current_stream_capturing", lambda: False):
            self.assertEqual(b([3]), ("eager", 3))
        with mock.patch("torch.cuda.is_current_stream_capturing", is_capturing):
            self.assertEqual(b([4]), ("plan", 4))
        self.assertEqual((b([5]), b.n_eager), (("plan", 5), 1))

    def test_memory_that_eager_lacks(self):
        """The plan may need less."""
        def lacks(given):
            raise torch.OutOfMemoryError("no room")

        def fails(check):
            raise ValueError("no plan")

        go = threading.Event()
        b = building.Building(lambda check: go.wait() and tuple, tuple, lacks, lambda error: go.set(), torch.device("cpu"))
        threading.Timer(0.1, go.set).start()
        self.assertEqual(b([3]), (3,))
        without = building.Building(fails, fails, lacks, lambda error: None, torch.device("cpu"))
        with self.assertRaisesRegex(torch.OutOfMemoryError, "no room"):
            without([3])
        raced = faster.Faster(tuple, lacks, [(0, -1)])
        self.assertEqual(raced._by_eager([5]), (5,))

    def test_where_it_is_the_default(self):
        wanted = [strict.is_wanted(Options(**given)) for given in (
            {}, {"eager_where_faster": False}, {"eager_where_faster": False, "eager_while_building": True},
            {"eager_while_building": False}, {"numeric": "deterministic", "eager_while_building": True})]
        self.assertEqual(wanted, [True, False, True, False, False])

    def test_memory_that_pytorch_holds_is_given_back(self):
        """Where a plan has none; a few times, since it costs."""
        builder = types.SimpleNamespace(nodes_of_steps=lambda: [], device=torch.device("cuda"))
        mending = Mending(torch.fx.symbolic_trace(lambda x: x + 1), Report("short"), lambda: None, tuple, False)
        run = mending._fallback(builder)
        with mock.patch("torch.cuda.empty_cache") as given_back, mock.patch("torch.cuda.is_current_stream_capturing", lambda: False), \
                self.assertLogs("multidispatch", logging.WARNING):
            for status in (3, 2, 2, 2, 2, 2):
                self.assertEqual(run([7], "no room", status, None), (7,))
        self.assertEqual(given_back.call_count, 3)


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Progress(unittest.TestCase):
    def shown(self, stream):
        with mock.patch("sys.stderr", stream), progress.of(2) as built:
            built()
            with progress.of(3) as other:
                other()
            built()
        return stream.getvalue()

    def test_a_terminal_has_a_line(self):
        """Of two graphs at once, one of which stops; it goes in the end."""
        lines = self.shown(Terminal()).split("\r\x1b[K")
        self.assertEqual(lines, ["", *(f"multidispatch: {n} kernels are built" for n in ("0 of 2", "1 of 2", "1 of 5", "2 of 5", "4 of 5")), "", ""])
        self.assertEqual(self.shown(Terminal()).count("0 of 2"), 1)

    def test_files_have_none(self):
        self.assertEqual(self.shown(io.StringIO()), "")


class AtTheEnd(unittest.TestCase):
    def test_a_program_that_ends_while_kernels_are_built(self):
        text = """
import torch, multidispatch
c = torch.compile(lambda x: sum(torch.tanh(x[:, i:i + 1] * (i + 2)).cumsum(0).sum(1) for i in range(12)),
                  backend="multidispatch", dynamic=True)
print(c(torch.ones(5, 12)).shape)
"""
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "torch.Size([5])\n", ""))


if __name__ == "__main__":
    unittest.main(verbosity=int(os.environ.get("TEST_VERBOSE", "0")))
