#!/usr/bin/env python3
"""Finds dead code: global functions and variables of src that no other object, header of the interface, test or tool
uses. One that its own file uses is static; one that nobody uses goes.
Arguments: the source root, the build folder, the nm program."""

import collections
import pathlib
import re
import subprocess
import sys

# name: why it stays
EXCEPTIONS = {
    "md_cg_recur_factor": "its header says what scan templates get; used before its definition",
    "md_fa_cuda_gather_scatter_emit": "its comment in the header is the interface of two templates",
    "md_fx_no_dim": "one of the messages of formula.h",
    "md_fa_cuda_product_at": "of gemm.h, whose functions stand together",
    "md_py_no_stdin": "the linker puts it in the place of stdin",
}


def symbols_of(objects, nm):
    """name -> objects that define it, name -> objects that use it"""
    defined, used = collections.defaultdict(set), collections.defaultdict(set)
    for first in range(0, len(objects), 200):
        out = subprocess.run([nm, "-A", *map(str, objects[first:first + 200])], capture_output=True, text=True, check=True)
        for path, kind, name in re.findall(r"^(.*?):[0-9a-f ]*([A-Za-z]) (\S+)$", out.stdout, re.M):
            if kind == "U":
                used[name].add(path)
            elif kind in "TDBRGC":
                defined[name].add(path)
    return defined, used


def words_of(*folders):
    return {word for folder in folders for p in folder.rglob("*") if p.suffix in (".c", ".h", ".in", ".py", ".cpp")
            for word in re.findall(r"\b(?:md|PyInit)_\w+", p.read_text(encoding="utf-8", errors="replace"))}


def main():
    root, build, nm = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
    objects = sorted((build / "src").rglob("*.o"))
    defined, used = symbols_of(objects, nm)
    elsewhere = words_of(root / "include", root / "tests", root / "tools")
    alone = {name for name, paths in defined.items() if name.startswith("md_") and not used[name] - paths}
    dead = {name for name in alone if name not in elsewhere or name in EXCEPTIONS}
    problems = [f"{name} of {pathlib.Path(min(defined[name])).name[:-4]} is used by no other file: make it static, or drop it"
                for name in sorted(dead - EXCEPTIONS.keys())]
    problems += [f"check_unused.py has an exception that is used or gone: {name}" for name in EXCEPTIONS.keys() - alone]
    print("\n".join(problems))
    print(f"{len(objects)} objects, {len(defined)} names, {len(problems)} problems")
    return 1 if problems or not objects else 0


if __name__ == "__main__":
    sys.exit(main())
