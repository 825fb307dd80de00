#!/usr/bin/env python3
"""Compares lists of files with the folders they are about: what `meson install` installs, and what the build uses.
A file that a list forgets is a module that users miss, or a test that nobody runs.
Arguments: the source root, the build folder, the command that runs Meson, words for what this build leaves out: PARTS."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

# Folder in the tree, files there, the folder below the prefix where all of them are installed (None: found by the name of
# the package), what an installed name ends with, and the part of the build without which there are none.
INSTALLED = [
    ("include/md", "*.h", "include/md", None, None),
    ("data/wisdom", "*.jsonl", "share/multidispatch/wisdom", None, None),
    ("tools/examples", "**/*", "share/doc/multidispatch/examples", None, None),
    ("tools/man", "*.scd", "share/man", "", "man"),
    ("src/python/multidispatch", "**/*", None, None, "python"),
]

# Folder, files there that the build's rules name, and the part of the build without which they need not.
BUILT = [
    ("src", "**/*.c", None),
    ("src/kernels", "**/*.[ch]*", None),
    ("tests", "**/*.c", None),
    ("tools", "**/*.c", None),
    ("data/ops", "*.txt", None),
    ("tools/man", "*.scd", "man"),
]
# Part of the build -> files below which are not built without it.
PARTS = {
    "cuda": ("src/device/cuda", "tests/device/test_cuda", "tests/device/cuda", "tools/examples/cuda_graph.c"),
    "blas": ("tools/bench_blas.c",),
    "python": ("src/python", "tests/python"),
    "man": ("tools/man",),
}
# Files that no list names, and why.
ELSEWHERE = {
    "src/device/cuda/none.c": "stands in where there is no CUDA",
    "src/kernels/host/defaults/": "what generated text stands for, so that tools can read kernels by themselves",
    "tests/cuda/torch_capture.py": "run by tools/gpu",
    "tools/examples/cluster/agree_nccl.c": "needs two GPUs and NCCL: tools/gpu cluster builds and runs it",
    "tools/mutants/reach/reach.c": "tools/mutate --make-reach builds it",
}


def files_below(root, folder, pattern):
    """The files of a folder by their path below it; not what Python wrote by itself, nor hidden ones."""
    return {p.relative_to(root / folder).as_posix() for p in (root / folder).glob(pattern)
            if p.is_file() and "__pycache__" not in p.parts and not p.name.startswith(".")}


def package_of(folder):
    """Where a Python package of ours was installed below the folder."""
    return next((p.parent for p in sorted(folder.rglob("multidispatch/__init__.py"))), folder / "multidispatch")


def compare_package(root, package):
    """What differs between an installed Python package and the folder of its sources, as sentences."""
    wanted, found = files_below(root, "src/python/multidispatch", "**/*"), files_below(package.parent, package.name, "**/*")
    return ([f"{package}: {name} of src/python/multidispatch is not installed" for name in sorted(wanted - found)] +
            [f"{package}: {name} is of no file in src/python/multidispatch" for name in sorted(found - wanted)
             if not name.startswith("_core.") and not name.startswith("_bin/")])


def compare_installed(root, prefix, without):
    """What differs between a prefix and the tree."""
    problems = []
    for folder, pattern, place, suffix, part in INSTALLED:
        if part in without:
            continue
        if place is None:
            problems += compare_package(root, package_of(prefix))
            continue
        wanted = files_below(root, folder, pattern)
        if suffix is not None:
            wanted = {pathlib.PurePath(n).stem + suffix for n in wanted}
            found = {p.name for p in (prefix / place).rglob("*") if p.is_file()}
        else:
            found = files_below(prefix, place, "**/*")
        problems += [f"{place}: {name} of {folder} is not installed" for name in sorted(wanted - found)]
        problems += [f"{place}: {name} is of no file in {folder}" for name in sorted(found - wanted)]
    return problems


def check_installed(root, build, meson, without):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*meson, "install", "-C", str(build), "--no-rebuild", "--destdir", folder], check=True,
                       stdout=subprocess.DEVNULL)
        prefix = package_of(pathlib.Path(folder))
        header = next(pathlib.Path(folder).rglob("include/md/md.h"))
        prefix = header.parent.parent.parent
        return compare_installed(root, prefix, without)


def is_left_out(path, without):
    return path.startswith(tuple(ELSEWHERE)) or any(path.startswith(PARTS[part]) for part in without if part in PARTS)


def check_built(root, build, without):
    """Every source is in the build's rules."""
    named = {os.path.normpath(os.path.join(build, word)) for word in
             re.split(r"(?<!\$)\s+", (build / "build.ninja").read_text(encoding="utf-8"))}
    problems = []
    for folder, pattern, part in BUILT:
        if part in without:
            continue
        for name in sorted(files_below(root, folder, pattern)):
            path = f"{folder}/{name}"
            if not is_left_out(path, without) and os.path.normpath(root / path) not in named and not is_included(root, path):
                problems.append(f"{path} is in no meson.build: nothing builds it")
    return problems


def is_included(root, path):
    """Whether a file beside it includes it."""
    name = pathlib.PurePath(path).name
    return any(f'{name}"' in p.read_text(encoding="utf-8") for p in (root / path).parent.glob("*.c") if p.name != name)


def check_run(root, build, without):
    """Every test in Python is run by a test of the build; those of tests/python by a group of run.py."""
    tests = json.loads((build / "meson-info" / "intro-tests.json").read_text(encoding="utf-8"))
    run = {os.path.relpath(word, root) for test in tests for word in test["cmd"] if word.endswith(".py")}
    sys.path.insert(0, str(root / "tests" / "python"))
    import run as package_tests  # the groups of files
    for _, patterns, _ in package_tests.GROUPS.values():
        run |= {f"tests/python/{name}" for p in patterns for name in files_below(root, "tests/python", p)}
    return [f"{path} is run by no test" for path in sorted(f"tests/{n}" for p in ("test_*.py", "check_*.py")
            for n in files_below(root, "tests", "**/" + p))
            if path not in run and not is_left_out(path, without) and not is_imported(root, path)]


def is_imported(root, path):
    """Whether a test beside it uses it as a module."""
    module = pathlib.PurePath(path).stem
    return any(re.search(rf"^\s*import {module}\b|^\s*from {module} import", p.read_text(encoding="utf-8"), flags=re.M)
               for p in (root / path).parent.glob("*.py") if p.stem != module)


def check_examples(root):
    """The examples' own build files, and ours, name all of them."""
    files = [root / "tools" / "examples" / name for name in ("Makefile", "CMakeLists.txt", "meson.build")]
    files.append(root / "tools" / "meson.build")
    return [f"{file.relative_to(root)} does not build {program}" for file in files
            for program in sorted(p.stem for p in (root / "tools" / "examples").glob("*.c"))
            if not re.search(rf"\b{program}\b", file.read_text(encoding="utf-8"))]


def main():
    root, build, meson, without = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3].split(), set(sys.argv[4:])
    problems = (check_installed(root, build, meson, without) + check_built(root, build, without) +
                check_run(root, build, without) + check_examples(root))
    print("\n".join(problems) or "every file is in its list")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
