#!/usr/bin/env python3
"""Runs programs over one shared store, first cold, then warm: both times all pass, and the warm run builds no kernel anew.
Arguments: test programs. --several N: N of them at a time."""

import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile
import time

SKIPPED = 77


def run(program, store):
    start = time.monotonic()
    env = dict(os.environ, MD_CACHE_DIR=str(store))
    done = subprocess.run([program], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, check=False)
    return program, done.returncode, done.stdout.decode(errors="replace"), time.monotonic() - start


def kernels(store):
    return {str(p.relative_to(store)): p.stat().st_ino for p in store.glob("*/kernel/*/*")}


def run_all(programs, store, n_workers):
    """How many failed."""
    n_bad = 0
    with concurrent.futures.ThreadPoolExecutor(n_workers) as pool:
        for program, status, text, seconds in pool.map(lambda p: run(p, store), programs):
            bad = status not in (0, SKIPPED)
            n_bad += bad
            print(f"{pathlib.Path(program).name}: exit status {status}, {seconds:.1f} s", flush=True)
            if bad:
                print(text[-4000:])
    return n_bad


def main():
    programs, n_workers = sys.argv[1:], 1
    if programs[0] == "--several":
        n_workers, programs = int(programs[1]), programs[2:]
    with tempfile.TemporaryDirectory() as folder:
        store = pathlib.Path(folder) / "store"
        n_bad = run_all(programs, store, n_workers)
        cold = kernels(store)
        print(f"cold: {len(cold)} kernels", flush=True)
        n_bad += run_all(programs, store, n_workers)
        warm = kernels(store)
        anew = sorted(name for name in warm if warm[name] != cold.get(name))
        print(f"warm: {len(anew)} kernels anew")
        for name in anew[:20]:
            print("  " + name)
        return 1 if n_bad or anew or not cold else 0


if __name__ == "__main__":
    sys.exit(main())
