#!/usr/bin/env python3
"""Many short rows at no boundary, beside eager PyTorch, TorchInductor and its multi-kernel, on a GPU: JSON lines.

    judge_rows.py [--seed 1] [--shapes 60] [--most 65000] [--dtypes float32,bfloat16] [--workers 15] [--seconds 55] --output FILE
    judge_rows.py --sum FILE...

A board of shapes is drawn: 1,000 to --most rows of 1 to 400 odd elements; each with each of seven reductions and each dtype
is a cell. Cells come in a random order, so those that were judged are a sample. A FILE that has some already is gone on with.
TorchInductor compiles each cell for its shape, which takes seconds: so workers do, and one at a time uses the GPU to time.
A time is the median over rounds of a CUDA graph of k calls on inputs of their own after a sweep of the L2, kinds in turns.
"md" is this library in its default mode, "md_measure" measures at each shape: they differ by what the choice loses.
--sum prints the geometric mean of the best peer over md, how many cells are below 0.97, and the worst."""
import argparse
import fcntl
import json
import math
import multiprocessing
import os
import random
import statistics
import sys
import tempfile
import time

OPS = ("softmax", "layer_norm", "rms_norm", "sum", "max", "argmax", "var")
PEERS = ("eager", "inductor", "inductor_multi")
LEAST = 0.97
MOST_BYTES = 5e8  # of the inputs of one tensor; outputs of all kinds are kept besides


def board(seed, n, most):
    """Rows log-uniform from 1,000 to `most`, of 1 to 399 elements."""
    random_ = random.Random(seed)
    return [(round(1000 * (most / 1000) ** random_.random()), 2 * random_.randrange(200) + 1) for _ in range(n)]


def cells_of(options):
    cells = [(op, dtype, *shape) for shape in board(options.seed, options.shapes, options.most) for op in OPS for dtype in options.dtypes]
    random.Random(options.seed).shuffle(cells)
    return cells


class Worker:
    """Compiles and times cells; whoever holds the lock has the GPU."""
    def __init__(self, lock, ready):
        os.environ.update(TORCHINDUCTOR_COMPILE_THREADS="1", MD_JUDGE_COLUMNS="md,md_measure")
        import judge_md
        import torch
        import torch._dynamo
        import torch._inductor.config
        self.torch, self.judge_md, self.ready, self.lock = torch, judge_md, ready, open(lock, "w")
        F = torch.nn.functional
        self.eager = {"softmax": lambda x, g, b: torch.softmax(x, -1), "layer_norm": lambda x, g, b: F.layer_norm(x, (x.shape[-1],), g, b),
                      "rms_norm": lambda x, g, b: F.rms_norm(x, (x.shape[-1],), g), "sum": lambda x, g, b: x.sum(-1),
                      "max": lambda x, g, b: x.amax(-1), "argmax": lambda x, g, b: x.argmax(-1), "var": lambda x, g, b: x.var(-1)}
        self.timer = judge_md.Timer(torch)
        judge_md.WARM.update(("float32", "bfloat16"))  # ops are made one by one

    def compiled(self, op, **options):
        f = self.eager[op]
        return self.torch.compile(f, dynamic=False, options=options)

    def inputs(self, dtype, rows, columns):
        torch = self.torch
        t = getattr(torch, dtype)
        return (torch.randn(rows, columns, device="cuda", dtype=t), torch.randn(columns, device="cuda", dtype=t),
                torch.randn(columns, device="cuda", dtype=t))

    def contestants(self, op, dtype, first):
        """Compiled, and called once."""
        self.torch._dynamo.reset()
        ways = {"eager": self.eager[op], "inductor": self.compiled(op), "inductor_multi": self.compiled(op, **{"triton.multi_kernel": 1})}
        for f in ways.values():
            f(*first)
        self.ready.wait()
        ours = self.judge_md.contenders(op, getattr(self.torch, dtype))
        for f in ours.values():
            f(*first)
        return ways, ours

    def judge(self, cell, rounds):
        op, dtype, rows, columns = cell
        first = self.inputs(dtype, rows, columns)
        ways, ours = self.contestants(op, dtype, first)
        self.torch.cuda.synchronize()
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        try:
            us = min(self.timer.rough(f, first) for f in ours.values())
            k = max(3, min(64, int(200 / max(us, 1)) + 1, int(MOST_BYTES / first[0].nbytes)))
            times, failed = self.timer.race({**ways, **ours}, [first] + [self.inputs(dtype, rows, columns) for _ in range(k - 1)], rounds)
            self.torch.cuda.synchronize()
            self.torch.cuda.empty_cache()
        finally:
            fcntl.flock(self.lock, fcntl.LOCK_UN)
        line = {"op": op, "dtype": dtype, "shape": [rows, columns], "k": k, **{n: round(statistics.median(t), 3) for n, t in times.items()},
                "variant": {n: f.last()[0][0] for n, f in ours.items()}}
        return {**line, "failed": failed} if failed else line


def work(options, cells, next_cell, lock, ready, end):
    worker = Worker(lock, ready)
    worker.torch.set_grad_enabled(False)
    while time.time() < end:
        with next_cell.get_lock():
            i = next_cell.value
            next_cell.value += 1
        if i >= len(cells):
            return
        try:
            line = worker.judge(cells[i], options.rounds)
        except Exception as e:  # the others are still told
            line = {"op": cells[i][0], "dtype": cells[i][1], "shape": cells[i][2:], "error": f"{type(e).__name__}: {e}"[:300]}
        with open(options.output, "a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")


def make_ops(options, ready):
    """Every kernel is in the store before workers ask for it."""
    try:
        import concurrent.futures

        import judge_md
        with concurrent.futures.ThreadPoolExecutor(len(OPS)) as pool:
            list(pool.map(lambda x: judge_md.library().op(*x), [(op, dtype) for op in OPS for dtype in options.dtypes]))
    finally:
        ready.set()


def judge_all(options):
    done = {key_of(line) for line in lines_of([options.output])} if os.path.exists(options.output) else set()
    cells = [c for c in cells_of(options) if c not in done]
    end = time.time() + options.seconds
    spawn = multiprocessing.get_context("spawn")
    next_cell, ready = spawn.Value("i", 0), spawn.Event()
    with tempfile.TemporaryDirectory() as folder:
        lock = os.path.join(folder, "lock")
        processes = [spawn.Process(target=make_ops, args=(options, ready))]
        processes += [spawn.Process(target=work, args=(options, cells, next_cell, lock, ready, end)) for _ in range(options.workers)]
        for p in processes:
            p.start()
        for p in processes:
            p.join(max(end + 5 - time.time(), 0.1))
        for p in processes:
            if p.is_alive():
                p.kill()
    print(f"{len(cells)} cells were left, {min(next_cell.value, len(cells))} begun", file=sys.stderr)
    return 0


def key_of(line):
    return (line["op"], line["dtype"], *line["shape"])


def lines_of(paths):
    return [json.loads(line) for path in paths for line in open(path, encoding="utf-8")]


def ratio_of(line, column):
    """The best peer over ours."""
    peers = [line[p] for p in PEERS if p in line]
    return min(peers) / line[column] if peers and column in line else None


def told(what, ratios):
    low = [r for r, _ in ratios if r < LEAST]
    mean = math.exp(statistics.fmean(math.log(r) for r, _ in ratios))
    return f"{what:24} {len(ratios):4} cells: {mean:.3f} of the best peer, {len(low)} below {LEAST}, least {min(ratios)[0]:.3f}"


def sum_up(paths):
    lines = [x for x in lines_of(paths) if "error" not in x]
    for column in ("md", "md_measure"):
        rated = [(r, line) for line in lines if (r := ratio_of(line, column))]
        rated.sort(key=lambda x: x[0])
        if not rated:
            continue
        print(told(column, [(r, 0) for r, _ in rated]))
        groups = sorted({(x["dtype"], x["op"]) for x in lines})
        for dtype, op in groups if column == "md" else ():
            print(told(f"  {op} {dtype}", [(r, 0) for r, x in rated if (x["dtype"], x["op"]) == (dtype, op)]))
        for r, x in rated[:12] if column == "md" else ():
            print(f"  {r:.3f} {x['op']} {x['dtype']} {x['shape']} eager {x.get('eager')} inductor {x.get('inductor')} multi {x.get('inductor_multi')} "
                  f"md {x['md']} measured {x.get('md_measure')} {x['variant']['md']}")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shapes", type=int, default=60)
    parser.add_argument("--most", type=int, default=65000)
    parser.add_argument("--dtypes", type=lambda s: s.split(","), default=["float32", "bfloat16"])
    parser.add_argument("--workers", type=int, default=15)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=55)
    parser.add_argument("--output")
    parser.add_argument("--sum", nargs="+", metavar="FILE")
    options = parser.parse_args()
    if options.sum:
        return sum_up(options.sum)
    if not options.output:
        parser.error("--output FILE")
    return judge_all(options)


if __name__ == "__main__":
    sys.exit(main())
