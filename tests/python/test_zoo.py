#!/usr/bin/env python3
"""Many tiny models (zoo.py) through the backend of torch.compile, in f32 and bf16, against eager PyTorch in f64: the error is
at most twice eager's own, and no graph is PyTorch's as a whole. By default a draw of those of our own (MD_TEST_SEED);
TEST_ZOO=10 draws as many of all that the installed packages have, TEST_EFFORT=2 takes all of these. tools/model_table.py
prints what became of each."""

import importlib.util
import os
import random
import sys
import unittest

if importlib.util.find_spec("torch") is None:
    print(f"SKIPPED: test_zoo.py: {sys.executable} has no PyTorch", file=sys.stderr)
    sys.exit(0)

import torch

import multidispatch as md
from multidispatch.compile import backend
import strict  # noqa: F401 (faults are errors)
import zoo

SEED = int(os.environ.get("MD_TEST_SEED", "18"))
EFFORT = int(os.environ.get("TEST_EFFORT", "1"))
OWN = ("graph", "recommender", "rotary", "gru", "residual", "graph_attention", "ragged_recommender", "retention", "splines",
       "rays")  # need nothing but PyTorch, and few kernels
NARROW = ("mistral", "roberta", "bart", "swinv2", "unet", "rotary", "mixtral", "qwen3")  # in bf16, too
TIMES, FLOOR = 2.0, {torch.float32: 1e-6, torch.bfloat16: 4e-3}


class Zoo(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        torch.manual_seed(SEED)
        self.before = len(md.explain_graph())

    def check(self, name, dtype):
        row, model = zoo.ZOO[name], zoo.make(name).to(dtype)
        exact = zoo.in_f64(model)
        compiled = torch.compile(model, backend=backend, dynamic=True, options={"eager_where_faster": False})
        with torch.no_grad():
            for size in row.sizes:
                given = [zoo.as_dtype(x, dtype) for x in row.arguments(*size)]
                got, eager = compiled(*given), model(*given)
                wanted = exact(*(zoo.as_dtype(x, torch.float64) for x in given))
                self.assertEqual((got.shape, got.dtype), (eager.shape, eager.dtype))
                bound = TIMES * self.error(eager, wanted) + FLOOR[dtype] * wanted.abs().max().item()
                self.assertLessEqual(self.error(got, wanted), bound, f"{name} {dtype} {size}")
        for report in md.explain_graph()[self.before:]:
            self.assertNotIn("reason", report, name)
            self.assertEqual(report["fallbacks"], 0, (name, report.get("fallback_reasons")))

    @staticmethod
    def error(got, wanted):
        return (got.double() - wanted).abs().max().item()

    def test_growing_cache(self):
        """Keys and values of all tokens so far are arguments and results: one graph for all lengths."""
        layer = zoo.make("rotary")

        def step(x, keys, values):
            q, k, v = layer.qkv(x).view(x.shape[0], 1, 3, 4, 8).transpose(1, 3).unbind(2)
            keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
            y = torch.nn.functional.scaled_dot_product_attention(q, keys, values)
            return layer.head(y.transpose(1, 2).reshape(x.shape[0], 1, -1)), keys, values

        compiled = torch.compile(step, backend=backend, dynamic=True, options={"eager_where_faster": False})
        with torch.no_grad():
            ours = theirs = (torch.randn(2, 4, 3, 8), torch.randn(2, 4, 3, 8))
            for _ in range(6):
                x = torch.randn(2, 1, zoo.WIDTH)
                (y, *theirs), (z, *ours) = step(x, *theirs), compiled(x, *ours)
                torch.testing.assert_close(z, y, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(ours, theirs)
        self.assertEqual(len(md.explain_graph()[self.before:]), 1, "recompiled")

    def test_captured(self):
        """A whole model by torch.export."""
        for name in ("rotary",) if EFFORT < 2 else ("rotary", "bert", "vit", "llama"):
            row, model = zoo.ZOO[name], zoo.make(name)
            plan = md.capture(model, row.arguments(3, 7 if row.sizes != zoo.IMAGES else 32))
            with torch.no_grad():
                for size in row.sizes[:2]:
                    given = row.arguments(*size)
                    torch.testing.assert_close(plan(*given), model(*given), rtol=1e-4, atol=1e-4)


def _is_there(name):
    """True if what the model is made of is installed."""
    try:
        zoo.ZOO[name].make()
    except ImportError:
        return False
    return True


def add_tests():
    n_drawn = len(zoo.TINY) if EFFORT > 1 else int(os.environ.get("TEST_ZOO", "0"))
    names = random.Random(SEED).sample(OWN, 2)
    if n_drawn:
        names = [n for n in random.Random(SEED).sample(zoo.TINY, n_drawn) if _is_there(n)]
    for name in names:
        for dtype in (torch.float32, *([torch.bfloat16] if name in NARROW and n_drawn else [])):
            setattr(Zoo, f"test_{name}_{str(dtype)[6:]}", lambda self, name=name, dtype=dtype: self.check(name, dtype))


print(f"seed: MD_TEST_SEED={SEED}", file=sys.stderr)
add_tests()

if __name__ == "__main__":
    unittest.main(verbosity=int(os.environ.get("TEST_VERBOSE", "0")))
