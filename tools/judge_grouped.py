#!/usr/bin/env python3
"""Grouped products beside PyTorch's grouped_mm and a loop of matmuls, bf16, on a GPU: JSON lines.

    judge_grouped.py [EXPERTSxNxK:ROWS,ROWS...]... [--routing uniform,skewed] [--gradient] [--rounds 10] [--seed 1] [--pin VARIANT]...

A time is that of a CUDA graph of four calls with other routings, over four; the least of all rounds counts, kinds in turns. Ours
gets rows in any order, and sorts them; the others get rows sorted by expert, and the loop counts that the host knew. --gradient: that
of the matrices, of rows that are sorted for all. --pin times these variants instead of the pick, a line each; {a,b} in a pin is
either."""
import argparse
import itertools
import json

import judge_attention
import torch

import multidispatch as md

CELLS = ["8x4096x4096:2,32,256,2048,8192", "64x1024x2048:8,128,1024,32768", "128x768x2048:128,1024,8192", "32x2880x2880:64,512,4096"]
FORMULA = "Y:bf16[t,n] = sum[k](X:bf16[t,k] * W:bf16[e:i32[t],n,k])"
GRADIENT = "Y:bf16[e,n,k] = sum[t](where(o:i32[e] <= t and t < o[e+1], G:bf16[t,n] * X:bf16[t,k], 0))"
CALLS = 4


def routings(experts, rows, kind):
    """Experts of rows, for each call."""
    weight = torch.ones(experts) if kind == "uniform" else 1 / torch.arange(1, experts + 1)[torch.randperm(experts)]
    return [torch.multinomial(weight.float(), rows, replacement=True).to(torch.int32) for _ in range(CALLS)]


def turns(rounds, graphs):
    """The least microseconds of a call of each graph."""
    least = [float("inf")] * len(graphs)
    for _ in range(rounds):
        for i, graph in enumerate(graphs):
            graph.replay()
            least[i] = min(least[i], judge_attention.time_of(graph.replay) / CALLS)
    return least


def rivals(x, w, order, counts):
    """PyTorch's two ways over sorted rows."""
    sorted_x = [x[o] for o in order]
    ends = [c.cumsum(0).to(torch.int32).cuda() for c in counts]
    grouped = getattr(torch.nn.functional, "grouped_mm", None) or torch._grouped_mm
    sizes = [c.tolist() for c in counts]
    turned = w.transpose(-2, -1)

    def loop(i):
        return [torch.mm(part, turned[g]) for g, part in enumerate(sorted_x[i].split(sizes[i])) if len(part)]
    return [lambda i: grouped(sorted_x[i], turned, offs=ends[i]), loop]


def products(experts, n, k, rows, routed):
    """Formula, sizes, result and other arguments of each call, the rivals, and the result of one as a rival gives it."""
    x = torch.randn(rows, k, dtype=torch.bfloat16, device="cuda")
    w = torch.randn(experts, n, k, dtype=torch.bfloat16, device="cuda") / k**0.5
    y = torch.empty(rows, n, dtype=torch.bfloat16, device="cuda")
    order = [e.argsort(stable=True).cuda() for e in routed]
    theirs = rivals(x, w, order, [torch.bincount(e, minlength=experts) for e in routed])
    want = torch.empty_like(y)
    want[order[-1]] = torch.cat(theirs[1](CALLS - 1))
    return FORMULA, {"n": n, "k": k, "W.0": experts}, y, [(x, w, e.cuda()) for e in routed], theirs, want


def gradients(experts, n, k, rows, routed):
    """The same of the gradient of the matrices."""
    x = torch.randn(rows, k, dtype=torch.bfloat16, device="cuda")
    g = torch.randn(rows, n, dtype=torch.bfloat16, device="cuda")
    y = torch.empty(experts, n, k, dtype=torch.bfloat16, device="cuda")
    counts = [torch.bincount(e, minlength=experts) for e in routed]
    ends = [c.cumsum(0).to(torch.int32).cuda() for c in counts]
    grouped = getattr(torch.nn.functional, "grouped_mm", None) or torch._grouped_mm
    sizes = [c.tolist() for c in counts]

    def loop(i):
        parts = zip(g.split(sizes[i]), x.split(sizes[i]), y_loop)
        return [torch.mm(a.t(), b, out=out) for a, b, out in parts]
    y_loop = torch.empty_like(y)
    loop(CALLS - 1)
    offsets = [torch.cat([e.new_zeros(1), e]) for e in ends]
    theirs = [lambda i: grouped(g.t(), x, offs=ends[i]), loop]
    return GRADIENT, {"n": n, "k": k, "e": experts}, y, [(o, g, x) for o in offsets], theirs, y_loop.clone()


def judge(cell, options):
    (experts, n, k), rows, routing = cell
    make = gradients if options.gradient else products
    formula, static, y, arguments, theirs, want = make(experts, n, k, rows, routings(experts, rows, routing))
    ops = []
    for pin in options.pins or [None]:
        try:
            op = md.op(formula, static=static, pin=pin, hints="t=16,128,1024,8192")
            op.call(y, *arguments[0])
            op.wait()
            for given in arguments:
                y.fill_(float("nan"))
                op.call(y, *given)
            error = (y - want).abs().max().item()
            ops.append((pin, op, error, judge_attention.graph_of(lambda i, op=op: op.call(y, *arguments[i]), CALLS)))
        except md.MdError as failure:
            print(json.dumps({"cell": cell, "pin": pin, "error": str(failure)[:200]}), flush=True)
    graphs = [judge_attention.graph_of(call, CALLS) for call in theirs]
    times = turns(options.rounds, graphs + [o[3] for o in ops])
    for (pin, op, error, _), us in zip(ops, times[2:]):
        line = {"experts": experts, "n": n, "k": k, "rows": rows, "routing": routing, "us": round(us, 2), "grouped_mm": round(times[0], 2),
                "loop": round(times[1], 2), "ratio": round(min(times[:2]) / us, 3), "tflops": round(2e-6 * rows * n * k / us, 1), "error": error,
                "variant": op.choice(*arguments[0], out=y)["stages"][0]["variant"]}
        print(json.dumps(line), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cells", nargs="*", default=CELLS)
    parser.add_argument("--routing", default="uniform,skewed")
    parser.add_argument("--gradient", action="store_true")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pin", action="append", default=[])
    options = parser.parse_args()
    options.pins = [v for pin in options.pin for v in judge_attention.spread(pin)]
    torch.manual_seed(options.seed)
    torch.set_grad_enabled(False)
    for text in options.cells:
        size, _, rows = text.partition(":")
        for row, routing in itertools.product(rows.split(","), options.routing.split(",")):
            judge((tuple(int(v) for v in size.split("x")), int(row), routing), options)


if __name__ == "__main__":
    main()
