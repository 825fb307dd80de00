"""What tools/demo prints beside PyTorch: the program that times eager and compiled PyTorch at the demo's steps."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(__file__).parents[2] / "tools" / "demo_torch.py"
SIZES = {"device": "host", "threads": 1, "dtype": "f32", "width": 16, "hidden": 64, "heads": 2}


class Beside(unittest.TestCase):
    def run_on(self, ops):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as demo:
            json.dump(SIZES | {"ops": ops}, demo)
            demo.flush()
            return subprocess.run([sys.executable, str(PROGRAM), demo.name, "--rounds", "1"], capture_output=True, text=True, check=True).stdout

    def test_every_op(self):
        names = ["rms_norm", "qkv", "softmax", "up_gelu", "down"]
        text = self.run_on([{"op": name, "sampled": [[3, 5]], "builds": [{"us": 2.0}]} for name in names])
        self.assertEqual(re.findall(r"^  (\w+) +dispatched +0.00, eager ", text, re.M), names)
        last = re.fullmatch(r"The block takes 0.01 ms, ([0-9.]+) times that in eager PyTorch and [0-9.]+ times by torch.compile \(dynamic=True\), "
                            r"which compiled (\d+) graphs in ([0-9.]+) s\.", text.splitlines()[-1])
        self.assertIsNotNone(last, text)
        self.assertGreaterEqual(int(last[2]), 5)
        self.assertGreater(float(last[3]), 0.1)


if __name__ == "__main__":
    unittest.main()
