#!/usr/bin/env python3
"""tools/report, tools/report_products and tools/report_sweep on lines made up here. Argument: the source root."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = sys.argv[1]


def report(tool, rows, *more):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "lines.jsonl"
        path.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
        return subprocess.run([sys.executable, f"{ROOT}/tools/{tool}", str(path), *more], stdout=subprocess.PIPE, text=True, check=True).stdout


def race(op, shape, times, dtype="bfloat16", variant="gemm_wgmma/a"):
    """Lines of one race, as a judge prints them: peer -> us."""
    first = next(iter(times.values()))
    return [{"peer": n, "us": t, "vs": t / first, "op": op, "shape": shape, "dtype": "torch." + dtype, **({"variant": variant} if "md" in n else {})}
            for n, t in times.items()]


class Products(unittest.TestCase):
    def test_best_answer_counts(self):
        said = report("report_products", race("product", [64, 4096, 4096], {"cublaslt-first": 10.0, "cublaslt-3": 8.0, "eager": 2.0, "md": 5.0, "md_own": 16.0}))
        self.assertIn("md: geometric mean 1.600 of 1 shapes; served by gemm_lib 0 of 1 (gemm_wgmma 1)", said)
        self.assertIn("ok     K and N of 8: geometric mean 1.600 of 1 (aim 1.03)", said)
        self.assertIn("MISSED M of 1..64 by 4096x{4096,11008}: geometric mean 0.500 of 1 (aim 1.15)", said)

    def test_what_misses_is_named(self):
        rows = race("product", [777, 3333, 1111], {"cublaslt-first": 9.0, "md": 3.0}) + race("product", [256, 256, 256], {"cublaslt-first": 9.0, "md": 10.0}, variant="gemm_lib/rank0")
        said = report("report_products", rows, "--shapes")
        self.assertIn("MISSED all shapes: least 0.900, 1 of 2 below 0.971: 256x256x256 0.900 [gemm_lib/rank0]", said)
        self.assertIn("MISSED 777x3333x1111: least 3.000", said)
        self.assertIn("ok     odd shapes: geometric mean 3.000 of 1 (aim 1.30)", said)
        self.assertIn("MISSED served by gemm_lib: 1 of 1", said)
        self.assertRegex(said, r"(?m)^ +777x3333x1111 +3\.00 us +3\.000 +gemm_wgmma/a$")

    def test_failures_are_told(self):
        rows = race("linear_bias_gelu", [3, 768, 3072], {"eager": 2.0})
        rows.append({"peer": "md", "error": "it broke", "op": "linear_bias_gelu", "shape": [3, 768, 3072], "dtype": "torch.bfloat16"})
        self.assertIn("md: 3x768x3072 FAILED: it broke", report("report_products", rows))

    def test_hints_by_cell(self):
        rows = race("matmul", [256] * 3, {"eager": 4.0, "hint 64": 6.0, "hint 256": 3.0, "hint 4096": 9.0, "distance": 3.0, "md": 3.3}, "float32")
        said = report("report_products", rows)
        self.assertIn("distance 3.00 (1.000 ok / 0.750 ok); md 3.30 (1.100 MISSED / 0.825 ok)", said)


class Readme(unittest.TestCase):
    PAGES = ["README.md", "data/results/README.md", "data/results/peers.md", "data/results/when_not.md", "src/python/README.md", "data/results/hints.svg"]

    def ran(self, *words):
        return subprocess.run([sys.executable, f"{ROOT}/tools/report_readme", *words], capture_output=True, text=True, check=False)

    def test_figures_are_those_of_the_runs(self):
        self.assertEqual(self.ran(ROOT, "--check").stderr, "")

    def test_another_figure_is_seen_on_every_page(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name in self.PAGES:
                text = pathlib.Path(ROOT, name).read_text(encoding="utf-8")
                part = text if name.endswith(".svg") else text[text.index("<!-- written by tools/report_readme"):]
                last = re.findall(r"\d", part.split("<!-- end -->")[0])[-1]
                at = len(text) - len(part) + part.split("<!-- end -->")[0].rindex(last)
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text[:at] + str((int(last) + 1) % 10) + text[at + 1:], encoding="utf-8")
            ran = self.ran(folder, "--check")
            self.assertEqual(ran.returncode, 1)
            self.assertEqual([line.partition(":")[0] for line in ran.stderr.splitlines()], self.PAGES)
            self.assertEqual(self.ran(folder, "--write").returncode, 0)
            self.assertEqual(self.ran(folder, "--check").stderr, "")
            for name in self.PAGES:
                self.assertEqual((root / name).read_bytes(), pathlib.Path(ROOT, name).read_bytes())


class Layers(unittest.TestCase):
    def draw(self, *args):
        done = subprocess.run([sys.executable, f"{ROOT}/tools/layers_board", *args], capture_output=True, text=True, check=True)
        return [line.split(" # ") for line in done.stdout.splitlines()]

    def test_shapes(self):
        drawn = self.draw("--seed", "5")
        self.assertEqual(len(drawn), 10000)
        models = {model for _, model in drawn}
        self.assertEqual(len(models), 20)
        rows = [int(x.split(",")[0].removeprefix("b=")) for x, _ in drawn]
        self.assertTrue(min(rows) == 1 and 8192 < max(rows) <= 16384)
        self.assertTrue(0.3 < sum(r % 16 == 0 for r in rows) / len(rows) < 0.5)
        self.assertEqual({model for _, model in drawn[:200]}, models)  # any part is a sample of all
        self.assertNotEqual(drawn, self.draw("--seed", "6"))
        self.assertEqual(drawn, self.draw("--seed", "5"))

    def test_bytes(self):
        for x, _ in self.draw("--seed", "5", "--values", "9", "--bytes", "16e6"):
            b, n, k = (int(word.split("=")[1]) for word in x.split(", "))
            self.assertLessEqual(4 * (b * (n + k) + n * k), 16e6)


class Sweep(unittest.TestCase):
    @staticmethod
    def cell(size, column, us, regret, hint=0, pool=None):
        row = {"bench": "table", "op": "matmul", "dtype": "bf16", "shape": [size] * 3, "column": column, "hint": hint, "us": us, "regret": regret}
        return {**row, "pool": {"best": "x", "us": us / (1 + pool), "regret": pool}} if pool is not None else row

    def test_losses(self):
        rows = [self.cell(64, "hint 64", 1.0, 0.0, 64), self.cell(64, "model", 1.1, 0.1, pool=0.02), self.cell(128, "hint 64", 2.0, 0.0, 64), self.cell(128, "model", 2.0, 0.0, pool=0.0)]
        said = report("report_sweep", rows)
        self.assertRegex(said, r"(?m)^  model +mean +5\.00%  worst +10\.0%; to the best of its pool mean 1\.00%, worst 2\.0% \(at 64\)$")
        self.assertIn("model: behind the best single hint by more than 3% at 1 of 2 sizes, at worst 10.0% (at 64)", said)

    def test_gains(self):
        rows = [self.cell(64, "hint 64", 1.0, 0.0, 64), self.cell(64, "hint 128", 4.0, 3.0, 128), self.cell(64, "distance", 1.0, 0.0),
                self.cell(128, "hint 64", 6.0, 2.0, 64), self.cell(128, "hint 128", 2.0, 0.0, 128), self.cell(128, "distance", 2.0, 0.0)]
        said = report("report_sweep", rows)
        # hint 64: (1 + 3) / 2; hint 128: (4 + 1) / 2
        self.assertRegex(said, r"(?m)^  distance +is 2\.250x as fast as a single hint on average over 2; 2\.000x as hint 64, 2\.500x as hint 128$")


class Regret(unittest.TestCase):
    @staticmethod
    def shape(name, regret, own, rivals=None, pick="gemm_wgmma/a"):
        row = {"op": "linear", "dtype": "bf16", "shape": name, "best": "gemm_lib/rank3", "best_us": 4.0, "model": {"variant": pick, "regret": regret, "own": own}}
        return {**row, "rivals": rivals} if rivals else row

    def test_mean_and_worst(self):
        sums = [{"sum": "linear bf16", "mode": "model", "shapes": 2, "mean": 0.06, "own": 0.0, "max": 0.12}]
        said = report("report", [self.shape("b=1", 0.12, 0.01), self.shape("b=2", 0.0, 0.01), *sums])
        self.assertIn("linear bf16, 2 shapes", said)
        self.assertRegex(said, r"MISSED model +to the best of all that was timed +mean +6\.00%  worst +12\.0% \(b=1: gemm_wgmma/a, best gemm_lib/rank3 4\.00 us\)")
        self.assertRegex(said, r"ok +model +to the best of its pool +mean +1\.00%  worst +1\.0%")
        self.assertNotIn("library", said)

    def test_shares(self):
        said = report("report", [self.shape(f"b={i}", 0.5, own) for i, own in enumerate([0.0] * 8 + [0.03, 0.2])])
        self.assertRegex(said, r"MISSED model +within 1% of the best of its pool 80\.0%, within 5% of the best of its pool 90\.0%")
        self.assertRegex(report("report", [self.shape("b=1", 0.5, 0.009)]), r"ok +model +within 1% of the best of its pool 100\.0%")

    def test_library(self):
        rivals = {"gemm_wgmma/a": 5.0, "gemm_lib/rank0": 6.0, "gemm_lib/rank3": 4.0}
        said = report("report", [self.shape("b=1", 0.25, 0.0, rivals), self.shape("b=2", 0.0, 0.0, {"gemm_wgmma/a": 4.0, "gemm_lib/rank0": 5.0})])
        self.assertRegex(said, r"MISSED model +to the best of the library's answers: least 0\.800 \(b=1, of 2\), 1 of 2 below 0\.95")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
