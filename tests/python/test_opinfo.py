#!/usr/bin/env python3
"""Every operation of the backend's table on the samples of PyTorch's own tests (OpInfo), against eager PyTorch.

The lowering is under test, so formulas run in the reference evaluator: no kernel is compiled. An operation may be left to
PyTorch, never be wrong. TEST_EFFORT=2 takes all samples, TEST_ALL=1 all operations of PyTorch, TEST_ONLY=max,div these;
TEST_SAMPLES is how many of each dtype, TEST_DTYPES=float32,int64 these. TEST_VERBOSE=1 lists what is left to PyTorch, and
why. The last lines count operations: those whose samples all are ours as a whole, some, none, and those that are wrong."""

import collections
import importlib.util
import os
import sys
import unittest
import warnings

if MISSING := [m for m in ("torch", "expecttest") if importlib.util.find_spec(m) is None]:
    print(f"SKIPPED: test_opinfo.py: {sys.executable} has no {', '.join(MISSING)}", file=sys.stderr)
    sys.exit(0)
os.environ["MD_CC"] = "/no/compiler"

import logging

import torch
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

from multidispatch.compile import backend
from multidispatch.compile.lowering.decompositions import table
from multidispatch.compile.lowering.table import TABLE
from multidispatch.compile.ties import changes
import strict  # noqa: F401 (faults are errors)

plan_of = sys.modules[backend.__module__].plan_of
EFFORT = int(os.environ.get("TEST_EFFORT", "1"))
SAMPLES = int(os.environ.get("TEST_SAMPLES", 4 if EFFORT < 2 else 1000))
DTYPES = [getattr(torch, d) for d in os.environ.get("TEST_DTYPES", "float32,int64,bool,bfloat16").split(",")]
TOLERANCE = {torch.float32: (1e-5, 1e-5), torch.bfloat16: (2e-2, 1e-2), torch.float64: (1e-7, 1e-7)}
# OpInfo's names of rows that are called otherwise there.
NAMES = {"softmax", "log_softmax", "nn.functional.embedding", "nn.functional.silu", "nn.functional.gelu", "__getitem__",
         "nn.functional.linear", "nn.functional.relu", "nn.functional.hardtanh", "nn.functional.layer_norm", "to",
         "nn.functional.softplus", "nn.functional.scaled_dot_product_attention", "nn.functional.conv1d",
         "nn.functional.conv2d", "nn.functional.conv3d", "nn.functional.max_pool2d", "nn.functional.avg_pool2d"}
# Uninitialised memory has no value to compare.
NO_VALUE = {"empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted"}
# Which of equal elements these name is not said: only values are compared.
ANY_OF_EQUALS = {"topk", "kthvalue"}
SEED = 42  # OpInfo's own, which it sets inside of operations that draw random numbers: a graph does not repeat that



class OpInfo(unittest.TestCase):
    def setUp(self):
        warnings.simplefilter("ignore")
        logging.getLogger("multidispatch").setLevel(logging.ERROR)
        torch.manual_seed(18)
        self.left = collections.Counter()  # (operation, reason): samples left to PyTorch
        self.ours = collections.Counter()
        self.runs = collections.Counter()  # operation: samples that a plan could be asked for
        self.wrong = []

    def sample(self, op, dtype, number, sample):
        """Runs one sample through a plan. Counts it, or notes how it is wrong."""
        leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        at = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]

        def f(*tensors):
            given = list(leaves)
            for i, t in zip(at, tensors):
                given[i] = t
            first, args, kwargs = pytree.tree_unflatten(given, spec)
            out = pytree.tree_leaves(op.op(first, *args, **kwargs))
            return out[:1] if op.name in ANY_OF_EQUALS else out

        torch.manual_seed(SEED)
        try:
            tensors = [leaves[i].detach().clone(memory_format=torch.preserve_format) for i in at]
            expected = f(*tensors)
            module = make_fx(f, decomposition_table=table(eager_random=True), tracing_mode="fake")(*tensors)
            if any(map(changes, module.graph.nodes)):  # torch.compile gives graphs that change no tensors
                module = make_fx(functionalize(module), tracing_mode="fake")(*tensors)
        except Exception:  # not of the backend: PyTorch itself cannot trace the sample
            self.left[op.name, "PyTorch cannot trace it"] += 1
            return
        numbers = {k: v for k, v in sample.kwargs.items() if not isinstance(v, torch.Tensor)}
        where = f"{op.name} {dtype} {number} {[tuple(t.shape) for t in tensors]} {numbers}"
        self.runs[op.name] += 1
        try:
            self.run_plan(plan_of(module, where), op, where, tensors, expected,
                          lambda: f(*(t.double() if t.is_floating_point() else t for t in tensors)))
        except Exception as error:
            self.wrong.append(f"{where}: {type(error).__name__}: {error}")

    def run_plan(self, plan, op, where, tensors, expected, exact):
        report = plan_of.__globals__["new_report"].__globals__["_REPORTS"][-1]
        for e in report.eager:
            self.left[e["op"].removesuffix(".default"), e["reason"]] += 1
        if plan is None:
            self.left[op.name, report.reason] += 1
            return
        torch.manual_seed(SEED)
        got = plan(list(tensors))
        for why, n in report.fallbacks.items():
            self.left[op.name, "at the call: " + why] += n
        self.ours[op.name] += not report.eager and not report.fallbacks
        self.compare(where, got, expected, exact)

    @staticmethod
    def is_as_near(got, eager, exact):
        """True if the result is not further from f64's than twice eager's, which may be near by chance, or than 4e-6 of the
        greatest element: where rounding is magnified."""
        if not eager.is_floating_point() or eager.shape != exact.shape or not exact.is_floating_point():
            return False
        least = 4e-6 * exact.abs().max() if exact.numel() and eager.dtype == torch.float32 else 0.0
        return bool((got.double() - exact).abs().max() <= max(2 * (eager.double() - exact).abs().max(), least))

    def compare(self, where, got, expected, exact):
        for i, (a, b) in enumerate(zip(got, expected)):
            if not isinstance(b, torch.Tensor):
                continue
            rtol, atol = TOLERANCE.get(b.dtype, (0, 0))
            try:
                torch.testing.assert_close(a, b, rtol=rtol, atol=atol, equal_nan=True)
            except AssertionError as error:
                if a.shape == b.shape and a.dtype == b.dtype and self.is_as_near(a, b, exact()[i]):
                    continue
                lines = str(error).strip().splitlines()
                self.wrong.append(f"{where}: {lines[0]} {lines[-2:]}")

    def print_counts(self):
        wrong = {w.split()[0] for w in self.wrong}
        kinds = {"wrong": sorted(wrong), "ours": [], "partly ours": [], "PyTorch's": []}
        for name, n in self.runs.items():
            if name not in wrong:
                kinds["ours" if self.ours[name] == n else "partly ours" if self.ours[name] else "PyTorch's"].append(name)
        print(f"of {len(self.runs)} operations " + ", ".join(f"{len(names)} are {kind}" for kind, names in kinds.items()))
        if os.environ.get("TEST_VERBOSE"):
            for kind, names in kinds.items():
                print(f"{kind}: {' '.join(sorted(names))}")

    def test_table(self):
        packets = {name.split(".")[0] for name in TABLE}
        only = os.environ.get("TEST_ONLY")
        ops = [op for op in op_db if os.environ.get("TEST_ALL") or op.name in NAMES or (op.aten_name or op.name) in packets]
        for op in ops:
            if op.name in NO_VALUE or only and op.name not in only.split(','):
                continue
            for dtype in DTYPES:
                if not op.supports_dtype(dtype, "cpu"):
                    continue
                for number, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=False)):
                    if number == SAMPLES:
                        break
                    self.sample(op, dtype, number, sample)
        if os.environ.get("TEST_VERBOSE"):
            for (name, why), n in sorted(self.left.items()):
                print(f"left to PyTorch: {n:4} x {name}: {why}")
        self.print_counts()
        print(f"{len(ops)} operations, {sum(self.ours.values())} samples are ours as a whole, {sum(self.left.values())} "
              f"times PyTorch's, {len(self.wrong)} wrong")
        self.assertEqual(self.wrong, [], "\n" + "\n".join(self.wrong[:60]))
        if not only:
            self.assertGreater(sum(n > 0 for n in self.ours.values()), 90)


if __name__ == "__main__":
    unittest.main(verbosity=0)
