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
VOID = {"meta", "br", "link", "img", "circle", "path", "rect"}


class Page(html.parser.HTMLParser):
    """Tags that are open, what is said in cells and headings, and every address."""

    def __init__(self, text):
        super().__init__()
        self.open, self.wrong, self.cells, self.headings, self.captions, self.addresses, self.figures = [], [], [], [], [], [], 0
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
        elif self.open and self.open[-1] == "caption":
            self.captions.append(data)


def lines(*objects):
    return "".join(json.dumps(o) + "\n" for o in objects)


def times(op="softmax", device="host", shapes=((64, 64), (64, 256), (256, 64), (256, 256), (1024, 64), (1024, 256))):
    for rows, length in shapes:
        common = {"op": op, "dtype": "f32", "shape": [rows, length], "device": device, "bytes": 8 * rows * length}
        yield common | {"peer": "md", "variant": "row_looped/a", "us": 10.0, "roof_us": 4.0, "roof": "memory", "reason": "few loads in flight"}
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


def rows():
    """Lines that are a row of a table each."""
    yield {"model": "mistral", "way": "md", "device": "host", "dtype": "bf16", "first_s": 12.4, "others_s": 19.3, "sum_ms": 3.56}
    yield {"what": "sequence", "pass": 0, "total_ms": 249.49, "p50": 477.3, "p99": 1643.0, "max": 1683.0, "host_p50": 181.47}
    yield {"way": "inductor", "first_s": 8.27, "difference": 0.0}
    yield {"case": "same", "what": "call", "over_ns": 56.0, "lo": 50.0, "hi": 60.0, "raw_ns": 2255.0}
    yield {"kind": "prefill", "b": 1, "q": 128, "k": 128, "backend": "FLASH", "us": 8.99, "tflops": 14.9, "gbps": 292}


EVENTS = [{"ph": "X", "cat": "build", "name": "row/a", "ts": 10.0, "dur": 5.0, "pid": 1, "tid": 1, "args": {}},
          {"ph": "X", "cat": "kernel", "name": "<gemm>", "ts": 12.0, "dur": 6.0, "pid": 1, "tid": 2, "args": {}},
          {"ph": "i", "s": "t", "cat": "choice", "name": "c", "ts": 12.0, "pid": 1, "tid": 2, "args": {}}]

STATS = {"version": "0", "complete": True, "combos": [], "busy_combos": 0,
         "ops": [{"op": "<b>&", "formula": "Y[i] = X[i]", "shapes": 1, "variants": 2, "counts": {"calls": 10, "hits": 9, "evictions": 0, "trials": 0, "switches": 1}}],
         "shapes": [{"op": "<b>&", "shape": "i=3", "calls": 10, "total_us": 50.0, "us": 5.0, "time": "sampled", "nearest": 3.5, "uncovered": True,
                     "trial": {"rivals": 2, "timed": 7, "switches": 1, "demotions": 0, "over": False},
                     "stages": [{"variant": "pointwise/x", "why": "model", "runner_up": "nest", "margin": 0.25,
                                 "roof": {"us": 2.0, "limit": "memory", "model_us": 4.0, "reason": "the launch", "lost_us": 1.5}}]}]}


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
                self.file("stats.json", json.dumps(STATS, indent=1)), self.file("rows.jsonl", lines(*rows())), self.file("trace.json", json.dumps(EVENTS))]

    def test_every_kind_has_its_section(self):
        text = self.page(*self.all_kinds())
        page = Page(text)
        self.assertEqual(page.wrong, [])
        self.assertEqual(page.headings, ["Hint and size", "Speed by size", "Who is fastest where", "Picks", "Models", "Passes of steps with changing sizes", "First calls",
                                         "Cost of a call", "Attention", "Timeline", "A program's calls"])
        for cell in ("0.50", "25.0%", "2.00 of eager", "row_persistent 1.25", "2.00 (1.00)", "4.50%", "9%", "20.0%", "60.0%", "nest, 25.0% behind", "<b>&", "0.40 of memory", "few loads in flight", "40% of memory",
                     "the launch", "3.5", "7", "12.40", "1683.0", "8.27", "56", "14.9"):
            self.assertIn(cell, page.cells)

    def test_sizes_of_the_table(self):
        """Those that were timed, nearest to the hints of the table."""
        moved = [row | {"shape": [2 * size - 1 for size in row["shape"]]} for row in hints()]
        page = Page(self.page(self.file("moved.jsonl", lines(*moved))))
        self.assertEqual(page.cells[:4], ["what runs", "127", "255", "8191"])
        self.assertNotIn("-", page.cells)

    def test_nothing_is_loaded(self):
        text = self.page(*self.all_kinds())
        self.assertEqual(Page(text).addresses, [])
        self.assertEqual(set(re.findall(r"https?://[^\s\"'<>]+", text)) - {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}, set())
        self.assertNotRegex(text, r"<script|@import|url\(\s*['\"]?(?!#)")

    @unittest.skipUnless(shutil.which("gnuplot"), "gnuplot is not installed")
    def test_plots(self):
        page = Page(self.page(*self.all_kinds()))
        self.assertEqual((page.wrong, page.figures), ([], 6))

    def test_without_gnuplot(self):
        bare = self.folder / "bin"
        bare.mkdir()
        (bare / "sh").symlink_to("/bin/sh")
        text = self.page(*self.all_kinds(), env={"PATH": str(bare)})
        self.assertIn("gnuplot is not installed", text)
        self.assertEqual((Page(text).wrong, Page(text).figures), ([], 3))  # maps of hints and the timeline are drawn without it

    def test_a_cut_trace(self):
        text = "[\n" + ",\n".join(json.dumps(event) for event in EVENTS) + ",\n" + '{"ph": "X", "ca'
        ran = self.ran(self.file("trace.json", text))
        self.assertEqual((ran.returncode, Page(ran.stdout).headings), (0, ["Timeline"]))
        self.assertIn("1 lines are no JSON, left out", ran.stderr)
        self.assertIn("&lt;gemm&gt;: 6.00 us", ran.stdout)
        profile = self.ran(self.file("profile.json", json.dumps({"traceEvents": EVENTS, "schemaVersion": 1})))
        self.assertEqual(profile.stdout, ran.stdout)

    def test_missing_columns_are_said(self):
        few = [line for line in times() if line["peer"] == "md"]
        for line in few:
            line.pop("roof_us", None)
        page = Page(self.page(self.file("few.jsonl", lines(*few))))
        self.assertIn("softmax, f32; not timed beside a copy, the roofline, other programs", page.captions)
        self.assertEqual([cell for cell in page.cells if "share" in cell or "peer" in cell], [])

    def test_a_programs_hints(self):
        """Statistics of this machine's own: what other hints would bring is computed; of another machine it is said why not."""
        stats = self.folder / "own.json"
        env = dict(os.environ, MD_STATS=str(stats), MD_CACHE_DIR=str(self.folder / "store"), MD_DEVICE="host")
        subprocess.run([MDCTL, "run", "softmax", "--sizes", "i=3, j=40000", "--hints", "16"], env=env, capture_output=True, check=True)
        own = json.loads(stats.read_text(encoding="utf-8"))
        self.assertEqual((own["device"], own["version"] != ""), ("host", True))
        page = Page(self.page(str(stats)))
        self.assertIn("What other hints would bring: the loss to the best kernel of each shape, by the model", page.captions)
        self.assertIn("Shapes that no hint covers: 100.0% of the time", page.captions)
        self.assertTrue(any(re.fullmatch(r"[0-9.]+% \([0-9.]+%\)", cell) for cell in page.cells))
        self.assertTrue(any(re.fullmatch(r"\d+% of (memory|arithmetic)", cell) for cell in page.cells), page.cells)
        stats.write_text(json.dumps(own | {"hardware": "another"}), encoding="utf-8")
        self.assertIn("is known where these statistics come from", self.page(str(stats)))

    def test_stages_that_are_idle(self):
        """Of a chain and its parts one runs: what is idle has no roof, and the roofline is that of the others."""
        stats = self.folder / "own.json"
        env = dict(os.environ, MD_STATS=str(stats), MD_CACHE_DIR=str(self.folder / "store"), MD_DEVICE="host")
        formula = ("let S[i,j] = sum[d](Q[i,d] * K[j,d]); let m[i] = max[j](S[i,j]); let P[i,j] = exp(S[i,j] - m[i]); let l[i] = sum[j](P[i,j]); "
                   "O[i,d] = sum[j](P[i,j] * V[j,d]) / l[i]")
        subprocess.run([MDCTL, "run", formula, "--sizes", "i=40, j=60, d=32", "--hints", "64"], env=env, capture_output=True, check=True)
        shape, = json.loads(stats.read_text(encoding="utf-8"))["shapes"]
        idle = [stage["variant"] == "idle" for stage in shape["stages"]]
        self.assertEqual((idle, any(idle), all(idle)), ([stage["roof"] is None for stage in shape["stages"]], True, False))
        least = sum(stage["roof"]["us"] for stage in shape["stages"] if stage["roof"])
        self.assertTrue(any(cell.startswith(f"{100 * least / shape['us']:.0f}% of ") for cell in Page(self.page(str(stats))).cells))
        shape["stages"] += [{"variant": "reference", "roof": None}]
        stats.write_text(json.dumps(STATS | {"shapes": [shape]}), encoding="utf-8")
        self.assertEqual([cell for cell in Page(self.page(str(stats))).cells if "% of " in cell], [])

    def test_ops_of_one_name(self):
        twice = STATS | {"ops": STATS["ops"] * 2}
        page = Page(self.page(self.file("twice.json", json.dumps(twice))))
        self.assertEqual((page.cells.count("0.050"), page.cells.count("above")), (1, 2))

    @unittest.skipUnless(shutil.which("gnuplot"), "gnuplot is not installed")
    def test_gnuplot_gets_no_commands(self):
        """A results file is data: a column's name ends no text of gnuplot's."""
        touched = self.folder / "touched"
        rows = [row | {"column": row["column"].replace("model", f"m'\nsystem('touch {touched}')\n#")} for row in hints()]
        self.assertEqual(Page(self.page(self.file("hints.jsonl", lines(*rows)))).figures, 3)
        self.assertFalse(touched.exists())

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
                                    (1, [str(self.folder)], f"cannot read '{self.folder}'"),
                                    (1, [good, self.file("gpu.jsonl", lines(*times(device="cuda:0")))], "results of 'cuda:0' beside those of 'host'; give each device a file"),
                                    (1, [self.file("two.jsonl", lines(*({"hardware": name} | line for name, line in zip(("H100", "H200"), times()))))],
                                     "results of 'H200' beside those of 'H100'; give each hardware a file"),
                                    (1, [self.file("old.jsonl", lines(*({"version": name} | line for name, line in zip(("0.1", "0.2"), times()))))],
                                     "results of version '0.2' beside those of '0.1'; give each version a file"),
                                    (1, [self.file("other.json", "{}")], "no results that a page can show"), (1, [self.file("empty", "")], "no results"),
                                    (1, [good, "-o", "/nonexistent/x"], "cannot write '/nonexistent/x'")]:
            with self.subTest(part):
                ran = self.ran(*words)
                self.assertEqual(ran.returncode, status)
                self.assertIn(part, ran.stderr)
        same = self.ran(good, self.file("cpu.jsonl", lines(*times(op="sum", device="cpu"))))  # as PyTorch calls the host
        self.assertEqual((same.returncode, same.stderr), (0, ""))
        cut = self.ran(self.file("cut.jsonl", lines(*times()) + '{"op": "so'))
        self.assertEqual((cut.returncode, Page(cut.stdout).headings[:1]), (0, ["Speed by size"]))
        self.assertIn("1 lines are no JSON, left out", cut.stderr)

    @unittest.skipUnless(shutil.which("chromium"), "chromium is not installed")
    def test_a_browser_shows_it(self):
        """On a phone and a desktop, light and dark: nothing beyond the window's side, no small text, no request, all that
        scrolls is reached by the keyboard, text stands out from its ground."""
        (self.folder / "page.html").write_text(self.page(*self.all_kinds()), encoding="utf-8")
        (self.folder / "frames.html").write_text(FRAMES, encoding="utf-8")
        for scheme, is_dark in ((1, False), (0, True)):
            shown = subprocess.run(["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", f"--blink-settings=preferredColorScheme={scheme}",
                                    f"--user-data-dir={self.folder / 'profile'}", "--dump-dom", f"file://{self.folder / 'frames.html'}"],
                                   capture_output=True, text=True, check=False, timeout=300).stdout
            frames = json.loads(re.search(r"<pre id=\"out\">(.*?)</pre>", shown, re.S)[1])
            self.assertEqual([frame["sections"] for frame in frames], [11, 11])
            for frame in frames:
                self.assertEqual((frame["beyond"], frame["requests"], frame["unreachable"]), (0, 0, 0), frame)
                self.assertGreaterEqual(frame["least"], 12)
                text, ground = (sum(map(int, re.findall(r"\d+", frame[name])[:3])) for name in ("text", "ground"))
                self.assertEqual(text > ground, is_dark, frame)
                self.assertGreater(abs(text - ground), 3 * 128, frame)
            self.assertGreater(frames[0]["scrolls"], 0)


# The page in windows of a phone's and a desktop's width, and what is asked of it there.
FRAMES = """<body><iframe style="width:390px;height:800px" src="page.html"></iframe><iframe style="width:1280px;height:800px" src="page.html"></iframe>
<pre id="out"></pre><script>onload = () => { document.getElementById("out").textContent = JSON.stringify([...document.querySelectorAll("iframe")].map(frame => {
  const page = frame.contentDocument, view = frame.contentWindow, root = page.documentElement;
  const scrolls = [...page.querySelectorAll("*")].filter(x => x.scrollWidth > x.clientWidth && /auto|scroll/.test(view.getComputedStyle(x).overflowX));
  const sizes = [...page.querySelectorAll("p,td,th,caption,figcaption,h1,h2")].map(x => parseFloat(view.getComputedStyle(x).fontSize));
  return {beyond: root.scrollWidth - root.clientWidth, requests: view.performance.getEntriesByType("resource").length, scrolls: scrolls.length,
          unreachable: scrolls.filter(x => x.tabIndex < 0).length, least: Math.min(...sizes), text: view.getComputedStyle(page.body).color,
          ground: view.getComputedStyle(page.body).backgroundColor, sections: page.querySelectorAll("h2").length}; })); };</script>"""


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
