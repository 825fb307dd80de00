#!/usr/bin/env python3
"""md.agree through an exchange of the caller: pipes between processes, and MPI where mpi4py is installed."""

import multiprocessing
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

import numpy as np

import multidispatch as md

FORMULA = "Y[b] = sum[n](X[b,n])"
DEBIAN = "/usr/bin/python3"  # python3-mpi4py is for this one


def choose_otherwise(op):
    own = re.findall(r'"variants":\["([^"]*)"\]', md.choices_export())
    other = [v for v in op.variants()[0] if v not in own][0]
    md.choices_import(re.sub(r'"variants":\["[^"]*"\]', f'"variants":["{other}"]', md.choices_export()))


def by_pipes(rank, pipes):
    """Rank 0 gathers and hands out."""
    def gather(mine, seconds):
        if rank:
            pipes[rank][1].send_bytes(mine)
            if not pipes[rank][1].poll(seconds):
                raise TimeoutError("rank 0 did not come")
            return pipes[rank][1].recv_bytes()
        every = [mine]
        for other in range(1, len(pipes)):
            if not pipes[other][0].poll(seconds):
                raise TimeoutError(f"rank {other} did not come")
            every.append(pipes[other][0].recv_bytes())
        for other in range(1, len(pipes)):
            pipes[other][0].send_bytes(b"".join(every))
        return b"".join(every)
    return rank, len(pipes), gather


def work(rank, pipes, case, queue):
    op = md.op(FORMULA)
    for b in (1, 7) if rank else (1,):
        op(np.ones((b, 4), np.float32))
    if case == "late" and rank == 2:
        return
    if rank == 1:
        choose_otherwise(op)
    exchange = by_pipes(rank, pipes)
    if case == "short":
        exchange = (rank, len(pipes), lambda mine, seconds: mine)
    try:
        found = md.agree(exchange=exchange, timeout=1.0 if case == "late" else 60.0)
        assert found == md.digest() and found.kinds == 1 and found.shapes >= 2
        assert np.array_equal(op(np.ones((7, 4), np.float32)), np.full(7, 4.0))
        queue.put((rank, found))
    except md.MdError as error:
        queue.put((rank, str(error)))


class Ranks(unittest.TestCase):
    def said(self, case, n=3):
        context = multiprocessing.get_context("spawn")
        queue = context.Queue()
        pipes = [context.Pipe() for _ in range(n)]
        children = [context.Process(target=work, args=(rank, pipes, case, queue)) for rank in range(n)]
        for child in children:
            child.start()
        said = dict(queue.get(timeout=120) for _ in range(n - (case == "late")))
        for child in children:
            child.join(60)
        return said

    def test_agree(self):
        said = self.said("agree")
        self.assertEqual(len(set(said.values())), 1)
        self.assertRegex(said[0], "^[0-9a-f]{32}$")
        self.assertGreater(said[0].disputed, 0)
        self.assertEqual((said[0].differing, said[0].difference), (-1, ""))

    def test_exchanges_that_fail(self):
        said = self.said("late")
        self.assertRegex(said[0], "agree: rank 2 did not come")
        for text in self.said("short").values():
            self.assertRegex(text, "the exchange gave [0-9]+ bytes back, not [0-9]+ from each of 3")

    def test_bad_input(self):
        with self.assertRaises(md.MdError):
            md.agree(exchange=(3, 2, lambda mine, seconds: mine))
        with self.assertRaises(md.ArgumentError):
            md.agree(exchange=(0, 1, lambda mine, seconds: mine), device="moon")
        self.assertEqual(md.agree(exchange=(0, 1, lambda mine, seconds: mine)), md.digest())


MPI_PROGRAM = """
import sys
from mpi4py import MPI
from mpi4py.futures import MPIPoolExecutor
import multidispatch as md
def main():
    comm = MPI.COMM_WORLD
    if sys.argv[1] == "tune":
        with MPIPoolExecutor() as pool:
            said = md.tune("softmax", pool, hints="8", builds=1, limit=60.0)
        print(said["pieces"], said["done"])
        return
    op = md.op("Y[i] = X[i] * 2")
    op.prepare(i=1 + comm.rank)
    found = md.agree(exchange=(comm.rank, comm.size, lambda mine, seconds: b"".join(comm.allgather(mine))))
    every = comm.gather(str(found))
    if comm.rank == 0:
        print(len(set(every)), found.shapes)
if __name__ == "__main__":  # mpi4py's workers read it, too
    main()
"""


def has_mpi():
    return shutil.which("mpirun") and subprocess.run([DEBIAN, "-c", "import mpi4py.futures"], check=False,
                                                     stderr=subprocess.DEVNULL).returncode == 0


@unittest.skipUnless(has_mpi(), "SKIPPED: no mpi4py for Debian's Python: tools/bootstrap installs it (python3-mpi4py)")
class Mpi(unittest.TestCase):
    def mpirun(self, n, what, *more):
        env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_btl": "self,vader",
               "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_mpi_yield_when_idle": "1", "TMPDIR": "/tmp"}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "program.py"
            path.write_text(MPI_PROGRAM, encoding="utf-8")
            with subprocess.Popen(["mpirun", "-n", str(n), DEBIAN, *more, str(path), what], env=env, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True) as process:
                try:
                    said = process.communicate(timeout=100)[0]
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    self.fail("mpirun does not end: " + process.communicate()[0])
        self.assertEqual(process.returncode, 0, said)
        return said.split()

    def test_agree(self):
        self.assertEqual(self.mpirun(4, "agree"), ["1", "4"])

    def test_tune(self):
        pieces, done = self.mpirun(3, "tune", "-m", "mpi4py.futures")
        self.assertEqual(pieces, done)
        self.assertGreater(int(pieces), 0)


if __name__ == "__main__":
    unittest.main()
