#!/usr/bin/env python3
"""Many tiny models through the backend of torch.compile, beside eager PyTorch and TorchInductor: a line for each.

    tools/model_table.py [--models mistral,swin] [--dtype bf16] [--ways ours,inductor] [--device cuda] [--jobs 8]
                         [--threads 2] [--seconds 0.3] [--batches 8] [--limit 300] [--budget 200] [--fresh] [--json FILE]
                         [--table full] [--sizes 16x512]

The models are those of tests/python/zoo_more.py, with --table full those of zoo_full.py, or by name of zoo.py. A model
may have ways of its own: mistral:ours+inductor. Each runs in a process of its own, forked from one that has imported
PyTorch, several at once with --jobs; while one measures times, the others are stopped. --fresh: with an empty store of
kernels. --budget: seconds after which no model is begun; --grace seconds later all end. --batches: how many sizes each is
called with, those of the row first and then others of the same kind; --sizes: these.

Columns: graphs, pieces (of graphs that were cut), kernels, operations of PyTorch beside them (below: which, why); the
largest error of any call against f64, over eager's own; seconds of the first call, and of the other first calls; then,
for each size, milliseconds of warm calls in turns, the fastest of each way: eager's for the first,
and eager's time over ours for each; the same for TorchInductor, with its first call. At the end the geometric means."""

import argparse
import collections
import concurrent.futures
import contextlib
import fcntl
import json
import math
import multiprocessing
import os
import pathlib
import random
import signal
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "python"))
DTYPES = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}
COLUMNS = ("model", "dtype", "graphs", "pieces", "kernels", "pytorch", "error", "first_s", "later_s", "eager_ms")
IMPORTED = ["torch", "torch._dynamo", "transformers.modeling_utils", "zoo_full", "zoo_more", "multidispatch.compile"]
WARM_CALLS = 12  # of each size, before any is timed: eager and the plan take turns in them, and all are compared
FLOOR = {"f32": 1e-6, "bf16": 4e-3, "f16": 1e-3}  # of the largest element: errors below it count as this


def error(got, exact):
    """The largest difference; infinite where the result is no number."""
    return (got.double() - exact).abs().nan_to_num(nan=math.inf).max().item() if exact.numel() else 0.0


def cpu():
    """Seconds of the processor: of this process, and of compilers that have ended."""
    times = os.times()
    return times.user + times.system, times.children_user + times.children_system


class Model:
    """One model in several ways, with the arguments of its calls."""

    def __init__(self, name, options):
        self.start = time.perf_counter()
        import torch
        import zoo

        self.torch, self.options, dtype = torch, options, getattr(torch, DTYPES[options.dtype])
        row, self.eager = zoo.ZOO[name], zoo.make(name).to(options.device, dtype)
        exact = zoo.in_f64(self.eager)
        self.calls = [self.arguments(row, size, zoo, dtype) for size in sizes(row, options)]
        with torch.no_grad():
            self.exact = [exact(*(zoo.as_dtype(x, torch.float64) for x in call)) for call in self.calls]
            self.error_of_eager = [max(error(self.eager(*call), wanted), FLOOR[options.dtype] * wanted.abs().max().item())
                                   for call, wanted in zip(self.calls, self.exact)]
        self.say("computed by eager PyTorch")

    def arguments(self, row, size, zoo, dtype):
        return [x.to(self.options.device) if isinstance(x, self.torch.Tensor) else x
                for x in (zoo.as_dtype(x, dtype) for x in row.arguments(*size))]

    def say(self, what):
        """On stderr, for a process that does not end: what it has done, and when."""
        print(f"{what} at {time.perf_counter() - self.start:.1f} s", file=sys.stderr, flush=True)

    def call(self, f, i):
        """Seconds of a call, and its result."""
        start = time.perf_counter()
        out = f(*self.calls[i])
        if self.options.device != "cpu":
            self.torch.cuda.synchronize()
        return time.perf_counter() - start, out

    def first_calls(self, f):
        """Seconds, and those of the processor."""
        cpu_start, out = cpu(), [self.call(f, 0)[0]]
        of_cpu = [round(b - a, 2) for a, b in zip(cpu_start, cpu())]
        return out + [self.call(f, i)[0] for i in range(1, len(self.calls))], of_cpu

    def errors(self, f):
        """The largest error of a way over eager's."""
        return max(error(self.call(f, i)[1], self.exact[i]) / self.error_of_eager[i]
                   for i in range(len(self.calls)) for _ in range(WARM_CALLS))

    def times(self, ways):
        """Milliseconds of the fastest of the calls that fit into the seconds, for each size and way, in turns."""
        out = []
        for i in range(len(self.calls)):
            best, end = [math.inf] * len(ways), time.perf_counter() + self.options.seconds * len(ways)
            while time.perf_counter() < end or math.inf in best:
                best = [min(b, self.call(f, i)[0]) for b, f in zip(best, ways)]
            out.append([b * 1e3 for b in best])
        return out


def sizes(row, options):
    """Those of the row, and others: batches of 1 to 8 with its lengths, always the same. Or those that are asked for."""
    if options.sizes:
        return [tuple(map(int, size.split("x"))) for size in options.sizes.split(",")]
    n = options.batches
    drawn, lengths = random.Random(n), sorted({length for _, length in row.sizes})
    return [*row.sizes, *((drawn.randint(1, 8), drawn.choice(lengths)) for _ in range(n - len(row.sizes)))]


class Turns:
    """Which of the processes measures: a folder with a lock, and a file for each process, named by its number."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    @contextlib.contextmanager
    def held(self):
        with open(self.folder / "lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def tell(self, which):
        """Sends a signal to the other processes, and what they started."""
        for pid in (int(p.name) for p in self.folder.iterdir() if p.name.isdigit()):
            if pid != os.getpid():
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, which)

    @contextlib.contextmanager
    def alone(self):
        with self.held():
            self.tell(signal.SIGSTOP)
            try:
                yield
            finally:
                self.tell(signal.SIGCONT)

    def run(self, target, given, limit):
        """Runs a function in a process that takes part, and leads a group. False: it did not end."""
        with self.held():
            p = multiprocessing.get_context("forkserver").Process(target=target, args=given)
            p.start()
            (self.folder / str(p.pid)).touch()
        try:
            p.join(limit)
            return p.exitcode is not None
        finally:
            if p.exitcode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(p.pid, signal.SIGKILL)
                p.join()
            (self.folder / str(p.pid)).unlink()
            with self.held():  # it may have ended while the others were stopped
                self.tell(signal.SIGCONT)


def measure(name, options):
    """The row of one model, in this process."""
    import torch

    import multidispatch as md
    from multidispatch.compile import backend

    if options.threads:
        torch.set_num_threads(options.threads)
    model, row, ways = Model(name, options), {"model": name, "dtype": options.dtype, "device": options.device}, {}
    with torch.no_grad():
        for way in options.ways.split(","):
            ways[way] = torch.compile(model.eager, dynamic=True, **({"backend": backend} if way == "ours" else {}))
            times, of_cpu = model.first_calls(ways[way])
            model.say(f"first calls of {way}, {times[0]:.1f} s the first,")
            if way == "ours":
                md.wait_graphs()
                model.say("kernels built")
            row[way] = {"error": round(model.errors(ways[way]), 2), "first_s": round(times[0], 2), "first_cpu_s": of_cpu,
                        "later_s": round(sum(times[1:]), 2)}
        with Turns(options.folder).alone() if options.folder else contextlib.nullcontext():
            times = model.times([model.eager, *ways.values()])
        for i, way in enumerate(ways, 1):
            row[way] |= {"ms": [round(t[i], 3) for t in times], "gain": [round(t[0] / t[i], 3) for t in times]}
    return row | {"eager_ms": [round(t[0], 3) for t in times]} | reports(md.explain_graph())


def reports(graphs):
    left = collections.Counter((e["op"].removesuffix(".default"), e["reason"]) for g in graphs for e in g["eager"])
    return {"graphs": len(graphs), "pieces": sum(max(1, len(g.get("pieces", ()))) for g in graphs),
            "kernels": sum(len(g["kernels"]) for g in graphs), "pytorch": sum(left.values()),
            "why": [[op, n, reason] for (op, reason), n in left.most_common()],
            "whole": [g["reason"] for g in graphs if "reason" in g],
            "fallbacks": {k: v for g in graphs for k, v in g.get("fallback_reasons", {}).items()},
            "compile_s": round(sum(g["seconds"] for g in graphs), 2),
            "eager_is_faster": sum(bool(g.get("eager_is_faster")) for g in graphs)}


def forked(name, options, folder):
    """Writes the row of one model into the folder. If CUDA was begun before the fork, in a new process."""
    import torch
    os.setsid()
    with open(os.path.join(folder, "errors"), "w", encoding="utf-8") as errors:
        os.dup2(errors.fileno(), 2)
    if options.fresh:
        os.environ["MD_CACHE_DIR"] = folder
    command = [sys.executable, __file__, "--one", name]
    for option in ("dtype", "seconds", "threads", "batches", "device", "sizes", "ways", "folder"):
        command += ["--" + option, str(getattr(options, option))]
    with open(os.path.join(folder, "row"), "w", encoding="utf-8") as out:
        if torch.cuda._is_in_bad_fork():
            os.dup2(out.fileno(), 1)
            os.execv(command[0], command)
        out.write(json.dumps(measure(name, options)))


def child(name, options):
    """The row of one model, measured in a process of its own."""
    if time.monotonic() > options.end:
        return {"model": name, "dtype": options.dtype, "failed": "not begun: the time is over"}
    name, _, ways = name.partition(":")
    options = argparse.Namespace(**(vars(options) | {"ways": ways.replace("+", ",") or options.ways}))
    limit = min(options.limit, options.end + options.grace - time.monotonic())
    with tempfile.TemporaryDirectory() as folder:
        ended = Turns(options.folder).run(forked, (name, options, folder), limit)
        try:
            return json.loads(pathlib.Path(folder, "row").read_text(encoding="utf-8").splitlines()[-1])
        except (IndexError, ValueError, FileNotFoundError):
            errors = pathlib.Path(folder, "errors").read_text(encoding="utf-8").strip().splitlines()
            why = (errors or ["?"])[-1]
            why = why if ended else f"nothing after {limit:.0f} s; {why}"
            return {"model": name, "dtype": options.dtype, "failed": why}


def show(row):
    first = row.get("ours", {})
    cells = [str((row | {"eager_ms": row.get("eager_ms", [""])[0]} | first).get(c, "")) for c in COLUMNS]
    cells += [" ".join(f"{g:.2f}" for g in row[way]["gain"]) for way in ("ours", "inductor") if way in row]
    cells += [str(row["inductor"]["first_s"])] if "inductor" in row else []
    print(" ".join(f"{x:<17}" if i == 0 else f"{x:>8}" for i, x in enumerate(cells)), flush=True)
    for text in (*([row["failed"]] if "failed" in row else []), *(f"whole graph: {w}" for w in row.get("whole", ())),
                 *(f"{n} x {op}: {why}" for op, n, why in row.get("why", ())),
                 *(f"fell back: {why}" for why in row.get("fallbacks", ()))):
        print("    " + text[:200], flush=True)


def mean(numbers):
    """The geometric mean."""
    return math.exp(sum(map(math.log, numbers)) / len(numbers))


def summary(rows):
    """What the table says as a whole."""
    done = [r for r in rows if "ours" in r]
    if not done:
        return
    gains = [g for r in done for g in r["ours"]["gain"]]
    both = [(g, h) for r in done if "inductor" in r for g, h in zip(r["ours"]["gain"], r["inductor"]["gain"])]
    slow = [r["model"] for r in done if min(r["ours"]["gain"]) < 0.95]
    print(f"{len(done)} of {len(rows)} models; ours over eager: {mean(gains):.2f} at the mean, {min(gains):.2f} at least; "
          f"below 0.95 in {len(slow)}: {', '.join(slow) or 'none'}")
    if both:
        print(f"TorchInductor, {len(both)} calls: {mean([h for _, h in both]):.2f} over eager; ours over it {mean([g / h for g, h in both]):.2f}")
    print(f"whole graphs of PyTorch in: {', '.join(r['model'] for r in done if r['whole']) or 'none'}; errors above twice eager's in: "
          f"{', '.join(r['model'] for r in done if r['ours']['error'] > 2) or 'none'}; first call: "
          f"{sorted(r['ours']['first_s'] for r in done)[len(done) // 2]} s at the median, {max(r['ours']['first_s'] for r in done)} at most")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for option, value in (("models", ""), ("ways", "ours"), ("device", "cpu"), ("jobs", 1), ("threads", 0), ("batches", 3), ("seconds", 0.3),
                          ("limit", 300.0), ("budget", math.inf), ("grace", 40.0), ("json", ""), ("table", "more"), ("sizes", "")):
        parser.add_argument("--" + option, type=type(value), default=value)
    parser.add_argument("--dtype", default="f32", choices=DTYPES)
    parser.add_argument("--fresh", action="store_true")
    for hidden in ("--one", "--folder"):
        parser.add_argument(hidden, default="", help=argparse.SUPPRESS)
    return parser.parse_args()


def table(name):
    import zoo_full
    import zoo_more
    return list({"more": zoo_more.MORE, "full": zoo_full.FULL}[name])


def main():
    options = arguments()
    if options.one:
        print(json.dumps(measure(options.one, options)))
        return
    options.end = time.monotonic() + options.budget
    names = options.models.split(",") if options.models else table(options.table)
    print(" ".join(f"{c:<17}" if i == 0 else f"{c:>8}" for i, c in enumerate((*COLUMNS, "gains"))))
    multiprocessing.get_context("forkserver").set_forkserver_preload(IMPORTED)
    rows = []
    with tempfile.TemporaryDirectory() as options.folder, concurrent.futures.ThreadPoolExecutor(options.jobs) as jobs:
        for done in concurrent.futures.as_completed([jobs.submit(child, name, options) for name in names]):
            rows.append(done.result())
            show(rows[-1])
            if options.json:
                with open(options.json, "a", encoding="utf-8") as out:
                    out.write(json.dumps(rows[-1]) + "\n")
    summary(rows)


if __name__ == "__main__":
    main()
