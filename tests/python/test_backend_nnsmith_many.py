"""test_backend_nnsmith with 100 graphs, for the suite "full"; NNSMITH_GRAPHS says another number."""

import os
import unittest

os.environ.setdefault("NNSMITH_GRAPHS", "100")
os.environ.setdefault("NNSMITH_FIRST", "100")  # not those of the plain run

from test_backend_nnsmith import Drawn  # noqa: E402, F401

if __name__ == "__main__":
    unittest.main()
