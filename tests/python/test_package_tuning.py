#!/usr/bin/env python3
"""md.tune: pieces of tuning by executors that work, lie, lose results, break, and whose workers are killed."""

import concurrent.futures
import itertools
import json
import multiprocessing
import os
import pathlib
import random
import signal
import tempfile
import threading
import time
import unittest

FOLDER = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
os.environ["MD_CACHE_DIR"] = FOLDER.name + "/store"

import multidispatch as md  # noqa: E402
from multidispatch import _core  # noqa: E402

SEED = int(os.environ.get("MD_TEST_SEED", "20261128"))
EFFORT = int(os.environ.get("MD_TEST_EFFORT", "1"))
POINTS = 20  # of a piece, at which its worker is killed
FORK = multiprocessing.get_context("fork")  # workers see what a test puts into the package
ONE = {"hints": "8,40", "builds": 1, "device": "host"}
OP = "softmax"
REAL = _core.tune_piece


def kill_at(point, share):
    """A _work that is killed at a point of its life, if its piece is the one of `share`."""
    def work(text, device):
        is_it = int(json.loads(text)["piece"][:8], 16) % 3 == share and not os.path.exists(FOLDER.name + "/killed")
        result = None
        for i in range(POINTS):
            if i == POINTS // 2:
                result = REAL(device, text)
            if is_it and i == point:
                pathlib.Path(FOLDER.name + "/killed").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(0.0005)
        return result
    return work


class Tuning(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        print(f"seed: MD_TEST_SEED={SEED}")
        cls.first = md.tune(OP, **ONE)

    def with_work(self, work):
        """What tunes a piece, in this process and in those that are forked from it."""
        _core.tune_piece = lambda device, text: work(text, device)
        self.addCleanup(setattr, _core, "tune_piece", REAL)

    def finished(self, said, n=None):
        self.assertEqual((said["done"], said["failed"], said["unfinished"]), (said["pieces"], {}, 0), said)
        self.assertGreater(said["pieces"], 0)
        if n is not None:
            self.assertEqual(said["pieces"], n)

    def test_here(self):
        told = []
        said = md.tune(["relu", md.op("Y[b] = sum[n](X[b,n])", hints="b=4 n=33")], builds=1,
                       progress=lambda *all_: told.append(all_))
        self.finished(said, len(told))
        self.assertEqual(told[-1][:2], (len(told), len(told)))
        self.assertEqual(told[-1][2], 0.0)
        self.assertIn("b=4 n=33", md.wisdom_export())

    def test_known_pieces_come_back_at_once(self):
        known = md.wisdom_export()
        self.finished(md.tune(OP, **ONE), self.first["pieces"])
        self.assertEqual(md.wisdom_export(), known)  # nothing was timed anew

    def test_processes(self):
        with concurrent.futures.ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
            said = md.tune("gelu", pool, **ONE)
        self.finished(said)
        self.assertGreater(said["taken"] + said["pieces"], 0)
        lines = [json.loads(line) for line in md.wisdom_export().splitlines()]
        self.assertTrue(any("gelu" in line.get("key", "") for line in lines))

    def test_threads(self):
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            self.finished(md.tune(OP, pool, **ONE), self.first["pieces"])

    def test_statistics(self):
        path = FOLDER.name + "/stats.json"
        op = md.op("Y[i] = X[i] * 3", name="three")
        import numpy as np
        op(np.ones(40, np.float32))
        stats = md.stats()
        pathlib.Path(path).write_text(json.dumps(stats), encoding="utf-8")
        only = {"ops": [one for one in stats["ops"] if one["op"] == "three"], "shapes": stats["shapes"]}
        self.finished(md.tune(only, builds=1))
        self.finished(md.tune({**only, "ops": only["ops"] * 2}, builds=1))  # equal pieces are one
        self.assertIn(" i=40 ", md.wisdom_export())
        self.assertEqual(md.tune({"ops": []})["pieces"], 0)

    def test_killed(self):
        """A worker that is killed at any point loses its piece only."""
        rng = random.Random(SEED)
        slowest = 0.0
        for run in range(POINTS * EFFORT):
            pathlib.Path(FOLDER.name + "/killed").unlink(missing_ok=True)
            self.with_work(kill_at(run % POINTS, rng.randrange(3)))
            pool = concurrent.futures.ProcessPoolExecutor(2, mp_context=FORK)
            said = md.tune(OP, pool, limit=60.0, **ONE)
            slowest = max(slowest, said["seconds"])
            self.finished(said, self.first["pieces"])
            pool.shutdown(wait=False)
        print(f"{POINTS * EFFORT} runs with a kill, the longest {slowest:.2f} s")
        self.assertLess(slowest, 60.0)

    def test_piece_that_always_kills(self):
        bad = min(json.loads(line)["piece"] for line in self.pieces(OP))

        def work(text, device):
            if json.loads(text)["piece"] == bad:
                os.kill(os.getpid(), signal.SIGKILL)
            return REAL(device, text)
        self.with_work(work)
        made = []

        def make():
            made.append(concurrent.futures.ProcessPoolExecutor(2, mp_context=FORK))
            return made[-1]
        said = md.tune(OP, make, limit=60.0, **ONE)
        self.assertEqual(list(said["failed"]), [bad])
        self.assertIn("BrokenProcessPool", said["failed"][bad])
        self.assertEqual(said["done"], said["pieces"] - 1)

    @staticmethod
    def pieces(formula):
        return _core.tune_pieces("host", formula, None, ONE["hints"], 0, 0, False, 3, 0.0, 1, None).splitlines()

    def test_executors_that_lie(self):
        wrong = {"nothing": lambda text: None, "another piece": lambda text: REAL("host", self.pieces(OP)[0]),
                 "half": lambda text: REAL("host", text)[:-10],
                 "damage": lambda text: REAL("host", text).replace('"us":', '"u":'),
                 "bytes": lambda text: REAL("host", text).encode()}
        for name, answer in wrong.items():
            with self.subTest(name), concurrent.futures.ThreadPoolExecutor(2) as pool:
                self.with_work(lambda text, device, answer=answer: answer(text))
                said = md.tune(OP, pool, tries=2, **ONE)
                n_right = 1 if name == "another piece" else 0
                self.assertEqual((said["done"], len(said["failed"])), (n_right, said["pieces"] - n_right))
                self.assertEqual(said["again"], said["pieces"] - n_right)
        with self.subTest("once"), concurrent.futures.ThreadPoolExecutor(2) as pool:
            seen = set()

            def work(text, device):
                if text in seen:
                    return REAL(device, text)
                seen.add(text)
                raise OSError("the node went away")
            self.with_work(work)
            said = md.tune(OP, pool, **ONE)
            self.finished(said)
            self.assertEqual(said["again"], said["pieces"])

    def test_results_that_never_come(self):
        class Loses(concurrent.futures.Executor):
            n = 0

            def submit(self, function, *args):
                future = concurrent.futures.Future()
                self.n += 1
                if self.n > lost:
                    future.set_result(function(*args))
                return future
        lost = self.first["pieces"]
        said = md.tune(OP, Loses(), patience=0.05, **ONE)
        self.finished(said)
        self.assertEqual(said["again"], said["pieces"])
        lost = 1000
        said = md.tune(OP, Loses(), patience=0.05, **ONE)
        self.assertEqual(len(said["failed"]), said["pieces"])
        begin = time.monotonic()
        said = md.tune(OP, Loses(), limit=0.2, **ONE)
        self.assertLess(time.monotonic() - begin, 20.0)
        self.assertEqual((said["done"], said["unfinished"]), (0, said["pieces"]))

    def test_workers_that_hang(self):
        self.with_work(lambda text, device: time.sleep(1000))

        def make():
            return concurrent.futures.ProcessPoolExecutor(2, mp_context=FORK)
        begin = time.monotonic()
        said = md.tune(OP, make, limit=0.5, **ONE)
        self.assertLess(time.monotonic() - begin, 20.0)
        self.assertEqual(said["unfinished"], said["pieces"])

    def test_all_workers_have_work(self):
        """Each of four workers waits with its piece until the other three have one, too, again and again."""
        rounds, all_are_here, number, met = 4, threading.Barrier(4), itertools.count(), []

        def work(text, device):
            if next(number) < 4 * rounds:
                all_are_here.wait(120)  # raises where one has none
                met.append(text)
            return REAL(device, text)
        op = md.op(OP, hints=" ".join(f"(i={i},j=8)" for i in range(1, 9)))
        self.with_work(work)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            said = md.tune(op, pool, builds=1)
        self.finished(said)
        self.assertGreaterEqual(said["pieces"], 4 * rounds)
        self.assertEqual(len(met), 4 * rounds)

    def test_other_devices_and_versions(self):
        piece = json.loads(self.pieces(OP)[0])
        for name, value in ("device", "Board 9"), ("library", "9.9 0"), ("stage", 7), ("family", "none"):
            with self.assertRaisesRegex(md.MdError, "was changed"):
                _core.tune_piece("host", json.dumps({**piece, name: value}))
        for text in ("", "{}", json.dumps(piece)[:-20], "[1]", json.dumps({**piece, "stage": 7})):
            with self.assertRaises(md.MdError):
                _core.tune_piece("host", text)

    def test_bad_input(self):
        for bad in ({"executor": 3}, {"tries": 0}, {"limit": -1.0}, {"rigor": "most"}, {"device": "moon"}):
            with self.assertRaises(md.ArgumentError):
                md.tune(OP, **{**ONE, **bad})
        with self.assertRaises(md.ArgumentError):
            md.tune([3])
        with self.assertRaises(md.MdError):
            md.tune("Y[i] = X[")
        with self.assertRaises(OSError):
            md.tune("none.json")
        good = md.wisdom_export()
        with self.assertRaises(md.MdError):
            md.wisdom_import(good[:-30])
        self.assertEqual(md.wisdom_import(good)["foreign"], 0)


if __name__ == "__main__":
    unittest.main()
