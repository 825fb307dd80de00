#!/usr/bin/env python3
"""Times of products' variants over shapes, for the model and for regrets: JSON lines, one a variant and shape.

  map_products.py [--op linear|matmul|linear_bias_gelu] [--dtype bfloat16] [--board FILE] [--pins FILE] [--own-hints] [--out FILE]
  map_products.py --cases FILE [--seconds 25] [--out FILE]

A board has lines "m k n"; a file of pins has a variant a line. At each shape those of the pool that fit and the pins whose modelled time is near the
best are timed and looked at for errors, at most --most of them, and every gemm_lib/rank; by the method of judge_md.py map. `picked` is what the op would launch, `pool` whether
the variant is in its pool; `torch` is torch.mm. --cases: a line is "op dtype m k n variant ..."; a line of the result has the op's pick
and the time of each variant (median us, rounds; those beyond 1.6 times the best have one), of PyTorch and of gemm_lib's answers: hundreds of shapes in half a minute, for the
model to be fit to. --own-hints: also what every family would offer were the shape a hint. A last line sums up the regret of the picks.
"""
import argparse
import concurrent.futures
import json
import statistics
import sys
import time

import judge_md

BOARD = [(64, 64, 64), (256, 256, 256), (512, 512, 512), (1024, 1024, 1024), (1536, 1536, 1536), (2048, 2048, 2048), (4096, 4096, 4096), (1, 4096, 4096),
         (16, 4096, 4096), (64, 4096, 4096), (128, 4096, 4096), (256, 4096, 4096), (1, 4096, 11008), (8, 4096, 11008), (33, 4096, 11008), (200, 4096, 11008),
         (1000, 4096, 11008), (4096, 4096, 11008), (5000, 5000, 5000), (777, 3333, 1111)]


class Data:
    """Views into one buffer, so that no shape costs an allocation."""

    def __init__(self, torch, dtype, n_bytes):
        self.torch, self.dtype = torch, getattr(torch, dtype)
        self.n = n_bytes // self.dtype.itemsize
        self.x, self.y = (torch.randn(self.n, device="cuda", dtype=self.dtype) for _ in "xy")

    def sets(self, op, shape, k):
        m, depth, n = shape
        a, b = m * depth, depth * n
        step, out = (a + b + n + 255) // 128 * 128, (m * n + 127) // 128 * 128
        for i in range(max(1, min(k, self.n // step, self.n // out))):
            part, bias = self.x[i * step:(i + 1) * step], (a + b + 127) // 128 * 128
            w = part[(a + 63) // 64 * 64:][:b].view(*((depth, n) if op == "matmul" else (n, depth)))
            yield self.y[i * out:i * out + m * n].view(m, n), part[:a].view(m, depth), w, part[min(bias, step - n):][:n]


def sizes_of(shape):
    return "m={},k={},n={}".format(*shape)


def stage_of(op, shape):
    stages = judge_md.library().explain(op, sizes_of(shape))["stages"]
    return stages[0] if len(stages) == 1 else None


def make(name, dtype, pin=None, hints=None):
    """An op, or None where there is no such variant."""
    try:
        return judge_md.library().op(name, dtype, pin, hints)
    except judge_md.Failed as e:
        print(f"map_products: {pin or name}: {e}"[:200], file=sys.stderr)
        return None


def contestants_of(a, shape, pinned):
    """The op's stage, and variants by name with what the model says."""
    stage = stage_of(judge_md.library().op(a.op, a.dtype), shape)
    all_of = {x["variant"]: dict(x, pool=True) for x in stage["candidates"] if x["fits"]}
    for pin, op in pinned.items():
        try:
            own = stage_of(op, shape)["candidates"][0]
        except judge_md.Failed: # it does not fit
            continue
        if pin not in all_of:
            all_of[pin] = dict(own, pool=False)
    if a.own_hints:
        own = stage_of(judge_md.library().op(a.op, a.dtype, None, "({})".format(sizes_of(shape))), shape)
        for x in own["candidates"]:
            if x["fits"] and x["variant"] not in all_of:
                all_of[x["variant"]] = dict(x, pool=False)
    best = min(x["model_us"] for x in all_of.values())
    ranked = sorted(all_of, key=lambda v: all_of[v]["model_us"])
    own = [v for v in ranked if not v.startswith("gemm_lib")]
    kept = set([v for v in own if all_of[v]["model_us"] < a.near * best][:a.most]) | {v for v in ranked if v.startswith("gemm_lib")} | {stage["pick"]}
    kept |= set([v for v in own if all_of[v]["pool"] and all_of[v]["model_us"] < 1.5 * a.near * best][:a.most])
    return stage, {v: all_of[v] for v in ranked if v in kept}


def map_case(timer, data, a, shape, pinned):
    stage, variants = contestants_of(a, shape, pinned)
    m, k, n = shape
    n_bytes = (m * k + k * n + m * n) * data.dtype.itemsize
    calls = max(3, min(a.calls, int(200 / (1.5 + n_bytes / 4.0e6 + 2.0 * m * k * n / 6e8)) + 1))
    contestants = {v: judge_md.Runner(a.op, a.dtype, v).into for v in variants}
    if a.op != "linear_bias_gelu":
        contestants["torch"] = lambda y, x, w, _: data.torch.mm(x, w if a.op == "matmul" else w.T, out=y)
    times, failed = timer.race(contestants, list(data.sets(a.op, shape, calls)), a.rounds)
    torch_us = times.pop("torch", None)
    rows = [{"variant": v, "error": e} for v, e in failed.items()]
    errors = errors_of(a, data, shape, times)
    rows += [{"op": a.op, "shape": list(shape), "variant": v, "wrong": e} for v, e in errors.items() if e > 1.5]
    if torch_us:
        rows.append({"op": a.op, "shape": list(shape), "torch": round(statistics.median(torch_us), 3)})
    for v, t in times.items():
        rows.append({"op": a.op, "dtype": a.dtype, "shape": list(shape), "variant": v, "us": round(statistics.median(t), 3), "model_us": variants[v]["model_us"],
                     "picked": v == stage["pick"], "pool": variants[v].get("pool", False), "rounds": len(t)})
    return rows


def errors_of(a, data, shape, variants):
    """Greatest error of each against f64, in roundings of the results' type and of sums as tensor cores make them: results are looked at where they are made."""
    torch = data.torch
    y, x, w, bias = next(data.sets(a.op, shape, 1))
    want = (x.double() @ (w.double() if a.op == "matmul" else w.double().T)) if x.shape[0] * w.numel() < 1 << 34 else None
    if want is None:
        return {}
    if a.op == "linear_bias_gelu":
        want = torch.nn.functional.gelu(want + bias.double(), approximate="tanh")
    scale = judge_md.EPSILON[a.dtype] * want.abs() + 2.0 ** -17 * shape[1] ** 0.5 + (2.0 ** -11 * shape[1] ** 0.5 if a.tf32 else 0)
    errors = {}
    for v in variants:
        y.fill_(float("nan"))
        judge_md.Runner(a.op, a.dtype, v).into(y, x, w, bias)
        errors[v] = round(float(torch.nan_to_num((y.double() - want).abs() / scale, nan=1e9).max()), 3)
    return errors


# ---- Given variants at given shapes

def torch_of(op, torch):
    if op == "linear_bias_gelu":
        return lambda y, x, w, c: torch.nn.functional.gelu(torch.nn.functional.linear(x, w, c), approximate="tanh")
    return lambda y, x, w, _: torch.mm(x, w if op == "matmul" else w.T, out=y)


def run_case(timer, data, have, a, op, dtype, shape, variants):
    m, k, n = shape
    n_bytes = (m * k + k * n + m * n) * data.dtype.itemsize
    calls = max(3, min(a.calls, int(200 / (1.5 + n_bytes / 4.0e6 + 2.0 * m * k * n / (5e7 if dtype == "float32" else 6e8))) + 1))
    sets = list(data.sets(op, shape, calls))
    pick = judge_md.Runner(op, dtype).choice(*sets[0])[0][0]
    contestants = {v: judge_md.Runner(op, dtype, v).into for v in dict.fromkeys([pick, *variants, *(f"gemm_lib/rank{i}" for i in range(8))]) if v == pick or (op, dtype, v) in have}
    contestants["torch"] = torch_of(op, data.torch)
    times, failed = timer.race(contestants, sets, a.rounds, 1.6)
    return {"op": op, "dtype": dtype, "shape": shape, "pick": pick, "us": {v: [round(statistics.median(t), 3), len(t)] for v, t in times.items()}, "failed": failed}


def run_cases(a, torch, start, out):
    cases = []
    with open(a.cases, encoding="utf-8") as lines:
        for op, dtype, m, k, n, *variants in (line.split() for line in lines if line.strip() and line[0] != "#"):
            cases.append((op, dtype, (int(m), int(k), int(n)), variants))
    need = dict.fromkeys((op, dtype, v) for op, dtype, _, variants in cases for v in [None, *variants, *(f"gemm_lib/rank{i}" for i in range(8))])
    judge_md.library() # by one thread
    with concurrent.futures.ThreadPoolExecutor(40) as pool: # everything is compiled before anything is timed
        have = {c for c, op in zip(need, pool.map(lambda c: make(*c), need)) if op}
    timer, data = judge_md.Timer(torch), {d: Data(torch, d, a.buffer << 20) for d in {c[1] for c in cases}}
    for i, case in enumerate(cases):
        if time.perf_counter() - start > a.seconds:
            print(f"map_products: out of time at {i} of {len(cases)}", file=sys.stderr)
            break
        try:
            row = run_case(timer, data[case[1]], have, a, *case)
        except judge_md.Failed as e:
            row = {"op": case[0], "dtype": case[1], "shape": case[2], "error": str(e)[:300]}
        print(json.dumps(row), file=out, flush=True)


def sum_up(cases):
    """Regret of the pick against the best of the pool and against the best of all; own kernels against the library's best."""
    total = {"pool": [], "all": [], "own": []}
    for rows in cases:
        picked = [x["us"] for x in rows if x["picked"]]
        if not picked:
            continue
        lib = [x["us"] for x in rows if x["variant"].startswith("gemm_lib")]
        own = [x["us"] for x in rows if not x["variant"].startswith("gemm_lib")]
        total["pool"].append(picked[0] / min(x["us"] for x in rows if x["pool"]))
        total["all"].append(picked[0] / min(x["us"] for x in rows))
        if lib and own:
            total["own"].append(min(lib) / min(own))
    return {name: {"cases": len(v), "mean": round(statistics.geometric_mean(v), 4), "least": round(min(v), 3), "most": round(max(v), 3)}
            for name, v in total.items() if v}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--op", default="linear", choices=sorted(judge_md.PRODUCT_OPS))
    p.add_argument("--dtype", default="bfloat16")
    p.add_argument("--board")
    p.add_argument("--cases", help="variants by shape, instead of a board and pins")
    p.add_argument("--pins")
    p.add_argument("--own-hints", action="store_true")
    p.add_argument("--near", type=float, default=2.0, help="a pin is timed if its modelled time is below so many times the best")
    p.add_argument("--most", type=int, default=16)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--calls", type=int, default=24)
    p.add_argument("--buffer", type=int, default=1024, help="MiB of inputs, and as much of outputs")
    p.add_argument("--seconds", type=float, default=30.0)
    p.add_argument("--tf32", action="store_true", help="of ops that allow it, and of torch")
    p.add_argument("--out")
    a = p.parse_args()
    import torch
    judge_md.OP_OPTIONS["tf32"] = int(a.tf32)
    torch.backends.cuda.matmul.allow_tf32 = a.tf32
    start, board, pins = time.perf_counter(), BOARD, []
    if a.board:
        with open(a.board, encoding="utf-8") as lines:
            board = [tuple(int(v) for v in line.split()[:3]) for line in lines if line.strip() and line[0] != "#"]
    if a.pins:
        with open(a.pins, encoding="utf-8") as lines:
            pins = [line.strip() for line in lines if line.strip()]
    pins += [f"gemm_lib/rank{i}" for i in range(8)]
    out = open(a.out, "w", encoding="utf-8") if a.out else sys.stdout
    if a.cases:
        run_cases(a, torch, start, out)
        return 0
    judge_md.library() # by one thread
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        op = pool.submit(make, a.op, a.dtype)
        pinned = {v: o for v, o in zip(pins, pool.map(lambda v: make(a.op, a.dtype, v), pins)) if o}
        op.result()
    timer, data, cases = judge_md.Timer(torch), Data(torch, a.dtype, a.buffer << 20), []
    with concurrent.futures.ThreadPoolExecutor(32) as pool: # everything is compiled before anything is timed
        list(pool.map(lambda shape: [make(a.op, a.dtype, v) for v in contestants_of(a, shape, pinned)[1]], board))
    print(f"map_products: ready after {time.perf_counter() - start:.1f} s, {len(pinned)} pins", file=sys.stderr)
    for shape in board:
        if time.perf_counter() - start > a.seconds:
            print(f"map_products: out of time at {shape}", file=sys.stderr)
            break
        try:
            rows = map_case(timer, data, a, shape, pinned)
        except Exception as e:
            rows = [{"op": a.op, "shape": list(shape), "error": f"{type(e).__name__}: {e}"[:300]}]
        for row in rows:
            print(json.dumps(row), file=out, flush=True)
        cases.append([x for x in rows if "us" in x])
    print(json.dumps({"op": a.op, "dtype": a.dtype, "regret": sum_up(cases)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
