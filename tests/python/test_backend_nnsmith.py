"""Graphs that NNSmith draws (PyPI: nnsmith) through the backend, beside eager PyTorch. A few in the plain run; NNSMITH_GRAPHS
says how many, NNSMITH_FIRST the first seed. Where NNSmith is missing, the tests are skipped.

A result may differ from eager's where rounding decides: ours is as near to the graph in f64 as eager's is, up to a factor."""

import copy
import os
import random
import unittest
import warnings

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import multidispatch as md  # noqa: F401 (registers the backend)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    try:
        from nnsmith.graph_gen import model_gen
        from nnsmith.materialize import Model
    except ImportError:
        model_gen = None

SEED, GRAPHS = int(os.environ.get("NNSMITH_FIRST", "1")), int(os.environ.get("NNSMITH_GRAPHS", "3"))
# What a graph of numbers at random is no test of: libraries with bits of their own, and what is random by itself.
EXCLUDED = {"BicubicInterp", "TrilinearInterp"}


def draw(seed):
    """A module and its inputs."""
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)
    kind = Model.init("torch", backend_target="cpu")
    operators = [op for op in kind.operators() if op.__name__ not in EXCLUDED]
    drawn = model_gen(opset=operators, method="symbolic-cinit", seed=seed, max_nodes=8, timeout_ms=20000, max_elem_per_tensor=4096)
    graph = drawn.make_concrete()
    module = kind.from_gir(graph).native_model.eval()
    inputs = {name: value for name, value in module.get_random_inps(base=1, margin=4, use_cuda=False).items()}
    return module, list(inputs.values()), " ".join(type(i.iexpr.op).__name__ for i in graph.insts)


class Undefined(TorchDispatchMode):
    """Sees reals that no integer can be, made integers: PyTorch promises nothing of the result."""

    seen = False

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        out = op(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor) and args and isinstance(args[0], torch.Tensor) and args[0].is_floating_point() and \
                not out.is_floating_point() and out.dtype not in (torch.bool, torch.complex64, torch.complex128) and "to_copy" in str(op):
            self.seen |= not bool((args[0].isfinite() & (args[0].abs() < 2.0**31)).all())
        return out


def as_double(values):
    return [x.double() if x.is_floating_point() else x for x in values]


def distance(a, b):
    """The largest difference over the largest value, of numbers; infinite where only one is a number."""
    a, b = a.double(), b.double()
    same = (a == b) | (a.isnan() & b.isnan())
    if same.all():
        return 0.0
    scale = b[b.isfinite()].abs().max().clamp(min=1e-30).item() if b.isfinite().any() else 1.0
    return torch.where(same, 0.0, (a - b).abs() / scale).nan_to_num(nan=float("inf")).max().item()


@unittest.skipUnless(model_gen, "NNSmith is not installed: pip install nnsmith")
class Drawn(unittest.TestCase):
    def compare(self, seed, drawn):
        """True if the graph is one that eager PyTorch computes and defines."""
        module, inputs, operators = drawn
        with torch.no_grad():
            try:
                with Undefined() as mode:
                    wanted = module(*(x.clone() for x in inputs))
                exact = copy.deepcopy(module).double()(*as_double(inputs))
            except (TypeError, NotImplementedError, RuntimeError) as refused:  # complex numbers behind a cast, mostly
                print(f"seed {seed}: eager PyTorch refuses it: {str(refused)[:80]}")
                return False
            torch._dynamo.reset()
            got = torch.compile(module, backend="multidispatch", dynamic=True)(*(x.clone() for x in inputs))
        self.assertEqual([(x.shape, x.dtype) for x in got], [(x.shape, x.dtype) for x in wanted], f"seed {seed}: {operators}")
        for ours, eager, truth in zip(got, wanted, exact):
            if not mode.seen and distance(ours, eager) > 1e-4 and distance(ours, truth) > 8 * distance(eager, truth):
                self.fail(f"seed {seed}: {operators}: {distance(ours, eager):.2g} from eager, {distance(ours, truth):.2g} from f64, eager {distance(eager, truth):.2g}")
        return not mode.seen

    def test_graphs(self):
        n = 0
        for seed in range(SEED, SEED + GRAPHS):
            with self.subTest(seed=seed):
                try:
                    drawn = draw(seed)
                except (AssertionError, RuntimeError, TypeError) as error:  # NNSmith's own: it is of 2023
                    print(f"seed {seed}: not drawn: {str(error)[:100]}")
                    continue
                n += self.compare(seed, drawn)
        print(f"{n} of {GRAPHS} graphs compared")
        self.assertGreater(n, GRAPHS // 2)


if __name__ == "__main__":
    unittest.main()
