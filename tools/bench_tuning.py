#!/usr/bin/env python3
"""How much sooner do several workers tune 40 ops than one: md.tune over pools of processes, with a GPU for each worker or shared.

    bench_tuning.py [--device cuda] [--runs 1,2,1x2] [--ops 40] [--hints 256,4096] [--builds 6] [--stored] [--limit 60]

A run is the number of GPUs (on a CPU: of workers) and, after an x, how many workers share each. Every run begins with an empty
store; --stored repeats it with the kernels that it left, so that nothing is compiled, and without its results. JSON lines: seconds,
how many times as fast as the first run of its kind, processor seconds of all workers, the part of the time in which a worker had
a piece, and by which factor the winners' times are longer than the first run's (geometric; worst): workers that share a GPU build
side by side and measure in turns.
"""
import argparse
import concurrent.futures
import json
import multiprocessing
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

FUNCTIONS = ("exp", "tanh", "sqrt", "erf", "relu", "gelu", "silu", "sigmoid", "log", "abs")
FORMS = ("Y[i,j] = {}(X[i,j] * 0.5)", "Y[i] = sum[j]({}(X[i,j]))", "Y[i,j] = {0}(X[i,j]) / sum[k]({0}(X[i,k]))",
         "Y[b,n] = {}(sum[k](X[b,k] * W[n,k]))")


def formulas(n):
    return [FORMS[i % len(FORMS)].format(FUNCTIONS[i // len(FORMS) % len(FUNCTIONS)]) for i in range(n)]


# ---- In a worker

def begin(queue, times):
    """A worker sees one GPU, and writes down when it had a piece."""
    name = queue.get()
    if name:
        os.environ["CUDA_VISIBLE_DEVICES"] = name
    from multidispatch import tuning
    plain = tuning._work

    def timed(text, device):
        start = time.monotonic()
        found = plain(text, device)
        with open(times, "a", encoding="utf-8") as file:
            file.write(f"{time.monotonic() - start}\n")
        return found
    timed.__module__, timed.__qualname__ = tuning.__name__, "_work"
    tuning._work = timed


# ---- A run, in a process of its own

def one(given):
    from multidispatch import tune, wisdom_export
    context = multiprocessing.get_context("spawn")
    gpus = [str(i) for i in range(given.workers // given.each)] if given.device != "host" else [""] * given.workers
    queue, times = context.Queue(), pathlib.Path(os.environ["MD_CACHE_DIR"]) / "times"

    def make():
        for name in gpus * (given.each if given.device != "host" else 1):
            queue.put(name)
        return concurrent.futures.ProcessPoolExecutor(given.workers, mp_context=context, initializer=begin, initargs=(queue, str(times)))
    said = tune(formulas(given.ops), make, device=given.device, hints=given.hints, builds=given.builds, limit=given.limit)
    busy = [float(line) for line in times.read_text(encoding="utf-8").split()] if times.exists() else []
    said["failed"] = len(said["failed"])
    pathlib.Path(given.winners).write_text(wisdom_export(given.device), encoding="utf-8")
    print(json.dumps({key: round(value, 2) if isinstance(value, float) else value for key, value in said.items()} |
                     {"busy": round(sum(busy) / (given.workers * said["seconds"]), 2), "longest_s": round(max(busy, default=0), 2)}))


# ---- All of them

def winners_of(path):
    """{point and family: us}"""
    lines = map(json.loads, pathlib.Path(path).read_text(encoding="utf-8").splitlines())
    return {(line["key"], line["family"]): line["us"] for line in lines if line.get("us")}


def compare(first, now):
    ratios = [now[where] / first[where] for where in first.keys() & now.keys()]
    return {"winners": round(statistics.geometric_mean(ratios), 4), "worst": round(max(ratios), 3)} if ratios else {}


def run(given, gpus, each, store):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, __file__, "--one", "--workers", str(gpus * each), "--each", str(each), "--device", given.device, "--ops",
                           str(given.ops), "--hints", given.hints, "--builds", str(given.builds), "--limit", str(given.limit), "--winners", store + "/winners"],
                          env=os.environ | {"MD_CACHE_DIR": store}, text=True, stdout=subprocess.PIPE, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return json.loads(done.stdout.splitlines()[-1]) | {"cpu_s": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1)}


def forget_results(store):
    """Leaves the kernels."""
    for folder in pathlib.Path(store).glob("*/wisdom"):
        shutil.rmtree(folder)
    (pathlib.Path(store) / "times").unlink(missing_ok=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--device", default="cuda")
    p.add_argument("--runs", default="1,2")
    p.add_argument("--ops", type=int, default=40)
    p.add_argument("--hints", default="256,4096")
    p.add_argument("--builds", type=int, default=6)
    p.add_argument("--limit", type=float, default=60.0)
    p.add_argument("--stored", action="store_true")
    p.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    p.add_argument("--workers", type=int, default=1, help=argparse.SUPPRESS)
    p.add_argument("--each", type=int, default=1, help=argparse.SUPPRESS)
    p.add_argument("--winners", help=argparse.SUPPRESS)
    given = p.parse_args()
    if given.one:
        return one(given)
    first = {}
    for text in given.runs.split(","):
        gpus, _, each = text.partition("x")
        with tempfile.TemporaryDirectory() as store:
            for kernels in ("compiled", "stored") if given.stored else ("compiled",):
                said = run(given, int(gpus), int(each or 1), store)
                rate = said["done"] / said["seconds"]
                winners = winners_of(store + "/winners")
                first_rate, first_winners = first.setdefault(kernels, (rate, winners))
                print(json.dumps({"run": text, "kernels": kernels, "times": round(rate / first_rate, 2)} | said | compare(first_winners, winners)), flush=True)
                forget_results(store)
    return 0


if __name__ == "__main__":
    sys.exit(main())
