#!/usr/bin/env python3
"""Measures what the Python package costs on a CPU, and prints a JSON line for each figure (us, or s where it says so).

Needs an installed package (or PYTHONPATH), torch, and transformers for `llama`. What is compared runs in turns, and the
figures are the median and the least of many short loops. Parts: calls, regions, llama, first (each is run in a process
of its own)."""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time


def interleave(work, rounds, repeats):
    """Median and least time of one call of each function, in us; the functions take turns."""
    times = {name: [] for name in work}
    for f in work.values():
        for _ in range(repeats):
            f()
    for _ in range(rounds):
        for name, f in work.items():
            start = time.perf_counter()
            for _ in range(repeats):
                f()
            times[name].append((time.perf_counter() - start) / repeats * 1e6)
    return {name: (statistics.median(t), min(t)) for name, t in times.items()}


def show(part, values, **more):
    for name, value in values.items():
        row = {"part": part, "name": name}
        row |= {"median": round(value[0], 3), "least": round(value[1], 3)} if isinstance(value, tuple) else {
            "value": round(value, 3)}
        print(json.dumps(row | more), flush=True)


def calls(md, torch):
    x, w, y = torch.ones(1, 4), torch.ones(1, 4), torch.empty(1, 4)
    c, z = torch.ones(4), torch.empty(1, 4)
    add = md.op("Y[i,j] = A[i,j] + B[i,j]")
    three = md.op("Y[i,j] = A[i,j] + B[i,j] * c[j]")
    work = {"op.call(out, a, b)": lambda: add.call(y, x, w), "op(a, b, out=)": lambda: add(x, w, out=y),
            "op(a, b)": lambda: add(x, w), "op(a, b, c)": lambda: three(x, w, c),
            "op.call(out, a, b, c)": lambda: three.call(z, x, w, c), "torch.add(a, b)": lambda: torch.add(x, w),
            "torch.add(a, b, out=)": lambda: torch.add(x, w, out=y), "an empty lambda": lambda: None}
    with torch.no_grad():
        found = interleave(work, 101, 2000)
    base = found.pop("an empty lambda")
    show("calls", {name: (t[0] - base[0], t[1] - base[1]) for name, t in found.items()}, unit="us")


def chain(torch, n):
    """A function of n kernels: each running sum is one of its own."""
    def f(x):
        for _ in range(n):
            x = torch.cumsum(x * 0.5, 0)
        return x
    return f


def regions(md, torch):
    from multidispatch.compile import backend

    x = torch.ones(4)
    work = {}
    with torch.no_grad():
        for n in (1, 5, 20):
            torch._dynamo.reset()
            compiled = torch.compile(chain(torch, n), backend=backend, dynamic=True)
            captured = md.capture(chain(torch, n), (x,))
            work[f"compiled, {n} kernels"] = lambda f=compiled: f(x)
            work[f"captured, {n} kernels"] = lambda f=captured: f(x)
        work["inductor, 1 kernel"] = torch.compile(chain(torch, 1), dynamic=True)
        inductor = work["inductor, 1 kernel"]
        work["inductor, 1 kernel"] = lambda: inductor(x)
        show("regions", interleave(work, 101, 300), unit="us")


def model(torch):
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    config = LlamaConfig(vocab_size=1000, hidden_size=256, intermediate_size=512, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, use_cache=False)
    return LlamaForCausalLM(config).eval()


def call(f, torch, ids):
    """With positions given: without them transformers asks whether the batch is 1, which makes a graph of its own."""
    return f(ids, position_ids=torch.arange(ids.shape[1]).repeat(ids.shape[0], 1)).logits


def ids_of(torch, rows, tokens):
    return torch.arange(rows * tokens).reshape(rows, tokens) % 1000


def llama(md, torch, with_inductor):
    from multidispatch.compile import backend

    net, graphs = model(torch), []

    def counter(module, inputs):
        graphs.append(module)
        return backend(module, inputs)

    with torch.no_grad():
        ours = torch.compile(net, backend=counter, dynamic=True)
        error = 0.0
        for rows in (2, 7, 31, 1, 0):
            ids = ids_of(torch, rows, 8)
            got = call(ours, torch, ids)
            if rows:  # PyTorch itself cannot run the model without rows
                expected = call(net, torch, ids)
                error = max(error, ((got - expected).abs().max() / expected.abs().max()).item())
        show("llama", {"graphs over batches 0, 1, 2, 7, 31": len(graphs)}, unit="graphs")
        show("llama", {"greatest error": error * 1e6}, unit="1e-6 of the greatest logit")
        graph = md.explain_graph()[-1]
        show("llama", {"kernels": len(graph["kernels"]), "ops of PyTorch": len(graph["eager"])}, unit="count")
        functions = {"multidispatch": ours, "eager": net}
        if with_inductor:
            functions["inductor"] = torch.compile(net, dynamic=True)
        for rows, tokens in ((2, 8), (1, 8), (1, 1), (7, 8)):
            ids = ids_of(torch, rows, tokens)
            work = {f"{name}, {rows} x {tokens}": lambda f=f: call(f, torch, ids) for name, f in functions.items()}
            show("llama", interleave(work, 41, 5), unit="us")


def first(torch):
    from multidispatch.compile import backend

    net, ids = model(torch), ids_of(torch, 2, 8)
    start = time.perf_counter(), processor_seconds()
    with torch.no_grad():
        call(torch.compile(net, backend=backend, dynamic=True), torch, ids)
    print(json.dumps({"s": time.perf_counter() - start[0], "processor": processor_seconds() - start[1]}))


def processor_seconds():
    """Of this process, and of the compilers that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def first_calls():
    with tempfile.TemporaryDirectory() as folder:
        for name in ("cold store", "warm store", "warm store, again"):
            run = subprocess.run([sys.executable, __file__, "one_first"], env=os.environ | {"MD_CACHE_DIR": folder},
                                 capture_output=True, text=True, check=True)
            took = json.loads(run.stdout.splitlines()[-1])
            show("first", {name: took["s"], name + ", seconds of processors": took["processor"]}, unit="s")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="?", choices=["calls", "regions", "llama", "first", "one_first"])
    parser.add_argument("--inductor", action="store_true", help="compare the Llama with TorchInductor too (a minute)")
    options = parser.parse_args()
    if not options.part:
        for part in ("calls", "regions", "llama", "first"):
            command = [sys.executable, __file__, part] + ["--inductor"] * options.inductor
            subprocess.run(command, check=True)
        return
    if options.part == "first":
        first_calls()
        return
    import torch

    import multidispatch as md
    if options.part == "llama":
        llama(md, torch, options.inductor)
    elif options.part == "one_first":
        first(torch)
    else:
        {"calls": calls, "regions": regions}[options.part](md, torch)


if __name__ == "__main__":
    main()
