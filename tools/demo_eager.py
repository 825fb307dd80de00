#!/usr/bin/env python3
"""Times eager PyTorch on the ops and steps that mdctl demo timed, and prints both side by side.

    demo_eager.py DEMO.json [--rounds N]

DEMO.json is what `mdctl demo --output` wrote on a GPU. Each op is captured into a CUDA graph, so that launches count for neither side. Exit 77:
PyTorch or its GPU is missing.
"""
import argparse
import json
import statistics
import sys

REPEATS = 10


def calls_of(torch, demo, op):
    """A function of (tokens, context) that returns a function without arguments: the op in eager PyTorch."""
    width, hidden, heads = demo["width"], demo["hidden"], demo["heads"]
    make = lambda *size: torch.randn(*size, device="cuda").to({"bf16": torch.bfloat16, "f16": torch.float16}.get(demo["dtype"], torch.float32))
    linear, gelu = torch.nn.functional.linear, lambda x: torch.nn.functional.gelu(x, approximate="tanh")
    if op == "rms_norm":
        g = make(width)
        return lambda i, j: (lambda x=make(i, width): torch.nn.functional.rms_norm(x, (width,), g, 1e-6))
    if op == "qkv":
        w = make(3 * width, width)
        return lambda i, j: (lambda x=make(i, width): linear(x, w))
    if op == "softmax":
        return lambda i, j: (lambda x=make(i * heads, j): torch.softmax(x, 1))
    if op == "up_gelu":
        w, c = make(hidden, width), make(hidden)
        return lambda i, j: (lambda x=make(i, width): gelu(linear(x, w, c)))
    w = make(width, hidden)
    return lambda i, j: (lambda x=make(i, hidden), r=make(i, width): r + linear(x, w))


def time_us(torch, call, rounds):
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(REPEATS):
            call()
    times = []
    for _ in range(rounds + 1):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / REPEATS)
    return statistics.median(times[1:])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("demo")
    p.add_argument("--rounds", type=int, default=5)
    a = p.parse_args()
    try:
        import torch
    except ImportError:
        torch = None
    if torch is None or not torch.cuda.is_available():
        print("eager PyTorch: not installed, or without a GPU", file=sys.stderr)
        return 77
    with open(a.demo, encoding="utf-8") as f:
        demo = json.load(f)
    ours, theirs = 0.0, 0.0
    print(f"\neager PyTorch {torch.__version__} at the same steps, its kernels without launches")
    for op in demo["ops"]:
        make = calls_of(torch, demo, op["op"])
        us = sum(time_us(torch, make(i, j), a.rounds) for i, j in op["sampled"])
        mine = op["builds"][0]["us"]
        print(f"  {op['op']:9} dispatched {mine / 1e3:9.2f} ms, eager {us / 1e3:9.2f} ms  {us / mine:5.2f}x")
        ours, theirs = ours + mine, theirs + us
    print(f"  whole block: dispatched {ours / 1e3:.2f} ms, eager {theirs / 1e3:.2f} ms: {theirs / ours:.2f}x")
    return 0


if __name__ == "__main__":
    sys.exit(main())
