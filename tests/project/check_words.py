#!/usr/bin/env python3
"""Checks that one thing has one word: the words of GONE are not used for it any more. Argument: the source root.

The glossary in src/README.md has the words that are used instead."""

import pathlib
import re
import sys

FOLDERS = ("include", "src", "tests", "tools", ".github", "README.md")
SUFFIXES = {".c", ".h", ".cu", ".in", ".py", ".md", ".scd", ".build", ".def", ""}
PLANS = {"md_ds_plan", "md_ds_plan_cache", "md_ds_launch_plan", "md_py_plan"}

# What is gone -> what is used instead.
GONE = {
    r"makeshift": "stand-in",
    r"(?<!not )\bpromot(?:e[sd]?|ion)s?\b(?!ed)|\w+_promot\w+|promotion_\w+": "upgrade (of a stand-in)",
    r"\b(?:is_)?joined\b(?=[_ ](?:op|dims|sizes|args))|unjoin|merge_joined": "merged (dims, and the op that has them)",
    r"\bkept[_ -](?:picks?|kernels?|times|binar(?:y|ies))\b|\b(?:picks?|kernels?|times|binaries)[_ ]kept\b":
        "stored (on disk), cached (in memory)",
    r"\bmd_(?:tn|ds|bd|st|cb|cg|sq)_kept\w*": "stored",
    r"\bslots? of the plan cache\b|\bmd_ds_slot_(?!of\b)\w+|\bmd_cb_slot\b": "entry (of a cache), operand (of a combo)",
    r"\bmd_ds_pool \*?c\b": "pool",
    r"\bmd_cg_on_chip \*?plan\b": "on_chip",
    r"\b(?:combo|fusion|memory|merge|register)_plan\b": "schedule, fusion, layout, merge, on_chip",
}

# Pattern of GONE, or "plan" -> files that may have it, and why.
EXCEPTIONS = {
    "tests/project/check_words.py": "names them",
    "tests/project/test_checks.py": "tests this check",
    "src/device/cuda/map.c": "PROMOTION is CUDA's word: what a tensor map loads into L2",
    "src/python/README.md": "dtypes are promoted in NumPy and PyTorch",
    "src/python/multidispatch/compile/rewriting/uniform.py": "operands promote in PyTorch",
}


def sources(root):
    for top in FOLDERS:
        path = root / top
        for p in [path] if path.is_file() else sorted(path.rglob("*")) if path.is_dir() else []:
            if p.is_file() and p.suffix in SUFFIXES and str(p.relative_to(root)) not in EXCEPTIONS:
                yield p


def gone_words(name, text):
    for pattern, instead in GONE.items():
        for m in re.finditer(pattern, text):
            yield f"{name}:{text.count(chr(10), 0, m.start()) + 1}: '{m.group(0)}' is gone; say {instead}"


def plan_types(name, text):
    """Types named plan are few: the choice for a shape, a launch, and a graph's Plan in Python."""
    for m in re.finditer(r"\b(?:struct|enum|union)\s+(\w*plan(?!e)\w*)", text):
        if m.group(1) not in PLANS:
            yield f"{name}:{text.count(chr(10), 0, m.start()) + 1}: the type '{m.group(1)}' is named plan; name what it is"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    problems, n = [], 0
    for path in sources(root):
        name, text = str(path.relative_to(root)), path.read_text(encoding="utf-8", errors="replace")
        problems += gone_words(name, text)
        if name.startswith(("src", "include")) and path.suffix in (".c", ".h"):
            problems += plan_types(name, text)
        n += 1
    problems += [f"{name}: is an exception in check_words.py, but does not exist" for name in EXCEPTIONS
                 if not (root / name).exists()]
    print("\n".join(problems))
    print(f"{n} files, {len(problems)} problems")
    return 1 if problems or not n else 0


if __name__ == "__main__":
    sys.exit(main())
