#!/usr/bin/env python3
"""md/mpi.h by mpirun, on this machine's loopback. Arguments: mpirun ("": there is none), test_agree_mpi, the example."""

import os
import pathlib
import re
import subprocess
import sys
import unittest

MPIRUN, PROGRAM, EXAMPLE = sys.argv[1:4]
LEAKS = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"  # MPI itself ends with memory in use
ENV = {**os.environ, "ASAN_OPTIONS": LEAKS, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
       "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_btl": "self,vader",
       "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe", "TMPDIR": "/tmp"}


def mpirun(n, *command):
    return subprocess.run([MPIRUN, "-n", str(n), *command], env=ENV, text=True, capture_output=True, timeout=300,
                          stdin=subprocess.DEVNULL, check=False)


class Mpi(unittest.TestCase):
    def said(self, n, *args):
        done = mpirun(n, PROGRAM, *args)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        print(f"{args}: {done.stdout.strip()}")
        return {name: float(value) for name, value in re.findall(r"(\w+) ([\d.]+)", done.stdout)}

    def test_agreement(self):
        for n in (2, 5, 8):
            said = self.said(n, "other", "3")
            self.assertEqual((said["ranks"], said["shapes"], said["disputed"], said["equal"]), (n, 3, 3, 1))
        self.assertEqual(self.said(2, "equal", "3")["disputed"], 0)

    def test_many(self):
        for what in ("equal", "other"):
            self.assertEqual(self.said(8, what, "1000")["equal"], 1)

    def test_late(self):
        """A rank that never comes is named, by ranks whose own deadlines differ."""
        for n in (2, 3):
            done = mpirun(n, PROGRAM, "late", "2")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f"failed: timeout: agree: rank {n - 1} did not come in time ({n - 1} of {n} ranks are there)",
                          done.stdout)

    def test_example(self):
        for n in (4, 8):
            done = mpirun(n, EXAMPLE)
            self.assertEqual((done.returncode, done.stdout.splitlines()),
                             (0, [f"{n} ranks have {n} shapes, and agree on all", "nothing is left to agree on"]), done.stderr)


if __name__ == "__main__":
    if not MPIRUN:
        print("SKIPPED: no MPI here: tools/bootstrap installs it (libopenmpi-dev, openmpi-bin)")
        sys.exit(77)
    if not pathlib.Path(PROGRAM).exists():
        sys.exit("the test program is not built")
    unittest.main(argv=sys.argv[:1])
