"""What tools/demo prints beside PyTorch: the program that times eager and compiled PyTorch at the demo's steps."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

PROGRAM = pathlib.Path(__file__).parents[2] / "tools" / "demo_torch.py"
SIZES = {"device": "host", "threads": 1, "dtype": "f32", "width": 16, "hidden": 64, "heads": 2, "build_us": 2e6,
         "new_shapes": {"shapes": 3, "median_us": 1.0, "worst_us": 4.0},
         "lopsided": {"op": "row_sum", "sampled": [[7, 9]], "builds": [{"us": 2.0}]}}
NAMES = ["rms_norm", "qkv", "softmax", "up_gelu", "down"]


class Peers(unittest.TestCase):
    def test_what_the_second_clock_times(self):
        """Its samples run, here without a stream, which is the current one, and without a graph."""
        import multidispatch as md
        import torch

        sys.path.insert(0, str(PROGRAM.parent))
        import second_clock
        calls, timer = second_clock.Calls(torch, md, "host"), unittest.mock.Mock()
        for op, sizes in (("layer_norm", {"i": 3, "j": 5}), ("linear", {"b": 2, "n": 3, "k": 4}), ("embedding", {"i": 3, "j": 5, "E.0": 7})):
            for peer in ("md", "eager"):
                row = {"peer": peer, "op": op, "dtype": "f32", "sizes": sizes, "k": 2}
                self.assertTrue(calls.knows(row))
                calls.of(row)(None, timer)
        self.assertEqual([len(timer.mock_calls), timer.mock_calls[:2]], [12, [unittest.mock.call.start(), unittest.mock.call.stop()]])
        self.assertFalse(calls.knows({"op": "nothing", "dtype": "f32"}))

    def test_every_op_runs(self):
        """bench_peers.py at one small size of each op that it knows, eager and compiled for two of them."""
        boards = ["copy transpose add mul relu gelu silu bias_gelu silu_mul softmax log_softmax layer_norm rms_norm sum max var argmax column_sum cumsum cumprod",
                  "linear linear_bias_gelu", "matmul", "embedding", "attention attention_causal", "attention_gqa"]
        sizes = ["i=5 j=7", "b=3 n=5 k=4", "m=3 n=5 k=4", "i=5 j=7 E.0=9", "b=2 h=3 i=4 j=6 d=8 e=8", "b=2 g=3 r=2 i=4 j=6 d=8 e=8"]
        lines = [f"{op} f32 {size}" for ops, size in zip(boards, sizes) for op in ops.split()]
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as board:
            board.write("\n".join(lines) + "\nnosuchop f32 i=3\n")
            board.flush()
            ran = subprocess.run([sys.executable, str(PROGRAM.parent / "bench_peers.py"), board.name, "--repeat", "1", "--ways", "eager"], capture_output=True, text=True, check=True)
        self.assertEqual([json.loads(line)["op"] for line in ran.stdout.splitlines()], [line.split()[0] for line in lines])
        self.assertIn("no function for nosuchop: left out", ran.stderr)


class Beside(unittest.TestCase):
    def run_on(self, *words):
        ops = [{"op": name, "sampled": [[3, 5], [4, 5]], "builds": [{"us": 2.0}]} for name in NAMES]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as demo:
            json.dump(SIZES | {"ops": ops}, demo)
            demo.flush()
            return subprocess.run([sys.executable, str(PROGRAM), demo.name, "--rounds", "1", *words], capture_output=True, text=True, check=True).stdout

    def test_every_op(self):
        text = self.run_on()
        self.assertEqual(re.findall(r"^  (\w+) +dispatched +0.00, eager .* compiled \d+ graphs in", text, re.M), [*NAMES, "row_sum"])
        wanted = [r"The block takes 0\.01 ms: [0-9.]+ times as fast as eager PyTorch, [0-9.]+ times as fast as torch.compile \(dynamic=True\)\.",
                  r"torch.compile made (\d+) graphs for these sizes in ([0-9.]+) s; this library's kernels were built in 2\.0 s, or read from its store\.",
                  r"A size not met before adds 1 us to its first call at the median and 4 us at worst; by torch.compile \d+ us at the median and [0-9.]+ s at worst\."]
        found = [re.fullmatch(pattern, line) for pattern, line in zip(wanted, text.splitlines()[-3:])]
        self.assertTrue(all(found), text)
        self.assertGreaterEqual(int(found[1][1]), 5)
        self.assertGreater(float(found[1][2]), 0.1)

    def test_json(self):
        said = json.loads(self.run_on("--json"))
        self.assertEqual(list(said["torch"]["ops"]), [*NAMES, "row_sum"])
        self.assertEqual(len(said["torch"]["ops"]["qkv"]["first_s"]), 2)


if __name__ == "__main__":
    unittest.main()
