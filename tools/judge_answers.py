#!/usr/bin/env python3
"""Products as picked beside the eight answers of cuBLASLt's heuristic, all through this library, so that they are timed alike. JSON lines.

    judge_answers.py [--seed 1] [--shapes 26] [--dtypes bfloat16,float32] [--rounds 9] [--seconds 60] [--output FILE]

Shapes are drawn: rows from 1 to 4,096, columns and depth of models' layers or odd. An op of default hints, which picks by default, is called
20 times at each shape, then left alone for 0.3 s, as between two steps; "picked" is what serves then, "first" what served the first call. An
op that measures says what is best of the pool. The answers are pins of gemm_lib. Each variant is timed in a graph of calls on sets of inputs
that are larger than the L2 together, in turns. A line: us of all, and the best answer's time over the pick's and the measured one's."""
import argparse
import json
import math
import random
import statistics
import sys
import time

import judge_attention
import torch

import multidispatch as md

WIDTHS = (768, 1024, 1280, 2048, 2880, 3072, 3584, 3712, 4096, 5120, 7168, 7680, 8192, 11008, 14336, 1000, 1111, 777, 50257)
RANKS, CALLS, SETTLES, QUIET = 8, 8, 20, 0.3
MOST_BYTES, L2_BYTES = 1.2e9, 128e6


def draw(random_):
    while True:
        m, n, k = round(math.exp(random_.uniform(0, math.log(4096)))), random_.choice(WIDTHS), random_.choice(WIDTHS[:-1])
        if m * n * k < 4e11 and (m * k + n * k + m * n) * 4 * 2 < MOST_BYTES:
            return m, n, k


class Product:
    """The ops of one dtype, and inputs of one shape at a time."""

    def __init__(self, dtype):
        self.dtype, name = getattr(torch, dtype), {"bfloat16": "bf16", "float32": "f32"}[dtype]
        self.formula = f"Y:{name}[m,n] = sum[k](X:{name}[m,k] * W:{name}[n,k])"
        self.by_default, self.by_measuring = md.op(self.formula), md.op(self.formula, select="measure")
        self.pinned = {}

    def set_shape(self, m, n, k):
        bytes_of_a_set = (m * k + n * k + m * n) * self.dtype.itemsize
        self.sets = [[torch.randn(*s, device="cuda", dtype=self.dtype) for s in ((m, n), (m, k), (n, k))]
                     for _ in range(max(2, min(32, round(L2_BYTES / bytes_of_a_set) + 1)))]

    def call(self, op, i=0):
        y, x, w = self.sets[i % len(self.sets)]
        op.call(y, x, w)

    def variant(self, op):
        y, x, w = self.sets[0]
        return op.choice(x, w, out=y)["stages"][0]["variant"]

    def settle(self):
        """What served the first call, and what serves once the process was left alone."""
        self.call(self.by_default)
        first = self.variant(self.by_default)
        for i in range(1, SETTLES):
            self.call(self.by_default, i)
        torch.cuda.synchronize()
        time.sleep(QUIET)
        return first, self.variant(self.by_default)

    def graph(self, variant):
        op = self.pinned.get(variant)
        if op is None:
            op = self.pinned[variant] = md.op(self.formula, pin=variant)
        return judge_attention.graph_of(lambda i: self.call(op, i), max(CALLS, len(self.sets)))

    def us(self, variants, rounds):
        graphs, failed = {}, []
        for v in variants:
            try:
                graphs[v] = self.graph(v)
            except (RuntimeError, ValueError):
                failed.append(v)
        found = {v: [] for v in graphs}
        for i in range(rounds):
            for v in list(graphs)[:: 1 if i % 2 else -1]:
                found[v].append(judge_attention.time_of(graphs[v].replay) / max(CALLS, len(self.sets)))
        return {v: statistics.median(t[1:]) for v, t in found.items()}


def judge(product, shape, options):
    product.set_shape(*shape)
    first, picked = product.settle()
    product.call(product.by_measuring)
    torch.cuda.synchronize()
    measured = product.variant(product.by_measuring)
    answers = [f"gemm_lib/rank{i}" for i in range(RANKS)]
    us = product.us(dict.fromkeys([first, picked, measured, *answers]), options.rounds)
    best = min((us[v] for v in answers if v in us), default=math.nan)
    line = {"shape": shape, "dtype": str(product.dtype).partition(".")[2], "best_answer_us": round(best, 3)}
    for name, v in (("first", first), ("picked", picked), ("measured", measured)):
        line |= {name: v, f"{name}_us": round(us.get(v, math.nan), 3), f"of_{name}": round(best / us.get(v, math.nan), 4)}
    line["us"] = {v: round(t, 3) for v, t in us.items()}
    return line


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shapes", type=int, default=26)
    parser.add_argument("--dtypes", default="bfloat16,float32")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--output", type=argparse.FileType("a"), default="-")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    torch.set_grad_enabled(False)
    random_, end = random.Random(options.seed), time.monotonic() + options.seconds
    shapes = [draw(random_) for _ in range(options.shapes)]
    products = [Product(dtype) for dtype in options.dtypes.split(",")]
    for product in products:
        product.set_shape(64, 64, 64)
        for op in (product.by_default, product.by_measuring):
            product.call(op)
            op.wait()
    for shape in shapes:
        for product in products:
            if time.monotonic() > end:
                sys.exit("the time is over")
            print(json.dumps(judge(product, shape, options)), file=options.output, flush=True)
            product.sets = None
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
