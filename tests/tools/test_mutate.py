#!/usr/bin/env python3
"""tools/mutate: its operators on small texts, and the whole on a project of two functions, one of which is tested.
Argument: the source root."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(ROOT / "tools" / "mutants"))
import operators  # noqa: E402
import python_operators  # noqa: E402
import tests  # noqa: E402


def results(body, operator):
    """The body after each fault of the operator."""
    text = f"/* a < b */\n#define X(a) (a < 2 && a)\nint f(int a, int b)\n{{\n{body}\n}}\n"
    faults = [f for f in operators.faults_of(text) if f.operator == operator]
    return [operators.apply(text, f).split("{\n", 1)[1].rsplit("\n}", 1)[0].strip() for f in faults]


class Operators(unittest.TestCase):
    def test_comparisons(self):
        self.assertEqual(results("    return a < b;", "compare"), ["return a >= b;"])
        self.assertEqual(results("    return a == b;", "compare"), ["return a != b;"])
        self.assertEqual(results("    return p->a << 2 | a >> b;", "compare"), [])
        self.assertEqual(results('    puts("a < b"); /* a < b */', "compare"), [])

    def test_bounds(self):
        self.assertEqual(results("    return a < b;", "bound"), ["return a <= b;"])
        self.assertEqual(results("    return a >= b;", "bound"), ["return a > b;"])
        self.assertEqual(results("    return a == b;", "bound"), [])
        self.assertEqual(results("    return g(a - 1, b + 1) + 10;", "bound"), ["return g(a, b + 1) + 10;", "return g(a - 1, b) + 10;"])

    def test_conditions(self):
        self.assertEqual(sorted(results("    if (a && (b || g(a, b)))", "condition")), sorted(
            ["if ((b || g(a, b)))", "if (a)", "if (a && (g(a, b)))", "if (a && (b))"]))
        self.assertEqual(sorted(results("    return a == 1 && b;", "condition")), ["return a == 1;", "return b;"])

    def test_checks(self):
        self.assertEqual(results("    if (a < b)\n        return 2;\n    b = 1;", "check"), ["if (0 && (a < b))\n        return 2;\n    b = 1;"])
        self.assertEqual(results("    if (a)\n        b = 1;", "check"), [])
        self.assertEqual(results("    MD_TRY(g(a));", "check"), ["(void)(g(a));"])

    def test_others(self):
        self.assertEqual(results("    return MD_MIN(a, b);", "extreme"), ["return MD_MAX(a, b);"])
        for operators.KEEPS_ORDER, faulty in ((False, ["g(&a, memory_order_relaxed);"]), (True, [])):  # x86 keeps it
            self.assertEqual(results("    g(&a, memory_order_acquire);", "order"), faulty)
        self.assertEqual(results("    return true;", "constant"), ["return false;"])
        self.assertEqual(results("    return 0;", "constant"), ["return 1;"])

    def test_statements(self):
        self.assertEqual(results("    int c = 1;\n    s->n++;\n    a += b;\n    g(a);\n    free(s);\n    unlock(&s);", "statement"), [
            "int c = 1;\n    ;\n    a += b;\n    g(a);\n    free(s);\n    unlock(&s);",
            "int c = 1;\n    s->n++;\n    ;\n    g(a);\n    free(s);\n    unlock(&s);",
            "int c = 1;\n    s->n++;\n    a += b;\n    ;\n    free(s);\n    unlock(&s);"])

    def test_functions_that_kill_are_left_alone(self):
        self.assertEqual(results("    if (a < b)\n        kill(a, 9);", "compare"), [])

    def test_lines(self):
        text = "int f(int a)\n{\n    return a <\n           3;\n}\n"
        fault = [f for f in operators.faults_of(text) if f.operator == "compare"][0]
        self.assertEqual(operators.lines_of(text, fault), ("return a <", "return a >="))


def python_results(body, operator):
    text = f"LIMIT = 1 < 2\n\n\ndef f(a, b, c=1 + 1):\n    {body}\n"
    faults = [f for f in python_operators.faults_of(text) if f.operator == operator]
    return [operators.apply(text, f).split(":\n    ", 1)[1].strip() for f in faults]


class PythonOperators(unittest.TestCase):
    def test_comparisons(self):
        self.assertEqual(python_results("return a < b", "compare"), ["return a >= b"])
        self.assertEqual(python_results("return a is None", "compare"), ["return a is not None"])
        self.assertEqual(python_results("return a not in b", "compare"), ["return a in b"])
        self.assertEqual(python_results("return 'ä' < b and (a) == b", "compare"), ["return 'ä' >= b and (a) == b"])
        self.assertEqual(python_results("return a < b", "bound"), ["return a <= b"])
        self.assertEqual(python_results("return a[b - 1] + 10", "bound"), ["return a[b] + 10"])

    def test_conditions(self):
        self.assertEqual(python_results("return a and (b or f(a))", "condition"), [
            "return True and (b or f(a))", "return a and (False or f(a))", "return a and (True)", "return a and (b or False)"])
        self.assertEqual(python_results("if a < b:\n        raise ValueError", "check"), ["if False and (a < b):\n        raise ValueError"])
        self.assertEqual(python_results("if a:\n        b = 1", "check"), [])

    def test_others(self):
        self.assertEqual(python_results("return min(a, b)", "extreme"), ["return max(a, b)"])
        self.assertEqual(python_results("return True", "constant"), ["return False"])
        self.assertEqual(python_results("a.n += b; g(a); a = b; a.n = b; a.close(); 'text'", "statement"), [
            "pass; g(a); a = b; a.n = b; a.close(); 'text'", "a.n += b; pass; a = b; a.n = b; a.close(); 'text'",
            "a.n += b; g(a); a = b; pass; a.close(); 'text'"])


class Folders(unittest.TestCase):
    def test_every_folder_has_tests(self):
        folders = {p.name for p in (ROOT / "src").iterdir() if p.is_dir() and any(p.rglob("*.c"))}
        self.assertEqual(folders - set(tests.TESTS_OF), set())
        self.assertEqual(set(tests.TESTS_OF) - folders, set())


PROJECT = {
    "meson.build": "project('p', 'c')\nlib = static_library('p', 'src/base/a.c', 'src/base/b.c')\n"
                   "test('quick', executable('quick', 'tests/base/quick.c', link_with: lib), suite: 'base')\n"
                   "if get_option('above')\n"
                   "  test('above', executable('above', 'tests/store/above.c', link_with: lib), suite: 'store')\nendif\n",
    "meson_options.txt": "option('above', type: 'boolean', value: false)\n",
    "src/base/a.c": "int is_less(int a, int b);\nint is_less(int a, int b)\n{\n    return a < b;\n}\n",
    "src/base/b.c": "int is_more(int a, int b);\nint is_more(int a, int b)\n{\n    return a > b;\n}\n",
    "tests/base/quick.c": "int is_less(int a, int b);\nint main(void) { return !is_less(1, 2) || is_less(2, 2) || is_less(3, 2); }\n",
}
ABOVE = "int is_more(int a, int b);\nint main(void) { return !is_more(2, 1) || is_more(2, 2); }\n"
IGNORED = "src/base/b.c\n- return a > b;\n+ return a >= b;\nNobody calls it.\n"


class Whole(unittest.TestCase):
    def mutate(self, *options):
        command = [sys.executable, str(ROOT / "tools" / "mutate"), "--root", str(self.tree), "--work", str(self.work), "--count", "9",
                   "--folder", "base", *options]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def make_tree(self, files):
        for name, text in files.items():
            (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
            (self.tree / name).write_text(text, encoding="utf-8")
        subprocess.run(["git", "init", "-q", str(self.tree)], check=True)

    def test_all(self):
        with tempfile.TemporaryDirectory() as folder:
            self.tree, self.work = pathlib.Path(folder) / "tree", pathlib.Path(folder) / "work"
            self.make_tree(PROJECT)
            listed = self.mutate("--list")
            self.assertEqual(listed.count("\n- "), 4)
            said = self.mutate()
            self.assertIn("base                    2 of    4   50.0%", said)
            self.assertIn("+    return a <= b;", said)
            self.assertEqual(said.count("survivor "), 2)
            for name, text in PROJECT.items():
                self.assertEqual((self.tree / name).read_text(encoding="utf-8"), text)
            lines = [json.loads(x) for x in (self.work / "results.jsonl").read_text(encoding="utf-8").splitlines()]
            self.assertEqual(sorted(x["result"] for x in lines), ["caught", "caught", "survived", "survived"])
            (self.tree / "tools" / "mutants").mkdir(parents=True)
            (self.tree / "tools" / "mutants" / "ignored.txt").write_text(IGNORED, encoding="utf-8")
            self.assertIn("2 of    3", self.mutate("--resume", "--retry"))

    def test_stages(self):
        """Faults that the folder's own tests let through are shown to those of the folders above."""
        with tempfile.TemporaryDirectory() as folder:
            self.tree, self.work = pathlib.Path(folder) / "tree", pathlib.Path(folder) / "work"
            self.make_tree(PROJECT | {"tests/store/above.c": ABOVE, "meson_options.txt": "option('above', type: 'boolean', value: true)\n"})
            log = pathlib.Path(folder) / "testlog.json"
            log.write_text("".join(json.dumps({"name": f"p:x / {n}", "duration": 0.5, "result": "OK"}) + "\n" for n in ("quick", "above")))
            self.assertIn("base                    4 of    4", self.mutate("--times", str(log)))
            lines = [json.loads(x) for x in (self.work / "results.jsonl").read_text(encoding="utf-8").splitlines()]
            self.assertEqual({(x["file"], x["by"]) for x in lines}, {("src/base/a.c", "quick"), ("src/base/b.c", "above")})

    def test_jobs(self):
        """Several jobs judge the same faults as one; --stop leaves the rest to --resume."""
        with tempfile.TemporaryDirectory() as folder:
            self.tree, self.work = pathlib.Path(folder) / "tree", pathlib.Path(folder) / "work"
            self.make_tree(PROJECT)
            said = self.mutate("--jobs", "2", "--stop", "0")
            self.assertIn("9 faults a folder, stopped\nbase                    0 of    0", said)
            self.assertIn("base                    2 of    4", self.mutate("--jobs", "2", "--resume"))
            made = {p.name for i in "01" for p in (self.work / i / "build").rglob("*.a")}
            self.assertEqual(made, {"libp.a"})
            for file in (self.work / "1" / "build").rglob("*.ninja"):  # a copy, which builds its own tree
                self.assertNotIn(str(self.work / "0") + "/", file.read_text(encoding="utf-8"))

    def test_together(self):
        """What --each leaves is not judged, until all tests are run on all such faults at once."""
        with tempfile.TemporaryDirectory() as folder:
            self.tree, self.work = pathlib.Path(folder) / "tree", pathlib.Path(folder) / "work"
            self.make_tree(PROJECT | {"tests/store/above.c": ABOVE, "meson_options.txt": "option('above', type: 'boolean', value: true)\n"})
            self.assertIn("base                    0 of    0    0.0%, 4 not judged", self.mutate("--each", "0"))
            results = str(self.work / "results.jsonl")
            self.assertIn("4 not judged", self.mutate("--again", results, "--each", "0"))
            said = self.mutate("--again", results, "--each", "0", "--together", "4", "--jobs", "2")
            self.assertIn("base                    4 of    4  100.0%   (", said)
            lines = [json.loads(x) for x in (self.work / "results.jsonl").read_text(encoding="utf-8").splitlines()]
            self.assertEqual({(x["file"], x["by"]) for x in lines if "by" in x}, {("src/base/a.c", "quick"), ("src/base/b.c", "above")})

    def test_reach(self):
        """Only tests that reach the line are run: what none reaches survives at once, and its lines are named."""
        with tempfile.TemporaryDirectory() as folder:
            self.tree, self.work = pathlib.Path(folder) / "tree", pathlib.Path(folder) / "work"
            self.make_tree(PROJECT | {"tests/store/above.c": ABOVE, "meson_options.txt": "option('above', type: 'boolean', value: true)\n"})
            reach = str(pathlib.Path(folder) / "reach.json")
            self.mutate("--make-reach", reach, "--jobs", "2")
            known = json.loads(pathlib.Path(reach).read_text(encoding="utf-8"))
            self.assertEqual(known["tests"], ["above", "quick"])
            self.assertEqual({f: [known["sets"][s] for s in {*l.values()}] for f, l in known["lines"].items()},
                             {"src/base/a.c": [[1]], "src/base/b.c": [[0]]})
            self.assertEqual(self.mutate("--unreached", reach), "")
            b = self.tree / "src/base/b.c"
            b.write_text("\n" + b.read_text(encoding="utf-8") + "int same(int a);\nint same(int a)\n{\n    return a == 3;\n}\n", encoding="utf-8")
            self.assertIn("base                    4 of    5", self.mutate("--reach", reach, "--count", "5"))
            lines = [json.loads(x) for x in (self.work / "results.jsonl").read_text(encoding="utf-8").splitlines()]
            self.assertEqual({(x["file"], x.get("by")) for x in lines},
                             {("src/base/a.c", "quick"), ("src/base/b.c", "above"), ("src/base/b.c", None)})


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
