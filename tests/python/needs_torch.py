"""Imported before PyTorch by tests of it: where there is none, it says so and ends the test."""

import importlib.util
import pathlib
import sys

if importlib.util.find_spec("torch") is None:
    print(f"SKIPPED: {pathlib.Path(sys.argv[0]).name}: {sys.executable} has no PyTorch", file=sys.stderr)
    sys.exit(0)
