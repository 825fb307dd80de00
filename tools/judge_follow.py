#!/usr/bin/env python3
"""A service whose traffic drifts: one op serves the token counts of one trace, then those of another. JSON lines.

    judge_follow.py [--calls 1000] [--seed 1] [--hints "b=1,256"] [--cells linear:4096x4096,linear:11008x4096,rms_norm:4096] [--output FILE]

Token counts are drawn from data/boards/trace_conv.txt, then from trace_code.txt. The op was made for the first: --hints. After each
--burst calls the caller waits --pause ms, as a service does between steps. Lines say of an op that nobody called, of the first call of each
count of the second trace, and after so many calls of it: the mean regret over these counts (how much longer the variant that serves each
takes than the best of an op with hints at these very counts, which measures), and the longest and the 99th percentile of a call on the
host in us. No shape is asked for before it is called: that would make it known.
Environment variables say how the op picks (nothing: the default; MD_SELECT=model; MD_IDLE_TUNE=1). A second process with the same
store says what is inherited."""
import argparse
import json
import pathlib
import random
import statistics
import time

import judge_attention
import torch

import multidispatch as md

BOARDS = pathlib.Path(__file__).resolve().parent.parent / "data/boards"
FORMULAS = {"linear": "Y:bf16[b,n] = sum[k](X:bf16[b,k] * W:bf16[n,k])",
            "rms_norm": "Y:bf16[b,k] = X:bf16[b,k] * rsqrt(mean[j](X[b,j] * X[b,j]) + 1e-6) * W:bf16[k]"}
CALLS, MOST_COUNTS = 8, 24  # counts: those that come most often


def trace(name):
    """[(tokens, how often)]"""
    lines = (BOARDS / f"trace_{name}.txt").read_text(encoding="utf-8").splitlines()
    return [tuple(int(v) for v in line.split()) for line in lines if not line.startswith("#")]


class Service:
    def __init__(self, cell, options):
        op, _, sizes = cell.partition(":")
        self.sizes = [int(v) for v in sizes.split("x")]
        self.static = {"n": self.sizes[0], "k": self.sizes[1]} if op == "linear" else {"k": self.sizes[0]}
        self.formula, self.options, self.op_name = FORMULAS[op], options, op
        width = self.sizes[-1]
        self.x = torch.randn(CALLS, 4096, width, device="cuda", dtype=torch.bfloat16)
        self.w = torch.randn(*self.sizes, device="cuda", dtype=torch.bfloat16) * 0.02
        self.y = torch.empty(CALLS, 4096, self.sizes[0], device="cuda", dtype=torch.bfloat16)
        self.op = md.op(self.formula, static=self.static, hints=options.hints)

    def call(self, op, tokens, i=0):
        op.call(self.y[i, :tokens], self.x[i, :tokens], self.w)

    def variant(self, op, tokens):
        return op.choice(self.x[0, :tokens], self.w, out=self.y[0, :tokens])["stages"][0]["variant"]

    def serve(self, tokens, random_, first=None):
        """us of calls of a trace on the host. first: gets the variant of the first call of each count."""
        counts, weights = zip(*tokens)
        found = []
        for i, n in enumerate(random_.choices(counts, weights, k=self.options.calls)):
            y, x = self.y[i % CALLS, :n], self.x[i % CALLS, :n]
            start = time.perf_counter_ns()
            self.op.call(y, x, self.w)
            found.append((time.perf_counter_ns() - start) / 1e3)
            if first is not None and n not in first:
                first[n] = self.variant(self.op, n)
            if i % self.options.burst == self.options.burst - 1:
                torch.cuda.synchronize()
                time.sleep(self.options.pause / 1e3)
        return found

    def best(self, tokens):
        """A variant for each count, and us of it: of an op that measures."""
        counts = ",".join(str(n) for n, _ in tokens)
        op = md.op(self.formula, static=self.static, hints=f"b={counts}", select="measure")
        self.call(op, 1)
        op.wait()
        for n, _ in tokens:
            self.call(op, n)
        torch.cuda.synchronize()
        return {n: self.variant(op, n) for n, _ in tokens}

    def us(self, pairs):
        """us of (variant, tokens), in turns."""
        ops, graphs = {}, {}
        for variant, n in pairs:
            if variant not in ops:
                ops[variant] = md.op(self.formula, static=self.static, pin=variant)
                self.call(ops[variant], n)
                ops[variant].wait()
            graphs[variant, n] = judge_attention.graph_of(lambda i, v=variant, n=n: self.call(ops[v], n, i % CALLS), CALLS)
        times = {p: [] for p in graphs}
        for _ in range(self.options.rounds):
            for p, graph in graphs.items():
                graph.replay()
                times[p].append(judge_attention.time_of(graph.replay) / CALLS)
        return {p: statistics.median(t) for p, t in times.items()}


def line_of(when, found, service):
    found = sorted(found or [0])
    return {"op": service.op_name, "sizes": service.sizes, "when": when, "longest_us": round(found[-1], 1),
            "p99_us": round(found[int(0.99 * (len(found) - 1))], 1), "over_1_ms": sum(us > 1000 for us in found)}


def judge(cell, options, out):
    random_ = random.Random(options.seed)
    service = Service(cell, options)
    conv, code = trace("conv"), sorted(trace("code"), key=lambda x: -x[1])[:MOST_COUNTS]
    service.call(service.op, 1)
    service.op.wait()
    new = md.op(service.formula, static=service.static, hints=options.hints, select="model")
    service.call(new, 1)
    new.wait()
    lines, served, first = [line_of("new", None, service)], [{n: service.variant(new, n) for n, _ in code}], {}
    lines.append(line_of("first calls", service.serve(conv, random_), service))
    torch.cuda.synchronize()
    time.sleep(0.3)
    lines.append(line_of("second trace", service.serve(code, random_, first), service))
    torch.cuda.synchronize()
    time.sleep(0.3)
    last = {n: service.variant(service.op, n) for n, _ in code}
    served += [{n: first.get(n, last[n]) for n, _ in code}, last]
    best = service.best(code)
    us = service.us(sorted({(some[n], n) for some in [*served, best] for n, _ in code}))
    total = sum(weight for _, weight in code)
    for line, some in zip(lines, served):
        losses = {n: us[some[n], n] / min(us[best[n], n], *(us[s[n], n] for s in served)) - 1 for n, _ in code}
        line["regret"] = round(100 * sum(weight * losses[n] for n, weight in code) / total, 2)
        line["worst"] = round(100 * max(losses.values()), 1)
        line["changed"] = sum(some[n] != served[0][n] for n in some)
        print(json.dumps(line), file=out, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1000, help="of each trace")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--burst", type=int, default=20)
    parser.add_argument("--pause", type=float, default=2.0, metavar="MS")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--hints", default="b=1,256")
    parser.add_argument("--cells", default="linear:4096x4096,linear:11008x4096,rms_norm:4096")
    parser.add_argument("--output", type=argparse.FileType("a"), default="-")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    torch.set_grad_enabled(False)
    for cell in options.cells.split(","):
        judge(cell, options, options.output)


if __name__ == "__main__":
    main()
