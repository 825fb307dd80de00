#!/usr/bin/env python3
"""tools/bench_peers.py and tools/second_clock.py without PyTorch or a GPU. Argument: the source root."""
import contextlib
import json
import pathlib
import sys
import tempfile
import types
import unittest

ROOT = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(ROOT / "tools"))
import bench_peers  # noqa: E402
import second_clock  # noqa: E402


class Peers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name) / "file"

    def test_boards(self):
        self.file.write_text("# op dtype sizes\nsoftmax f32 i=16, j=64\n\nembedding bf16 i=8 E.0=9 j=8 # small\n", encoding="utf-8")
        self.assertEqual(list(bench_peers.cases_of([self.file])), [("softmax", "f32", {"i": 16, "j": 64}), ("embedding", "bf16", {"i": 8, "E.0": 9, "j": 8})])
        boards = [ROOT / "data" / "boards" / f"{name}_gpu.txt" for name in ("pointwise", "reduce", "scan", "gather", "attention", "grouped")]  # as tools/gpu bench
        cases = list(bench_peers.cases_of(boards))
        self.assertGreater(len(cases), 100)

    def test_what_is_done(self):
        row = {"peer": "eager", "op": "softmax", "sizes": {"i": 3}, "dtype": "f32", "torch": "2"}
        self.file.write_text(json.dumps(row) + "\n" + json.dumps({**row, "peer": "md"} | {"torch": "2"})[:40] + "\n" + json.dumps({"peer": "md"}) + "\n", encoding="utf-8")
        self.assertEqual(bench_peers.done_in(self.file), {("eager", "softmax", "f32", "{'i': 3}")})
        self.assertEqual(bench_peers.done_in(None), set())
        for text in ("0/2", "3/2", "1", "x/y"):
            with self.assertRaises(ValueError):
                bench_peers.part(text)
        self.assertEqual(bench_peers.part("2/3"), (2, 3))

    def row(self, us, peer="md", device="cuda:0", i=3):
        return {"peer": peer, "op": "softmax", "dtype": "f32", "sizes": {"i": i}, "shape": [i], "us": us, "device": device}

    def test_sample_of_lines(self):
        rows = [self.row(40), self.row(50), self.row(45, "eager"), self.row(10, i=9), self.row(90, device="host"), self.row(70, "inductor")]
        self.file.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"peer": "md', encoding="utf-8")
        lines = second_clock.lines_of(self.file)
        self.assertEqual([row["us"] for row in lines], [40, 45, 10])  # the pick is the first line of a case; others' clocks are not asked
        self.assertEqual([row["us"] for row in second_clock.sample(lines, 1, 30)], [40, 45])
        self.assertEqual([row["us"] for row in second_clock.sample(lines, 2, 30)], [40])
        self.assertEqual([row["us"] for row in second_clock.sample(lines, 0, 30)], [40, 45])
        self.assertEqual(len(second_clock.sample([{"us": 40}] * 65, 0, 30)), 22)
        self.assertEqual(second_clock.sample([], 0, 30), [])

    def test_times_of_the_other_clock(self):
        def state(line, summaries):
            return {"axis_values": [{"name": "line", "type": "int64", "value": str(line)}], "summaries": summaries}
        mean = {"tag": "nv/cold/time/gpu/mean", "data": [{"name": "value", "type": "float64", "value": "4e-05"}]}
        us = second_clock.times_in({"benchmarks": [{"states": [state(1, [mean]), state(0, [{"tag": "nv/cold/sample_size", "data": []}, mean]), state(2, None)]}]})
        self.assertEqual([round(x, 6) for x in us[:2]], [40.0, 40.0])
        compared = second_clock.compare([self.row(40), self.row(40), self.row(40)], us)
        self.assertEqual([(round(row["other_us"], 6), round(row["ratio"], 6)) for row in compared], [(40.0, 1.0)] * 2)

    def test_samples(self):
        """The cache is read before the time, and the graph, whose results are kept, is all that is in it."""
        seen = []
        calls = second_clock.Calls.__new__(second_clock.Calls)
        calls.torch = types.SimpleNamespace(cuda=types.SimpleNamespace(stream=lambda stream: contextlib.nullcontext(seen.append(stream))))
        calls.machine = types.SimpleNamespace(swept=types.SimpleNamespace(sum=lambda: seen.append("sweep")))
        timer = types.SimpleNamespace(start=lambda: seen.append("start"), stop=lambda: seen.append("stop"))
        run = calls.sample(types.SimpleNamespace(replay=lambda: seen.append("calls")), ["result"])
        self.assertEqual(run("stream", timer), ["result"])
        self.assertEqual(seen, ["stream", "sweep", "start", "calls", "stop"])

    def test_verdict(self):
        def said(*ratios):
            return second_clock.verdict([{"ratio": ratio} for ratio in ratios], 0.03)[1]
        self.assertTrue(said(1.0, 1.02, 0.99))
        self.assertFalse(said(1.04, 1.05, 1.0))
        self.assertFalse(said(1.0, 1.0, 1.2, 0.99, 1.01))  # a fifth of the lines
        self.assertTrue(said(*[1.0] * 10, 1.2))
        self.assertFalse(said())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
