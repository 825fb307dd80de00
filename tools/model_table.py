#!/usr/bin/env python3
"""Many tiny models (tests/python/zoo.py) through the backend of torch.compile: a line for each, as a table or as JSON.

    tools/model_table.py [--models mistral,swin] [--dtype f32] [--threads 2] [--json FILE] [--seconds 0.5] [--limit 300]

Each model runs in a process of its own. Columns: graphs, pieces (of graphs that were cut), kernels, operations of PyTorch
beside them and why, the largest error against f64 over eager's own, seconds of the first call, milliseconds of a warm
call of the first size in eager PyTorch and in ours, and what PyTorch serves because it is faster. --fresh: with an empty
store of kernels."""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "python"))
DTYPES = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}
COLUMNS = ("model", "dtype", "graphs", "pieces", "kernels", "pytorch", "error", "first_s", "later_s", "eager_ms", "ours_ms", "gain")


def best(f, seconds):
    """Milliseconds of the fastest of the calls that fit into so many seconds."""
    end, fastest = time.perf_counter() + seconds, float("inf")
    while time.perf_counter() < end:
        start = time.perf_counter()
        f()
        fastest = min(fastest, time.perf_counter() - start)
    return fastest * 1e3


def cpu():
    """Seconds of the processor: of this process, and of compilers that have ended."""
    times = os.times()
    return times.user + times.system, times.children_user + times.children_system


def error(got, exact):
    got, exact = (x if isinstance(x, tuple) else (x,) for x in (got, exact))
    return max((a.double() - b.double()).abs().max().item() for a, b in zip(got, exact) if b.numel())


def measure(name, options):
    """The row of one model, in this process."""
    import torch

    import multidispatch as md
    import zoo

    dtype, row = getattr(torch, DTYPES[options.dtype]), zoo.ZOO[name]
    if options.threads:
        torch.set_num_threads(options.threads)
    model = zoo.make(name).to(dtype)
    exact = zoo.in_f64(model)
    compiled = torch.compile(model, backend="multidispatch", dynamic=True)
    errors, times, calls, cpus = [], [], [], []
    with torch.no_grad():
        for size in row.sizes:
            arguments = [zoo.as_dtype(x, dtype) for x in row.arguments(*size)]
            calls.append(arguments)
            start, cpu_start = time.perf_counter(), cpu()
            got = compiled(*arguments)
            times.append(time.perf_counter() - start)
            cpus.append([round(b - a, 2) for a, b in zip(cpu_start, cpu())])
            wanted = exact(*(zoo.as_dtype(x, torch.float64) for x in arguments))
            errors.append(error(got, wanted) / max(error(model(*arguments), wanted), 1e-6 * wanted.abs().max().item()))
        md.wait_graphs()
        first = calls[0]
        for _ in range(12):
            compiled(*first)
        eager, ours = best(lambda: model(*first), options.seconds), best(lambda: compiled(*first), options.seconds)
    return {"model": name, "dtype": options.dtype, "error": round(max(errors), 2), "first_s": round(times[0], 2),
            "first_cpu_s": cpus[0], "later_s": round(sum(times[1:]), 2), "eager_ms": round(eager, 3), "ours_ms": round(ours, 3),
            "gain": round(eager / ours, 2)} | reports(md.explain_graph())


def reports(graphs):
    left = collections.Counter((e["op"].removesuffix(".default"), e["reason"]) for g in graphs for e in g["eager"])
    return {"graphs": len(graphs), "pieces": sum(max(1, len(g.get("pieces", ()))) for g in graphs),
            "kernels": sum(len(g["kernels"]) for g in graphs), "pytorch": sum(left.values()),
            "why": [[op, n, reason] for (op, reason), n in left.most_common()],
            "whole": [g["reason"] for g in graphs if "reason" in g],
            "fallbacks": {k: v for g in graphs for k, v in g.get("fallback_reasons", {}).items()},
            "compile_s": round(sum(g["seconds"] for g in graphs), 2),
            "eager_is_faster": sum(bool(g.get("eager_is_faster")) for g in graphs)}


def child(name, options):
    """The row of one model, measured in a process of its own."""
    command = [sys.executable, __file__, "--one", name, "--dtype", options.dtype, "--seconds", str(options.seconds),
               "--threads", str(options.threads)]
    with tempfile.TemporaryDirectory() as folder:
        env = os.environ | ({"MD_CACHE_DIR": folder} if options.fresh else {})
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=options.limit, check=False, env=env)
            return json.loads(done.stdout.splitlines()[-1])
        except subprocess.TimeoutExpired:
            return {"model": name, "dtype": options.dtype, "failed": f"nothing after {options.limit:g} s"}
        except (IndexError, ValueError):
            return {"model": name, "dtype": options.dtype, "failed": (done.stderr.strip() or "?").splitlines()[-1]}


def show(row):
    cells = [str(row.get(c, "")) for c in COLUMNS]
    print(" ".join(f"{x:<14}" if i == 0 else f"{x:>8}" for i, x in enumerate(cells)), flush=True)
    for text in (*([row["failed"]] if "failed" in row else []), *(f"whole graph: {w}" for w in row.get("whole", ())),
                 *(f"{n} x {op}: {why}" for op, n, why in row.get("why", ())),
                 *(f"fell back: {why}" for why in row.get("fallbacks", ()))):
        print("    " + text[:200], flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="")
    parser.add_argument("--dtype", default="f32", choices=DTYPES)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--limit", type=float, default=300.0)
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--json", default="")
    parser.add_argument("--one", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, options)))
        return
    import zoo
    print(" ".join(f"{c:<14}" if i == 0 else f"{c:>8}" for i, c in enumerate(COLUMNS)))
    for name in options.models.split(",") if options.models else zoo.ZOO:
        row = child(name, options)
        show(row)
        if options.json:
            with open(options.json, "a", encoding="utf-8") as out:
                out.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
