#!/usr/bin/env python3
"""Plans that eager PyTorch serves at the sizes where it was measured to be faster. Times come from a clock of the test."""

import os
import threading
import unittest
from unittest import mock

import needs_torch  # noqa: F401
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import multidispatch as md
from multidispatch.compile.options import Options
from multidispatch.compile.running import building, faster
import strict  # noqa: F401 (faults are errors)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class Way:
    """A plan, or what runs it eagerly: `cost` gives the seconds that a call with so many rows takes."""

    def __init__(self, clock, cost):
        self.clock, self.cost, self.calls, self.built = clock, cost, [], threading.Event()

    def __call__(self, given):
        self.calls.append(given[0].shape[0])
        self.clock.now += self.cost(given[0].shape[0])
        return (given[0] * 2,)

    def wait(self):
        self.built.wait()

    def count(self):
        return {"calls": len(self.calls)}


class Served(unittest.TestCase):
    def setUp(self):
        self.clock = Clock()
        patch = mock.patch.object(faster.time, "perf_counter", self.clock)
        patch.start()
        self.addCleanup(patch.stop)

    def raced(self, plan_cost, eager_cost):
        self.plan, self.eager = Way(self.clock, plan_cost), Way(self.clock, eager_cost)
        return faster.Faster(self.plan, self.eager, [(0, 0)])

    def run_calls(self, f, rows, n):
        before = len(self.plan.calls), len(self.eager.calls)
        for _ in range(n):
            self.assertEqual(f([torch.ones(rows)])[0].sum(), 2 * rows)
        return len(self.plan.calls) - before[0], len(self.eager.calls) - before[1]

    def built(self, f):
        self.plan.built.set()
        f._waiter.join()

    def test_each_size_has_its_own_way(self):
        f = self.raced(lambda n: 3.0 if n == 5 else 1.0, lambda n: 2.0)
        self.run_calls(f, 7, 1)
        self.built(f)
        self.assertEqual(self.run_calls(f, 5, 10), (6, 4))  # two that are not timed, then in turns
        self.assertEqual(self.run_calls(f, 5, 10), (0, 10))
        self.assertEqual(self.run_calls(f, 3, 20), (16, 4))
        self.assertEqual([(s["sizes"], s["plan_us"], s["eager_us"]) for s in f.served()], [([5], 3e6, 2e6)])
        self.assertEqual(f.count(), {"calls": 41, "eager_calls": 18})

    def test_a_tie_is_the_plans(self):
        f = self.raced(lambda n: 1.0, lambda n: 0.95)
        self.run_calls(f, 5, 1)
        self.built(f)
        self.run_calls(f, 5, 9)
        self.assertEqual(self.run_calls(f, 5, 5), (5, 0))

    def test_times_that_come_late(self):
        """As those of events on a GPU: calls take turns until enough are known. None is timed while a stream is captured."""
        clock, done, captured = self.clock, [False], [False]

        class Late(faster._Clock):
            def seconds(self):
                return super().seconds() if done[0] else None

        self.plan, self.eager = Way(clock, lambda n: 3.0), Way(clock, lambda n: 2.0)
        f = faster.Faster(self.plan, self.eager, [(0, 0)], torch.device("cuda", 1))
        with mock.patch.object(faster, "_Events", Late), mock.patch("torch.cuda.is_current_stream_capturing", lambda: captured[0]):
            self.run_calls(f, 70, 1)
            self.built(f)
            self.assertEqual(self.run_calls(f, 5, 22), (12, 10))
            captured[0] = True
            self.assertEqual(self.run_calls(f, 5, 3), (3, 0))
            captured[0], done[0] = False, True
            self.run_calls(f, 5, 1)
            self.assertEqual(self.run_calls(f, 5, 5), (0, 5))

    def test_events_of_another_device(self):
        """They are recorded by its stream, whichever is current."""
        with mock.patch("torch.cuda.Event") as event, mock.patch("torch.cuda.current_stream", lambda device: ("stream of", device)):
            clock = faster._Events(torch.device("cuda", 1))
            clock.stop()
            self.assertEqual(event().record.mock_calls, [mock.call(("stream of", torch.device("cuda", 1)))] * 2)

    def test_sizes_that_are_alike(self):
        """On a GPU the first of them decides for all; in captures none is eager's."""
        captured = [False]
        self.plan, self.eager = Way(self.clock, lambda n: 3.0 if n < 16 else 1.0), Way(self.clock, lambda n: 2.0)
        f = faster.Faster(self.plan, self.eager, [(0, 0)], torch.device("cuda", 1))
        with mock.patch.object(faster, "_Events", faster._Clock), mock.patch("torch.cuda.is_current_stream_capturing", lambda: captured[0]):
            self.run_calls(f, 9, 1)
            self.built(f)
            self.assertEqual(self.run_calls(f, 12, 3), (3, 0))  # nothing is known
            self.assertEqual(self.run_calls(f, 9, 9), (5, 4))
            for rows in (9, 12, 15):
                self.assertEqual(self.run_calls(f, rows, 3), (0, 3))
            captured[0] = True
            self.assertEqual(self.run_calls(f, 9, 2), (2, 0))
            captured[0] = False
            self.assertEqual(self.run_calls(f, 16, 20), (16, 4))
            self.assertEqual(self.run_calls(f, 31, 3), (3, 0))
            self.assertEqual([s["sizes"] for s in f.served()], [[9]])

    def test_not_while_kernels_are_built(self):
        """A stand-in for a kernel decides nothing."""
        slow = [10.0]
        f = self.raced(lambda n: slow[0], lambda n: 2.0)
        self.run_calls(f, 5, 15)
        self.built(f)
        slow[0] = 1.0
        self.run_calls(f, 5, 20)
        self.assertEqual(self.run_calls(f, 5, 5), (5, 0))

    def test_one_slow_call_decides_nothing(self):
        calls = iter([1.0, 1.0, 90.0, 1.0, 1.0, 1.0, *[1.0] * 20])
        f = self.raced(lambda n: next(calls), lambda n: 2.0)
        self.run_calls(f, 5, 1)
        self.built(f)
        self.run_calls(f, 5, 9)
        self.assertEqual(self.run_calls(f, 5, 5), (5, 0))

    def test_wanted(self):
        self.assertEqual([faster.is_wanted(Options(numeric=n)) for n in (None, "fast", "deterministic")], [True, True, False])
        self.assertEqual([faster.is_wanted(Options(eager_where_faster=w)) for w in (True, False)], [True, False])

    def test_determinism(self):
        """Eager never serves where it was asked for, in whatever way."""
        def is_any_wanted():
            options = Options(eager_where_faster=True, eager_while_building=True)
            return faster.is_wanted(options) or building.is_wanted(options)

        self.assertTrue(is_any_wanted())
        for word in ("deterministic", "batch_invariant"):
            with mock.patch.dict(os.environ, MD_NUMERIC=word):
                self.assertFalse(is_any_wanted())
        torch.use_deterministic_algorithms(True)
        self.addCleanup(torch.use_deterministic_algorithms, False)
        self.assertFalse(is_any_wanted())

    def test_of_capture(self):
        """Arguments that do not fit are the plan's to refuse; options decide who may serve."""
        x = torch.randn(3, 4)
        for options, is_raced in (({}, True), ({"eager_where_faster": False}, False), ({"numeric": "deterministic"}, False)):
            f = md.capture(lambda x: x.exp() * 2, (x,), options=options)
            self.assertEqual(isinstance(f.plan, faster.Faster), is_raced)
            for _ in range(13):
                torch.testing.assert_close(f(x), x.exp() * 2)
            self.assertEqual(f.plan.count()["calls"], 13)


class Operations(TorchDispatchMode):
    """The names of what PyTorch runs."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        self.names.add(op.overloadpacket.__name__)
        return op(*args, **(kwargs or {}))


class Eager(unittest.TestCase):
    """What PyTorch runs in a plan's place: the user's operations, whole, where AOTAutograd keeps arguments and results."""

    def ran(self, f, *given):
        """The operations of a call that eager serves."""
        torch._dynamo.reset()
        compiled, served = torch.compile(f, backend="multidispatch", dynamic=True), []

        def call(race, arguments):
            with Operations() as ran:
                served.append(race._by_eager(arguments))
            names.update(ran.names)
            return served[-1]

        names = set()
        with torch.no_grad(), mock.patch.object(faster.Faster, "__call__", call):
            y = compiled(*given)
            self.assertEqual(len(served), 1)
            return names, y

    def test_operations_stay_whole(self):
        norm = torch.nn.GroupNorm(2, 4)
        x = torch.randn(3, 4, 5)
        names, y = self.ran(lambda x: torch.nn.functional.silu(norm(x) + 1), x)
        self.assertEqual(names, {"native_group_norm", "add", "silu"})
        torch.testing.assert_close(y, torch.nn.functional.silu(norm(x) + 1))

    def test_changed_arguments_and_results_that_alias(self):
        norm, bias = torch.nn.GroupNorm(2, 4), torch.zeros(4)

        def changes(x):
            bias.add_(1)
            return norm(x) + bias[:, None]

        x = torch.randn(3, 4, 5)
        names, y = self.ran(changes, x)
        self.assertIn("rsqrt", names)  # taken apart
        torch.testing.assert_close(y, norm(x) + 1)
        self.assertEqual(bias.tolist(), [1.0] * 4)
        names, (y, same) = self.ran(lambda x: (norm(x) * 2, x[1:]), x)
        self.assertIn("rsqrt", names)
        torch.testing.assert_close(y, norm(x) * 2)
        self.assertEqual(same.data_ptr(), x[1:].data_ptr())

    def test_random_numbers_are_the_plans(self):
        x = torch.ones(3, 4, 5)
        f = torch.compile(lambda x: torch.nn.functional.dropout(x, 0.5), backend="multidispatch", dynamic=True)
        with torch.no_grad():
            drawn = []
            for _ in range(16):  # two ways, in turns
                torch.manual_seed(3)
                drawn.append(f(x))
        for y in drawn:
            self.assertTrue(torch.equal(y, drawn[0]))

    def test_another_size_of_a_static_axis(self):
        """The function itself computes it: the graph has what follows from a static size as numbers."""
        for f in (lambda x: x.sum(0) / x.shape[0], lambda x: torch.fft.fft(x.sum(0) / x.shape[0]).real,
                  lambda x: x.sum(0) / x.shape[0] + torch.nonzero(x).shape[0]):
            captured = md.capture(f, (torch.randn(5, 3),), dynamic=((None,),))
            for x in (torch.randn(5, 3), torch.randn(7, 3), torch.randn(5, 4), torch.randn(5, 3, 2), torch.randn(5, 3).double()):
                for _ in range(12):  # whoever was faster
                    torch.testing.assert_close(captured(x), f(x))

    def test_autocast(self):
        layer = torch.nn.Linear(5, 6)
        with torch.autocast("cpu", torch.bfloat16):
            _, y = self.ran(lambda x: layer(x) + 1, torch.randn(3, 5))
        self.assertEqual(y.dtype, torch.bfloat16)


if __name__ == "__main__":
    unittest.main()
