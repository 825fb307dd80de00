#!/usr/bin/env python3
"""`mdctl tune` killed by SIGKILL at random instants: nothing that it reported is lost, the store stays whole, its helper ends too, and nothing keeps the
next one from going on. Argument: mdctl. MD_TEST_KILLS: how many (24); MD_TEST_SEED."""

import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

MDCTL = sys.argv[1]
KILLS = int(os.environ.get("MD_TEST_KILLS", "24"))
SEED = int(os.environ.get("MD_TEST_SEED", "20260801"))
GONE_S = 600.0


def children(pid):
    try:
        text = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    except OSError:
        return []
    return [int(word) for word in text.split()]


def start_of(pid):
    """None where there is no such process, or only what is left of it."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return None
    field = text[text.rindex(")") + 2:].split()
    return None if field[0] in "ZX" else field[19]


class Kill(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "tmp").mkdir(mode=0o700)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("MD_")}
        self.env.update(MD_DEVICE="host", MD_THREADS="2", MD_CACHE_DIR=str(self.folder / "store"), TMPDIR=str(self.folder / "tmp"))
        self.random = random.Random(SEED)

    def mdctl(self, *args):
        done = subprocess.run([MDCTL, *args], env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=1200, check=False)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return done.stdout

    @staticmethod
    def command(points):
        hints = " ".join(f"(i={i},j={j})" for i, j in points)
        return ["tune", "gelu", "--hints", hints, "--builds", "3", "--json", "--budget", "60000"]

    def kill_one(self, points, n_lines):
        """Once it has said so many lines, and has a helper. What it said, as winners by point; whether it was still at work."""
        with subprocess.Popen([MDCTL, *self.command(points)], env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
            text = b""
            while text.count(b"\n") < n_lines and (piece := os.read(process.stdout.fileno(), 65536)):
                text += piece
            while not children(process.pid) and process.poll() is None:
                time.sleep(0.001)
            if self.random.random() < 0.5:
                time.sleep(self.random.uniform(0, 0.05))  # into the middle of something; else the helper has just begun
            helpers = {pid: start_of(pid) for pid in children(process.pid)}
            was_busy = process.poll() is None
            process.send_signal(signal.SIGKILL)
            process.wait()
            while piece := os.read(process.stdout.fileno(), 65536):
                text += piece
        self.expect_gone(helpers)
        lines = [json.loads(line) for line in text.decode().split("\n")[:-1] if line.startswith("{") and line.endswith("}")]
        told = {(line["sizes"]["i"], line["sizes"]["j"], line["family"]): line["variant"] for line in lines if line["event"] == "winner"}
        return told, was_busy and bool(helpers)

    def expect_gone(self, helpers):
        end = time.monotonic() + GONE_S
        for pid, start in helpers.items():
            while start and start_of(pid) == start:
                self.assertLess(time.monotonic(), end, f"helper {pid} lives on")
                time.sleep(0.01)

    def kept(self):
        out = {}
        for line in self.mdctl("store", "export").splitlines():
            entry = json.loads(line)
            if "key" in entry:
                size = re.search(r" i=(\d+) j=(\d+) ", entry["key"])
                out[int(size[1]), int(size[2]), entry["family"]] = entry["variant"]
        return out

    def test_kills(self):
        print(f"seed: MD_TEST_SEED={SEED}")
        fresh = iter(self.random.sample([(i, j) for i in range(1, 60) for j in range(1, 60)], 4 * (KILLS + 1)))
        n_lines = self.mdctl(*self.command([next(fresh) for _ in range(4)])).count("\n")
        told, n_busy = {}, 0
        for trial in range(KILLS):
            points = [next(fresh) for _ in range(4)]
            if trial % 2:  # else all its kernels are there, and it is soon at writing
                subprocess.run(["find", str(self.folder / "store"), "-name", "kernel", "-exec", "rm", "-rf", "{}", "+"], check=True)
            new, is_busy = self.kill_one(points, self.random.randrange(n_lines))
            told.update(new)
            n_busy += is_busy
            self.assertIn(" 0 bad ones", self.mdctl("store", "verify"))
            self.assertLessEqual(told.items(), self.kept().items())
            if trial % 6 == 5:  # nobody holds the points that it was at
                lines = [json.loads(line) for line in self.mdctl(*self.command(points)).splitlines()]
                self.assertEqual({(line["sizes"]["i"], line["sizes"]["j"]) for line in lines if line["event"] == "winner"}, set(points))
                self.assertNotIn("busy", {line["event"] for line in lines})
        self.mdctl("info")  # one more run takes away what the killed ones left
        left = sorted(path.name for path in (self.folder / "tmp").iterdir() if "multidispatch" in path.name)
        self.assertEqual(left, [])
        print(f"{KILLS} kills, {n_busy} of them while its helper was at work; {len(told)} winners had been reported")
        self.assertGreater(n_busy, 0)
        self.assertGreater(len(told), 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
