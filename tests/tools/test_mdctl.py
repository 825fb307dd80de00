#!/usr/bin/env python3
"""mdctl from the outside: exit status, key lines, JSON, files, terminals. Arguments: mdctl, the source root, the C compiler."""

import fcntl
import json
import os
import pathlib
import pty
import re
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest

MDCTL, ROOT, CC = sys.argv[1:4]
COMMANDS = ["demo", "run", "check", "explain", "choices", "source", "combo", "bench", "hints", "store", "report", "ops", "info"]
ESCAPE = "\x1b"
STORE = tempfile.TemporaryDirectory(prefix="multidispatch-test-")  # of all cases that name none: a kernel is compiled once
FEW = ["--hints", "16,256", "--threads", "2"]  # short builds


def environment(extra=None):
    env = {k: v for k, v in os.environ.items() if (not k.startswith("MD_") or k == "MD_RATES") and k != "NO_COLOR"}
    env["TERM"] = "xterm"
    env["MD_CACHE_DIR"] = STORE.name  # the user's store is not for tests
    env["MD_DEVICE"] = "host"  # what is expected holds there, GPU or not
    env.update(extra or {})
    return env


def mdctl(*args, env=None, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE):
    return subprocess.run([MDCTL, *args], env=environment(env), stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, text=True,
                          timeout=6000, check=False)


def on_terminal(args, env=None, until=None):
    """Runs with stdout and stderr on a terminal: status, text. Ends it when a pattern was seen."""
    master, slave = pty.openpty()
    with subprocess.Popen([MDCTL, *args], env=environment(env), stdin=subprocess.DEVNULL, stdout=slave, stderr=slave) as process:
        os.close(slave)
        text = b""
        while True:
            ready, _, _ = select.select([master], [], [], 300)
            if not ready:
                process.kill()
                break
            try:
                piece = os.read(master, 65536)
            except OSError:  # the other side is closed
                break
            if not piece:
                break
            text += piece
            if until and re.search(until, text.decode(errors="replace")):
                process.kill()
                break
        os.close(master)
        return process.wait(), text.decode(errors="replace")


class Base(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, name, text):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    def good(self, *args, env=None):
        done = mdctl(*args, env=env)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        self.assertNotIn(ESCAPE, done.stdout + done.stderr)
        self.assertEqual(done.stderr, "")  # no progress where there is no terminal
        return done.stdout

    def bad(self, status, *args, part="", env=None):
        """Fails with one message, and nothing but it."""
        done = mdctl(*args, env=env)
        self.assertEqual(done.returncode, status, done.stderr + done.stdout)
        self.assertTrue(done.stderr.startswith("mdctl: "), done.stderr)
        self.assertIn(part, done.stderr)
        self.assertNotIn(ESCAPE, done.stdout + done.stderr)
        return done.stderr

    def json_lines(self, text):
        lines = [json.loads(line) for line in text.splitlines()]
        self.assertTrue(lines)
        return lines


class Check(Base):
    def test_text(self):
        """Sizes and their origin, stages, families, what is slow and what is checked."""
        text = self.good("check", "size i=4..99; Y[i] = X[i+1] * E[ids[i]]; G[ids[i]] += X[i]", "--device", "host")
        for part in ("i: 4 to 99, axis 0 of argument 0, Y", "X.0: axis 0 of argument 1, X, which must only be long enough",
                     "pointwise: 1 store, gather", "families: gather", "slow: several points may update one element",
                     "axis 0 of X at i + 1: once, before each call", "axis 0 of E at ids[i]: in the kernel, at each access"):
            self.assertIn(part, text)

    def test_json(self):
        formula = "Y[i,j] = X[i,j] + where(X[i,j] > 0, cumsum[j](where(j > 0, X[i,j-1], 0)), 0)"
        report = self.json_lines(self.good("check", formula, "--json", "--device", "host"))[0]
        self.assertEqual([d["name"] for d in report["dims"]], ["i", "j", "X.1"])
        self.assertEqual(report["stages"][0]["families"], ["nest"])
        self.assertIn("loop nest", report["stages"][0]["slow"])
        self.assertIn("1:37: this scan is computed again", report["warnings"][0])
        report = self.json_lines(self.good("check", "softmax", "--json", "--device", "host"))[0]
        self.assertIsNone(report["stages"][0]["slow"])
        self.assertEqual(report["warnings"], [])

    def test_roofline_of_rows_by_pointers(self):
        """Of 1000 rows of a matrix of 20,000 entries each has 20 at the mean: operations on all would be a roof above the model's time."""
        text = self.good("explain", "Y[i] = sum[k](where(P:i64[i] <= k and k < P[i+1], X[k], 0))", *FEW, "--device", "host", "--sizes", "i=1000, k=20000, P.0=1001")
        self.assertLess(float(re.search(r"roofline: .*, (\d+)% of it by the model", text)[1]), 100)

    def test_mistakes(self):
        self.bad(1, "check", "Y[i] = ", "--device", "host", part="expected")
        self.bad(2, "check", part="one formula or op")


class Combo(Base):
    def test_list(self):
        few = [*FEW, "--sizes", "i=4, j=100; i=3, j=7", "--count", "5"]
        text = self.good("combo", "softmax", *few)
        self.assertIn("combo of 10 items", text)
        self.assertRegex(text, r"one parallel loop|a (call|launch) of its own")
        self.assertRegex(text, r"one run [0-9.]+ us, a call an item [0-9.]+ us")
        first, second = [json.loads(line) for line in self.good("combo", "softmax", *few, "--json").splitlines()]
        self.assertEqual((first["items"], first["shapes"]), (10, 2))
        self.assertEqual(set(second), {"combo_us", "calls_us"})

    def test_tune(self):
        few = [*FEW, "--device", "host", "--sizes", "i=4, j=100; i=3, j=7", "--tune", "--budget", "60000"]
        text = self.good("combo", "softmax", *few, "--builds", "1")
        for part in (r"kernel 0: softmax, \w+/", r"heuristic: [0-9.]+ us", r"separate launches: [0-9.]+ us",
                     r"[A-Za-z_]+\d \d+->\d+: [0-9.]+ us, ", r"; 1 builds, ", "combo of 2 items"):
            self.assertRegex(text, part)
        lines = [json.loads(line) for line in self.good("combo", "softmax", *few, "--field-order", "prefetch",
                                                        "--field-limits", "cap=1", "--json").splitlines()]
        steps = [line["step"] for line in lines if "step" in line]
        self.assertEqual(steps[:1], ["prefetch0"])
        self.assertNotIn("cap0", [line["step"] for line in lines if line.get("from", 0) < line.get("to", 0)])
        self.assertIn(lines[-3]["winner"], ("tuned", "heuristic"))
        self.bad(1, "combo", "softmax", *few, "--field-limits", "X", part="option field_limits")
        self.bad(2, "combo", "softmax", *few[:-3], "--builds", "1", part="need --tune")

    def test_mistakes(self):
        self.bad(2, "combo", "softmax", part="--sizes")
        self.bad(2, "combo", "softmax", "--sizes", "i=1, j=1", "--count", "20000", part="at most 10000 items")
        self.bad(1, "combo", "softmax", *FEW, "--sizes", "i=4, j=100; i=3", part="'j'")


class Help(Base):
    def test_help(self):
        for args in ["--help"], ["-h"], ["help"]:
            text = self.good(*args)
            for command in COMMANDS:
                self.assertIn("mdctl " + command, text)
            self.assertIn("--sizes", text)
            self.assertIn("exit status", text)
        for command in COMMANDS:
            for flag in "--help", "-h":
                text = self.good(command, flag)
                self.assertIn("usage: mdctl " + command, text)
                self.assertEqual("--json" in text, command != "report")  # which prints a page
        # a command's help has the options that it takes, and no others
        options = lambda command: set(re.findall(r"^  --(\S+)", self.good(command, "--help"), re.M))
        every = set(re.findall(r"^  --(\S+)", self.good("--help"), re.M))
        own = {command: options(command) for command in [*COMMANDS, "tune", "regret", "bundle"]}
        self.assertEqual(own["ops"], {"json", "help"})
        self.assertEqual(own["info"], {"device", "threads", "cc", "json", "help"})
        self.assertEqual(own["source"] - own["explain"], {"variant", "stage"})
        self.assertIn("budget", own["tune"])
        self.assertNotIn("budget", own["run"] | own["store"])
        self.assertIn("the variant to print", self.good("source", "--help"))
        self.assertNotIn("source: the variant", self.good("source", "--help"))
        self.assertEqual(set().union(*own.values()), every)
        self.assertRegex(self.good("--version"), r"^mdctl \d+\.\d+\.\d+\n$")

    def test_options_of_each_command(self):
        """A command takes every option that its help lists, and refuses the others of mdctl with a word of help."""
        told = json.loads(self.good("help", "--json"))
        values = {"TYPE": "f32", "MODE": "model", "METRIC": "log2", "WHEN": "auto", "POLICY": "fast", "N": "1", "K/N": "1/1",
                  "MB": "1", "MS": "1"}
        what = {"bounds": "clamp", "rigor": "measure", "strategy": "guess"}
        for command in (c["name"] for c in told["commands"]):
            listed = set(re.findall(r"^  --(\S+)", self.good(command, "--help"), re.M))
            self.assertTrue(listed)
            for option in told["options"]:
                name, value = option["name"], option["value"]
                words = ["--" + name] + ([what.get(name) or values.get(value, "x")] if value else [])
                if name in listed:  # --help ends every command with its help, after all options were read
                    self.assertIn("usage: mdctl " + command, self.good(command, *words, "--help"))
                else:
                    self.bad(2, command, *words, "--help", part=f"'--{name}' is no option of mdctl {command}; see mdctl {command} --help")

    def test_nothing(self):
        done = mdctl()
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stdout, "")
        self.assertIn("mdctl run", done.stderr)


class Store(Base):
    def setUp(self):
        super().setUp()
        self.env = {"MD_CACHE_DIR": str(self.folder / "store"), "MD_RATES": ""}  # measured

    def store(self, *args):
        done = mdctl("store", *args, env=self.env)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_store(self):
        self.assertEqual(self.store("path"), f"{self.folder}/store\n")
        (rates,) = self.store("list").splitlines()  # what this processor can do: measured once
        self.assertRegex(rates, "facts .* rates")
        self.assertIn("1 entries", self.store("verify"))
        self.assertEqual(self.store("export"), "")
        run = ["run", "Y[i] = X[i] + 3", "--sizes", "i=100", *FEW]
        self.assertEqual(mdctl(*run, env=self.env).returncode, 0)
        listed = [json.loads(line) for line in self.store("list", "--json").splitlines()]
        kernels = [e for e in listed if e["kind"] == "kernel"]
        self.assertEqual({e["kind"] for e in listed}, {"kernel", "facts"})
        self.assertTrue(all(e["about"].startswith("host, ") for e in listed), listed)
        facts = json.loads(self.store("verify", "--json"))
        self.assertEqual((facts["entries"], facts["bad"]), (len(listed), 0))
        for path in (self.folder / "store").glob("*/kernel/*/*"):
            path.write_bytes(path.read_bytes()[:-1])
        self.assertIn(f"{len(kernels)} bad ones removed", self.store("verify"))
        self.assertEqual(mdctl(*run, env=self.env).returncode, 0)
        self.assertEqual(len(self.store("list").splitlines()), len(listed))
        self.assertIn(f"0 of {len(listed)} entries removed", self.store("gc", "--limit", "100"))

    def test_rates(self):
        """What a processor can do is measured once a store: equal runs pick alike, whatever else the machine does."""
        names = "memory_gbps", "gflops", "rates_measured", "rates_spread_percent"
        rates = lambda: {k: v for k, v in json.loads(self.good("info", "--json", env=self.env)).items() if k in names}
        for _ in range(30):  # what was measured under load is measured again by the next process
            first = rates()
            if first["rates_spread_percent"] < 10:
                break
        else:
            self.skipTest("other work on this machine left no moment to measure in")
        load = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * os.cpu_count())]
        try:
            self.assertEqual([rates() for _ in range(3)], 3 * [first])
        finally:
            for process in load:
                process.kill()
                process.wait()

    def test_wisdom(self):
        line = {"key": "k", "family": "f", "variant": "f/a1", "rigor": "measure", "complete": True, "us": 1.5, "spread": 0.1, "count": 9,
                "date": "2026-11-21T00:00:00Z", "source": "0" * 32, "device": "another", "environment": "1" * 32, "candidates": []}
        good, bad = self.folder / "good.jsonl", self.folder / "bad.jsonl"
        good.write_text(json.dumps(line) + "\n", encoding="utf-8")
        bad.write_text(json.dumps(line) + "\n{}\n\nx\n", encoding="utf-8")
        self.assertIn("1 of other devices", self.store("import", str(good)))
        (self.folder / "other").mkdir(mode=0o700)
        self.assertIn("0 lines", self.store("merge", str(self.folder / "other"), "/dev/null"))
        done = mdctl("store", "import", str(bad), env=self.env)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"line 2: .*\nline 4: .*\nmdctl: .*bad.jsonl: 2 of 3 lines are no wisdom")
        self.store("export", "--output", str(self.folder / "out.jsonl"))
        self.assertEqual((self.folder / "out.jsonl").read_text(encoding="utf-8"), "")
        self.bad(1, "store", "import", str(self.folder / "absent"), part="absent")

    def test_mistakes(self):
        self.bad(2, "store", part="expected path, list")
        self.bad(2, "store", "lose", part="'lose'")
        self.bad(2, "store", "import", part="takes files")
        self.bad(2, "store", "gc", "x", part="takes no argument")
        self.bad(2, "store", "gc", "--limit", "0", part="1..100000")
        self.bad(1, "store", "path", env={"MD_CACHE_DIR": ""}, part="nothing is kept")


class Usage(Base):
    def test_unknown(self):
        self.bad(2, "frobnicate", part="'frobnicate'")
        self.bad(2, "run", "--frobnicate", part="unknown option '--frobnicate'")
        self.bad(2, "run", "softmax", "--sizes", part="value is missing behind '--sizes'")

    def test_values(self):
        for option, value, part in [
                ("--select", "magic", "distance, model, measure"), ("--metric", "l2", "log2, inductor"), ("--persistent", "yes", "auto, only, never"),
                ("--bounds", "x", "report, clamp, zero"), ("--threads", "0", "1..1024"), ("--threads", "two", "'two'"),
                ("--repeat", "-1", "1..100000"), ("--repeat", "99999999999999999999", "1..100000"), ("--stage", "x", "'x'"), ("--seed", "", "''"),
                ("--dtype", "float", "expected f32")]:
            command = {"--repeat": "bench", "--stage": "source"}.get(option, "run")
            self.assertIn(option, self.bad(2, command, "softmax", option, value, part=part))

    def test_counts(self):
        for command in "run", "explain", "source":
            self.bad(2, command, part="takes one formula or op, but got 0")
            self.bad(2, command, "softmax", "gelu", part="but got 2")
        self.bad(2, "info", "x", part="'x'")
        self.bad(2, "demo", "x", part="'x'")
        self.bad(2, "ops", "a", "b")
        self.bad(2, "bench", part="bench takes boards")

    def test_environment(self):
        self.bad(1, "info", env={"MD_SELECT": "magic"}, part="MD_SELECT")
        self.bad(1, "run", "relu", "--sizes", "i=2, j=2", env={"MD_HINTS": "64,banana"}, part="MD_HINTS")
        self.bad(1, "info", "--device", "tpu", part="'tpu'")


class Formulas(Base):
    def test_bad_formula(self):
        text = self.bad(1, "run", "Y[i] = exp(X[i]) + foo", "--sizes", "i=3", part="foo")
        lines = text.rstrip("\n").splitlines()
        caret = [n for n, line in enumerate(lines) if line.strip() and not line.replace("^", "").replace("~", "").strip()]
        self.assertEqual(len(caret), 1, text)
        self.assertEqual(lines[caret[0] - 1][lines[caret[0]].index("^"):][:3], "foo")
        self.assertIn("1:20", text)

    def test_warning(self):
        """A binder that hides an index of the left side: a warning with a caret, once, and the op works."""
        for command, *more in ["run", "--sizes", "i=5, i_2=4"], ["explain", "--sizes", "i=5, i_2=4"], ["source"], ["tune", "--sizes", "i=5, i_2=4", "--budget", "10"]:
            done = mdctl(command, "Y[i] = sum[i](X[i])", *more, *FEW)
            self.assertEqual(done.returncode, 0, done.stderr)
            where, other = (done.stdout, done.stderr) if command == "explain" else (done.stderr, done.stdout)
            self.assertEqual(where.count("1:12: 'i' is bound here"), 1, where)
            self.assertIn("\n  Y[i] = sum[i](X[i])\n             ^\n", where)
            self.assertNotIn("1:12: 'i' is bound here", other)

    def test_bad_names_and_sizes(self):
        self.bad(1, "run", "nosuchop", part="neither a formula nor an op of the catalogue")
        for command in "run", "explain":
            self.bad(1, command, "softmax", *FEW, part="'i' is missing")
            self.bad(1, command, "softmax", *FEW, "--sizes", "i=4", part="'j' is missing")
            self.bad(1, command, "softmax", *FEW, "--sizes", "i=4, j=4, q=1", part="'q'")
        for command in "run", "explain", "choices", "bench", "tune", "combo":
            more = ["--budget", "10"] if command == "tune" else []
            self.bad(1, command, "softmax", *FEW, *more, "--sizes", "i=64, j=300, q=5", part="has no dim 'q'; it has i, j")
            self.bad(1, command, "softmax", *FEW, *more, "--sizes", "i=64, j=300, k=5", part="'k' is dim 'j', which is given twice")
            self.bad(1, command, "softmax", *FEW, *more, "--sizes", "i=2, i=3", part="dim 'i' is given twice")
        for command, *more in ["run"], ["check"], ["explain"], ["source"], ["tune", "--budget", "10"], ["bundle", "--output", str(self.folder / "x.mdb")]:
            for hints, part in ("q=4", "has no dim 'q'"), ("i=4 i=8", "dim 'i' is given twice"), ("(i=4,j=8,k=9)", "'k' is dim 'j', which is given twice"):
                self.bad(1, command, "softmax", *more, "--hints", hints, part=part)
        self.bad(1, "run", "softmax", "--static", "j=4, j=8", "--sizes", "i=4", part="'j' is given two sizes that exclude each other")
        self.bad(2, "run", "softmax", "--threads", "1025", "--sizes", "i=4, j=4", part="1..1024")
        self.bad(1, "run", "softmax", "--dtype", "i32", "--sizes", "i=4, j=4", part="expected f32, f64, f16, bf16")
        self.bad(1, "run", "softmax", "--hints", "64,x", "--sizes", "i=4, j=4", part="64,x")
        self.bad(1, "run", "softmax", "--pin", "nosuch/a1", "--sizes", "i=4, j=4", part="'nosuch/a1' is pinned")
        self.bad(1, "run", "sotfmax", "--sizes", "i=4, j=4", part="did you mean 'softmax'?")
        self.bad(1, "run", "softmax", "--sizes", "i=4, j=4", env={"MD_DEVICE": "gpu"}, part="are possible (MD_DEVICE)")
        self.bad(1, "ops", "nosuchop", part="nosuchop")

    def test_edges_of_sizes(self):
        most = str(2**63 - 1)
        few = [*FEW, "--cc", "/nonexistent/cc"]
        for command in "run", "explain", "bench":
            self.bad(1, command, "matmul", *few, "--sizes", f"m={most}, n=4, k=4", part="2^63 bytes")
            self.bad(1, command, "relu", *few, "--sizes", f"i={2**63}, j=4", part="larger than " + most)
        self.bad(1, "run", "relu", *few, "--sizes", f"i={2**53 + 1}, j=3", part="out of memory")
        self.bad(1, "explain", "matmul", *few, "--sizes", f"m={2**30}, n={2**30}, k={2**20}", part="10^18 operations and bytes at m=1073741824")
        self.bad(1, "tune", "relu", "--hints", f"i={most}, j=1", part="a hint lies in 1..2^40")
        self.bad(1, "explain", "relu", "--sizes", "i=4, j=4", env={"MD_HINTS": f"{most},{2**53}"}, part="MD_HINTS")
        self.bad(1, "explain", "relu", "--sizes", "i=4, j=4", env={"MD_HINTS": f"{2**64}"}, part="MD_HINTS")
        shapes = [{"op": "p", "shape": f"b={a} n={b} k=4", "calls": 2**62, "total_us": 1e300} for a in (2**53, 2**63 - 1) for b in (4, 2**63 - 2)]
        stats = {"ops": [{"op": "p", "formula": "Y[b,n] = sum[k](X[b,k] * W[n,k])", "hints": "(b=64,n=64,k=64)"}], "shapes": shapes}
        path = self.file("edges.json", json.dumps(stats))
        self.assertIn("(b=", json.loads(self.good("hints", "suggest", path, "--json", "--threads", "2"))["hints"])


class Run(Base):
    CASES = [
        ("softmax", "i=5, j=333", "f32"),
        ("layer_norm", "i=7, j=65", "bf16"),
        ("Y[b,n] = gelu(sum[k](X[b,k] * W[n,k]) + c[n])", "b=3, n=40, k=17", "f32"),
        ("C[m,n] = sum[k](A[m,k] * B[k,n])", "m=33, n=18, k=50", "f64"),
        ("Y[i,j] = cumsum[j](X[i,j])", "i=3, j=100", "f32"),
        ("Y[j,i] = 2 * X[i,j] + 1", "i=30, j=9", "f16"),
        ("Y[t,d] = E[ids[t],d]", "t=9, d=20, E.0=50", "f32"),
        ("L[] = sum[i](X[i] * X[i])", "i=1000", "f32"),
        ("Y[i] = argmax[j](X[i,j])", "i=4, j=77", "f32"),
    ]

    def test_results(self):
        for formula, sizes, dtype in self.CASES:
            with self.subTest(formula):
                text = self.good("run", formula, "--sizes", sizes, "--dtype", dtype, *FEW)
                self.assertIn(": ok\n", text)
                self.assertNotIn("WRONG", text)
                self.assertNotIn("(reference)", text)

    def test_long_sums(self):
        for formula, sizes in [("Y[j] = sum[i](X[i,j])", "i=2000000, j=2"), ("Y[i,j] = sum[k](A[i,k]*B[j,k])", "i=8, j=9, k=64000")]:
            with self.subTest(formula):
                (run,) = self.json_lines(self.good("run", formula, "--sizes", sizes, "--json", "--no-library", *FEW))
                (stage,) = json.loads(self.good("explain", formula, "--sizes", sizes, "--json", "--no-library", *FEW))["stages"]
                self.assertLess(stage["additions"], 540)  # multidispatch(3), "Accuracy"
                self.assertAlmostEqual(run["outputs"][0]["allowed"], (2 + 64 + stage["additions"]) * 2**-24, delta=1e-10)
        self.assertGreater(run["outputs"][0]["error"], 0)  # sums of the data are not exact

    def test_json(self):
        formula, sizes, _ = self.CASES[2]
        (run,) = self.json_lines(self.good("run", formula, "--sizes", sizes, "--json", *FEW))
        self.assertTrue(run["ok"])
        self.assertEqual(run["op"], "Y")
        self.assertEqual(run["outputs"][0]["elements"], 120)
        self.assertLessEqual(run["outputs"][0]["error"], run["outputs"][0]["allowed"])
        self.assertRegex(run["variants"][0]["variant"], r"^[a-z_]+")

    def test_empty(self):
        self.assertIn(": ok\n", self.good("run", "softmax", "--sizes", "i=0, j=5", *FEW))

    def test_no_compiler(self):
        done = mdctl("run", "softmax", "--sizes", "i=2, j=3", "--cc", "/nonexistent/cc", *FEW)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("reference (reference)", done.stdout)
        warnings = done.stderr.splitlines()
        self.assertEqual(len(warnings), 1, done.stderr)  # a condition is said once
        for part in "/nonexistent/cc", "reference evaluator serves", "set MD_CC":
            self.assertIn(part, warnings[0])
        self.assertIn("true ", json.loads(mdctl("info", "--json", "--cc", "/bin/true").stdout)["compiler"])  # and no gcc
        for level, n_lines in ("none", 0), ("error", 0), ("warn", 1), ("info", 2):
            said = mdctl("run", "softmax", "--sizes", "i=2, j=3", "--cc", "/nonexistent/cc", *FEW, env={"MD_LOG": level}).stderr
            self.assertEqual(len(said.splitlines()), n_lines, said)

    def test_statistics(self):
        path = str(self.folder / "stats.json")
        self.good("run", "softmax", "--sizes", "i=2, j=3", *FEW, env={"MD_STATS": path})
        with open(path, encoding="utf-8") as f:
            (shape,) = json.load(f)["shapes"]
        self.assertEqual((shape["op"], shape["shape"], shape["calls"]), ("softmax", "i=2 j=3", 1))

    def test_pin(self):
        text = self.good("source", "softmax", *FEW)
        name = text.splitlines()[-1].split(":", 1)[1]
        self.assertIn(name + " (pinned)", self.good("run", "softmax", "--sizes", "i=2, j=3", "--pin", name))


class Poor(Base):
    """A process that lacks what others have."""

    RUN = ["run", "softmax", "--sizes", "i=4, j=9", *FEW]

    def test_without_an_environment(self):
        done = subprocess.run([MDCTL, *self.RUN], env={"MD_DEVICE": "host", "MD_CACHE_DIR": ""}, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertNotIn("reference (", done.stdout)

    def test_small_files(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it

        done = subprocess.run([MDCTL, *self.RUN], env=environment({"MD_CACHE_DIR": str(self.folder / "store")}), preexec_fn=limit,
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("File too large", done.stderr)

    def test_what_is_not_written_is_said(self):
        for name, path in (("MD_STATS", "/nonexistent/x"), ("MD_STATS", "/dev/full"), ("MD_TRACE", "/dev/full")):
            if os.path.exists(path) or "nonexistent" in path:
                self.bad(1, *self.RUN, part=path, env={name: path})


class Explain(Base):
    def test_table(self):
        text = self.good("explain", "softmax", "--sizes", "i=3, j=100", *FEW)
        self.assertIn("candidate", text)
        self.assertEqual(len(re.findall(r"^  -> ", text, flags=re.M)), 1)
        picked = re.search(r"^  -> +(\S+)", text, flags=re.M).group(1)
        self.assertIn(f"  pick: {picked} (model)", text)
        self.assertIn("MFLOP", text)
        text = self.good("explain", "softmax", "--sizes", "i=1, j=1000000", "--select", "distance", *FEW)
        self.assertIn("(nearest)", text)
        self.assertIn("lopsided", text)

    def test_numeric(self):
        text = self.good("explain", "softmax", "--sizes", "i=3, j=100", "--numeric", "batch_invariant", *FEW)
        self.assertIn("numeric policy batch_invariant: class row serves this shape", text)
        self.assertIn("of another numeric class", text)

    def test_json(self):
        explained = json.loads(self.good("explain", "softmax", "--sizes", "i=3, j=100", "--json", *FEW))
        (stage,) = explained["stages"]
        self.assertEqual(explained["shape"], "i=3 j=100")
        picked = [c for c in stage["candidates"] if c["variant"] == stage["pick"]]
        self.assertEqual(len(picked), 1)
        self.assertTrue(picked[0]["fits"])
        self.assertGreater(len(stage["candidates"]), 1)
        self.assertGreater(stage["flops"], 300)
        self.assertFalse(stage["slow"])


class Source(Base):
    def flags(self):
        info = json.loads(self.good("info", "--json"))
        return [word for word in info["compiler_flags"].split() if word.startswith(("-m", "-f")) and word != "-shared"]

    def test_compiles(self):
        flags = self.flags()
        for formula in "softmax", "linear_bias_gelu":
            names = self.good("source", formula, *FEW).split()
            self.assertGreater(len(names), 1)
            stage, name = names[0].split(":", 1)
            text = self.good("source", formula, *FEW, "--stage", stage, "--variant", name)
            if "a function of the library" in text:
                continue
            done = subprocess.run(CC.split() + flags + ["-O0", "-w", "-x", "c", "-c", "-o", str(self.folder / "kernel.o"), "-"], input=text,
                                  capture_output=True, text=True, check=False, timeout=600)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_json(self):
        listed = json.loads(self.good("source", "softmax", "--json", *FEW))
        name = listed["variants"][0]["variant"]
        one = json.loads(self.good("source", "softmax", "--json", "--variant", name, *FEW))
        self.assertEqual(one["variant"], name)
        self.assertEqual(one["source"], self.good("source", "softmax", "--variant", name, *FEW))

    def test_unknown(self):
        self.bad(1, "source", "softmax", "--variant", "nosuch", *FEW, part="nosuch")
        self.bad(1, "source", "softmax", "--variant", "row_looped", "--stage", "7", *FEW, part="no number 7")


class Lists(Base):
    def test_ops(self):
        ops = self.json_lines(self.good("ops", "--json"))
        self.assertIn("softmax", [op["name"] for op in ops])
        self.assertTrue(all(op["formula"] and op["description"] for op in ops))
        (one,) = self.json_lines(self.good("ops", "softmax", "--json"))
        self.assertIn(one["formula"].splitlines()[0], self.good("ops", "softmax"))

    def test_info(self):
        info = json.loads(self.good("info", "--json", "--threads", "2"))
        self.assertEqual((info["device"], info["threads"]), ("host", 2))
        text = self.good("info", env={"MD_HINTS": "7,70"})
        self.assertIn("MD_CC", text)
        self.assertIn("now 7,70", text)


class Bench(Base):
    BOARD = "# op dtype sizes\nsoftmax f32 i=16 j=64\n\nrelu f16 i=8, j=8 # small\nsoftmax f32 i=3 j=9\n"
    QUICK = ["--quick", "--repeat", "2"] + FEW

    def test_board(self):
        output = str(self.folder / "out.jsonl")
        text = self.good("bench", self.file("board.txt", self.BOARD), "--json", "--output", output, *self.QUICK)
        lines = self.json_lines(text)
        self.assertEqual(pathlib.Path(output).read_text(encoding="utf-8"), text)
        self.assertEqual([(x["op"], x["dtype"], x["peer"]) for x in lines],
                         [(op, dtype, peer) for op, dtype in [("softmax", "f32"), ("relu", "f16"), ("softmax", "f32")] for peer in ("md", "copy")])
        self.assertEqual(lines[0]["sizes"], {"i": 16, "j": 64})
        self.assertEqual(lines[2]["sizes"], {"i": 8, "j": 8})
        for line in lines:
            self.assertTrue(line["lo"] <= line["us"] <= line["hi"])
            self.assertGreaterEqual(line["gbps"], 0)
        self.assertEqual(lines[0]["why"], "model")

    def test_pieces(self):
        """Parts of a board make the whole, and a run that was ended in the middle of a case goes on with that case."""
        board, output = self.file("board.txt", self.BOARD), self.folder / "out.jsonl"
        cases = [("softmax", 16), ("relu", 8), ("softmax", 3)]

        def ran(*words):
            lines = map(json.loads, self.good("bench", board, "--json", *self.QUICK, *words).splitlines())
            return [(x["op"], x["sizes"]["i"]) for x in lines if x["peer"] == "md"]

        self.assertEqual(ran("--part", "2/2"), cases[1:2])
        self.assertEqual(ran("--part", "1/2", "--output", str(output)), cases[::2])
        text = output.read_text(encoding="utf-8")
        output.write_text(text[: len(text) - 100], encoding="utf-8")  # into the copy of the last case
        self.assertEqual(ran("--resume", "--output", str(output)), cases[1:])
        self.assertEqual(ran("--resume", "--output", str(output)), [])
        self.assertEqual(ran("--budget", "1", "--output", str(self.folder / "late")), [])
        self.bad(2, "bench", board, "--resume", part="--output, which is missing")

    def test_formula(self):
        formula = 'Y[i] = X[i] # "quoted"\n + 1'
        lines = self.json_lines(self.good("bench", formula, "--sizes", "i = 100", "--json", "--repeat", "2", "--hints", "16"))
        self.assertEqual(lines[0]["op"], formula)
        self.assertEqual(lines[0]["sizes"], {"i": 100})
        self.assertGreater(len(lines), 2)  # and every variant of the pool
        empty = self.json_lines(self.good("bench", "relu", "--sizes", "i=0, j=4", "--json", *self.QUICK))
        self.assertEqual(empty[0]["gbps"], 0)
        self.assertIn("GB/s", self.good("bench", "relu", "--sizes", "i=3, j=4", *self.QUICK))

    def test_bad(self):
        self.bad(2, "bench", self.file("b", "relu f32 i=2 j=2\nrelu float i=2\n"), *self.QUICK, part="b:2: expected")
        self.bad(2, "bench", self.file("b", "relu\n"), *self.QUICK, part="b:1: expected")
        self.bad(2, "bench", self.file("b", "relu f32 " + " " * 2000 + "i=2\n"), *self.QUICK, part="b:1: the line is too long")
        self.bad(1, "bench", self.file("b", "nosuchop f32 i=2\n"), *self.QUICK, part="nosuchop")
        self.bad(1, "bench", self.file("b", "relu f32 i=2\n"), *self.QUICK, part="'j' is missing")
        self.bad(2, "bench", "/nonexistent/board", part="/nonexistent/board")
        self.bad(1, "bench", "relu", "--sizes", "i=2, j=2", "--output", "/nonexistent/x", part="cannot write '/nonexistent/x'")
        if os.access("/dev/full", os.W_OK):
            self.bad(1, "bench", "relu", "--sizes", "i=2, j=2", "--output", "/dev/full", *self.QUICK, part="'/dev/full' could not be written")

    def test_variants_that_do_not_compile(self):
        done = mdctl("bench", "relu", "--sizes", "i=2, j=2", "--json", "--repeat", "1", "--cc", "/nonexistent/cc", "--hints", "16")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([x["peer"] for x in self.json_lines(done.stdout)], ["md", "copy"])


class Regret(Base):
    FEW = ["--device", "host", "--threads", "2", "--repeat", "4", "--hints", "16"]

    def test_modes_and_oracles(self):
        board = self.file("board", "# a comment\nrelu f32 count=2 seed=7 bytes=1e6 i=1..64 j=1..64\n")
        output = self.folder / "lines.jsonl"
        text = self.good("regret", board, "--modes", "distance,model,hybrid,idle", "--space", "1", "--budget", "20000", "--output", str(output), *self.FEW)
        lines = self.json_lines(output.read_text(encoding="utf-8"))
        self.assertEqual([x for x in lines if "shape" not in x], self.json_lines(text))  # sums stand in both
        shapes = [x for x in lines if "shape" in x]
        self.assertEqual(len(shapes), 2)
        self.assertEqual(len({x["shape"] for x in shapes}), 2)
        for x in shapes:
            self.assertGreater(x["best_us"], 0)
            for mode in ("distance", "model", "hybrid", "idle"):
                self.assertNotIn("failed", x[mode])
                self.assertGreater(x[mode]["regret"], -0.9)
                self.assertGreater(x[mode]["own"], -0.9)
        self.assertEqual(["space" in x for x in shapes], [True, False])
        self.assertTrue(shapes[0]["space"]["complete"])
        self.assertGreaterEqual(shapes[0]["space"]["configs"], 2)
        self.assertLess(shapes[0]["space"]["us"], 1.5 * shapes[0]["best_us"])  # it is among all: no worse but for noise
        self.assertEqual([x["mode"] for x in lines if "sum" in x], ["distance", "model", "hybrid", "idle"])
        self.assertEqual([(x["shapes"], x["complete"]) for x in lines if "space_sum" in x], [(1, 1)] * 4)

    def test_draws_are_equal(self):
        board = self.file("board", "relu f32 count=3 seed=3 bytes=1e5 i=1..64 j=1..64\n")
        runs = [[x["shape"] for x in self.json_lines(self.good("regret", board, "--modes", "model", *self.FEW)) if "shape" in x] for _ in range(2)]
        self.assertEqual(runs[0], runs[1])
        part = [x["shape"] for x in self.json_lines(self.good("regret", board, "--modes", "model", "--part", "2/3", *self.FEW)) if "shape" in x]
        self.assertEqual(part, runs[0][1:2])

    def test_a_list_of_shapes(self):
        """Those whose tensors are too large are left out; a part is every N-th of the others."""
        shapes = self.file("shapes", "# a comment\ni=3, j=5  # a model\n\ni=4000, j=4000\ni=2, j=7\ni=9, j=1\n")
        board = self.file("board", f"relu f32 bytes=1e5 shapes={shapes}\n")
        lines = self.json_lines(self.good("regret", board, "--modes", "model,default", *self.FEW))
        self.assertEqual([x["shape"] for x in lines if "shape" in x], ["i=3, j=5", "i=2, j=7", "i=9, j=1"])
        for x in lines:
            if "sum" in x:
                self.assertTrue(0 <= x["within_1"] <= x["within_5"] <= 1)
                within = [y[x["mode"]]["own"] <= 0.05 for y in lines if "shape" in y]
                self.assertAlmostEqual(x["within_5"], sum(within) / 3, places=3)
        part = self.json_lines(self.good("regret", board, "--modes", "model", "--part", "2/2", *self.FEW))
        self.assertEqual([x["shape"] for x in part if "shape" in x], ["i=2, j=7"])

    def test_chains(self):
        """Kernels of attention compete with each other, and with the kernels of what they fuse."""
        board = self.file("board", "attention f32 count=1 b=1 h=2 i=20 j=30 d=16 e=16\n")
        shape = self.json_lines(self.good("regret", board, "--modes", "model", "--rivals", *self.FEW))[0]
        self.assertNotIn("failed", shape["model"])
        self.assertRegex(shape["best"], "^(chain/|0:gem.*; 1:.*; 2:gem)")
        self.assertGreater(shape["timed"], len(shape["predicted"]))  # the parts, too

    def test_look_ups(self):
        """What a formula looks up is there: an index outside would be reported by the next call."""
        board = self.file("board", "Y[t,n]=sum[k](X[t,k]*W[e:i32[t],n,k]) f32 count=3 seed=5 t=8..64 n=8..16 k=8..16 W.0=2..8\n")
        lines = self.json_lines(self.good("regret", board, "--modes", "measure,hybrid", *self.FEW))
        self.assertEqual([x["failed"] for x in lines if "sum" in x], [0, 0])

    def test_bad(self):
        self.bad(2, "regret", part="regret takes boards")
        self.bad(2, "regret", "/nonexistent/board", part="/nonexistent/board")
        self.bad(2, "regret", self.file("b", "relu f32 i=2..1 j=2\n"), *self.FEW, part="b:1: expected")
        self.bad(1, "regret", self.file("b", "relu f32 i=1..4 j=2\n"), "--output", "/nonexistent/x", *self.FEW, part="cannot write '/nonexistent/x'")


class Trace(Base):
    def test_builds_and_choices_stand_in_it(self):
        path = self.folder / "trace.json"
        self.good("run", "gelu", "--sizes", "i=3, j=40", "--hints", "16", "--threads", "2", env={"MD_TRACE": str(path), "MD_CACHE_DIR": ""})
        events = json.loads(path.read_text(encoding="utf-8"))
        self.assertTrue({"build", "choice"} <= {x.get("cat") for x in events}, {x.get("cat") for x in events})
        builds = [x for x in events if x.get("cat") == "build"]
        self.assertTrue(all(x["dur"] > 0 for x in builds))
        self.assertTrue(all(x["args"]["kernel"] == "md_" + x["name"].replace("/", "_") + "_gelu_f32" for x in builds), builds)


class Demo(Base):
    QUICK = ["demo", "--quick", "--hints", "64", "--threads", "2"]
    AZURE = ("TIMESTAMP,ContextTokens,GeneratedTokens\n" "2023-11-16 18:17:03.9799600,40,3\n" "2023-11-16 18:17:04.0319600,9,2\n"
             "2023-11-16 18:17:09.5000000,300,4\n")

    def check(self, demo, steps):
        self.assertEqual(demo["steps"], steps)
        self.assertEqual((demo["dtype"], demo["width"], demo["hidden"], demo["heads"]), ("f32", 512, 2048, 8))
        self.assertGreater(demo["verified"], 0)
        self.assertLess(demo["worst_error"], 1e-4)
        self.assertEqual([op["op"] for op in demo["ops"]], ["rms_norm", "qkv", "softmax", "up_gelu", "down"])
        self.assertEqual((demo["device"], demo["version"]), ("host", json.loads(self.good("info", "--json"))["version"]))
        for op in demo["ops"]:
            self.assertEqual(sum(served["calls"] for served in op["served"]), steps)
        lopsided = demo["lopsided"]
        self.assertEqual((lopsided["op"], lopsided["served"]), ("row_sum", []))
        rows = [sizes[0] for sizes in lopsided["sampled"]]
        self.assertTrue(rows == sorted(rows) and rows[-1] > 64 * rows[0], rows)
        self.assertTrue(all(2**20 <= i * j <= 2**21 for i, j in lopsided["sampled"]), lopsided["sampled"])
        for op in demo["ops"] + [lopsided]:
            self.assertEqual(op["builds"][0]["build"], "dispatched")
            self.assertEqual(len(op["sampled"]), op["samples"])
            self.assertGreaterEqual(op["regret"], 0)
            self.assertGreaterEqual(op["builds"][0]["us"], op["best_us"] * 0.999)
            for build in op["builds"]:
                self.assertAlmostEqual(sum(build["at"]), build["us"], delta=0.01 * len(build["at"]))
        self.assertLessEqual({"by distance", "by the model", "measured", "hint 64 alone"}, {build["build"] for build in demo["ops"][0]["builds"]})
        matrix = demo["matrix"]
        self.assertEqual([tokens for tokens, _ in matrix["sampled"]], [1, 64, 256, 4096])
        self.assertEqual([build["build"] for build in matrix["builds"]], ["dispatched"] + [f"kernel of hint {hint}" for hint in (1, 64, 256, 4096)])
        for i in range(4):  # each hint's kernel runs at its own size, and so does what is dispatched
            self.assertGreater(matrix["builds"][i + 1]["at"][i], 0)
            self.assertGreater(matrix["builds"][0]["at"][i], 0)
        self.assertGreaterEqual(demo["new_shapes"]["worst_us"], demo["new_shapes"]["median_us"])
        self.assertGreater(demo["new_shapes"]["shapes"], 1)

    def test_generated(self):
        output = str(self.folder / "demo.json")
        text = self.good(*self.QUICK, "--json", "--output", output)
        self.check(json.loads(text), 40)
        self.assertEqual(pathlib.Path(output).read_text(encoding="utf-8"), text)
        # without PyTorch the comparison is skipped, which tools/demo takes for no failure
        (self.folder / "torch.py").write_text("raise ImportError('none')\n", encoding="utf-8")
        ran = subprocess.run([sys.executable, str(pathlib.Path(ROOT) / "tools" / "demo_torch.py"), output],
                             env=dict(os.environ, PYTHONPATH=str(self.folder)), capture_output=True, text=True, check=False)
        self.assertEqual((ran.returncode, ran.stdout), (77, ""))
        self.assertIn("not installed", ran.stderr)
        ran = subprocess.run([sys.executable, str(pathlib.Path(ROOT) / "tools" / "demo_torch.py"), output, "--json"],
                             env=dict(os.environ, PYTHONPATH=str(self.folder)), capture_output=True, text=True, check=False)
        self.assertEqual((ran.returncode, json.loads(ran.stdout)), (77, json.loads(text) | {"torch": None}))

    def test_sizes(self):
        trace = self.file("trace.txt", "# batch sizes\n3\n 40 \r\n\n1\n")
        text = self.good(*self.QUICK, "--trace", trace)
        self.assertIn("one batch size a line", text)
        self.assertIn("3 steps of 1..40 tokens", text)
        self.assertIn("who served what", text)
        self.assertRegex(text, r"best single kernels +[0-9.]+ \([0-9.]+\)")
        self.assertRegex(text, r"(?m)^  row_sum +\S+/\S+ +[0-9.]+ \([0-9.]+\)$")
        for line, wanted in zip(text.splitlines()[-3:], [r"A kernel made for one size takes up to [0-9.]+ times .* at most [0-9.]+ times; .* up to [0-9.]+ times, .* [0-9.]+\.",
                                                         r"Over the trace the block loses [0-9.-]+% .* lose [0-9.-]+% \([0-9.-]+%\)\.", r"A size not met before adds \d+ us .* compiles nothing\."]):
            self.assertRegex(line, f"^{wanted}$")  # the last three lines say what dispatch brings
        self.assertNotIn("\033", text)

    def on_terminal(self, *words):
        """What the program prints on a terminal."""
        ours, its = pty.openpty()
        text = b""
        with subprocess.Popen([MDCTL, *words], stdout=its, stderr=subprocess.DEVNULL, env=dict(os.environ, TERM="xterm", NO_COLOR="")) as process:
            os.close(its)
            with contextlib.suppress(OSError):  # EIO: the program has ended
                while part := os.read(ours, 65536):
                    text += part
        os.close(ours)
        self.assertEqual(process.returncode, 0)
        return text.decode()

    def test_counts(self):
        trace = self.file("trace.txt", "# tokens steps\n3 2\n40 4\n7\n")
        status, text = on_terminal([*self.QUICK, "--trace", trace], env={"MDCTL_PROGRESS_MS": "0"})
        self.assertEqual(status, 0)
        self.assertRegex(text, "\033\\[3[123]m *[0-9.]+")  # colours, and a line of progress
        self.assertRegex(text, r"\r.*row_sum: \d+ builds at step")
        self.assertIn("how often each batch size occurs", text)
        self.assertIn("7 steps of 3..40 tokens", text)

    def test_azure(self):
        demo = json.loads(self.good(*self.QUICK, "--json", "--trace", self.file("azure.csv", self.AZURE)))
        # 49 tokens in one step (both prompts), 2 + 1 alone; later 192 + 108, then 4 alone: written down from the rule in trace.c
        self.check(demo, demo["steps"])
        self.assertTrue(5 <= demo["steps"] <= 12, demo["steps"])

    def test_broken(self):
        for text, part in [("12\nx\n", "t:2: expected one batch size"), ("0\n", "t:1: expected"), ("12 0\n", "t:1: expected"), ("12 1 1\n", "t:1: expected"), ("1000000\n", "t:1: expected"), ("\n\n", "no step with work"),
                           ("", "cannot read the trace"), (self.AZURE + "2023-11-16,1\n", "t:5: expected TIMESTAMP"),
                           (self.AZURE + "2023-11-16 18:17:nan,5,5\n", "t:5: expected"), ("TIMESTAMP,ContextTokens,GeneratedTokens\n", "no step with work")]:
            with self.subTest(text):
                self.bad(1, *self.QUICK, "--trace", self.file("t", text), part=part)
        self.bad(1, *self.QUICK, "--trace", "/nonexistent/trace", part="'/nonexistent/trace'")
        self.bad(1, *self.QUICK, "--output", "/nonexistent/x", part="cannot write '/nonexistent/x'")


class Boards(Base):
    """Boards name ops and their sizes, which change."""

    def sizes_of(self, op):
        """All sizes, and those of them that follow from others: of an axis that must be long enough for what the sizes say, and no
        index tensor."""
        names = {dim["name"] for dim in json.loads(self.good("check", op, "--json"))["dims"]}
        looks_up = re.search(r":i(32|64)\[", self.good("check", op).splitlines()[0])
        return names, set() if looks_up else {name for name in names if "." in name}

    def test_every_line_names_all_sizes_of_its_op(self):
        known, n = {}, 0
        for board in sorted((pathlib.Path(ROOT) / "data" / "boards").glob("*.txt")):
            for line in board.read_text(encoding="utf-8").splitlines():
                words = line.partition("#")[0].split()
                if len(words) < 3 or not re.fullmatch(r"f32|bf16", words[1]) or not all("=" in word for word in words[2:]):
                    continue
                if any(word.startswith("shapes=") for word in words):  # the sizes stand in that file
                    continue
                if words[0] not in known:
                    known[words[0]] = self.sizes_of(words[0])
                given = {name for name, _, value in (word.partition("=") for word in words[2:]) if name not in ("count", "seed", "bytes", "hints", "trace", "static")}
                static = {part.partition("=")[0] for word in words[2:] if word.startswith("static=") for part in word[7:].split(",")}
                dim = {word[4:] for word in words[2:] if word.startswith("dim=")}
                names, follow = known[words[0]]
                self.assertEqual((given - {"dim"}) | static | dim | follow, names, f"{board.name}: {line}")
                n += 1
        self.assertGreater(n, 300)


class Compare(Base):
    """bench --compare: two recorded runs."""

    def line(self, us, shape=(64, 64), device="host", variant="a", spread=0.01):
        return json.dumps({"peer": "md", "op": "softmax", "dtype": "f32", "shape": list(shape), "device": device, "variant": variant, "us": us,
                           "lo": us * (1 - spread), "hi": us * (1 + spread)}) + "\n"

    def compare(self, old, new):
        return mdctl("bench", "--compare", self.file("old.jsonl", old), self.file("new.jsonl", new))

    def test_slower_and_faster(self):
        shapes = [(1, 8), (2, 8), (3, 8)]
        old = "".join(self.line(100, shape) for shape in shapes)
        ran = self.compare(old, self.line(100.5, shapes[0]) + self.line(90, shapes[1]) + self.line(120, shapes[2], variant="b"))
        self.assertEqual(ran.returncode, 1)
        self.assertIn("3 shapes: geometric mean 1.028, 1 slower and 1 faster beyond the noise\n", ran.stdout)
        self.assertRegex(ran.stdout, r"3 x 8 +100.00 us +120.00 us +1.200  SLOWER, b instead of a")
        self.assertEqual(self.compare(old, old + self.line(5, (9, 9))).returncode, 0)
        self.assertIn("1 only in the second run", self.compare(old, old + self.line(5, (9, 9))).stdout)

    def test_noise_is_no_change(self):
        ran = self.compare(self.line(100, spread=0.2), self.line(120, spread=0.2))
        self.assertEqual((ran.returncode, "0 slower" in ran.stdout), (0, True))

    def test_only_the_pick_counts(self):  # the first line of this library at a shape; variants and copies follow
        ran = self.compare(self.line(100) + self.line(50, variant="b"), self.line(100) + self.line(90, variant="b"))
        self.assertIn("1 shapes: geometric mean 1.000, 0 slower", ran.stdout)

    def test_bad(self):
        good = self.line(100)
        for old, new, part in [(good, self.line(100, device="cuda:0"), "ran on 'host' and"), (good + self.line(1, (2, 2), "cuda:0"), good, "results of 'cuda:0' beside those of 'host'"),
                               (good, "", "no shape in common"), (good, "{}\n", "no shape in common"), (good, self.line(1, (7, 7)), "no shape in common")]:
            with self.subTest(part):
                ran = self.compare(old, new)
                self.assertEqual(ran.returncode, 1)
                self.assertIn(part, ran.stderr)
        ran = self.compare(good, good + good[:40])
        self.assertEqual((ran.returncode, "1 lines are no JSON" in ran.stderr), (0, True))
        self.bad(2, "bench", "--compare", "x", part="two files")
        self.bad(1, "bench", "--compare", "/nonexistent/x", "y", part="cannot read '/nonexistent/x'")
        self.bad(2, "bench", "--board", "x", part="'x'")
        self.bad(2, "bench", "--board", "quick", "x", part="'x'")


class Table(Base):
    def test_bad(self):
        self.bad(2, "bench", "table", "softmax", part="takes no argument")
        self.bad(2, "bench", "sweep", "--resume", part="--output, which is missing")
        self.bad(2, "bench", "sweep", "--step", "0", part="--step '0'")
        for part in "0/2", "3/2", "1", "1/2x", "":
            self.bad(2, "bench", "sweep", "--part", part, part=f"--part '{part}': expected K/N")
        self.bad(2, "bench", "sweep", "--last", "0", part="--last '0'")
        self.bad(2, "bench", "sweep", "--step", "128", "--last", "64", part="1 to 128 sizes, not 0")
        self.bad(2, "bench", "sweep", "--step", "1", part="1 to 128 sizes, not 4096")

    def test_sweep(self):
        output = self.folder / "sweep.jsonl"
        done = mdctl("bench", "sweep", "--step", "64", "--last", "128", "--dtype", "f32", "--repeat", "1", "--threads", "2", "--output", str(output))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(output.read_text(encoding="utf-8"), done.stdout)
        lines = self.json_lines(done.stdout)
        columns = ["hint 64", "hint 128", "distance", "model", "measure", "distance, default hints", "model, default hints", "measure, default hints", "tuned"]
        self.assertEqual([(x["shape"], x["column"]) for x in lines], [([n, n, n], c) for n in (64, 128) for c in columns])
        self.assertEqual([x["hint"] for x in lines], 2 * [64, 128, 0, 0, 0, 0, 0, 0, 0])
        for line in lines:
            self.assertEqual((line["bench"], line["op"], line["dtype"], line["device"]), ("table", "matmul", "f32", "host"))
            self.assertRegex(line["variant"], r"^gem[mv]\w*(/|$)")
            self.assertGreaterEqual(line["regret"], 0)
            self.assertTrue(0 < line["lo"] <= line["us"] <= line["hi"])
        for n in 64, 128:  # all against one, and what picks one variant has one time
            at = [x for x in lines if x["shape"][0] == n]
            least = min(x["us"] / (1 + x["regret"]) for x in at)
            self.assertTrue(all(abs(x["us"] / (1 + x["regret"]) / least - 1) < 1e-3 for x in at))
            self.assertLessEqual(least, 1.001 * min(x["us"] for x in at))
            self.assertEqual(len({x["variant"] for x in at}), len({(x["variant"], x["us"]) for x in at}))
            self.assertGreaterEqual(at[0]["timed"], len({x["variant"] for x in at}))
            pools = {x["column"]: x["pool"] for x in at if "pool" in x}  # those that dispatch
            self.assertEqual(list(pools), columns[2:-1])
            for a, b in ("distance", "model"), ("distance, default hints", "measure, default hints"):  # from one pool
                self.assertEqual((pools[a]["best"], pools[a]["us"]), (pools[b]["best"], pools[b]["us"]))
            for x in at:
                self.assertEqual("pool" not in x or x["pool"]["regret"] == 0, "pool" not in x or x["us"] == x["pool"]["us"], x)
        second = mdctl("bench", "sweep", "--step", "64", "--last", "128", "--dtype", "f32", "--repeat", "1", "--threads", "2", "--part", "2/2")
        self.assertEqual([x["shape"][0] for x in self.json_lines(second.stdout)], [128] * len(columns))
        self.report(output, lines)
        # a run that was ended in the middle of the second size goes on there
        text = output.read_text(encoding="utf-8")
        output.write_text(text[: len(text) - 300], encoding="utf-8")
        third = mdctl("bench", "sweep", "--step", "64", "--last", "128", "--dtype", "f32", "--repeat", "1", "--threads", "2", "--resume", "--output", str(output))
        self.assertEqual([x["shape"][0] for x in self.json_lines(third.stdout)], [128] * len(columns))
        for extra in [], ["--budget", "1"]:  # nothing is left to do
            again = mdctl("bench", "sweep", "--step", "64", "--last", "128", "--dtype", "f32", "--resume", "--output", str(output), *extra)
            self.assertEqual((again.returncode, again.stdout), (0, ""), again.stderr)
        none = mdctl("bench", "sweep", "--step", "64", "--last", "128", "--dtype", "f32", "--budget", "1", "--output", str(self.folder / "none"))
        self.assertEqual((none.returncode, none.stdout), (0, ""), none.stderr)

    def report(self, output, lines):
        done = subprocess.run([sys.executable, ROOT + "/tools/report_sweep", str(output)], stdout=subprocess.PIPE, text=True, check=True)
        self.assertIn("over 2 sizes", done.stdout)
        for column in {x["column"] for x in lines}:
            regret = [x["regret"] for x in lines if x["column"] == column]
            self.assertRegex(done.stdout, rf"(?m)^  {column} +mean +{50 * sum(regret):.2f}%  worst +{100 * max(regret):.1f}%(; to the best of its pool mean .*)?$")


class Hints(Base):
    def stats(self):
        path = self.folder / "stats.json"
        self.good("run", "softmax", "--sizes", "i=4, j=1000", *FEW, env={"MD_STATS": str(path)})
        return path

    def test_suggest(self):
        path = self.stats()
        said = json.loads(self.good("hints", "suggest", str(path), "--json"))
        self.assertEqual(said["shapes"], 1)
        self.assertLessEqual(said["suggested"]["mean_regret"], said["today"]["mean_regret"])
        self.good("run", "softmax", "--sizes", "i=4, j=1000", "--hints", said["hints"], "--threads", "2")
        self.assertIn("expected regret", self.good("hints", "suggest", str(path), "--count", "2", "--by-calls", "--op", "softmax"))

    def test_tf32(self):
        """Statistics say which ops allow tf32; suggestions and tuning from them do, too."""
        path = self.stats()
        self.assertIs(json.loads(path.read_text())["ops"][0]["tf32"], False)
        self.good("run", "softmax", "--sizes", "i=4, j=1000", "--tf32", *FEW, env={"MD_STATS": str(path)})
        self.assertIs(json.loads(path.read_text())["ops"][0]["tf32"], True)
        self.good("hints", "suggest", str(path), "--json")

    def test_bad(self):
        path = self.stats()
        self.bad(1, "hints", "suggest", str(path), "--op", "gelu", part="no op 'gelu'")
        self.bad(1, "hints", "suggest", str(self.folder / "none.json"), part="none.json")
        self.bad(1, "hints", "suggest", self.file("a.json", "{}"), part="no list 'ops'")
        self.bad(1, "hints", "suggest", self.file("b.json", "{"), part="b.json:1")
        self.bad(1, "hints", "suggest", self.file("c.json", '{"ops": [{}], "shapes": []}'), part="without name or formula")
        self.bad(2, "hints", "propose", str(path), part="mdctl hints suggest STATS.json")
        self.bad(2, "hints", "suggest", str(path), "--count", "0", part="--count '0'")


class Tune(Base):
    def setUp(self):
        super().setUp()
        self.env = {"MD_CACHE_DIR": str(self.folder / "store"), "MD_THREADS": "2"}

    def test_search(self):
        log = self.folder / "log.jsonl"
        said = self.good("tune", "gelu", "--hints", "32", "--budget", "60000", "--output", str(log), env=self.env)
        self.assertIn("<- best", said)
        lines = self.json_lines(log.read_text())
        names = {line["variant"] for line in lines if line["event"] == "candidate"}
        winners = [line for line in lines if line["event"] == "winner"]
        self.assertGreater(len(names), 1)
        self.assertEqual([line["best"] for line in winners], [True])
        self.assertIn(winners[0]["variant"], names)
        again = self.good("tune", "gelu", "--hints", "32", env=self.env)  # it was kept
        self.assertIn("(known)", again)
        self.assertIn("0 configs timed", again)

    def test_stats(self):
        path = self.folder / "stats.json"
        self.good("run", "gelu", "--sizes", "i=4, j=1000", *FEW, env={"MD_STATS": str(path)})
        lines = self.json_lines(self.good("tune", "--from-stats", str(path), "--json", "--budget", "60000", env=self.env))
        self.assertEqual([line["op"] for line in lines if line["event"] == "op"], ["gelu"])
        self.assertIn({"i": 4, "j": 1000}, [line["sizes"] for line in lines if line["event"] == "winner"])

    def test_shapes_of_statistics(self):
        """Sizes are read, and not what stands behind them."""
        path = self.folder / "stats.json"
        self.good("run", "gelu", "--sizes", "i=4, j=1000", *FEW, env={"MD_STATS": str(path)})
        stats = json.loads(path.read_text(encoding="utf-8"))
        row, = stats["shapes"]
        stats["shapes"] = [row | {"shape": shape, "total_us": us} for us, shape in enumerate(("other shapes", "i=3 j=70 strided as j=64", "i=5 j=9 as i=4"), 1)]
        path.write_text(json.dumps(stats), encoding="utf-8")
        said = self.json_lines(self.good("tune", "--from-stats", str(path), "--json", "--budget", "60000", env=self.env))
        self.assertEqual([line["shapes"] for line in said if line["event"] == "op"], [2])
        self.assertEqual([line["sizes"] for line in said if line["event"] == "winner" and line["best"]], [{"i": 5, "j": 9}, {"i": 3, "j": 70}])
        self.assertEqual(json.loads(self.good("hints", "suggest", str(path), "--json"))["shapes"], 2)

    def test_recorded_indices(self):
        path = self.folder / "stats.json"
        self.good("run", "embedding", "--sizes", "i=40, j=64, E.0=100", *FEW, env={"MD_STATS": str(path), "MD_STATS_INDICES": "32"})
        lines = self.json_lines(self.good("tune", "--from-stats", str(path), "--json", "--budget", "60000", env=self.env))
        self.assertEqual([line["indices"] for line in lines if line["event"] == "op"], [32])
        self.assertTrue(any(line["event"] == "winner" for line in lines))

    def test_endless(self):
        """Nothing ends fast enough: all are quarantined one by one, and the search still ends well."""
        sizes = ("--sizes", "i=3000, j=3000", "--budget", "120000")
        done = mdctl("tune", "gelu", *sizes, "--patience", "1", env=self.env)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("does not end", done.stderr)
        names = {line.split()[1] for line in done.stderr.splitlines() if "does not end" in line}
        lines = self.json_lines(self.good("tune", "gelu", *sizes, "--rigor", "exhaustive", "--json", env=self.env))
        verdicts = {line["variant"]: line["verdict"] for line in lines if line["event"] == "candidate"}
        for name in names:  # not run again, also where there would be time
            self.assertIn(verdicts[name], ("endless", "wrong"))

    def test_bad(self):
        self.bad(2, "tune", part="tune takes one formula")
        self.bad(2, "tune", "gelu", "--rigor", "most", part="--rigor 'most'")
        self.bad(2, "tune", "gelu", "--budget", "0", part="--budget '0'")
        self.bad(1, "tune", "no_such_op", part="no_such_op")
        self.bad(1, "tune", "gelu", "--hints", "i=", part="hints")
        self.bad(1, "tune", "--from-stats", str(self.folder / "none.json"), part="none.json")
        self.bad(1, "tune", "embedding", "--hints", "8", "--indices", self.file("none.txt", ""), part="no indices")


    def test_parts(self):
        """Parts that together are the work, on stores of their own, merged in any order, twice, and not at all."""
        op = "softmax", "--hints", "(i=4,j=30) (i=9,j=64)", "--builds", "2"
        plan = self.json_lines(self.good("tune", *op, "--plan", "--json", env=self.env))
        self.assertEqual(len({piece["piece"] for piece in plan}), len(plan))
        shares = [self.json_lines(self.good("tune", *op, "--plan", "--json", "--part", f"{k}/3", env=self.env)) for k in (1, 2, 3)]
        self.assertEqual(sorted(piece["piece"] for share in shares for piece in share), sorted(piece["piece"] for piece in plan))
        ms = [sum(piece["ms"] for piece in share) for share in shares]
        self.assertLessEqual(max(ms), min(ms) + max(piece["ms"] for piece in plan))
        self.assertRegex(self.good("tune", *op, "--plan", "--part", "2/3"), r"plan \w{32}: \d+ pieces, .* of 3 parts")
        names = [str(self.folder / f"{k}.jsonl") for k in (1, 2, 3)]
        for k, name in enumerate(names):
            self.good("tune", *op, "--part", f"{k + 1}/3", "--wisdom", name, env={**self.env, "MD_CACHE_DIR": str(self.folder / f"s{k}")})
        stores = [{**self.env, "MD_CACHE_DIR": str(self.folder / name)} for name in ("a", "b")]
        self.good("store", "merge", names[2], names[0], names[1], names[0], env=stores[0])
        done = mdctl("store", "merge", names[0], names[1], env=stores[1])
        self.assertEqual((done.returncode, done.stderr), (0, "mdctl: part 3/3 is not among these files\n"))
        self.good("store", "merge", str(self.folder / "s2"), env=stores[1])
        texts = [self.good("store", "export", env=env) for env in stores]
        self.assertEqual(texts[0], texts[1])
        self.assertEqual(len(self.json_lines(texts[0])), len(plan))
        self.assertIn("0 configs timed", self.good("tune", *op, "--part", "1/2", env={**self.env, **stores[0]}))
        self.bad_parts(op, names, stores[0])

    def bad_parts(self, op, names, env):
        text = pathlib.Path(names[0]).read_text(encoding="utf-8")
        lines = text.splitlines(keepends=True)
        for name, bad, part in (("cut.jsonl", "".join(lines[:-1]), "part 1/3 is cut"), ("half.jsonl", text[:len(text) // 2], "part 1/3 is cut"),
                                ("board.jsonl", text.replace(lines[0], lines[0].replace(" on ", " on Board ")), "was tuned on 'Board "),
                                ("n.jsonl", text.replace("part 1/3", "part 1/4"), "n.jsonl is part 1/4, but"),
                                ("plan.jsonl", re.sub(r"plan \w{8}", "plan 01234567", text), "is a part of plan 01234567, but"),
                                ("line.jsonl", text.replace('"us":', '"u":'), "no wisdom")):
            before = self.good("store", "export", env=env)
            self.bad(1, "store", "merge", names[1], self.file(name, bad), part=part, env=env) if name != "line.jsonl" else \
                self.assertIn(part, mdctl("store", "merge", self.file(name, bad), env=env).stderr)
            self.assertEqual(self.good("store", "export", env=env), before)
        for part in "0/2", "3/2", "1/0", "x", "1/1000000":
            self.bad(2, "tune", *op, "--part", part, part="expected K/N")
        self.bad(1, "tune", *op, "--wisdom", str(self.folder / "none" / "x"), part="cannot write", env=env)
        self.bad(1, "tune", "no_such_op", "--plan", part="no_such_op")

    def test_installed_times_correct_the_model_nearby(self):
        installed = self.folder / "installed"
        installed.mkdir(mode=0o700)
        # own products for few rows and for many: a pool has both, whatever the processor's vectors are
        op = "linear", "--dtype", "f32", "--no-library"
        lines = []
        for _ in range(20):  # a busy machine times nothing within the budget, and then no text is known; another run goes on from there
            self.good("tune", *op, "--sizes", "b=3, n=100, k=300", "--budget", "5000", env=self.env)
            lines = self.json_lines(self.good("store", "export", env=self.env))
            if all(x["candidates"] for x in lines):
                break

        def explain(system_path):
            env = {"MD_THREADS": "2", "MD_SYSTEM_PATH": str(system_path)}
            text = self.good("explain", *op, "--sizes", "b=3, n=100, k=308", "--hints", "1,16,256", "--json", env=env)
            return json.loads(text)["stages"][0]

        def install(second, source=None):
            """Times made up: one variant is fast, all others are slow."""
            rows = [{**x, "source": source or x["source"], "candidates": [
                {"name": v, "verdict": "timed", "us": 1.0 if v == second else 100.0, "spread": 0.01, "count": 4}
                for v in names if v.split("/")[0] == x["family"]]} for x in lines if x["key"].endswith("aligned")]
            (installed / "w.jsonl").write_text("".join(sorted(json.dumps(x, separators=(",", ":")) + "\n" for x in rows)), encoding="utf-8")

        def try_once():
            """The pick before times are there, with them, with those of other kernels; and the one that is expected of them."""
            before = explain("")
            names[:] = [x["variant"] for x in before["candidates"]]
            order = sorted((x for x in before["candidates"] if x["fits"]), key=lambda x: x["model_us"])
            install(second := next(x["variant"] for x in order[1:] if x["variant"].split("/")[0] in families))
            timed = explain(installed)["pick"]
            install(second, "0123456789abcdef" * 2)  # of kernels that have another text today
            return (before["pick"], timed, explain(installed)["pick"]), (before["pick"], second, before["pick"])

        names, families = [], {x["family"] for x in lines}
        for _ in range(5):  # a loaded machine measures its rates again: another pool
            picks, expected = try_once()
            if picks == expected:
                break
        self.assertEqual(picks, expected)


class Interrupt(Base):
    def test_what_was_kept_is_said(self):
        """Ctrl-C, as a terminal sends it: to the whole process group."""
        env = environment({"MD_CACHE_DIR": str(self.folder / "store"), "TMPDIR": str(self.folder)})
        for args in (["tune", "linear", "--hints", "64,256,1024,4096", "--budget", "60000", "--json"],  # minutes, were it not interrupted
                     ["bench", "gelu", "--sizes", "i=64, j=64", "--repeat", "100000"], ["demo"]):
            with subprocess.Popen([MDCTL, *args, "--threads", "2"], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
                while not list((self.folder / "store").glob("*/kernel/*/*")) and process.poll() is None:
                    time.sleep(0.01)  # until something is kept
                os.killpg(process.pid, signal.SIGINT)
                _, said = process.communicate(timeout=600)
            self.assertEqual(process.returncode, 130, (args, said))
            self.assertRegex(said, r"(?m)^mdctl: interrupted; \d+ kernels and tuned results of this run are kept in " +
                             re.escape(str(self.folder / "store")) + "$", args)
            subprocess.run(["rm", "-rf", str(self.folder / "store")], check=True)
        left = ["?"]
        for _ in range(300):  # a later process removes what is left of those that have ended; some end late
            self.good("info", env={"TMPDIR": str(self.folder)})
            left = [p.name for p in self.folder.iterdir() if "multidispatch" in p.name]
            if not left:
                break
            time.sleep(0.1)
        self.assertEqual(left, [])


class Lock(Base):
    """One process measures on a device at a time. The lock is the user's own, and a lock that is not had is said."""

    def tune(self, runtime, budget="60000", **env):
        args = ["tune", "gelu", "--sizes", "i=8, j=8", "--hints", "8", "--budget", budget, "--builds", "2", "--threads", "2"]
        done = mdctl(*args, env={"MD_CACHE_DIR": "", "XDG_RUNTIME_DIR": str(runtime), "TMPDIR": str(self.folder), **env})
        self.assertEqual(done.returncode, 0, done.stderr)
        return int(re.search(r"(\d+) configs timed", done.stdout)[1]), done.stderr

    def test_lock(self):
        runtime = self.folder / "runtime"
        runtime.mkdir(mode=0o700)
        n, said = self.tune(runtime)
        self.assertGreater(n, 0)
        self.assertEqual(said, "")
        (lock,) = runtime.iterdir()
        self.assertEqual(lock.stat().st_mode & 0o777, 0o600)
        self.assertEqual(list(self.folder.glob("*.lock")), [])  # not where others could make it first
        with open(lock, encoding="utf-8") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            n, said = self.tune(runtime, "1500")
            self.assertEqual(n, 0)
            self.assertIn("another process of this user", said)
        lock.chmod(0o666)
        n, said = self.tune(runtime)
        self.assertGreater(n, 0)
        self.assertIn("measuring without a lock", said)
        self.assertIn("others may write to it", said)
        lock.unlink()
        lock.symlink_to(self.folder / "elsewhere")
        self.assertIn("measuring without a lock", self.tune(runtime)[1])
        self.assertFalse((self.folder / "elsewhere").exists())
        n, said = self.tune("", XDG_CACHE_HOME=str(self.folder / "cache"))
        self.assertEqual((n > 0, said), (True, ""))
        self.assertEqual(len(list((self.folder / "cache" / "multidispatch").glob("*.lock"))), 1)


class Json(Base):
    def test_all_commands(self):
        """Whatever a command prints with --json is one object a line."""
        stats, board = self.folder / "stats.json", self.file("board.txt", "gelu f32 i=4, j=64\n")
        regret = self.file("regret.txt", "gelu f32 count=1 i=1..64 j=64\n")
        env = {"MD_CACHE_DIR": str(self.folder / "store"), "MD_STATS": str(stats), "MD_THREADS": "2"}
        demo = self.good("demo", "--quick", "--json", *FEW, env=env)
        self.assertEqual([type(line) for line in self.json_lines(demo)], [dict])
        shapes = json.loads(stats.read_text())  # of several ops
        first = [op["op"] for op in shapes["ops"]][:2]
        few = self.file("few.json", json.dumps({k: [x for x in shapes[k] if x["op"] in first] for k in ("ops", "shapes")}))
        env.pop("MD_STATS")
        size = ["--sizes", "i=4, j=64", *FEW]
        commands = [["run", "softmax", *size], ["explain", "softmax", *size], ["source", "gelu", *FEW],
                    ["source", "gelu", "--variant", json.loads(self.good("source", "gelu", "--json", *FEW))["variants"][0]["variant"], *FEW],
                    ["bench", board, "--quick", *FEW], ["bench", "gelu", *size, "--repeat", "3"], ["hints", "suggest", str(stats)],
                    ["regret", regret, "--modes", "model", "--threads", "2"], ["tune", "gelu", *size, "--budget", "300"],
                    ["tune", "--from-stats", few, "--budget", "50", "--builds", "1", "--threads", "2"],
                    ["store", "path"], ["store", "list"], ["store", "verify"], ["store", "gc"],
                    ["store", "export", "--output", str(self.folder / "wisdom.jsonl")], ["store", "export"],
                    ["store", "import", str(self.folder / "wisdom.jsonl")], ["store", "merge", str(self.folder / "store")],
                    ["bench", "sweep", "--step", "16", "--last", "16", "--repeat", "1", "--threads", "2"],
                    ["ops"], ["ops", "gelu"], ["info"], ["check", "gelu"], ["choices", "softmax", *size],
                    ["combo", "gelu", "--sizes", "i=4, j=64; i=1, j=7", *FEW]]
        for command in commands:
            done = mdctl(*command, "--json", env=env)
            self.assertEqual(done.returncode, 0, (command, done.stderr))
            if "--output" in command:  # the lines are in the file
                self.assertEqual(done.stdout, "")
                self.json_lines((self.folder / "wisdom.jsonl").read_text(encoding="utf-8"))
                continue
            for line in self.json_lines(done.stdout):
                self.assertIsInstance(line, dict, command)
                self.assertGreaterEqual(line.get("host_us", 0), 0, command)
            if command[0] == "hints":
                self.assertEqual([line["op"] for line in self.json_lines(done.stdout)],
                                 list(dict.fromkeys(op["op"] for op in shapes["ops"] if op["hints"])))
        self.assertEqual(set().union(COMMANDS, ["regret", "tune"]) - {"report"}, {"demo", *(command[0] for command in commands)})  # report prints a page


class Terminals(Base):
    def test_colour(self):
        status, text = on_terminal(["ops", "softmax"])
        self.assertEqual(status, 0)
        self.assertIn(ESCAPE + "[1msoftmax" + ESCAPE + "[0m", text)
        for env in {"NO_COLOR": "1"}, {"TERM": "dumb"}:
            status, text = on_terminal(["ops", "softmax"], env)
            self.assertNotIn(ESCAPE, text)
            self.assertIn("softmax", text)
        self.assertIn(ESCAPE, on_terminal(["ops", "softmax"], {"NO_COLOR": ""})[1])

    AT_ONCE = {"MDCTL_PROGRESS_MS": "0"}
    LATE = {"MDCTL_PROGRESS_MS": "1e9"}

    def test_progress(self):
        """Shown on a terminal after a while, and gone at the end."""
        args = ["run", "Y[i] = X[i] + 1", "--sizes", "i=3", "--hints", "16"]
        status, text = on_terminal(args, self.AT_ONCE)
        self.assertEqual(status, 0, text)
        self.assertIn("checking against the reference\r" + ESCAPE + "[K", text)
        for env in {"NO_COLOR": "1", **self.AT_ONCE}, self.LATE:
            status, text = on_terminal(args, env)
            self.assertEqual(status, 0, text)
            self.assertNotIn("checking", text)

    def test_time_left(self):
        """Long commands say on a terminal how much time is left."""
        regret = self.file("regret.txt", "gelu f32 count=20 i=1..64 j=64\n")
        board = self.file("board.txt", "gelu f32 i=1, j=64\ngelu f32 i=2, j=64\n")
        for args in (["regret", regret, "--modes", "model"], ["bench", board, "--quick"],
                     ["tune", "gelu", "--hints", "16", "--budget", "20000"], ["demo", "--quick", "--hints", "64"]):
            left = r", \d+ (s|min) left"
            _, text = on_terminal([*args, "--threads", "2"], self.AT_ONCE, until=left + r"\r")
            self.assertRegex(text, left, args[0])
            lines = [line for line in re.split(r"\r\x1b\[K|\r\n|\r", text) if line.endswith(" left")]
            self.assertLessEqual(max(map(len, lines)), 78)

    def test_full_disk(self):
        if not os.access("/dev/full", os.W_OK):
            self.skipTest("no /dev/full")
        for args in ["ops"], ["info"], ["--help"], ["run", "relu", "--sizes", "i=2, j=2", *FEW]:
            with open("/dev/full", "w", encoding="utf-8") as full:
                done = mdctl(*args, stdout=full)
            self.assertEqual(done.returncode, 1, args)


# A driver that answers as the environment says, and an NVRTC that says how old it is.
DRIVER = """
#include <stdlib.h>
#include <string.h>
static int number(const char *name) { return atoi(getenv(name)); }
int cuDriverGetVersion(int *v) { *v = number("STUB_DRIVER"); return 0; }
int cuInit(unsigned flags) { (void)flags; return number("STUB_INIT"); }
static int other(void) { return 999; }
int cuGetProcAddress_v2(const char *name, void **p, int version, unsigned long long flags, int *found)
{
    (void)version, (void)flags;
    *p = !strcmp(name, "cuInit") ? (void *)cuInit : !strcmp(name, "cuDriverGetVersion") ? (void *)cuDriverGetVersion
       : !strcmp(name, "cuGetProcAddress") ? (void *)cuGetProcAddress_v2 : (void *)other;
    if (found)
        *found = 0;
    return 0;
}
int cuGetProcAddress(const char *name, void **p, int version, unsigned long long flags) { return cuGetProcAddress_v2(name, p, version, flags, 0); }
"""
NVRTC = """
int nvrtcVersion(int *major, int *minor) { *major = 11; *minor = 8; return 0; }
"""
REST = ["GetErrorString", "GetNumSupportedArchs", "GetSupportedArchs", "CreateProgram", "DestroyProgram", "CompileProgram",
        "GetCUBINSize", "GetCUBIN", "GetPTXSize", "GetPTX", "GetProgramLogSize", "GetProgramLog"]


class NoGpu(Base):
    """What is said where there is no driver, none that is new enough, no GPU, no compiler for it."""

    def stub(self, name, text):
        source = self.file(name + ".c", text)
        subprocess.run([*CC.split(), "-w", "-shared", "-fPIC", "-Wl,-soname," + name, "-o", str(self.folder / name), source], check=True)

    def opens(self, part, driver, init):
        path = f"{self.folder}:{os.environ.get('LD_LIBRARY_PATH', '')}"
        env = {"LD_LIBRARY_PATH": path, "STUB_DRIVER": str(driver), "STUB_INIT": str(init)}
        said = self.bad(1, "info", "--device", "cuda:0", part=part, env=env)
        self.assertIn("'cuda:0' was asked for", said)
        done = mdctl("info", "--json", "--device", "auto", env=env)  # the host serves, with a warning where a GPU may be there
        self.assertEqual(json.loads(done.stdout)["device"], "host")
        self.assertEqual(part in done.stderr, init == 999, done.stderr)

    def test_driver(self):
        if "in this build" not in self.good("info").replace("not in this build", ""):
            self.bad(1, "info", "--device", "cuda", part="this build has no CUDA")
            self.skipTest("a build without CUDA")
        self.stub("libcuda.so.1", DRIVER)
        self.opens("no NVIDIA driver", 0, 0)
        self.opens("the NVIDIA driver is too old: it is for CUDA 11.8", 11080, 0)
        self.opens("the NVIDIA driver shows no GPU", 99000, 100)
        self.opens("CUDA does not start", 99000, 999)

    def test_nvrtc(self):
        env = {"LD_LIBRARY_PATH": str(self.folder)}
        self.stub("libnvrtc.so.13", NVRTC)
        self.assertIn("NVRTC is too old: it has no nvrtc", self.good("info", env=env))
        self.stub("libnvrtc.so.13", NVRTC + "".join(f"int nvrtc{name}(void) {{ return 1; }}\n" for name in REST))
        self.assertIn("NVRTC is too old: 11.8, and 12.0 is needed", self.good("info", env=env))

    def test_names(self):
        for name in "gpu", "cuda:", "cuda:-1", "cuda:1x", "cuda:1234567", "CUDA", "":
            self.bad(1, "run", "relu", "--sizes", "i=2, j=2", "--device", name, part="; auto, host, cuda, cuda:N and, to build kernels for elsewhere, sm_80")
        self.bad(1, "info", part="'gpu'", env={"MD_DEVICE": "gpu"})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
