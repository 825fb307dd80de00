#!/usr/bin/env python3
"""The examples of ranks and workers, on the host: two gloo processes under torchrun, a process pool."""

import os
import pathlib
import signal
import subprocess
import sys
import unittest

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "tools" / "examples" / "cluster"


class Examples(unittest.TestCase):
    def said(self, *command):
        env = {**os.environ, "MD_AGREE": "1", "OMP_NUM_THREADS": "1", "MD_THREADS": "1"}
        with subprocess.Popen([sys.executable, *command], env=env, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, start_new_session=True) as process:
            try:
                said = process.communicate(timeout=150)[0]
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                self.fail("does not end: " + process.communicate()[0])
        self.assertEqual(process.returncode, 0, said)
        return said

    def test_agree(self):
        said = self.said("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(EXAMPLES / "agree.py"), "host")
        self.assertRegex(said, r"2 ranks agree on \d+ shapes, \d+ were disputed; error \d")

    def test_tune(self):
        self.assertRegex(self.said(str(EXAMPLES / "tune.py"), "pool", "relu"), r"(\d+) of \1 pieces are tuned")
        with self.assertRaises(AssertionError):
            self.said(str(EXAMPLES / "tune.py"), "nonsense")


if __name__ == "__main__":
    unittest.main()
