#!/usr/bin/env python3
"""Runs a script of this folder (the first argument) by a Python that has NumPy: this one, the system's (tools/bootstrap installs python3-numpy), or
the one of the tests of ONNX. Exits with 77 and says so where there is none."""
import os
import pathlib
import subprocess
import sys


def has_numpy(python):
    try:
        return subprocess.run([python, "-c", "import numpy"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False


def main():
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    known = [sys.executable, "/usr/bin/python3", *sorted(cache.glob("multidispatch-tools/onnx-*/bin/python"))]
    python = next((p for p in known if has_numpy(p)), None)
    if not python:
        print("SKIPPED: NOTHING WAS COMPARED WITH NUMPY: no Python here has it; tools/bootstrap installs python3-numpy", file=sys.stderr)
        return 77
    return subprocess.run([python, pathlib.Path(__file__).resolve().parent / sys.argv[1], *sys.argv[2:]]).returncode


if __name__ == "__main__":
    sys.exit(main())
