#!/usr/bin/env python3
"""Attention beside PyTorch's, JSON lines: variants by name, each at some shapes, in one process.

    judge_attention.py CELL... [--pin VARIANT]... [--keep TEXT] [--rounds 5] [--device cuda] [--megabytes 300]

CELL: BxQxK[xD[xHQxHK]][c]: batches, queries, keys, elements of a head (128), heads of queries (32) and of keys (8); c:
causal. VARIANT: as mdctl source lists them; without one the pick; fast, deterministic, batch_invariant: the pick under
that policy. In a VARIANT `a{0,1}b` stands for a0b and a1b, as in a shell. --keep: only names that hold this text.

Times are those of the kernels alone, by graphs of 20 calls. Each call reads other inputs, --megabytes in all, so that
little of them is in the L2. Variants are timed in turns; us is the median over rounds. On a CPU the wall's least time."""
import argparse
import itertools
import json
import re
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import multidispatch as md

MASK = ("where(j <= i + size(j) - size(i), ", ", -inf)")
FORMULA = ("let S[b,g,r,i,j] = {}sum[d](Q:bf16[b,g,r,i,d] * K:bf16[b,g,j,d]) * rsqrt(f32(size(d))){};"
           "let m[b,g,r,i] = max[j](S[b,g,r,i,j]); let E[b,g,r,i,j] = exp(S[b,g,r,i,j] - m[b,g,r,i]);"
           "let P:bf16[b,g,r,i,j] = E[b,g,r,i,j]; let s[b,g,r,i] = sum[j](E[b,g,r,i,j]);"
           "Y:bf16[b,g,r,i,e] = sum[j](P[b,g,r,i,j] * V:bf16[b,g,j,e]) / s[b,g,r,i]")
NUMERIC = ("fast", "deterministic", "batch_invariant")
PEERS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}


def cell_of(text):
    sizes, causal = re.fullmatch(r"([\dx]+)(c?)", text).groups()
    given = [int(n) for n in sizes.split("x")]
    b, q, k, d, hq, hk = given + [128, 32, 8][len(given) - 3:]
    return dict(b=b, q=q, k=k, d=d, hq=hq, hk=hk, causal=bool(causal), sizes=dict(b=b, g=hk, r=hq // hk, i=q, j=k))


def spread(text):
    """a{0,1}b -> a0b, a1b"""
    parts = re.split(r"\{(.*?)\}", text)
    return ["".join(p) for p in itertools.product(*(part.split(",") if i % 2 else [part] for i, part in enumerate(parts)))]


def pins_of(options):
    """The variants that are asked for; None: the pick."""
    return [p for pin in options.pin for p in spread(pin) if options.keep in p] if options.pin else [None]


def inputs(c, options):
    kind = dict(device=options.device, dtype=torch.bfloat16)
    sets = []
    size = 4 * c["b"] * c["hk"] * c["k"] * c["d"]
    for _ in range(max(1, min(20, -(-options.megabytes * 1000000 // size)))):
        q = torch.randn(c["b"], c["hk"], c["hq"] // c["hk"], c["q"], c["d"], **kind)
        k, v = (torch.randn(c["b"], c["hk"], c["k"], c["d"], **kind) for _ in range(2))
        sets.append((q, k, torch.empty_like(q), v)) # in the formula's order
    return sets


def statics(c, numeric):
    """What an op knows of its sizes: under a numeric policy also its heads, and that it is for one query."""
    fixed = [name for name in "gri" if name in c["sizes"] and (name != "i" or c["sizes"]["i"] == 1)]
    return dict(d=c["d"], e=c["d"]) | {name: c["sizes"][name] for name in fixed if numeric in NUMERIC[1:]}


def ready(text, c, stage, pin, sets, inputs, results, numeric=None):
    """A call by its number of an op whose kernel of `stage` is built, or what prevents it. `inputs`, `results`: of a set."""
    start = time.perf_counter()
    try:
        static = statics(c, numeric)
        hints = ",".join(f"{name}={n}" for name, n in c["sizes"].items() if name not in static)
        op = md.op(text, static=static, max_variants=1, pin=f"{stage}:{pin}" if pin else None, hints=f"({hints})",
                   numeric=numeric)
        variant = None
        while variant != pin or not variant:
            op.call(*sets[0])
            variant = next(s["variant"] for s in op.choice(*inputs, out=results)["stages"][::-1] if s["variant"] != "idle")
            if time.perf_counter() - start > 20:
                return f"after 20 s {variant} serves"
            pin = pin or variant
    except md.MdError as error:
        return str(error)[:200]
    print(f"{pin}: {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)
    return lambda i: op.call(*sets[i % len(sets)])


def own(c, pin, sets):
    q, k, y, v = sets[0]
    pin, numeric = (None, pin) if pin in NUMERIC else (pin, None)
    return ready(FORMULA.format(*(MASK if c["causal"] else ("", ""))), c, 3, pin, sets, (q, k, v), y, numeric)


def peer(backend, c, sets):
    flat = [(q.flatten(1, 2), k, v) for q, k, _, v in sets]

    def call(i):
        q, k, v = flat[i % len(flat)]
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, is_causal=c["causal"], enable_gqa=True)
    try:
        call(0)
    except RuntimeError as error:
        return str(error)[:100]
    return call


def graph_of(call, n):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for i in range(3):
            call(i)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(n):
            call(i)
    return graph


def time_of(run):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e3


def times(calls, options):
    """us of each call, in turns there and back."""
    found = {name: [] for name in calls}
    if options.device == "cpu":
        for _ in range(options.rounds):
            for name, call in calls.items():
                start = time.perf_counter()
                call(0)
                found[name].append((time.perf_counter() - start) * 1e6)
        return {name: min(t) for name, t in found.items()}
    n = 20
    graphs = {name: graph_of(call, n) for name, call in calls.items()}
    for turn in range(options.rounds + 1):
        for name in list(graphs)[::1 if turn % 2 else -1]:
            us = time_of(graphs[name].replay) / n
            if turn > 0:
                found[name].append(us)
    return {name: statistics.median(t) for name, t in found.items()}


def error_of(c, sets):
    q, k, y, v = (t[:1] for t in sets[0])
    want = F.scaled_dot_product_attention(q.flatten(1, 2).double(), k.double(), v.double(), is_causal=c["causal"], enable_gqa=True)
    return (y.flatten(1, 2).double() - want).abs().max().item()


def judge(text, options):
    c = cell_of(text)
    sets = inputs(c, options)
    pins = pins_of(options)
    calls = {}
    for pin in pins:
        call = own(c, pin, sets)
        line = dict(cell=text, variant=pin or "pick")
        if isinstance(call, str):
            print(json.dumps(line | dict(refused=call)), flush=True)
            continue
        sets[0][2].fill_(float("nan"))
        call(0)
        line["error"] = error_of(c, sets) if c["q"] * c["k"] <= 1 << 22 else -1
        if line["error"] < 0.02:
            calls[pin or "pick"] = call
        else:
            print(json.dumps(line | dict(wrong=True)), flush=True)
    for name, backend in PEERS.items() if options.device == "cuda" else ():
        call = peer(backend, c, sets)
        if not isinstance(call, str):
            calls[name] = call
    flops = 4 * c["b"] * c["hq"] * c["q"] * c["k"] * c["d"] * (0.5 if c["causal"] else 1)
    bytes_read = 4 * c["b"] * c["hk"] * c["k"] * c["d"]
    for name, us in sorted(times(calls, options).items(), key=lambda item: item[1]):
        print(json.dumps(dict(cell=text, variant=name, us=round(us, 2), tflops=round(flops / us / 1e6, 1),
                              gbps=round(bytes_read / us / 1e3))), flush=True)


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("cell", nargs="+")
    parser.add_argument("--pin", action="append")
    parser.add_argument("--keep", default="")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=300)
    return parser


def main():
    parser = arguments()
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    with torch.no_grad():
        for text in options.cell:
            judge(text, options)


if __name__ == "__main__":
    main()
