#!/usr/bin/env python3
"""A second clock: NVIDIA's cuda-bench times a sample of our launches and of PyTorch's, beside the times that were recorded.

    second_clock.py RESULTS.jsonl [--every N] [--least US] [--tolerance 0.03] [--json]

RESULTS are lines of `mdctl bench` and bench_peers.py of this machine's GPU. cuda-bench (`pip install cuda-bench`) empties the
cache before each launch and times it between two events, with the launch in it: about 2 us, which a run of an empty kernel
says and which is taken off. So lines below --least (default 30 us) say little, and are left out. Exit 1: the clocks disagree
by more than the tolerance at the median, or at over a tenth of the lines. Exit 77: no GPU, no cuda-bench, or no multidispatch.
"""
import argparse
import json
import pathlib
import statistics
import sys
import tempfile

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

    def of(self, row):
        """A function of a stream, or None where the op has no row."""
        if row["op"] not in self.table or row["dtype"] not in bench_peers.TYPES:
            return None
        torch, entry = self.torch, self.table[row["op"]]
        tensors = self.machine.tensors(entry, row["sizes"], getattr(torch, bench_peers.TYPES[row["dtype"]]))
        if row["peer"] == "eager":
            return self.on_stream(entry[0], tensors)
        op = self.md.op(row["op"])
        inputs = dict(zip((a[0] for a in op.arguments if not a[3]), tensors))
        out = op(**inputs)  # made once; picks and builds
        ordered = [out if a[3] else inputs[a[0]] for a in op.arguments]
        return self.on_stream(op.call, ordered)

    def on_stream(self, call, tensors):
        """A function that makes the stream PyTorch's current one, which both use."""
        def run(stream):
            with self.torch.cuda.stream(stream):
                call(*tensors)
        return run

    def empty(self):
        """The least that a launch takes: one element."""
        x = self.torch.zeros(1, device=self.machine.device)
        op = self.md.op("Y[i] = X[i]")
        y = op(x)
        return self.on_stream(op.call, [y, x])


def measure(bench, torch, calls):
    """us of each call by cuda-bench."""
    for call in calls:  # what raises, raises here: cuda-bench counts it as skipped
        call(torch.cuda.current_stream())
    torch.cuda.synchronize()

    def one(state):
        call = calls[state.get_int64("line")]

        def launch(given):
            call(torch.cuda.ExternalStream(given.get_stream().addressof()))
        for _ in range(3):  # allocates before cuda-bench lets a kernel wait for the host on this stream
            launch(state)
        torch.cuda.synchronize()
        state.exec(launch, batched=False)
    bench.register(one).add_int64_axis("line", list(range(len(calls)))).set_min_samples(50).set_timeout(SECONDS_A_LINE)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "times.json"
        bench.run_all_benchmarks(["second_clock", "--json", str(path), "--quiet"])
        return times_in(json.loads(path.read_text(encoding="utf-8")))


def times_in(said):
    """us of every line, from cuda-bench's JSON; NaN where it was skipped, which is said."""
    us = {}
    reasons = {state["skip_reason"] for state in said["benchmarks"][0]["states"] if state.get("skip_reason")}
    if reasons:
        print(f"second_clock: cuda-bench skips lines: {'; '.join(sorted(reasons))}", file=sys.stderr)
    for state in said["benchmarks"][0]["states"]:
        line = next(int(axis["value"]) for axis in state["axis_values"] if axis["name"] == "line")
        mean = next((summary for summary in state.get("summaries") or [] if summary["tag"] == GPU_TIME), None)
        us[line] = next((1e6 * float(x["value"]) for x in mean["data"] if x["name"] == "value"), float("nan")) if mean else float("nan")
    return [us[i] for i in range(len(us))]


def compare(rows, us, launch_us):
    """Each row with the other clock's time and the ratio of both."""
    return [row | {"other_us": other - launch_us, "ratio": (other - launch_us) / row["us"]} for row, other in zip(rows, us) if other == other]


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
    p.add_argument("--least", type=float, default=30.0)
    p.add_argument("--tolerance", type=float, default=0.03)
    p.add_argument("--json", action="store_true")
    given = p.parse_args()
    rows = sample(lines_of(given.results), given.every, given.least)
    found = imports()
    if not found:
        return 77
    torch, bench, md = found
    calls = Calls(torch, md)
    pairs = [(row, call) for row in rows if (call := calls.of(row))]
    launch_us, *us = measure(bench, torch, [calls.empty(), *(call for _, call in pairs)])
    compared = compare([row for row, _ in pairs], us, launch_us)
    for row in compared:
        print(json.dumps(row) if given.json else f"{row['peer']:6} {row['op']:20} {row['dtype']:5} {row['shape']} {row['us']:10.2f} us {row['other_us']:10.2f} us {row['ratio']:.3f}")
    said, agrees = verdict(compared, given.tolerance)
    print(f"second_clock: {said}; an empty kernel takes {launch_us:.2f} us", file=sys.stderr)
    return 0 if agrees else 1


if __name__ == "__main__":
    sys.exit(main())
