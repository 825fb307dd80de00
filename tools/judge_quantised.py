"""Products of 8-bit operands, and of weights of 4 and 8 bits, beside PyTorch's, on a GPU, JSON lines.

    judge_quantised.py [--kinds int8,f8,int4] [--shapes 1x4096x4096,16x11008x4096] [--rounds 5] [--group 32]
                       [--pin VARIANT]... [--seed 1]

A shape is rows x outputs x K. Times are those of a call in a CUDA graph over as many sets of operands as do not fit the
second-level cache, the least of all rounds, all contenders in turns. PyTorch's: _int_mm and _scaled_mm (by rows) where
there is one, else the product of bf16 weights. "bytes": the time of all bytes at the rate at which a copy moves them.
--pin times these variants instead of the pick, a line each. "error": the largest error over what rounding allows."""
import argparse
import json
import os

import torch
import torch.nn.functional as F

CACHE = 160 << 20  # bytes of operands that do not fit
TEXT = {
    "int32": "Y:i32[m,n] = sum[k](X:i8[m,k] * W:i8[n,k])",
    "int8": "Y:bf16[m,n] = f32(sum[k](X:i8[m,k] * W:i8[n,k])) * a:f32[m] * b:f32[n]",
    "f8": "Y:bf16[m,n] = sum[k](X:f8e4m3[m,k] * W:f8e4m3[n,k]) * a:f32[m] * b:f32[n]",
    "f8_tiles": "Y:bf16[m,n] = sum[k](X:f8e4m3[m,k] * a:f32[m,k//128] * W:f8e4m3[n,k] * b:f32[n//128,k//128])",
    "int4": "Y:bf16[m,n] = sum[k](X:bf16[m,k] * (f32(W:i4[n,k]) - z:bf16[n,k//{g}]) * s:bf16[n,k//{g}])",
    "w4": "Y:bf16[m,n] = sum[k](X:bf16[m,k] * f32(W:i4[n,k])) * s:f32[n]",
    "w8": "Y:bf16[m,n] = sum[k](X:bf16[m,k] * f32(W:i8[n,k])) * s:f32[n]",
    "wf8": "Y:bf16[m,n] = sum[k](X:bf16[m,k] * f32(W:f8e4m3[n,k])) * s:f32[n]",
}


def cuda(*size, dtype=torch.float32):
    return torch.randn(*size, device="cuda").to(dtype)


def some_bytes(*size):
    return torch.randint(-128, 128, size, device="cuda", dtype=torch.int8)


def nibbles(w):
    """The values of i4, two in a byte, as f64."""
    w = w.view(torch.uint8)
    both = torch.stack([w & 15, w >> 4], -1).flatten(-2).to(torch.int8)
    return torch.where(both > 7, both - 16, both).double()


def operands(kind, m, n, k, g):
    """Ours after the result; the f64 operands that they stand for."""
    f8 = torch.float8_e4m3fn
    if kind in ("int32", "int8"):
        x, w, a, b = some_bytes(m, k), some_bytes(n, k), cuda(m).abs(), cuda(n).abs()
        return ([x, w] if kind == "int32" else [x, w, a, b]), x.double() * (a[:, None] if kind == "int8" else 1), \
            w.double() * (b[:, None] if kind == "int8" else 1)
    if kind == "f8":
        x, w, a, b = cuda(m, k, dtype=f8), cuda(n, k, dtype=f8), cuda(m).abs(), cuda(n).abs()
        return [x, w, a, b], x.float().double() * a[:, None], w.float().double() * b[:, None]
    if kind == "f8_tiles":
        x, w, a, b = cuda(m, k, dtype=f8), cuda(n, k, dtype=f8), cuda(m, k // 128).abs(), cuda(n // 128, k // 128).abs()
        return [x, a, w, b], x.float().double() * a.repeat_interleave(128, 1), \
            w.float().double() * b.repeat_interleave(128, 0).repeat_interleave(128, 1)
    x = cuda(m, k, dtype=torch.bfloat16)
    if kind == "int4":
        w, z, s = some_bytes(n, k // 2).view(torch.uint8), cuda(n, k // g, dtype=torch.bfloat16), \
            cuda(n, k // g, dtype=torch.bfloat16)
        return [x, w, z, s], x.double(), (nibbles(w) - z.double().repeat_interleave(g, 1)) * \
            s.double().repeat_interleave(g, 1)
    s = cuda(n)
    w = {"w4": lambda: some_bytes(n, k // 2).view(torch.uint8), "w8": lambda: some_bytes(n, k),
         "wf8": lambda: cuda(n, k, dtype=f8)}[kind]()
    return [x, w, s], x.double(), (nibbles(w) if kind == "w4" else w.float().double()) * s.double()[:, None]


def rival(kind, ours, m, n, k):
    """PyTorch's call for a set of operands, and its name."""
    if kind in ("int32", "int8") and m > 16:
        return lambda: torch._int_mm(ours[0], ours[1].t()), "_int_mm"
    if kind == "f8":
        a, b = ours[2][:, None].contiguous(), ours[3][None].contiguous()
        return lambda: torch._scaled_mm(ours[0], ours[1].t(), a, b, out_dtype=torch.bfloat16), "_scaled_mm"
    x, w = cuda(m, k, dtype=torch.bfloat16), cuda(n, k, dtype=torch.bfloat16)
    return lambda: F.linear(x, w), "bf16"


def graph_of(calls):
    for call in calls[:2]:
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    return graph


def turns(rounds, graphs):
    """us of the least replay of each, taken in turns."""
    least = [float("inf")] * len(graphs)
    for _ in range(rounds + 1):
        for i, (graph, n) in enumerate(graphs):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            least[i] = min(least[i], begin.elapsed_time(end) * 1e3 / n)
    return least


def error_of(y, x, w):
    want, size = x @ w.t(), x.abs() @ w.abs().t()
    allowed = want.abs() * (2.0 ** -8 if y.dtype == torch.bfloat16 else 0) + size * 2.0 ** -19 + 1e-30
    return ((y.double() - want).abs() / allowed).max().item()


def judge(kind, shape, options):
    m, n, k = shape
    own, x, w = operands(kind, m, n, k, options.group)
    n_bytes = sum(t.numel() * t.element_size() for t in own)
    sets = [own] + [[t.clone() for t in own] for _ in range(min(CACHE // n_bytes, 24))]
    results = [torch.empty(m, n, device="cuda", dtype=torch.int32 if kind == "int32" else torch.bfloat16) for _ in sets]
    lines, graphs = [], []
    for pin in options.pin or [None]:
        line = {"kind": kind, "shape": shape, "pin": pin}
        lines.append(line)
        try:
            op = md.op(TEXT[kind].format(g=options.group), static={"n": n, "k": k} if options.static else {}, pin=pin,
                       tf32=kind == "f8",
                       hints=f"m={m} n={n} k={k}" if not options.static else f"m={m}")
            op.call(results[0], *own)
            op.wait()
            op.call(results[0], *own)
            line["variant"] = op.choice(*own, out=results[0])["stages"][0]["variant"]
            line["error"] = error_of(results[0], x, w)
            graphs.append((graph_of([lambda y=y, s=s: op.call(y, *s) for y, s in zip(results, sets)]), len(sets)))
            line["at"] = len(graphs) - 1
        except md.MdError as e:
            line["failed"] = str(e)[:200]
    theirs = [rival(kind, s, m, n, k) for s in sets]
    blocks = [(torch.empty(n_bytes // 2, dtype=torch.uint8, device="cuda"), torch.empty(n_bytes // 2, dtype=torch.uint8,
                                                                                       device="cuda")) for _ in sets]
    graphs.append((graph_of([t[0] for t in theirs]), len(sets)))
    graphs.append((graph_of([lambda b=b: b[0].copy_(b[1]) for b in blocks]), len(sets)))
    us = turns(options.rounds, graphs)
    for line in lines:
        line |= {"torch": theirs[0][1], "torch_us": us[-2], "bytes_us": us[-1]}
        if "at" in line:
            line["us"] = us[line.pop("at")]
            line["ratio"] = us[-2] / line["us"]
            line["of_bytes"] = us[-1] / line["us"]
        print(json.dumps(line), flush=True)


def read_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kinds", default="int8,f8,int4")
    parser.add_argument("--shapes", default="1x4096x4096,16x4096x4096,64x4096x4096,4096x4096x4096")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--group", type=int, default=32)
    parser.add_argument("--pin", action="append")
    parser.add_argument("--static", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def main():
    options = read_options()
    os.environ["MD_DEVICE"] = "cuda"  # read when the library is loaded
    global md
    import multidispatch as md
    torch.manual_seed(options.seed)
    torch.set_grad_enabled(False)
    for kind in options.kinds.split(","):
        for shape in options.shapes.split(","):
            judge(kind, [int(i) for i in shape.split("x")], options)


if __name__ == "__main__":
    main()
