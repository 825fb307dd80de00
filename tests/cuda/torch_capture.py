#!/usr/bin/env python3
"""Calls inside torch.cuda.graph, whose captures are global: shapes that were met and shapes that were not, replayed with other contents.

Run by hand, on a GPU with PyTorch: torch_capture.py. JUDGE_LIB names the library. Prints one line, fails with a traceback.
"""
import ctypes as c
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))
import judge_md
import torch

CASES = [("softmax", (1000, 777)), ("softmax", (3, 50001)), ("layer_norm", (64, 4096)), ("cumsum", (17, 10007)), ("sum", (1, 1 << 20)),
         ("linear", (256, 512, 384)), ("linear", (7, 1000, 512))]
MET = {0, 2, 4, 5}  # called before the capture


def inputs(name, shape):
    if name == "linear":
        m, n, k = shape
        return [torch.randn(m, k, device="cuda", dtype=torch.bfloat16), torch.randn(n, k, device="cuda", dtype=torch.bfloat16)]
    x = torch.randn(shape, device="cuda")
    return [x, torch.randn(shape[1], device="cuda"), torch.randn(shape[1], device="cuda")] if name == "layer_norm" else [x]


def expected(name, x):
    wide = [t.double() for t in x]
    return {"softmax": lambda: torch.softmax(wide[0], -1), "cumsum": lambda: torch.cumsum(wide[0], -1), "sum": lambda: wide[0].sum(-1),
            "layer_norm": lambda: torch.nn.functional.layer_norm(wide[0], wide[0].shape[-1:], wide[1], wide[2], 1e-5),
            "linear": lambda: wide[0] @ wide[1].T}[name]()


def main():
    work = []
    for number, (name, shape) in enumerate(CASES):
        x = inputs(name, shape)
        runner = judge_md.Runner(name, "bfloat16" if name == "linear" else "float32")
        if number in MET:
            for _ in range(3):
                runner(*x)
        work.append((name, x, runner))
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph, capture_error_mode="global"):
        results = [runner(*x) for _, x, runner in work]
    library = judge_md.library()
    listing = library.lib.md_capture_list
    listing.argtypes = [c.c_void_p, c.c_void_p, c.c_void_p, c.c_int32, judge_md.WRITE, c.c_void_p]
    baked = json.loads(library.text(listing, library.context, None, graph.raw_cuda_graph(), 1))
    graph.instantiate()
    for seed in range(4):
        torch.manual_seed(seed)
        for (name, x, _), _ in zip(work, results):
            for t in x:
                t.copy_(torch.randn(t.shape, device="cuda"))
        for y in results:
            y.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        for (name, x, _), y in zip(work, results):
            want = expected(name, x)
            error = (y.double() - want).abs().max().item() / max(1.0, want.abs().max().item())
            assert error < (1e-2 if y.dtype == torch.bfloat16 else 1e-4), (name, tuple(x[0].shape), seed, error)
    assert library.lib.md_check(library.context) == 0
    for kernel in baked["kernels"]:
        print(f"  {kernel['op']} [{kernel['shape']}] {kernel['variant']} x{kernel['times']}")
    assert {k["op"] for k in baked["kernels"]} >= {"softmax", "cumsum", "sum"}, baked
    print(f"torch capture: {len(work)} calls, {len(baked['kernels'])} kernels of ours, {baked['others']} others, 4 replays right")


main()
