#!/usr/bin/env python3
"""Breaks small trees on purpose: check_layers.py, check_limits.py, check_words.py, check_copies.py and tools/format must refuse each of
them, and pass the tree that is not broken. Arguments: the source root, the C compiler, nm."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import check_copies
import check_layers
import check_limits
import check_words

ROOT, CC, NM = pathlib.Path(sys.argv[1]), sys.argv[2].split(), sys.argv[3]

check_layers.FLOORS = {"expr": [["node"], ["front", "back"], ["top"]]}
check_layers.CIRCLES = []
check_layers.MAX_FLOORS = 3

failures = []


def header(name, *lines):
    guard = "MD_" + "".join(c if c.isalnum() else "_" for c in name.upper())
    return "\n".join([f"#ifndef {guard}", f"#define {guard}", *lines, "#endif", ""])


def source(*lines):
    return "\n".join(["/* A file. */", *lines, ""])


# base <- expr: node <- front, back <- top; stage uses expr.
GOOD = {
    "src/base/text.h": header("base/text.h", "int md_text(void);"),
    "src/base/text.c": source('#include "base/text.h"', "int md_text(void)", "{", "    return 1;", "}"),
    "src/expr/node.h": header("expr/node.h", '#include "base/text.h"', "int md_node(void);"),
    "src/expr/node.c": source('#include "expr/node.h"', "int md_node(void)", "{", "    return md_text();", "}"),
    "src/expr/front/a.h": header("expr/front/a.h", '#include "expr/node.h"', "int md_a(void);"),
    "src/expr/front/a.c": source('#include "expr/front/a.h"', "int md_a(void)", "{", "    return md_node();", "}"),
    "src/expr/front/b.c": source('#include "expr/front/a.h"', "int md_b(void);", "int md_b(void)", "{", "    return md_a();",
                                 "}"),
    "src/expr/back/c.h": header("expr/back/c.h", "int md_c(void);"),
    "src/expr/back/c.c": source('#include "expr/back/c.h"', "int md_c(void)", "{", "    return 2;", "}"),
    "src/expr/top.h": header("expr/top.h", "int md_top(void);"),
    "src/expr/top.c": source('#include "expr/top.h"', '#include "expr/back/c.h"', "int md_top(void)", "{",
                             "    return md_c();", "}"),
    "src/stage/fusion.h": header("stage/fusion.h", "int md_plan(void);"),
    "src/stage/fusion.c": source('#include "expr/top.h"', '#include "stage/fusion.h"', "int md_plan(void)", "{",
                               "    return md_top();", "}"),
}


def calls(name, other):
    """A .c file that declares a function itself and calls it: no include gives it away."""
    return source(f"int {name}(void);", f"int {other}(void);", f"int {name}(void)", "{", f"    return {other}();", "}")


def build(root):
    """Compiles what is there, as the folder of a Meson build would hold it."""
    folder, database = root / "build", []
    (folder / "lib/_core.abi3.so.p").mkdir(parents=True)
    for path in sorted((root / "src").rglob("*.c")):
        name = str(path.relative_to(root / "src")).replace("/", "_") + ".o"
        output = ("lib/_core.abi3.so.p/" if name.startswith("python_") else "lib/libmd_") + name
        subprocess.run([*CC, "-I", str(root / "src"), "-c", str(path), "-o", str(folder / output)], check=True)
        database.append({"directory": str(folder), "file": str(path), "output": output})
    (folder / "compile_commands.json").write_text(json.dumps(database), encoding="utf-8")
    return folder


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def expect(what, problems, part):
    """part: words of the one problem; None: there is none."""
    good = not problems if part is None else len(problems) == 1 and part in problems[0]
    print(("ok    " if good else "WRONG ") + what)
    if not good:
        failures.append(f"{what}: expected {part!r}, found {problems}")


def layers(what, change, part, built=False, after=None):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder).resolve()
        write(root, {**GOOD, **change})
        objects = build(root) if built else None
        if after:
            after(root)
        check_layers.problems.clear()
        check_layers.check(root, objects, NM)
        expect("layers: " + what, check_layers.problems, part)


def commit(root, subject):
    """A repository whose last commit has this subject."""
    git = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@a"]
    subprocess.run([*git[:3], "init", "-q"], check=True)
    for text in ("first: none of those that are checked", subject):
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", text], check=True)
    check_limits.FIRST_COMMIT = "HEAD~1"


def limits(what, files, part, subject=None):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder).resolve()
        write(root, files)
        if subject:
            commit(root, subject)
        check_limits.problems.clear()
        check_limits.EXCEPTIONS = {}
        check_limits.check(root)
        expect("limits: " + what, check_limits.problems, part)


def function(n_lines, parameters):
    return "\n".join([f"int md_f({parameters})", "{", *["    (void)0;"] * (n_lines - 3), "}", ""])


def words(text, part):
    found = [*check_words.gone_words("a.c", text), *check_words.plan_types("a.c", text)]
    expect(f"words: {text}", found, part)


def check_the_words():
    words("struct md_ds_plan *plan; /* it is kept for the next call; shares joined by commas */", None)
    words("a makeshift kernel", "'makeshift' is gone; say stand-in")
    words("stats: picks kept 3", "say stored")
    words("struct md_sq_plan", "is named plan")


def copies(what, first, second, part):
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for name, text in (("a.c", first), ("b.c", second)):
            path = pathlib.Path(folder, name)
            path.write_text(text, encoding="utf-8")
            files[name] = check_copies.statements_of(path)
        expect(f"copies: {what}", [f"{n} lines of {a} are in {b}" for a, _, _, b, _, _, n in check_copies.find(files)], part)


def check_the_copies():
    body = [f"    {verb}(x, {i});" if i % 2 else f"    if (x > {i}) {verb}(x);" for i, verb in
            enumerate(["add", "sub", "mul", "div", "add", "sub", "mul", "div", "add", "sub", "mul", "div"])]
    text = source("int f(int x)", "{", "    int y = 1;", *body, "    return x + y;", "}")
    renamed = text.replace("add", "plus").replace("x", "number").replace("/* A file. */", "/* Another one. */")
    copies("the same text", text, text, "lines of a.c are in b.c")
    copies("the same but for names, comments and line breaks", text, renamed.replace(" > ", "\n        > "), "lines of a.c are in b.c")
    copies("names that are not renamed one to one", text, text.replace("add(x)", "sub(x)"), None)
    copies("another operator in the middle", text, text.replace("if (x > 6)", "if (x < 6)"), None)
    copies("few lines", source(*text.splitlines()[:9]), text, None)
    copies("a table", source(*["    {1, 2},"] * 40), source(*["    {1, 2},"] * 40), None)


def check_the_layers():
    layers("a good tree", {}, None)
    layers("a good tree, built", {}, None, built=True)
    layers("a folder without rank", {"src/attic/a.c": source()}, "in no layer")
    layers("a higher folder is included", {"src/base/text.c": source('#include "stage/fusion.h"')}, "base (rank 0) must not use stage")
    layers("a folder of the same rank is included", {"src/store/a.h": header("store/a.h"), "src/expr/node.c": source('#include "store/a.h"')},
           "expr (rank 1) must not use store (rank 1)")
    layers("a higher room is included", {"src/expr/node.c": source('#include "expr/front/a.h"')},
           "expr/node (floor 0) must not use expr/front (floor 1)")
    layers("another room of the floor is included", {"src/expr/front/a.c": source('#include "expr/back/c.h"')},
           "expr/front (floor 1) must not use expr/back (floor 1)")
    layers("a room on no floor", {"src/expr/attic/a.c": source()}, "is on no floor")
    layers("rooms without floors", {"src/stage/room/a.c": source()}, "has rooms, but no floors")
    layers("an include that is not there", {"src/expr/node.c": source('#include "expr/none.h"')}, "does not exist")
    layers("headers that include each other", {"src/expr/front/a.h": header("expr/front/a.h", '#include "expr/front/d.h"'),
           "src/expr/front/d.h": header("expr/front/d.h", '#include "expr/front/a.h"')}, "a circle of 2 files")
    layers("a higher room is called", {"src/expr/node.c": calls("md_node", "md_c")},
           "expr/node (floor 0) must not use expr/back (floor 1): md_c", built=True)
    layers("a higher folder is called", {"src/base/text.c": calls("md_text", "md_plan")}, "base (rank 0) must not use stage", built=True)
    layers("files that call each other", {"src/stage/a.c": calls("md_one", "md_two"), "src/stage/b.c": calls("md_two", "md_one")},
           "a circle of 2 files", built=True)
    layers("files of the extension that call each other", {"src/python/a.c": calls("md_one", "md_two"),
           "src/python/b.c": calls("md_two", "md_one")}, "a circle of 2 files", built=True)
    layers("files that call each other round about", {"src/stage/a.c": calls("md_one", "md_two"),
           "src/stage/b.c": calls("md_two", "md_three"), "src/stage/c.c": calls("md_three", "md_one")}, "a circle of 3 files", built=True)
    check_layers.CIRCLES.append(("allowed here", {"expr/front/a.c", "expr/front/b.c"}))
    layers("a circle that is allowed", {"src/expr/front/a.c": calls("md_a", "md_b")}, None, built=True)
    layers("a circle that is allowed and not there", {}, "allows a circle that does not exist", built=True)
    check_layers.CIRCLES.clear()
    layers("a build that is old", {}, "build first", built=True, after=lambda root: os.utime(root / "src/base/text.c", (2e9, 2e9)))
    layers("the environment is read", {"src/expr/node.c": source("char *md_e(void) { return getenv(0); }")}, "read in one file")
    layers("a global", {"src/expr/node.c": source("static int md_count;")}, "no mutable globals")
    layers("a wrong guard", {"src/expr/node.h": header("expr/nude.h")}, "the include guard is not MD_EXPR_NODE_H")
    layers("a tool looks inside", {"tools/a.c": source('#include "expr/node.h"')}, "public headers only")
    package = "src/python/multidispatch/compile/"
    layers("modules of a package", {package + "running/plan.py": "from ..lowering.tree import a\nfrom ..sizes import b\n",
           package + "lowering/tree.py": "from ..sizes import b\n", package + "sizes.py": "a = b = 1\n"}, None)
    layers("a higher room is imported", {package + "lowering/tree.py": "from ..running import plan\n"},
           "lowering (floor 3) must not import running (floor 5)")
    layers("modules that import each other", {package + "running/plan.py": "from . import groups\n",
           package + "running/groups.py": "def f():\n    from .plan import g\n"}, "a circle of 2 files")
    layers("a module on no floor", {package + "attic/a.py": ""}, "attic is on no floor")
    check_layers.FLOORS["expr"][1].append("node")
    layers("an entry on two floors", {}, "on two floors")
    check_layers.FLOORS["expr"][1].remove("node")
    check_layers.FLOORS["expr"].append(["attic"])
    layers("too many floors", {"src/expr/attic/a.c": source()}, "has 4 floors")


def check_the_limits():
    limits("a good tree", {"src/a.c": source(function(60, "int a, int b, int c, int d, int e, int f"))}, None)
    limits("401 lines in src", {"src/a.h": "\n" * 401}, "401 lines, more than 400")
    limits("401 lines of Python in src", {"src/a.py": "\n" * 401}, "401 lines, more than 400")
    limits("500 lines elsewhere", {"tests/a.h": "\n" * 500}, None)
    limits("501 lines elsewhere", {"tests/a.h": "\n" * 501}, "501 lines, more than 500")
    limits("a function of 61 lines", {"src/a.c": source(function(61, "void"))}, "md_f has 61 lines")
    limits("a function of 7 parameters", {"src/a.c": source(function(9, "int a, int (*b)(int, int), int c, int d, int e, int f,\n"
           "         int g"))}, "md_f has 7 parameters")
    limits("no opening comment", {"tests/a.c": "int a;\n"}, "does not open with a comment")
    limits("a long README.md", {"README.md": "\n" * 181}, "181 lines, more than 180")
    limits("a long README.md in src", {"src/base/README.md": "\n" * 161}, "161 lines, more than 160")
    limits("a wide line of a page", {"tests/README.md": "a " * 61 + "\n"}, "122 columns, more than 120")
    limits("a wide row of a table, a wide line of code", {"tests/README.md": "| a " * 61 + "\n```\n" + "a " * 61 + "\n```\n"}, None)
    limits("a wide row of a table in src", {"src/base/README.md": "| a " * 31 + "\n"}, "124 columns, more than 120")
    limits("a good subject", {}, None, "base: a file is read whole")
    limits("a long subject", {}, "73 columns, more than 72", "base: " + "a" * 67)
    limits("a subject without a topic", {}, "does not begin with a topic", "A file is read whole")


def format_of(text):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "a.c"
        path.write_text(text, encoding="utf-8")
        return subprocess.run([str(ROOT / "tools" / "format"), "--offline", "--check", str(path)], capture_output=True, text=True)


def check_the_format():
    if format_of("int a;\n").returncode == 77:
        print("skip  format: no clang-format 14")
        return
    expect("format: a good file", format_of("int a;\n").stdout.splitlines()[:-1], None)
    expect("format: another layout", format_of("int  a ;\n").stdout.splitlines()[:-1], "not formatted")
    expect("format: a long line", format_of(f"/* {'x' * 120} */\n").stdout.splitlines()[:-1], "126 columns")


if __name__ == "__main__":
    check_the_layers()
    check_the_words()
    check_the_copies()
    check_the_limits()
    check_the_format()
    print("\n".join(failures))
    sys.exit(1 if failures else 0)
