#!/usr/bin/env python3
"""Runs run_cases.py with the arguments given, by a Python that has onnx: this one, or one in $XDG_CACHE_HOME/multidispatch-tools, where PyPI's
onnx is installed once. Exits with 77 and says so where it cannot be had."""
import os
import pathlib
import subprocess
import sys

PACKAGES = ["onnx==1.23.2", "numpy", "ml_dtypes"]
HERE = pathlib.Path(__file__).resolve().parent


def has_onnx(python):
    try:
        return subprocess.run([python, "-c", "import onnx, ml_dtypes; assert onnx.__version__ >= '1.23'"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False


def find_python():
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    folder = cache / "multidispatch-tools" / PACKAGES[0].replace("==", "-")
    python = folder / "bin" / "python"
    for known in (sys.executable, python):
        if has_onnx(known):
            return known
    print(f"onnx: installing {PACKAGES[0]} from PyPI in {folder}", file=sys.stderr)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([sys.executable, "-m", "venv", folder], **quiet)
    if python.exists():
        subprocess.run([python, "-m", "pip", "install", "-q", "--retries", "1", "--timeout", "20", *PACKAGES], **quiet)
    return python if has_onnx(python) else None


def main():
    python = find_python()
    if not python:
        print(f"SKIPPED: ONNX'S CASES DID NOT RUN: {PACKAGES[0]} can neither be imported nor installed", file=sys.stderr)
        return 77
    return subprocess.run([python, HERE / "run_cases.py", *sys.argv[1:]]).returncode


if __name__ == "__main__":
    sys.exit(main())
