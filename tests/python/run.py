#!/usr/bin/env python3
"""Puts the package together from the source and the built extension, and runs the tests of a group with a Python that
has what they need: TEST_PYTHON, the Python of the build, the virtual environment of tools/test --full, the system's.
Arguments: the source root, the extension ("": it is not built), the group, files in place of the group's.
Exit 77: skipped, and says what to install. All files run, whether others fail or not, each for at most TEST_LIMIT
seconds."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

GROUPS = {  # the modules that a group needs, its files, and what to install
    "numpy": ("numpy", ["test_package*.py"], "tools/bootstrap installs it (python3-numpy)"),
    "torch": ("numpy, torch", ["test_torch*.py", "test_backend*.py", "test_opinfo.py"],
              "tools/test --full installs PyTorch's CPU wheel into a virtual environment that is kept and found again; "
              "or name a Python that has it in TEST_PYTHON"),
    "device": ("torch", ["test_torch_foreach.py", "test_torch_optimizers.py", "test_torch_databases*.py",
                         "test_torch_capture.py", "test_torch_memory.py"],  # by MD_TEST_TORCH_DEVICE: tools/gpu python
               "install PyTorch"),
    "models": ("torch, transformers, timm", ["test_models.py"], "tools/test --full installs them beside PyTorch"),
}


def venv():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(cache, "multidispatch-tests", "venv", "bin", "python")


def find_python(modules):
    """The first Python of at least 3.11 that can import the modules, or None."""
    for python in (os.environ.get("TEST_PYTHON"), sys.executable, venv(), "/usr/bin/python3"):
        if python and shutil.which(python):
            tried = subprocess.run([python, "-c", f"import sys, {modules}; sys.exit(sys.version_info < (3, 11))"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
            if tried.returncode == 0:
                return python
    return None


def main():
    root, core, group = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    modules, patterns, advice = GROUPS[group]
    patterns = sys.argv[4:] or patterns
    limit = float(os.environ["TEST_LIMIT"]) if "TEST_LIMIT" in os.environ else None
    if not core:
        print("SKIPPED: the extension is not built: meson configure -Dpython=auto (headers of Python 3.11: python3-dev)")
        return 77
    python = find_python(modules)
    if not python:
        print(f"SKIPPED: no Python here can import {modules}: {advice}")
        return 77
    print(f"with {python}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        package = pathlib.Path(folder) / "multidispatch"
        shutil.copytree(root / "src" / "python" / "multidispatch", package,
                        ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(core, package)
        # Few kernels, and each is compiled once.
        env = {"MD_HINTS": "16", "MD_CACHE_DIR": folder + "/store", "PYTHONPATH": folder}
        failed = []
        tests = sorted(t for p in patterns for t in pathlib.Path(__file__).parent.glob(p))
        if not tests:
            sys.exit(f"no tests: {patterns}")
        for test in tests:
            try:
                status = subprocess.run([python, test], env=os.environ | env, check=False, timeout=limit).returncode
            except subprocess.TimeoutExpired:
                status = f"nothing after {limit:g} seconds"
            if status:
                failed.append(f"{test.name}: {status}")
    if failed:
        print("FAILED:", ", ".join(failed), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
