#!/usr/bin/env python3
"""The gradient of attention beside PyTorch's, JSON lines: variants by name, each at some shapes, in one process.

    judge_backward.py CELL... [--pin VARIANT]... [--keep TEXT] [--rounds 5] [--megabytes 300] [--unchecked]

CELL, VARIANT and the clock are those of judge_attention.py. A call computes dQ, dK and dV from Q, K, V, dY, Y and the
logarithms of the sums. error: the largest difference from PyTorch's gradient in f64 over the largest gradient, of the
first batch."""
import json

import torch
import torch.nn.functional as F
from torch.nn.attention import sdpa_kernel

import judge_attention

MASK = ("where(j <= i + size(j) - size(i), ", ", 0)")
FORMULA = ("let S[b,g,r,i,j] = sum[d](Q:bf16[b,g,r,i,d] * K:bf16[b,g,j,d]) * rsqrt(f32(size(d)));"
           "let P:bf16[b,g,r,i,j] = {}exp(S[b,g,r,i,j] - L:f32[b,g,r,i]){};"
           "let w[b,g,r,i] = sum[e](dY:bf16[b,g,r,i,e] * Y:bf16[b,g,r,i,e]);"
           "let dS:bf16[b,g,r,i,j] = P[b,g,r,i,j] * (sum[e](dY[b,g,r,i,e] * V:bf16[b,g,j,e]) - w[b,g,r,i])"
           " * rsqrt(f32(size(d)));"
           "dQ:bf16[b,g,r,i,d] = sum[j](dS[b,g,r,i,j] * K[b,g,j,d]);"
           "dK:bf16[b,g,j,d] = sum[r,i](dS[b,g,r,i,j] * Q[b,g,r,i,d]);"
           "dV:bf16[b,g,j,e] = sum[r,i](P[b,g,r,i,j] * dY[b,g,r,i,e])")
STAGE = 6


def inputs(c, options):
    """Sets of Q, K, L, dY, Y, V, dQ, dK, dV: the formula's order."""
    kind = dict(device="cuda", dtype=torch.bfloat16)
    sets, groups = [], c["hq"] // c["hk"]
    size = 2 * c["b"] * c["d"] * (4 * c["hq"] * c["q"] + 4 * c["hk"] * c["k"])
    for _ in range(max(1, min(20, -(-options.megabytes * 1000000 // size)))):
        q, dy = (torch.randn(c["b"], c["hk"], groups, c["q"], c["d"], **kind) for _ in range(2))
        k, v = (torch.randn(c["b"], c["hk"], c["k"], c["d"], **kind) for _ in range(2))
        wide = [x.repeat_interleave(groups, 1) for x in (k, v)]
        y, lse = torch.ops.aten._scaled_dot_product_flash_attention(q.flatten(1, 2), *wide, 0.0, c["causal"])[:2]
        sets.append((q, k, lse.view(q.shape[:4]).contiguous(), dy, y.view(q.shape).contiguous(), v,
                     torch.full_like(q, float("nan")), torch.full_like(k, float("nan")), torch.full_like(v, float("nan"))))
    return sets


def own(c, pin, sets):
    text = FORMULA.format(*(MASK if c["causal"] else ("", "")))
    return judge_attention.ready(text, c, STAGE, pin, sets, sets[0][:6], sets[0][6:])


def peer(backend, c, sets):
    """PyTorch's backward alone; its forward has been before."""
    ready = []

    def call(i):
        y, leaves, dy = ready[i % len(ready)]
        return torch.autograd.grad(y, leaves, dy, retain_graph=True)

    # a backward runs on the stream of its forward: that which is captured
    torch.cuda.graph.default_capture_stream = torch.cuda.graph.default_capture_stream or torch.cuda.Stream()
    torch.cuda.synchronize()
    try:
        with torch.cuda.stream(torch.cuda.graph.default_capture_stream), sdpa_kernel(backend), torch.enable_grad():
            for q, k, _, dy, _, v, *_ in sets:
                leaves = [x.detach().clone().requires_grad_() for x in (q.flatten(1, 2), k, v)]
                y = F.scaled_dot_product_attention(*leaves, is_causal=c["causal"], enable_gqa=c["hq"] != c["hk"])
                ready.append((y, leaves, dy.flatten(1, 2).contiguous()))
            call(0)
        torch.cuda.synchronize()
        judge_attention.graph_of(call, 1)
    except RuntimeError as error:
        return str(error)[:200]
    return call


def error_of(c, sets):
    q, k, _, dy, _, v, *own = (t[:1].double() for t in sets[0])
    leaves = [x.detach().clone().requires_grad_() for x in (q, k, v)]
    groups = c["hq"] // c["hk"]
    with torch.enable_grad(), sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        wide = [x.repeat_interleave(groups, 1) for x in leaves[1:]]
        y = F.scaled_dot_product_attention(leaves[0].flatten(1, 2), *wide, is_causal=c["causal"])
        want = torch.autograd.grad(y, leaves, dy.flatten(1, 2))
    errors = [((a - b).abs().max() / b.abs().max()).item() for a, b in zip(own, want)]
    return max(e if e == e else 9.0 for e in errors), errors


def judge(text, options):
    c = judge_attention.cell_of(text)
    sets, calls = inputs(c, options), {}
    for pin in judge_attention.pins_of(options):
        call = own(c, pin, sets)
        line = dict(cell=text, variant=pin or "pick")
        if isinstance(call, str):
            print(json.dumps(line | dict(refused=call)), flush=True)
            continue
        for t in sets[0][6:]:
            t.fill_(float("nan"))
        call(0)
        error, errors = error_of(c, sets) if not options.unchecked and c["q"] * c["k"] <= 1 << 21 else (0.0, [])
        if error < 0.03:
            calls[pin or "pick"] = call
        print(json.dumps(line | dict(wrong=error >= 0.03, errors=[round(e, 4) for e in errors])), flush=True)
    for name, backend in judge_attention.PEERS.items():
        call = peer(backend, c, sets)
        if isinstance(call, str):
            print(json.dumps(dict(cell=text, variant=name, refused=call)), flush=True)
        else:
            calls[name] = call
    flops = 10 * c["b"] * c["hq"] * c["q"] * c["k"] * c["d"] * (0.5 if c["causal"] else 1)
    for name, us in sorted(judge_attention.times(calls, options).items(), key=lambda item: item[1]):
        print(json.dumps(dict(cell=text, variant=name, us=round(us, 2), tflops=round(flops / us / 1e6, 1))), flush=True)


def main():
    parser = judge_attention.arguments()
    parser.add_argument("--unchecked", action="store_true")
    options = parser.parse_args()
    options.device = "cuda"
    with torch.no_grad():
        for text in options.cell:
            judge(text, options)


if __name__ == "__main__":
    main()
