"""What others test with, as instances of our own: networks of tensors as of einsum-benchmark, definitions of FlashInfer-Bench.
MD_TEST_EFFORT multiplies the number of networks."""

import os
import pathlib
import random
import sys
import types
import unittest
from unittest import mock

import numpy as np

import multidispatch as md

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import bench_einsum  # noqa: E402
import flashinfer_formula  # noqa: E402

SEED, EFFORT = int(os.environ.get("MD_TEST_SEED", "18")), int(os.environ.get("MD_TEST_EFFORT", "1"))


class Networks(unittest.TestCase):
    def test_steps(self):
        """Each pairwise step of networks of each kind, from index orders drawn at random, beside NumPy in f64."""
        n = 0
        for kind in bench_einsum.KINDS:
            for seed in range(SEED, SEED + EFFORT):
                tensors, result, size = bench_einsum.network(kind, 4, seed)
                for step in bench_einsum.steps(tensors, result, size, random.Random(seed)):
                    if max(map(len, step)) > bench_einsum.MOST_RANK:
                        continue
                    a, b, kept = step
                    x, y = (np.random.default_rng(seed).standard_normal([size[i] for i in t]).astype(np.float32) for t in (a, b))
                    got = md.op(bench_einsum.formula(*step))(x, y)
                    error = bench_einsum.check(np, np.asarray(got), x, y, bench_einsum.einsum_text(*step), np.prod([size[i] for i in set(a) | set(b)]))
                    self.assertLessEqual(error, 1.0, f"{kind} {seed}: {bench_einsum.formula(*step)}")
                    n += 1
        self.assertGreater(n, 10 * EFFORT)

    def test_networks_of_the_package(self):
        """What its generators give: symbols beyond the alphabet, shapes or operands, a summed index of one tensor alone."""
        made = types.ModuleType("einsum_benchmark")
        made.generators = mock.Mock()
        made.generators.structured.tree.return_value = "Ba,a\u0100c->cB", [(2, 3), np.zeros((3, 5, 4))]
        with mock.patch.dict(sys.modules, {"einsum_benchmark": made}):
            tensors, result, size = bench_einsum.drawn("tree", 2, 1, (2, 9))
        self.assertEqual(made.generators.structured.tree.call_args.args, (2, 2, 9, 2, 1))
        (x, a), (_, other, c) = tensors
        self.assertEqual((tensors[1][0], result, size), (a, [c, x], {x: 2, a: 3, other: 5, c: 4}))
        step, = bench_einsum.steps(tensors, result, size, random.Random(1))
        self.assertEqual(set(step[2]), {x, c})

    def test_paths_end_in_the_result(self):
        for kind in bench_einsum.KINDS:
            for seed in range(20):
                tensors, result, size = bench_einsum.network(kind, 9, seed)
                *_, (_, _, last) = bench_einsum.steps(tensors, result, size, random.Random(seed))
                self.assertEqual(sorted(last), sorted(result), f"{kind} {seed}")
                self.assertEqual(set(size), {i for t in tensors for i in t})


def definition(kind, axes, inputs, outputs, reference=""):
    def spec(tensors):
        return {name: {"shape": shape, "dtype": "float32"} for name, shape in tensors.items()}
    return {"name": kind, "op_type": kind, "axes": {name: {"type": "var"} if size is None else {"type": "const", "value": size} for name, size in axes.items()},
            "inputs": spec(inputs), "outputs": spec(outputs), "reference": reference}


class Definitions(unittest.TestCase):
    def setUp(self):
        self.random = np.random.default_rng(SEED)

    def made(self, *shape):
        return self.random.standard_normal(shape).astype(np.float32)

    def test_products(self):
        formula, sizes, vary = flashinfer_formula.read(definition("gemm", {"M": None, "N": 24, "K": 16}, {"A": ["M", "K"], "B": ["N", "K"]}, {"C": ["M", "N"]}))
        self.assertEqual((formula, sizes, vary), ("C:f32[m,n] = sum[k](A:f32[m,k] * B:f32[n,k])", {"n": 24, "k": 16}, ["m"]))
        op = md.op(formula, static=sizes)
        for m in (1, 7, 130):
            a, b = self.made(m, 16), self.made(24, 16)
            np.testing.assert_allclose(op(a, b), a @ b.T, rtol=1e-5, atol=1e-5)

    def test_norms(self):
        axes, eps = {"batch_size": None, "hidden_size": 32}, "def run(x, w):\n    EPS = 1e-5\n"
        rows = ["batch_size", "hidden_size"]
        formula, sizes, _ = flashinfer_formula.read(definition("rmsnorm", axes, {"hidden_states": rows, "weight": ["hidden_size"]}, {"output": rows}, eps))
        plain = md.op(formula, static=sizes)
        formula, sizes, _ = flashinfer_formula.read(definition("rmsnorm", axes, {"hidden_states": rows, "residual": rows, "weight": ["hidden_size"]},
                                                               {"output": rows, "sum": rows}, eps))
        fused = md.op(formula, static=sizes)
        for n in (1, 5, 77):
            x, r, w = self.made(n, 32), self.made(n, 32), self.made(32)

            def norm(v):
                return v / np.sqrt((v * v).mean(1, keepdims=True) + 1e-5) * w
            np.testing.assert_allclose(plain(x, w), norm(x), rtol=1e-5, atol=1e-6)
            out, total = fused(x, r, w)
            np.testing.assert_allclose(out, norm(x + r), rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(total, x + r, rtol=1e-6)

    def test_norms_that_differ(self):
        """Weights that are added to 1, a number without a name; scales that belong to another operation; no number."""
        axes, rows = {"batch_size": None, "hidden_size": 32}, ["batch_size", "hidden_size"]
        inputs = {"hidden_states": rows, "weight": ["hidden_size"]}
        near_one = "y = x * torch.rsqrt(x.pow(2).mean(-1) + 1e-2)\ny = y * (1.0 + weight.float())"
        formula, sizes, _ = flashinfer_formula.read(definition("rmsnorm", axes, inputs, {"output": rows}, near_one))
        x, w = self.made(7, 32), self.made(32)
        np.testing.assert_allclose(md.op(formula, static=sizes)(x, w), x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-2) * (1 + w), rtol=1e-5, atol=1e-6)
        with self.assertRaises(flashinfer_formula.NoFormula):
            flashinfer_formula.read(definition("rmsnorm", axes, {"hidden_states": rows, "scales": rows, "weight": ["hidden_size"]}, {"output": rows}, near_one))
        with self.assertRaisesRegex(flashinfer_formula.Unreadable, "no epsilon"):
            flashinfer_formula.read(definition("rmsnorm", axes, inputs, {"output": rows}, "y = x"))

    def test_what_cannot_be_read(self):
        good = definition("gemm", {"M": None, "K": 4}, {"A": ["M", "K"], "B": ["M", "K"]}, {"C": ["M", "M"]})
        for change, part in [({"op_type": None}, "op_type"), ({"axes": {"M": {"type": "odd"}, "K": {"type": "var"}}}, "odd"), ({"inputs": []}, "inputs"),
                             ({"inputs": {"A": {"shape": ["M"], "dtype": "complex64"}}}, "complex64"), ({"inputs": {"A": {"shape": ["Q"], "dtype": "float32"}}}, "'Q'"),
                             ({"outputs": {}}, "one output"), ({"inputs": {"A": {"shape": 3, "dtype": "float32"}}}, "shape 3")]:
            with self.subTest(part), self.assertRaisesRegex(flashinfer_formula.Unreadable, part):
                flashinfer_formula.read(good | change)
        with self.assertRaises(flashinfer_formula.NoFormula):
            flashinfer_formula.read(good | {"op_type": "moe"})


if __name__ == "__main__":
    unittest.main()
