#!/usr/bin/env python3
"""Puts the package together from the source and the built extension, and runs the tests of this folder.
Arguments: the source root, the extension ("": it is not built). Exit 77: skipped, and says why."""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile


def main():
    root, core = pathlib.Path(sys.argv[1]), sys.argv[2]
    if not core:
        print("SKIPPED: the extension is not built: meson configure -Dpython=auto (headers of Python 3.11)")
        return 77
    if importlib.util.find_spec("numpy") is None:
        print(f"SKIPPED: {sys.executable} has no NumPy")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        package = pathlib.Path(folder) / "multidispatch"
        shutil.copytree(root / "src" / "python" / "multidispatch", package,
                        ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(core, package)
        # Few kernels, and each is compiled once.
        env = {"MD_HINTS": "16", "MD_CACHE_DIR": folder + "/store", "PYTHONPATH": folder}
        failed = 0
        for test in sorted(pathlib.Path(__file__).parent.glob("test_*.py")):
            failed |= subprocess.run([sys.executable, test], env=os.environ | env, check=False).returncode
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
