#!/usr/bin/env python3
"""A second clock: NVIDIA's cuda-bench times a sample of our launches and of PyTorch's, beside the times that were recorded.

    second_clock.py RESULTS.jsonl [--every N] [--least US] [--tolerance 0.03] [--json]

RESULTS are lines of `mdctl bench` and bench_peers.py of this machine's GPU. cuda-bench (`pip install cuda-bench`) runs, times and
counts samples by its own rules; a sample is what was recorded: the calls of a line on as many sets of tensors, as one CUDA
graph. The cache is read through before, outside of the time: cuda-bench leaves it full of written lines, whose way back to
memory costs kernels that only read 12% on an H200. Its batches, which know no such pause, are not asked: they lower the clock
of products by 17%, whether they last 0.2 or 0.02 s. Lines below --least us (default 10) are left out. Exit 1: the clocks
disagree by more than the tolerance at the median, or at over a tenth of the lines. Exit 77: no GPU, no cuda-bench, or no
multidispatch.
"""
import argparse
import json
import pathlib
import statistics
import sys
import tempfile
import types

import bench_peers

GPU_TIME = "nv/cold/time/gpu/mean"
MOST_LINES = 32
SECONDS_A_LINE = 2  # at most: where times scatter cuda-bench would go on for 15


def lines_of(path):
    """The pick of every case (its first line of ours), and eager PyTorch."""
    seen, found = set(), []
    for text in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(text)
        except ValueError:
            continue
        if row.get("peer") not in ("md", "eager") or "sizes" not in row or not str(row.get("device", "")).startswith("cuda"):
            continue
        where = row["peer"], row["op"], row["dtype"], str(row["sizes"])
        if where not in seen:
            seen.add(where)
            found.append(row)
    return found


def sample(rows, every, least):
    """Every so many of the lines that are long enough; every 0: so that at most MOST_LINES are left."""
    long = [row for row in rows if row["us"] >= least]
    return long[::every or -(-len(long) // MOST_LINES) or 1]


class Calls:
    """The calls of lines, on a stream that cuda-bench gives."""

    def __init__(self, torch, md, device="cuda"):
        self.torch, self.md, self.table = torch, md, bench_peers.operations(torch)
        self.machine = bench_peers.Machine(torch, device, 1)

    def knows(self, row):
        return row["op"] in self.table and row["dtype"] in bench_peers.TYPES

    def of(self, row):
        """A sample: a function of a stream and a timer. It holds the tensors of its row, which may fill much of the GPU's
        memory."""
        entry, dtype = self.table[row["op"]], getattr(self.torch, bench_peers.TYPES[row["dtype"]])
        sets = [self.machine.tensors(entry, row["sizes"], dtype) for _ in range(row["k"])]
        if row["peer"] == "eager":
            return self.sample(*self.captured(entry[0], sets))
        op = self.md.op(row["op"])
        return self.sample(*self.captured(op.call, [self.with_results(op, tensors) for tensors in sets]))

    @staticmethod
    def with_results(op, tensors):
        """The op's arguments in order. The first call makes the result, picks and builds."""
        inputs = dict(zip((a[0] for a in op.arguments if not a[3]), tensors))
        out = op(**inputs)
        return [out if a[3] else inputs[a[0]] for a in op.arguments]

    def captured(self, call, sets):
        """A CUDA graph of the call on every set, and its results. On a CPU, for tests, what would be in the graph."""
        if not self.machine.gpu:
            return types.SimpleNamespace(replay=lambda: [call(*tensors) for tensors in sets]), None
        side = self.torch.cuda.Stream()
        with self.torch.cuda.stream(side):
            for tensors in 3 * sets:
                call(*tensors)
        self.torch.cuda.synchronize()
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph, stream=side):
            results = [call(*tensors) for tensors in sets]
        return graph, results

    def sample(self, graph, results):
        def run(stream, timer, kept=results):  # the graph writes to them
            with self.torch.cuda.stream(stream):
                self.machine.swept.sum()
                timer.start()
                graph.replay()
                timer.stop()
            return kept
        return run


def measure(bench, torch, calls, rows):
    """us of a call of each row by cuda-bench, which counts what raises as skipped."""
    def one(state):
        row = rows[state.get_int64("line")]
        sample = calls.of(row)

        def launch(given, timer):
            sample(torch.cuda.ExternalStream(given.get_stream().addressof()), timer)
        state.set_disable_blocking_kernel(True)  # PyTorch may wait for the GPU in a sample
        state.exec(launch, timer=True)
    bench.register(one).add_int64_axis("line", list(range(len(rows)))).set_min_samples(50).set_timeout(SECONDS_A_LINE)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "times.json"
        bench.run_all_benchmarks(["second_clock", "--json", str(path), "--quiet"])
        us = times_in(json.loads(path.read_text(encoding="utf-8")))
    return [us_of_sample / row["k"] for us_of_sample, row in zip(us, rows)]


def times_in(said):
    """us of a sample of every line, from cuda-bench's JSON; NaN where it was skipped, which is said."""
    us = {}
    reasons = {state["skip_reason"] for state in said["benchmarks"][0]["states"] if state.get("skip_reason")}
    if reasons:
        print(f"second_clock: cuda-bench skips lines: {'; '.join(sorted(reasons))}", file=sys.stderr)
    for state in said["benchmarks"][0]["states"]:
        line = next(int(axis["value"]) for axis in state["axis_values"] if axis["name"] == "line")
        mean = next((summary for summary in state.get("summaries") or [] if summary["tag"] == GPU_TIME), None)
        us[line] = next((1e6 * float(x["value"]) for x in mean["data"] if x["name"] == "value"), float("nan")) if mean else float("nan")
    return [us[i] for i in range(len(us))]


def compare(rows, us):
    """Each row with the other clock's time and the ratio of both."""
    return [row | {"other_us": other, "ratio": other / row["us"]} for row, other in zip(rows, us) if other == other]


def verdict(compared, tolerance):
    """A sentence, and whether the clocks agree."""
    ratios = [row["ratio"] for row in compared]
    if not ratios:
        return "no line to compare: cuda-bench gave no time, or all are too short", False
    off = sum(abs(ratio - 1) > tolerance for ratio in ratios)
    median = statistics.median(ratios)
    said = f"{len(ratios)} lines: the other clock's times are {median:.4f} of the recorded ones at the median, {off} differ by over {100 * tolerance:g}%"
    return said, abs(median - 1) <= tolerance and off <= len(ratios) / 10


def imports():
    """PyTorch with a GPU, cuda-bench and multidispatch, or None after a message."""
    try:
        import torch
        import cuda.bench as bench
        import multidispatch as md
    except ImportError as missing:
        print(f"second_clock: {missing}", file=sys.stderr)
        return None
    if not torch.cuda.is_available():
        print("second_clock: no GPU", file=sys.stderr)
        return None
    return torch, bench, md


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("results")
    p.add_argument("--every", type=int, default=0)
    p.add_argument("--least", type=float, default=10.0)
    p.add_argument("--tolerance", type=float, default=0.03)
    p.add_argument("--json", action="store_true")
    given = p.parse_args()
    rows = sample(lines_of(given.results), given.every, given.least)
    found = imports()
    if not found:
        return 77
    torch, bench, md = found
    calls = Calls(torch, md)
    rows = [row for row in rows if calls.knows(row)]
    compared = compare(rows, measure(bench, torch, calls, rows))
    for row in compared:
        print(json.dumps(row) if given.json else f"{row['peer']:6} {row['op']:20} {row['dtype']:5} {row['shape']} {row['us']:10.2f} us {row['other_us']:10.2f} us {row['ratio']:.3f}")
    said, agrees = verdict(compared, given.tolerance)
    print(f"second_clock: {said}", file=sys.stderr)
    return 0 if agrees else 1


if __name__ == "__main__":
    sys.exit(main())
