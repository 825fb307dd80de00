#!/usr/bin/env python3
"""The judge's boards of products, with columns of this library, in one process and without TorchInductor: JSON lines as the judge prints them.

  judge_products.py JUDGE.PY [--boards product,linear,square] [--dtypes bfloat16,float32,tf32] [--columns md,md_measure,md_own,md_own_measure]
                    [--board FILE] [--sizes 64,256,4096] [--part 1/4] [--seconds 40] [--out FILE]

Method, shapes and peers are the judge's: product against the first eight answers of cuBLASLt's heuristic and eager, linear (with bias and gelu) and square against
eager. Each line of ours names the variant that served and why. tf32: f32 whose operands may be rounded, ours, cuBLASLt's and PyTorch's alike; product and linear only, since
tensor cores take f32 along the summed index only. Columns are those of judge_md.py (MD_JUDGE_COLUMNS). tools/report_products sums up.
"""
import argparse
import concurrent.futures
import contextlib
import json
import os
import sys
import time

import judge_md


class OutOfTime(Exception):
    pass


class Lines:
    """In place of the judge's print: into a file, ours with the variant that served."""

    def __init__(self, a, out):
        self.a, self.out, self.runners = a, out, {}

    def contenders(self, op, dtype):
        columns = self.a.columns
        with concurrent.futures.ThreadPoolExecutor(16) as pool: # one thread compiles little
            list(pool.map(lambda c: judge_md.library().op(op, judge_md.dtype_name(dtype), column=c), columns))
        self.runners = {c: judge_md.Runner(op, judge_md.dtype_name(dtype), column=c) for c in columns}
        return self.runners

    def __call__(self, **line):
        if line["peer"] in self.runners and "us" in line:
            with contextlib.suppress(judge_md.Failed): # the time stands, whoever made it
                line["variant"], line["why"] = self.runners[line["peer"]].last()[0]
        if self.a.dtype == "tf32":
            line["dtype"] = "tf32"
        print(json.dumps({k: round(v, 4) if isinstance(v, float) else v for k, v in line.items()}), file=self.out, flush=True)


class Tf32:
    """The judge's cuBLASLt, asked for tf32 in place of f32."""

    def __init__(self, lib):
        self.lib = lib

    def __getattr__(self, name):
        return getattr(self.lib, name)

    def lt_new(self, m, k, n, layout, code):
        return self.lib.lt_new(m, k, n, layout, 3 if code == 2 else code)


def square_board(judge, a, lines):
    """matmul at the judge's sizes, without the compiler that judge.py's own board has beside it."""
    sizes = a.sizes or [64 * i for i in (range(1, 65) if a.full else (1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64))]
    i, n = (int(v) for v in a.part.split("/"))
    dtype = a.judge_arguments.dtype
    for size in sizes[i - 1::n]:
        judge.judge({"eager": judge.torch.matmul, **lines.contenders("matmul", dtype)}, lambda: tuple(judge.rand(size, size, dtype=dtype) for _ in "xw"),
                    3 * size * size * dtype.itemsize, op="matmul", shape=[size, size, size], dtype=str(dtype))


def prepare_judge(judge, a, lines, start):
    """The judge's own functions, with fewer shapes or rounds and a limit of time."""
    i, n = (int(v) for v in a.part.split("/"))
    boards, one = judge.read_board, judge.judge

    def limited(contenders, make, n_bytes, **label):
        if time.perf_counter() - start > a.seconds:
            raise OutOfTime(label)
        return one(contenders, make, n_bytes, rounds=a.rounds, **label)

    judge.out, judge.judge = lines, limited
    judge.read_board = lambda path, default: boards(path, default)[i - 1::n]


def run_board(judge, a, lines, board, dtype):
    import torch
    a.dtype, is_tf32 = dtype, dtype == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = is_tf32
    judge_md.OP_OPTIONS["tf32"] = int(is_tf32)
    a.judge_arguments = argparse.Namespace(dtype=torch.float32 if is_tf32 else getattr(torch, dtype), board=a.board, quick=True, module=lines)
    judge_md.library().ops.clear() # ops of another dtype go on serving graphs; those of tf32 have the same key as those of f32
    judge_md.library().making.clear()
    if is_tf32 and board == "product":
        judge.lt_contender(64, 64, 64, torch.float32) # loads it
        judge.LIB = Tf32(judge.LIB)
    if board == "square":
        square_board(judge, a, lines)
    else:
        getattr(judge, board)(a.judge_arguments)
    if isinstance(judge.LIB, Tf32):
        judge.LIB = judge.LIB.lib


def run(a):
    import torch
    start, judge = time.perf_counter(), judge_md.load_judge(a.judge)
    torch.manual_seed(a.seed)
    judge_md.library() # by one thread
    with open(a.out, "a", encoding="utf-8") if a.out else contextlib.nullcontext(sys.stdout) as out, torch.no_grad():
        lines = Lines(a, out)
        prepare_judge(judge, a, lines, start)
        for board in a.boards:
            for dtype in (d for d in a.dtypes if (board, d) != ("square", "tf32")):
                began = time.perf_counter()
                try:
                    run_board(judge, a, lines, board, dtype)
                except OutOfTime as e:
                    print(f"run: out of time at {board} {dtype} {e}", file=sys.stderr)
                    return 1
                print(f"run: {board} {dtype}: {time.perf_counter() - began:.1f} s", file=sys.stderr)
    return 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("judge", help="path of judge.py")
    words = lambda s: s.split(",")
    p.add_argument("--boards", type=words, default=["product", "linear", "square"])
    p.add_argument("--dtypes", type=words, default=["bfloat16"])
    p.add_argument("--columns", type=words, default=words(os.environ.get("MD_JUDGE_COLUMNS", "md")))
    p.add_argument("--board", help="lines \"m k n\" instead of the judge's shapes (product, linear)")
    p.add_argument("--sizes", type=lambda s: [int(v) for v in s.split(",")], help="of the square board")
    p.add_argument("--full", action="store_true", help="the square board in steps of 64")
    p.add_argument("--part", default="1/1", help="i/n: every n-th shape from the i-th on")
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--seconds", type=float, default=1e9, help="stops in front of the first shape after this time")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--out", help="lines are added there")
    return run(p.parse_args())


if __name__ == "__main__":
    sys.exit(main())
