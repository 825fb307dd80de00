#!/usr/bin/env python3
"""torch.compile(backend="multidispatch") by name, from a folder that no installer has seen, whatever is imported first."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import multidispatch as md

CALL = """
assert md.__file__.startswith(sys.argv[1]), md.__file__
assert "multidispatch" in torch._dynamo.list_backends()
f = torch.compile(lambda x: (x * 2 + 1).sum(1), backend="multidispatch", dynamic=True)
print(f(torch.ones(3, 4)).tolist(), len(md.explain_graph()))
"""
ORDERS = {
    "the package first": "import sys, multidispatch as md\nimport torch\n",
    "PyTorch has looked for backends": "import sys, torch\ntorch._dynamo.list_backends()\nimport multidispatch as md\n",
}


class Entry(unittest.TestCase):
    def test_orders(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(pathlib.Path(md.__file__).parent, pathlib.Path(folder) / "multidispatch")
            for name, order in ORDERS.items():
                with self.subTest(name):
                    done = subprocess.run([sys.executable, "-c", order + CALL, folder], text=True, capture_output=True,
                                          env={**os.environ, "PYTHONPATH": folder}, cwd=folder, check=False)
                    self.assertEqual((done.returncode, done.stdout.strip()), (0, "[12.0, 12.0, 12.0] 1"), done.stderr)


if __name__ == "__main__":
    unittest.main()
