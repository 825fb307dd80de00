#!/usr/bin/env python3
"""What MD_SELECT_HYBRID costs those who wait: latencies of calls that arrive evenly and load the GPU to a given part, with hybrid off and on.

  hybrid_latency.py [--load 0.9] [--calls 8000] [--runs 3]

Requests arrive every (mean kernel time / load); each is one md_call of softmax at one of eight shapes in turn. A request's latency is the GPU's time at its
end less the time it should have arrived; the clocks meet at the least latency of a run. Runs alternate, each on ops of its own, so that with
hybrid on every run has all its trials. Prints JSON: percentiles of each run, what hybrid did, and the ratio of the medians of p99.
"""
import argparse
import ctypes as c
import itertools
import json
import statistics
import time

import judge_md

SHAPES = [(8192, 8192), (16384, 3000), (4096, 16384), (65536, 1000), (6000, 10000), (100000, 600), (1500, 30000), (24000, 2500)]
MODES = {"model": 2, "hybrid": 4}
COUNT = itertools.count() # equal ops would share their trials


class Side:
    def __init__(self, mode, tensors, torch):
        md = judge_md.library()
        self.md, self.op = md, c.c_void_p()
        options = judge_md.OpOptions(name=f"{mode}{next(COUNT)}".encode(), dtype=1, select=MODES[mode])
        md.check(md.lib.md_op_create(c.byref(self.op), md.context, judge_md.ROW_OPS["softmax"][0].encode(), c.byref(options)), mode)
        md.check(md.lib.md_op_wait(self.op), mode)
        self.arguments = []
        for x, y in tensors:
            a = judge_md.Arguments(2)
            for i, t in enumerate((y, x)):
                a.set(i, t.data_ptr(), 1, t.shape, t.stride())
            self.arguments.append(a)

    def call(self, i, stream):
        a = self.arguments[i % len(self.arguments)]
        status = self.md.lib.md_call(self.op, stream, a.arg, a.n)
        if status:
            self.md.check(status, "md_call")

    def choices(self):
        out, names = judge_md.Choice(), []
        for a in self.arguments:
            self.md.check(self.md.lib.md_choice_of(c.byref(out), self.op, a.arg, a.n), "md_choice_of")
            names.append((out.variant[0].decode(), out.source[0].decode()))
        return names


def run(side, n, period, stream, events, torch):
    start = torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    start.record(stream)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for i in range(n):
        due = begin + i * period
        while time.perf_counter() < due:
            pass
        side.call(i, stream.cuda_stream)
        events[i].record(stream)
    torch.cuda.synchronize()
    latency = [start.elapsed_time(events[i]) * 1e3 - i * period * 1e6 for i in range(n)]
    return latency


def mean_us(side, stream, torch):
    a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for i in range(64):
        side.call(i, stream.cuda_stream)
    torch.cuda.synchronize()
    a.record(stream)
    for i in range(400):
        side.call(i, stream.cuda_stream)
    b.record(stream)
    torch.cuda.synchronize()
    return a.elapsed_time(b) * 1e3 / 400


def main():
    import torch
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--load", type=float, default=0.9)
    p.add_argument("--calls", type=int, default=3000)
    p.add_argument("--runs", type=int, default=3)
    o = p.parse_args()
    tensors = [(torch.randn(s, device="cuda"), torch.empty(s, device="cuda")) for s in SHAPES]
    stream = torch.cuda.Stream()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(o.calls)]
    for e in events:
        e.record(stream)
    us = mean_us(Side("model", tensors, torch), stream, torch)
    p99 = {"model": [], "hybrid": []}
    for r in range(2 * o.runs):
        mode = ("model", "hybrid", "hybrid", "model")[r % 4]
        side = Side(mode, tensors, torch)
        latency = run(side, o.calls, us / o.load * 1e-6, stream, events, torch)
        least = min(latency)
        rel = sorted(x - least + us for x in latency)
        q = {k: round(rel[min(int(f * len(rel)), len(rel) - 1)], 1) for k, f in (("p50", .5), ("p90", .9), ("p99", .99), ("max", 1.0))}
        late = [i for i, x in enumerate(latency) if x - least > 5 * us]
        p99[mode].append(q["p99"])
        picks = side.choices()
        print(json.dumps({"run": r, "mode": mode, "mean_us": round(us, 2), "load": o.load, **q, "switched": sum(s == "measured" for _, s in picks), "late": len(late), "first_late": late[0] if late else -1}), flush=True)
    a, b = (statistics.median(p99[m]) for m in ("model", "hybrid"))
    print(json.dumps({"p99_off": a, "p99_on": b, "ratio": round(b / a, 4)}))


if __name__ == "__main__":
    main()
