"""Kernels of the host are compiled without optimising, in about half the time: for tests of graphs, where the compiler takes
most of the time. To be imported before the first kernel is made. Tests of families compile as users do."""

import os
import pathlib
import shutil

_CC = pathlib.Path(__file__).resolve().parent / "quick_cc"

if shutil.which("cc"):
    os.environ.setdefault("MD_CC", str(_CC))
