"""tools/flashinfer_formula.py --run: definitions of FlashInfer-Bench beside their references, which are programs of PyTorch's."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import flashinfer_formula  # noqa: E402

NORM = "import torch\n\ndef run(x, w):\n    EPS = 1e-5\n    y = x.float()\n    return (y * torch.rsqrt((y * y).mean(-1, keepdim=True) + EPS) * w.float()).to(x.dtype)\n"
FUSED = ("import torch\n\ndef run(x, residual, w):\n    t = x + residual\n"
         "    return t * torch.rsqrt((t * t).mean(-1, keepdim=True) + 1e-6) * w, t\n")


def tensors(dtype, **shapes):
    return {name: {"shape": shape, "dtype": dtype} for name, shape in shapes.items()}


def definition(kind, inputs, outputs, reference):
    axes = {"M": {"type": "var"}, "N": {"type": "const", "value": 24}, "K": {"type": "const", "value": 40}}
    return {"name": f"a {kind}", "op_type": kind, "axes": axes, "inputs": inputs, "outputs": outputs, "reference": reference}


GEMM = definition("gemm", tensors("float32", A=["M", "K"], B=["N", "K"]), tensors("float32", C=["M", "N"]), "def run(a, b):\n    return a @ b.T\n")
DEFINITIONS = [GEMM,
               definition("rmsnorm", tensors("bfloat16", x=["M", "K"], w=["K"]), tensors("bfloat16", y=["M", "K"]), NORM),
               definition("rmsnorm", tensors("float32", x=["M", "K"], residual=["M", "K"], w=["K"]), tensors("float32", y=["M", "K"], total=["M", "K"]), FUSED),
               definition("softmax", tensors("float32", x=["M", "N"]), tensors("float32", y=["M", "N"]), "def run(x):\n    return torch.softmax(x * 2, 1)\n")]


class Runs(unittest.TestCase):
    def ran(self, what, *words):
        """Exit status, lines, messages of the program, on a file with the definition."""
        out, err = io.StringIO(), io.StringIO()
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "definition.json"
            path.write_text(json.dumps(what), encoding="utf-8")
            with mock.patch("sys.argv", ["flashinfer_formula.py", str(path), *words]), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                status = flashinfer_formula.main()
        return status, [json.loads(line) for line in out.getvalue().splitlines()], err.getvalue()

    def test_results(self):
        for one in DEFINITIONS:
            with self.subTest(one["op_type"]):
                status, lines, said = self.ran(one, "--run", "3")
                has_formula = one["op_type"] != "softmax"
                self.assertEqual((status, len(lines), "has no formula" in said), (0, 3 + has_formula, not has_formula), (lines, said))
                self.assertGreater(len({line["sizes"]["M"] for line in lines[has_formula:]}), 1)

    def test_a_wrong_result(self):
        status, lines, _ = self.ran(GEMM | {"reference": "def run(a, b):\n    return 1.01 * a @ b.T\n"}, "--run", "1")
        self.assertEqual((status, lines[1]["error"] > lines[1]["allowed"]), (1, True))
        self.assertEqual(self.ran(GEMM | {"axes": {}}, "--run")[0], 1)


if __name__ == "__main__":
    unittest.main()
