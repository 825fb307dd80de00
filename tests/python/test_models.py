#!/usr/bin/env python3
"""Models of transformers and timm through the backend of torch.compile, against eager PyTorch.
In f32 and bf16, at batches and lengths that change, in one graph. Errors are measured against eager in f64, and may be
a small multiple of eager's own. TEST_EFFORT=2 runs all models in all dtypes, and backward passes; the default a part."""

import copy
import importlib.util
import os
import sys
import unittest

MISSING = [m for m in ("torch", "transformers", "timm") if importlib.util.find_spec(m) is None]
if MISSING:
    print(f"SKIPPED: test_models.py: {sys.executable} has no {', '.join(MISSING)}", file=sys.stderr)
    sys.exit(0)

import torch

import models
import multidispatch as md
from multidispatch.compile import backend
import strict  # noqa: F401 (faults are errors)

EFFORT = int(os.environ.get("TEST_EFFORT", "1"))
SHAPES = ((2, 6), (7, 5), (1, 9), (0, 6), (31, 12))
# Of eager's own largest error against f64; and of the largest element, for results that eager gives exactly.
TIMES, FLOOR = {torch.float32: 4.0, torch.bfloat16: 2.0}, {torch.float32: 1e-6, torch.bfloat16: 2e-3}


def error(a, exact):
    return (a.double() - exact).abs().max().item() if exact.numel() else 0.0


class Case(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        torch.manual_seed(18)
        self.before = len(md.explain_graph())

    def reports(self):
        return md.explain_graph()[self.before:]

    def check_near(self, got, eager, exact, dtype, what):
        self.assertEqual((got.shape, got.dtype), (eager.shape, eager.dtype), what)
        if exact.numel() == 0:
            return
        self.assertTrue(torch.isfinite(got).all(), what)
        bound = TIMES[dtype] * error(eager, exact) + FLOOR[dtype] * exact.abs().max().item()
        self.assertLessEqual(error(got, exact), bound, what)

    def check_one_graph(self, n=1):
        self.assertEqual(torch._dynamo.utils.counters["stats"]["unique_graphs"], 1, "recompiled")
        self.assertEqual(len(self.reports()), n)
        for r in self.reports():
            self.assertNotIn("reason", r)
            self.assertEqual(r["fallbacks"], 0, r.get("fallback_reasons"))
            self.assertGreater(len(r["kernels"]), 5)


class Forward(Case):
    def check(self, name, dtype):
        model = models.make(name).to(dtype)
        exact = copy.deepcopy(model).double()
        compiled = torch.compile(model, backend=backend, dynamic=True, fullgraph=True)
        with torch.no_grad():
            for batch, length in SHAPES:
                x = models.inputs(name, batch, length)
                given = x if name in models.LANGUAGE else x.to(dtype)
                try:
                    eager = model(given)
                except RuntimeError:  # some models cannot be run on nothing
                    self.assertEqual(batch, 0)
                    continue
                self.check_near(compiled(given), eager, exact(given if name in models.LANGUAGE else given.double()),
                                dtype, f"{name} {dtype} {batch} x {length}")
        self.check_one_graph()


class Backward(Case):
    """Gradients of all weights; one graph forward and one backward over the batches."""

    def gradients(self, model, f, ids):
        model.zero_grad(set_to_none=True)
        out = f(ids)
        loss = torch.nn.functional.cross_entropy(out.float().flatten(0, 1), ids.flatten()) if out.dtype != \
            torch.float64 else torch.nn.functional.cross_entropy(out.flatten(0, 1), ids.flatten())
        loss.backward()
        return {name: p.grad for name, p in model.named_parameters()}

    def check(self, name, dtype):
        model = models.make(name).to(dtype).train()
        exact = copy.deepcopy(model).double()
        compiled = torch.compile(model, backend=backend, dynamic=True, fullgraph=True)
        for batch, length in SHAPES[:3]:
            ids = models.inputs(name, batch, length)
            expected = self.gradients(exact, exact, ids)
            eager, got = self.gradients(model, model, ids), self.gradients(model, compiled, ids)
            # One scale for all: a gradient that is zero but for rounding (of a key's bias) has none of its own.
            scale = max(g.abs().max().item() for g in expected.values())
            bound = TIMES[dtype] * max(error(eager[n], g) for n, g in expected.items()) + FLOOR[dtype] * scale
            for weight, g in expected.items():
                self.assertLessEqual(error(got[weight], g), bound, f"{name} {batch} x {length}: {weight}")
        self.check_one_graph(2)

    def test_gpt2(self):
        self.check("gpt2", torch.float32)

    @unittest.skipIf(EFFORT < 2, "TEST_EFFORT=2 runs it")
    def test_bert(self):
        self.check("bert", torch.float32)

    @unittest.skipIf(EFFORT < 2, "TEST_EFFORT=2 runs it")
    def test_bert_in_bf16(self):
        self.check("bert", torch.bfloat16)

    def test_op_with_the_users_backward(self):
        """An op of one's own inside a model: no graph break, and its gradient is the formula that was given."""
        op = md.op("Y[b,n] = tanh(sum[k](X[b,k]*W[n,k]))", grad={
            "X": "dX[b,k] = sum[n](dY[b,n]*(1-Y[b,n]*Y[b,n])*W[n,k])",
            "W": "dW[n,k] = sum[b](dY[b,n]*(1-Y[b,n]*Y[b,n])*X[b,k])"})

        def ours(x, w, v):
            return torch.nn.functional.gelu(op(torch.nn.functional.layer_norm(x, (16,)), w)) @ v

        def theirs(x, w, v):
            return torch.nn.functional.gelu(torch.tanh(torch.nn.functional.layer_norm(x, (16,)) @ w.t())) @ v

        compiled = torch.compile(ours, backend=backend, dynamic=True, fullgraph=True)
        for batch in (3, 1, 7):
            parts = [torch.randn(batch, 16), torch.randn(24, 16) * 0.3, torch.randn(24, 16)]
            results = []
            for f, dtype in ((theirs, torch.float64), (theirs, torch.float32), (compiled, torch.float32)):
                given = [p.to(dtype).requires_grad_() for p in parts]
                out = f(*given)
                (out * out).sum().backward()
                results.append([out.detach(), *(g.grad for g in given)])
            for exact, eager, got in zip(*results):
                self.check_near(got, eager, exact, torch.float32, f"batch {batch}")
        self.assertEqual(torch._dynamo.utils.counters["stats"]["unique_graphs"], 1, "recompiled")
        for r in self.reports():
            self.assertEqual((r["fallbacks"], r.get("reason")), (0, None))
        self.assertEqual([e["op"] for e in self.reports()[0]["eager"]], ["multidispatch.call.default"])


def add_tests():
    quick = {("llama", torch.float32), ("gpt2", torch.bfloat16), ("convnext", torch.float32)}
    for name in (*models.LANGUAGE, *models.VISION):
        for dtype in (torch.float32, torch.bfloat16):
            def test(self, name=name, dtype=dtype):
                self.check(name, dtype)

            if EFFORT < 2 and (name, dtype) not in quick:
                test = unittest.skip("TEST_EFFORT=2 runs it")(test)
            setattr(Forward, f"test_{name}_{str(dtype)[6:]}", test)


add_tests()

if __name__ == "__main__":
    unittest.main(verbosity=int(os.environ.get("TEST_VERBOSE", "0")))
