#!/usr/bin/env python3
"""Runs the tests of a group against the installed package (package.py), from a folder that is not the tree, with a Python
that has what they need: TEST_PYTHON, the Python of the build, the virtual environments of tools/test, the system's.
Arguments: the build folder ("": the extension is not built), the command that runs Meson, the group, files in place of
the group's, each alone or as FILE::CASE,CASE. Exit 77: skipped, and says what to install. All files run, whether others
fail or not, each for at most TEST_LIMIT seconds. TEST_PYTHONPATH: more folders of modules (tools/mutate)."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import package

GROUPS = {  # the modules that a group needs, its files, and what to install
    "numpy": ("numpy", ["test_package*.py"], "tools/bootstrap installs it (python3-numpy)"),
    # A part, for the plain run: tensors, the backend by its name, capturing. The others take minutes: "torch_more".
    "torch": ("numpy, torch", ["test_torch.py", "test_backend_capture.py", "test_backend_entry.py",
                               "test_backend_nnsmith.py"],
              "tools/test installs PyTorch into a virtual environment that is kept and found again; or"
              " name a Python that has it in TEST_PYTHON"),
    "torch_more": ("numpy, torch", ["test_torch_*.py", "test_backend.py", "test_backend_attention*.py",
                                    "test_backend_faster.py", "test_backend_layers.py", "test_backend_exported.py",
                                    "test_backend_building.py", "test_backend_faults.py", "test_backend_mending.py",
                                    "test_backend_package.py",
                                    "test_backend_pieces.py", "test_backend_pools.py", "test_backend_products.py",
                                    "test_backend_ranks.py", "test_backend_reports.py",
                                    "test_backend_randoms.py", "test_backend_rewrite.py", "test_backend_scatters.py",
                                    "test_backend_sizes.py", "test_backend_training.py", "test_backend_users.py",
                                    "test_backend_values.py", "test_backend_windows.py", "test_demo.py", "test_opinfo.py",
                                    "test_zoo.py", "test_backend_kernels.py",
                                    "test_backend_nnsmith_many.py"], "see torch"),
    "device": ("torch", ["test_torch_foreach.py", "test_torch_optimizers.py", "test_torch_databases*.py",
                         "test_torch_capture.py", "test_torch_memory.py"],  # by MD_TEST_TORCH_DEVICE: tools/gpu python
               "install PyTorch"),
    "dask": ("numpy, dask.distributed", ["test_dask.py"], "tools/test --full installs it (distributed)"),
    "models": ("torch, transformers, timm", ["test_models.py", "test_zoo.py"], "tools/test --full installs them beside PyTorch"),
}


def environments():
    """Pythons of the virtual environments that tools/test makes."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return [os.path.join(cache, "multidispatch-tests", name, "bin", "python") for name in ("venv", "torch")]


def find_python(modules):
    """The first Python of at least 3.11 that can import the modules, or None."""
    for python in (os.environ.get("TEST_PYTHON"), sys.executable, *environments(), "/usr/bin/python3"):
        if python and shutil.which(python):
            tried = subprocess.run([python, "-c", f"import sys, {modules}; sys.exit(sys.version_info < (3, 11))"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
            if tried.returncode == 0:
                return python
    return None


def run_file(python, test, cases, env, folder, limit):
    """The exit status, or words."""
    try:
        return subprocess.run([python, test, *cases], env=os.environ | env, cwd=folder, check=False, timeout=limit).returncode
    except subprocess.TimeoutExpired:
        return f"nothing after {limit:g} seconds"


def main():
    build, meson, group = sys.argv[1], sys.argv[2].split(), sys.argv[3]
    modules, patterns, advice = GROUPS[group]
    wanted = dict((*word.split("::"), "")[:2] for word in sys.argv[4:] or patterns)
    limit = float(os.environ["TEST_LIMIT"]) if "TEST_LIMIT" in os.environ else None
    if not build:
        print("SKIPPED: the extension is not built: meson configure -Dpython=auto (headers of Python 3.11: python3-dev)")
        return 77
    python = find_python(modules)
    if not python:
        print(f"SKIPPED: no Python here can import {modules}: {advice}")
        return 77
    here = pathlib.Path(__file__).resolve().parent
    tests = {t: [c for c in cases.split(",") if c] for p, cases in wanted.items() for t in sorted(here.glob(p))}
    if not tests:
        sys.exit(f"no tests: {', '.join(wanted)}")
    print(f"with {python}", flush=True)
    with package.installed(pathlib.Path(build), meson) as site, tempfile.TemporaryDirectory() as folder:
        # Few kernels, and each is compiled once.
        # The wheel has mdctl; of the build folder, what is installed below another root would not find its library.
        more = os.environ.get("TEST_PYTHONPATH", "")
        env = {"MD_HINTS": "16", "MD_CACHE_DIR": folder + "/store", "PYTHONPATH": f"{site}{os.pathsep}{more}" if more else str(site),
               "PATH": os.pathsep.join([os.path.join(os.path.realpath(build), "tools", "mdctl"), os.environ.get("PATH", "")])}
        if group == "models":
            env["TEST_ZOO"] = "10"  # models drawn from all
        tried = {test.name: run_file(python, test, cases, env, folder, limit) for test, cases in tests.items()}
    failed = [f"{name}: {status}" for name, status in tried.items() if status]
    if failed:
        print("FAILED:", ", ".join(failed), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
