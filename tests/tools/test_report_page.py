#!/usr/bin/env python3
"""mdctl report: pages from lines made up here. Arguments: mdctl, the source root."""
import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

MDCTL, ROOT = sys.argv[1:3]
VOID = {"meta", "br", "link", "img", "circle", "path"}


class Page(html.parser.HTMLParser):
    """Tags that are open, what is said in cells and headings, and every address."""

    def __init__(self, text):
        super().__init__()
        self.open, self.wrong, self.cells, self.headings, self.addresses, self.figures = [], [], [], [], [], 0
        self.feed(text)
        self.wrong += self.open

    def handle_starttag(self, tag, attrs):
        self.addresses += [value for name, value in attrs if name in ("src", "href", "xlink:href", "action") and not (value or "").startswith("#")]
        self.figures += tag == "figure"
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        if tag in VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.cells.append(data)
        elif self.open and self.open[-1] == "h2":
            self.headings.append(data)


def lines(*objects):
    return "".join(json.dumps(o) + "\n" for o in objects)


def times(op="softmax", device="host", shapes=((64, 64), (64, 256), (256, 64), (256, 256), (1024, 64), (1024, 256))):
    for rows, length in shapes:
        common = {"op": op, "dtype": "f32", "shape": [rows, length], "device": device, "bytes": 8 * rows * length}
        yield common | {"peer": "md", "variant": "row_looped/a", "us": 10.0}
        yield common | {"peer": "md", "variant": "row_persistent/b", "us": 8.0}
        yield common | {"peer": "copy", "us": 5.0}
        yield common | {"peer": "eager", "us": 20.0}


def hints():
    for size in (64, 128, 256, 4096):
        for i, column in enumerate(("hint 64", "hint 256", "hint 4096", "model")):
            yield {"bench": "table", "op": "matmul", "dtype": "bf16", "device": "host", "shape": [size] * 3, "column": column, "us": 2.0 + i % 3}


def regrets():
    for i in range(10):
        yield {"op": "linear", "dtype": "bf16", "shape": f"b={i}", "best": "gemm/a", "best_us": 1.0, "rivals": {}, "model": {"variant": "gemm/a", "regret": i / 100}}


STATS = {"version": "0", "complete": True, "combos": [], "busy_combos": 0,
         "ops": [{"op": "<b>&", "formula": "Y[i] = X[i]", "shapes": 1, "variants": 2, "counts": {"calls": 10, "hits": 9, "evictions": 0, "trials": 0, "switches": 1}}],
         "shapes": [{"op": "<b>&", "shape": "i=3", "calls": 10, "total_us": 50.0, "us": 5.0, "time": "sampled", "nearest": 3.5, "uncovered": True,
                     "stages": [{"variant": "pointwise/x", "why": "model", "runner_up": "nest", "margin": 0.25}]}]}


class Report(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, name, text):
        (self.folder / name).write_text(text, encoding="utf-8")
        return str(self.folder / name)

    def ran(self, *words, env=None):
        return subprocess.run([MDCTL, "report", *words], capture_output=True, text=True, check=False, env=dict(os.environ, **(env or {})))

    def page(self, *files, env=None):
        out = self.folder / "page.html"
        ran = self.ran(*files, "-o", str(out), env=env)
        self.assertEqual((ran.returncode, ran.stdout), (0, ""), ran.stderr)
        return out.read_text(encoding="utf-8")

    def all_kinds(self):
        return [self.file("times.jsonl", lines(*times())), self.file("hints.jsonl", lines(*hints())), self.file("regret.jsonl", lines(*regrets())),
                self.file("stats.json", json.dumps(STATS, indent=1))]

    def test_every_kind_has_its_section(self):
        text = self.page(*self.all_kinds())
        page = Page(text)
        self.assertEqual(page.wrong, [])
        self.assertEqual(page.headings, ["Hint and size", "Speed by size", "Who is fastest where", "Picks", "A program's calls"])
        for cell in ("0.50", "25.0%", "2.00 of eager", "row_persistent 1.25", "2.00 (1.00)", "4.50%", "9%", "20.0%", "60.0%", "3.5, not covered", "nest, 25.0% behind", "<b>&"):
            self.assertIn(cell, page.cells)

    def test_nothing_is_loaded(self):
        text = self.page(*self.all_kinds())
        self.assertEqual(Page(text).addresses, [])
        self.assertEqual(set(re.findall(r"https?://[^\s\"'<>]+", text)) - {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}, set())
        self.assertNotRegex(text, r"<script|@import|url\(\s*['\"]?(?!#)")

    @unittest.skipUnless(shutil.which("gnuplot"), "gnuplot is not installed")
    def test_plots(self):
        page = Page(self.page(*self.all_kinds()))
        self.assertEqual((page.wrong, page.figures), ([], 3))

    def test_without_gnuplot(self):
        bare = self.folder / "bin"
        bare.mkdir()
        (bare / "sh").symlink_to("/bin/sh")
        text = self.page(*self.all_kinds(), env={"PATH": str(bare)})
        self.assertIn("gnuplot is not installed", text)
        self.assertEqual((Page(text).wrong, Page(text).figures), ([], 0))

    def test_many_lines(self):
        shapes = [(i, 64 + k) for i in range(1, 60) for k in range(40)]
        start = time.monotonic()
        text = self.page(self.file("many.jsonl", lines(*times(shapes=shapes))))
        self.assertLess(time.monotonic() - start, 60)  # seconds on a quiet machine
        self.assertLess(len(text), 3e6)

    def test_what_demo_prints(self):
        builds = [{"build": name, "us": 3.0, "samples": 2, "at": [1.0, 2.0]} for name in ("dispatched", "kernel of hint 1")]
        demo = {"device": "host", "matrix": {"op": "qkv", "builds": builds, "sampled": [[1, 1], [64, 1]]}, "ops": [{"op": "qkv", "samples": 2, "best_us": 2.0, "builds": builds}]}
        page = Page(self.page(self.file("demo.json", json.dumps(demo))))
        self.assertEqual((page.wrong, page.headings), ([], ["A transformer block under changing batch sizes"]))
        self.assertIn("64 tokens", page.cells)
        self.assertIn("1.500", page.cells)

    def test_bad(self):
        good = self.file("good.jsonl", lines(*times()))
        for status, words, part in [(2, [], "takes files of results"), (1, ["/nonexistent/x"], "cannot read '/nonexistent/x'"),
                                    (1, [good, self.file("gpu.jsonl", lines(*times(device="cuda:0")))], "results of 'cuda:0' beside those of 'host'"),
                                    (1, [self.file("other.json", "{}")], "no results that a page can show"), (1, [self.file("empty", "")], "no results"),
                                    (1, [good, "-o", "/nonexistent/x"], "cannot write '/nonexistent/x'")]:
            with self.subTest(part):
                ran = self.ran(*words)
                self.assertEqual(ran.returncode, status)
                self.assertIn(part, ran.stderr)
        cut = self.ran(self.file("cut.jsonl", lines(*times()) + '{"op": "so'))
        self.assertEqual((cut.returncode, Page(cut.stdout).headings[:1]), (0, ["Speed by size"]))
        self.assertIn("1 lines are no JSON, left out", cut.stderr)

    @unittest.skipUnless(shutil.which("chromium"), "chromium is not installed")
    def test_a_browser_shows_it(self):
        path = self.folder / "page.html"
        path.write_text(self.page(*self.all_kinds()), encoding="utf-8")
        shown = subprocess.run(["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={self.folder / 'profile'}", "--dump-dom", f"file://{path}"],
                               capture_output=True, text=True, check=False, timeout=300).stdout
        self.assertEqual(shown.count("</h2>"), 5)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
