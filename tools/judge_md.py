#!/usr/bin/env python3
"""This library as a contender of a judge of GPU kernels, checked against PyTorch, and mapped: every variant of a pool at every shape.

As a module it defines contenders(op, dtype) -> {name: fn}; fn takes torch tensors and enqueues on the current stream. As a program:

  judge_md.py check [--ops A,B] [--dtypes float32,bfloat16] [--board FILE]    results against f64, and which variant served each shape
  judge_md.py map   [--ops A,B] [--dtypes ...] --board FILE [--part 1/4] [--seconds 55] [--out FILE]   times, as JSON lines
  judge_md.py list  [--ops A,B]                                               the formulas

A board has lines "rows columns". Times of map: GPU time from graphs of k calls on inputs of their own after a sweep of the L2, replayed
A B C C B A; us is the median over rounds, lo and hi the 10th and 90th percentile. JUDGE_LIB names the library, MD_JUDGE_PIN pins a variant,
MD_JUDGE_DEVICE is the device (cuda), MD_JUDGE_LOG=1 prints how long each op took to make, MD_JUDGE_COLUMNS=md,md_measure,md_own,md_own_measure says
which contenders there are: the default mode, measured per shape, and both without the vendor's library; also "hint 64", "distance", "model" and "measure" as in mdctl
bench table (among the hints 64, 256, 4096). tools/judge_products.py runs the judge's boards of products with all of these; tools/report_gpu sums map up.
"""
import argparse
import concurrent.futures
import ctypes as c
import json
import os
import re
import statistics
import sys
import threading
import time

here = os.path.dirname(os.path.abspath(__file__))
RANK = 8
DTYPES = {"float32": 1, "float64": 2, "float16": 3, "bfloat16": 4, "int32": 5, "int64": 6, "uint8": 7, "bool": 8}
EPSILON = {"float32": 2.0 ** -23, "bfloat16": 2.0 ** -7, "float16": 2.0 ** -10, "float64": 2.0 ** -52}

# name: (formula, inputs used of (x, g, b), output: "same", "rows" or "index"). %eps is that of f32, as F.rms_norm takes it for
# 16-bit types too.
ROW_OPS = {
    "softmax": ("Y[i,j] = exp(X[i,j] - max[k](X[i,k])) / sum[k](exp(X[i,k] - max[l](X[i,l])))", "x", "same"),
    "layer_norm": ("Y[i,j] = (X[i,j] - mean[k](X[i,k])) * rsqrt(var[k](X[i,k]) + 1e-5) * G[j] + B[j]", "xgb", "same"),
    "rms_norm": ("Y[i,j] = X[i,j] * rsqrt(mean[k](X[i,k] * X[i,k]) + %eps) * G[j]", "xg", "same"),
    "sum": ("Y[i] = sum[j](X[i,j])", "x", "rows"),
    "max": ("Y[i] = max[j](X[i,j])", "x", "rows"),
    "argmax": ("Y:i64[i] = argmax[j](X[i,j])", "x", "index"),
    "var": ("Y[i] = var[j](X[i,j]) * (f32(size(j)) / f32(size(j) - 1))", "x", "rows"),
    "copy": ("Y[i,j] = X[i,j]", "x", "same"),
    "cumsum": ("Y[i,j] = cumsum[j](X[i,j])", "x", "same"),
    "logsumexp": ("Y[i] = log(sum[j](exp(X[i,j] - max[k](X[i,k])))) + max[j](X[i,j])", "x", "rows"),
}
# Products: inputs as the judge gives them, x[m,k], w[n,k] (matmul: w[k,n]), c[n].
PRODUCT_OPS = {
    "linear": ("Y[m,n] = sum[k](X[m,k] * W[n,k])", "xw"),
    "linear_bias_gelu": ("Y[m,n] = gelu_tanh(sum[k](X[m,k] * W[n,k]) + C[n])", "xwc"),
    "matmul": ("Y[m,n] = sum[k](X[m,k] * W[k,n])", "xw"),
}
JUDGE_BOARD = [(1, 1 << 20), (8, 262144), (16, 131072), (64, 65536), (256, 32768), (1024, 16384), (4096, 8192), (8192, 4096), (16384, 1024),
               (65536, 256), (262144, 64), (1000, 1000), (4097, 12289)]


# ---- The library through ctypes.

class Tensor(c.Structure):
    _fields_ = [("data", c.c_void_p), ("dtype", c.c_int), ("rank", c.c_int32), ("size", c.c_int64 * RANK), ("stride", c.c_int64 * RANK)]


class Arg(c.Structure):
    _fields_ = [("kind", c.c_int), ("dim", c.c_int32), ("tensor", c.POINTER(Tensor)), ("real", c.c_double), ("integer", c.c_int64)]


def struct_of(name):
    """A struct of md/types.h: read from it, so that new fields are never missed."""
    with open(os.path.join(here, "..", "include", "md", "types.h"), encoding="utf-8") as f:
        text = f.read()
    limits = dict(re.findall(r"#define (MD_MAX_\w+) (\d+)", text))
    body = re.search(r"typedef struct " + name + r" \{(.*?)\n\} " + name + ";", text, re.S)[1]
    body = re.sub(r"MD_MAX_\w+", lambda m: limits.get(m[0], m[0]), body)
    fields, plain = [], {"int32_t": c.c_int32, "int64_t": c.c_int64, "double": c.c_double, "size_t": c.c_size_t}
    for line in re.sub(r"/\*.*?\*/", "", body, flags=re.S).split(";"):
        if pointer := re.match(r"\s*(?:const )?\w+ \*?\(\*(\w+)\)\(", line):
            fields.append((pointer[1], c.c_void_p))
        elif m := re.match(r"\s*(?:const )?(\w+) (\*?)(\w+)(?:\[(\d+)\])?\s*$", line):
            kind, star, field, n = m.groups()
            if kind == "md_log_fn":
                star = "*"
            one = (c.c_char_p if kind == "char" else c.c_void_p) if star else plain.get(kind, c.c_int) # else an enum
            fields.append((field, one * int(n) if n else one))
    return type(name, (c.Structure,), {"_fields_": fields})


ContextOptions, OpOptions, Choice = (struct_of(n) for n in ("md_context_options", "md_op_options", "md_choice"))


LOADED = c.CDLL(os.path.abspath(os.environ.get("JUDGE_LIB", os.path.join(here, "..", "build", "src", "libmultidispatch.so"))))
WRITE = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_void_p, c.c_size_t)


class Failed(Exception):
    pass


class Library:
    """One context. Lives as long as the process: ops are never destroyed, since graphs may hold their kernels."""

    def __init__(self, device=None):
        self.lib = LOADED
        self.lib.md_last_error.restype = c.c_char_p
        self.lib.md_op_variant.restype = c.c_char_p
        self.lib.md_op_variant.argtypes = [c.c_void_p, c.c_int32, c.c_int32]
        self.lib.md_op_n_variants.argtypes = [c.c_void_p, c.c_int32]
        self.lib.md_op_n_stages.argtypes = self.lib.md_op_wait.argtypes = self.lib.md_check.argtypes = [c.c_void_p]
        self.lib.md_prepare.argtypes = [c.c_void_p, c.c_char_p]
        self.lib.md_call.argtypes = [c.c_void_p, c.c_void_p, c.POINTER(Arg), c.c_int32]
        self.lib.md_choice_of.argtypes = [c.POINTER(Choice), c.c_void_p, c.POINTER(Arg), c.c_int32]
        self.lib.md_explain.argtypes = [c.c_void_p, c.c_char_p, c.c_int32, WRITE, c.c_void_p]
        self.lib.md_info.argtypes = [c.c_void_p, c.c_int32, WRITE, c.c_void_p]
        self.context = c.c_void_p()
        options = ContextOptions(device=(device or os.environ.get("MD_JUDGE_DEVICE", "cuda")).encode())
        self.check(self.lib.md_context_create(c.byref(self.context), c.byref(options)), "md_context_create")
        self.ops, self.making = {}, {}

    def check(self, status, what):
        if status:
            raise Failed(f"{what}: {self.lib.md_last_error().decode(errors='replace')}")

    def text(self, function, *arguments):
        parts = []

        def write(_user, at, n):
            parts.append(c.string_at(at, n))
            return 0

        self.check(function(*arguments, WRITE(write), None), function.__name__)
        return b"".join(parts).decode(errors="replace")

    def op(self, name, dtype, pin=None, hints=None, column="md"):
        key = (name, dtype, pin, hints, column)
        with self.making.setdefault(key, threading.Lock()): # made once, whoever asks first
            if key not in self.ops:
                self.ops[key] = self.make(*key)
            return self.ops[key]

    def make(self, name, dtype, pin, hints, column):
        row = name in ROW_OPS
        formula = (ROW_OPS if row else PRODUCT_OPS)[name][0].replace("%eps", repr(EPSILON["float64" if dtype == "float64" else "float32"]))
        out, start = c.c_void_p(), time.perf_counter()
        given = {"pin": pin.encode() if pin else None, "hints": hints.encode() if hints else None}
        options = OpOptions(name=name.encode(), dtype=DTYPES[dtype], **{**given, **OP_OPTIONS, **column_of(column)})
        self.check(self.lib.md_op_create(c.byref(out), self.context, formula.encode(), c.byref(options)), name)
        created = time.perf_counter() - start
        self.check(self.lib.md_op_wait(out), name)
        if os.environ.get("MD_JUDGE_LOG"):
            print(json.dumps({"op": name, "dtype": dtype, "pin": pin, "variants": self.lib.md_op_n_variants(out, 0), "create_s": round(created, 3),
                              "ready_s": round(time.perf_counter() - start, 3)}), flush=True)
        return out

    def explain(self, op, sizes):
        return json.loads(self.text(self.lib.md_explain, op, sizes.encode(), 1))


class Arguments:
    """Arguments of one call, reused from call to call."""

    def __init__(self, n):
        self.tensor, self.arg, self.n = (Tensor * n)(), (Arg * n)(), n
        for i in range(n):
            self.arg[i].kind, self.arg[i].tensor = 1, c.pointer(self.tensor[i])

    def set(self, i, data, dtype, size, stride):
        t = self.tensor[i]
        t.data, t.dtype, t.rank = data, dtype, len(size)
        for axis, (n, s) in enumerate(zip(size, stride)):
            t.size[axis], t.stride[axis] = n, s


LIBRARY = None
OP_OPTIONS = {} # more of them, for all ops
DISTANCE, MODEL, MEASURE, OWN, SEED = {"select": 1}, {"select": 2}, {"select": 3}, {"without_library": 1}, {"hints": b"64,256,4096"}
COLUMNS = {"md": {}, "md_measure": MEASURE, "md_own": OWN, "md_own_measure": {**OWN, **MEASURE}, "distance": {**SEED, **DISTANCE}, "model": {**SEED, **MODEL},
           "measure": {**SEED, **MEASURE}}


def column_of(name):
    """Options of an op; "hint 64" has that hint alone."""
    if re.fullmatch(r"hint \d+", name):
        return {"hints": name.split()[1].encode(), **DISTANCE}
    return COLUMNS[name]


def library():
    global LIBRARY
    if LIBRARY is None:
        LIBRARY = Library()
    return LIBRARY


# ---- Contenders on torch tensors.

def dtype_name(dtype):
    return str(dtype).rsplit(".", 1)[-1]


def output_of(kind, x, torch):
    if kind == "same":
        return torch.empty_like(x)
    return torch.empty(x.shape[0], device=x.device, dtype=torch.int64 if kind == "index" else x.dtype)


class Runner:
    def __init__(self, name, dtype, pin=None, column="md"):
        import torch
        self.torch, self.md, self.row = torch, library(), name in ROW_OPS
        self.name, self.op = name, self.md.op(name, dtype, pin, column=column)
        _, self.inputs, *self.kind = (ROW_OPS if self.row else PRODUCT_OPS)[name]
        self.arguments = Arguments(len(self.inputs) + 1)
        self.code = {getattr(torch, n): v for n, v in DTYPES.items()}

    def output(self, x, others):
        if self.row:
            return output_of(self.kind[0], x, self.torch)
        n = others[0].shape[1 if self.name == "matmul" else 0]
        return self.torch.empty(x.shape[0], n, device=x.device, dtype=x.dtype)

    def bind(self, y, tensors):
        for i, t in enumerate((y, *tensors)):
            self.arguments.set(i, t.data_ptr(), self.code[t.dtype], t.shape, t.stride())

    def into(self, y, *tensors):
        self.bind(y, tensors[:len(self.inputs)])
        stream = self.torch.cuda.current_stream().cuda_stream
        status = self.md.lib.md_call(self.op, stream, self.arguments.arg, self.arguments.n)
        if status:
            self.md.check(status, self.name)
        return y

    def __call__(self, x, *others):
        return self.into(self.output(x, others), x, *others)

    def choice(self, y, *tensors):
        self.bind(y, tensors[:len(self.inputs)])
        return self.last()

    def last(self):
        """Who serves the arguments of the last call, and why."""
        out = Choice()
        self.md.check(self.md.lib.md_choice_of(c.byref(out), self.op, self.arguments.arg, self.arguments.n), self.name)
        return [(out.variant[i].decode(), out.source[i].decode()) for i in range(out.n_stages)]


WARM = set()


def warm(dtype):
    """Makes the ops of the judge's reductions and prepares its board's shapes, all at a time: compiling one after the other would take long."""
    md, names = library(), ("softmax", "layer_norm", "rms_norm", "sum", "max", "argmax", "var")

    def prepare(case):
        md.lib.md_prepare(md.op(case[0], dtype), f"i={case[1][0]}, j={case[1][1]}".encode())

    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        list(pool.map(lambda name: md.op(name, dtype), names))
        list(pool.map(prepare, [(n, s) for n in names for s in JUDGE_BOARD]))
    WARM.add(dtype)


def contenders(op, dtype):
    if op not in ROW_OPS and op not in PRODUCT_OPS:
        return {}
    if op in ROW_OPS and dtype_name(dtype) not in WARM and not os.environ.get("MD_JUDGE_PIN"):
        warm(dtype_name(dtype))
    columns = os.environ.get("MD_JUDGE_COLUMNS", "md").split(",")
    return {c: Runner(op, dtype_name(dtype), os.environ.get("MD_JUDGE_PIN"), c) for c in columns}


# ---- check

def wanted(name, x, g, b, torch):
    """In f64. The second value: what f32 arithmetic on such a row may be off by beside relative error, in units of its rounding."""
    x, n = x.double(), x.shape[1]
    if name in ("layer_norm", "rms_norm"):
        g, b = g.double(), b.double()
    if name == "softmax": return torch.softmax(x, -1), 0.0
    if name == "layer_norm": return torch.nn.functional.layer_norm(x, (n,), g, b, eps=1e-5), 16.0
    if name == "sum": return x.sum(-1), 8.0 * n ** 0.5
    if name == "max": return x.amax(-1), 0.0
    if name == "argmax": return x.argmax(-1), 0.0
    if name == "var": return x.var(-1), 4.0
    if name == "copy": return x, 0.0
    if name == "cumsum": return x.cumsum(-1), 16.0 * n ** 0.5
    if name == "logsumexp": return torch.logsumexp(x, -1), 4.0
    return None, 16.0


def check_case(name, dtype, shape, torch):
    t = getattr(torch, dtype)
    x, g, b = (torch.randn(*s, device="cuda", dtype=t) for s in (shape, shape[1:], shape[1:]))
    runner = Runner(name, dtype, os.environ.get("MD_JUDGE_PIN"))
    y = runner(x, g, b)
    torch.cuda.synchronize()
    want, absolute = wanted(name, x, g, b, torch)
    if name == "rms_norm":
        want = x.double() * torch.rsqrt((x.double() ** 2).mean(-1, keepdim=True) + EPSILON["float32"]) * g.double()
    row = {"op": name, "dtype": dtype, "shape": list(shape), "variant": " ".join(v for v, _ in runner.choice(y, x, g, b))}
    if name == "argmax": # any of equals of the same value would be an error too: the first one is promised
        first = (x == x.amax(-1, keepdim=True)).int().argmax(-1)
        row.update(worst=int((y != first).sum()), ok=bool((y == first).all()))
        return row
    relative = EPSILON[dtype] * (0.75 if dtype != "float32" else 32.0)
    error = (y.double() - want).abs() / (relative * want.abs() + absolute * 2.0 ** -24 + 1e-30)
    error = torch.where(y.double() == want, torch.zeros_like(error), error)
    worst = float(torch.nan_to_num(error, nan=float("inf")).max()) if y.numel() else 0.0
    row.update(worst=round(worst, 4), ok=worst <= 1.0)
    return row


def check(a):
    import torch
    torch.manual_seed(a.seed)
    bad = 0
    for dtype in a.dtypes:
        for name in a.ops or [n for n in ROW_OPS]:
            for shape in a.shapes:
                try:
                    row = check_case(name, dtype, shape, torch)
                except Exception as e:
                    row = {"op": name, "dtype": dtype, "shape": list(shape), "ok": False, "error": f"{type(e).__name__}: {e}"[:300]}
                bad += not row["ok"]
                print(json.dumps(row), flush=True)
                if "illegal" in row.get("error", "") or "lost" in row.get("error", ""):
                    print(f"check: seed {a.seed}, the device is lost")
                    return True
    reported = library().lib.md_check(library().context)
    print(f"check: seed {a.seed}, {bad} wrong, md_check {reported}")
    return bad > 0 or reported != 0


# ---- map

class Data:
    """One large buffer of inputs and one of outputs a dtype; cases are views into them, so that no shape costs an allocation."""

    def __init__(self, torch, dtype, n_bytes):
        self.torch, self.dtype = torch, getattr(torch, dtype)
        n = n_bytes // self.dtype.itemsize
        self.x, self.y = torch.randn(n, device="cuda", dtype=self.dtype), torch.empty(n, device="cuda", dtype=self.dtype)
        self.g = torch.randn(1 << 25, device="cuda", dtype=self.dtype)

    def sets(self, kind, shape, k):
        rows, columns = shape
        step = (rows * columns + 127) // 128 * 128
        k = max(1, min(k, self.x.numel() // step))
        for i in range(k):
            x = self.x[i * step:i * step + rows * columns].view(rows, columns)
            if kind == "same":
                y = self.y[i * step:i * step + rows * columns].view(rows, columns)
            else:
                y = output_of(kind, x, self.torch)
            yield y, x, self.g[:columns], self.g[columns:2 * columns] if 2 * columns <= self.g.numel() else self.g[:columns]


def floor_of(kind, judge):
    if judge is None:
        return lambda y, x, *_: y.copy_(x) if kind == "same" else x.sum()
    if kind != "same":
        return lambda y, x, *_: judge.read(x)

    def copy(y, x, *_):
        n, block = x.numel(), 8192 * 2 // x.element_size()
        judge.copy_kernel[((n + block - 1) // block,)](x, y, n, block, num_warps=8)
    return copy


class Timer:
    def __init__(self, torch):
        self.torch, self.stream = torch, torch.cuda.Stream()
        self.sweep = torch.ones(int(2.5 * torch.cuda.get_device_properties(0).L2_cache_size) // 4, device="cuda")

    def rough(self, fn, x):
        torch = self.torch
        a, b = (torch.cuda.Event(enable_timing=True) for _ in "ab")
        fn(*x)
        a.record()
        fn(*x)
        b.record()
        torch.cuda.synchronize()
        return a.elapsed_time(b) * 1e3

    def capture(self, fn, sets):
        torch, keep = self.torch, []
        a, b = (torch.cuda.Event(enable_timing=True, external=True) for _ in "ab")
        with torch.cuda.stream(self.stream):
            fn(*sets[0])
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            self.sweep.sum()
            a.record(self.stream)
            for s in sets:
                keep.append(fn(*s))
            b.record(self.stream)
        return graph, a, b, keep

    def race(self, contestants, sets, rounds, drop=4.0):
        """name -> list of us a call. One that takes so many times the best is dropped after the first round."""
        graphs, failed = {}, {}
        for name, fn in contestants.items():
            try:
                graphs[name] = self.capture(fn, sets)
            except Exception as e:
                failed[name] = f"{type(e).__name__}: {e}"[:200]
                self.torch.cuda.synchronize()
        times = {n: [] for n in graphs}
        for r in range(-1, rounds):
            names = list(graphs) if r % 2 == 0 else list(graphs)[::-1]
            best = min((min(t) for t in times.values() if t), default=0.0)
            for n in names:
                if r > 0 and min(times[n]) > drop * best:
                    continue
                graph, a, b, _ = graphs[n]
                graph.replay()
                self.torch.cuda.synchronize()
                if r >= 0:
                    times[n].append(a.elapsed_time(b) * 1e3 / len(sets))
        return times, failed


def candidates(md, op, shape):
    stages = md.explain(op, f"i={shape[0]}, j={shape[1]}")["stages"]
    return stages[0] if len(stages) == 1 else None


def pool_of(name, dtype, shape, a):
    """The stage as md_explain tells it, candidates by variant, and those that cannot be built. Their pinned ops exist afterwards."""
    md = library()
    stage = candidates(md, md.op(name, dtype), shape)
    if stage is None:
        return None, {}, {}
    pool, failed = {x["variant"]: x for x in stage["candidates"] if x["fits"]}, {}
    if a.own_hints: # what the model would take from each family were the shape a hint
        own = candidates(md, md.op(name, dtype, None, f"(i={shape[0]},j={shape[1]})"), shape)
        for x in own["candidates"]:
            if x["fits"] and x["variant"] not in pool:
                pool[x["variant"]] = dict(x, hint="its own")
    pool.update((v, {}) for v in a.pins if v not in pool)
    if a.only_pins:
        pool = {v: pool[v] for v in a.pins}
    for variant in list(pool):
        try:
            md.op(name, dtype, variant)
        except Failed as e:
            failed[variant] = str(e)[:200]
            del pool[variant]
    return stage, pool, failed


def map_case(timer, data, judge, name, dtype, shape, a):
    kind = ROW_OPS[name][2]
    stage, pool, failed = pool_of(name, dtype, shape, a)
    if stage is None:
        return [{"op": name, "dtype": dtype, "shape": list(shape), "error": "several stages"}]
    n_bytes = shape[0] * shape[1] * data.dtype.itemsize * (2 if kind == "same" else 1)
    contestants = {"floor": floor_of(kind, judge)}
    if kind == "same": # the faster of two kinds of copy counts
        contestants["clone"] = lambda y, x, *_: y.copy_(x)
    for variant in pool:
        contestants[variant] = Runner(name, dtype, variant).into
    k = max(3, min(a.calls, int(150 / (1.5 + n_bytes / 4.0e6)) + 1))
    times, more = timer.race(contestants, list(data.sets(kind, shape, k)), a.rounds)
    failed.update(more)
    rows = []
    for n, t in times.items():
        x = pool.get(n, {})
        t = sorted(t)
        rows.append({"op": name, "dtype": dtype, "shape": list(shape), "variant": n, "us": round(statistics.median(t), 3), "lo": round(t[int(.1 * len(t))], 3),
                     "hi": round(t[min(len(t) - 1, int(.9 * len(t)))], 3), "picked": n == stage["pick"], "model_us": x.get("model_us"), "hint": x.get("hint"),
                     "bytes": n_bytes, "rounds": len(t), "k": k})
    return rows + [{"op": name, "dtype": dtype, "shape": list(shape), "variant": n, "error": e} for n, e in failed.items()]


def load_judge(path):
    if not path:
        return None
    import importlib.util
    spec = importlib.util.spec_from_file_location("judge", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def map_all(a):
    import torch
    a.ops = a.ops or ["softmax", "layer_norm", "sum", "argmax"]
    start, out = time.perf_counter(), open(a.out, "w", encoding="utf-8") if a.out else sys.stdout
    timer, judge = Timer(torch), load_judge(a.judge)
    for dtype in a.dtypes:
        data = Data(torch, dtype, a.buffer << 20)
        with concurrent.futures.ThreadPoolExecutor(32) as pool: # compiled before anything is timed
            list(pool.map(lambda name: library().op(name, dtype), a.ops))
            list(pool.map(lambda case: pool_of(*case, a), [(name, dtype, shape) for name in a.ops for shape in a.shapes]))
        print(f"map: {dtype} ready after {time.perf_counter() - start:.1f} s", file=sys.stderr)
        for name in a.ops:
            for shape in a.shapes:
                if time.perf_counter() - start > a.seconds:
                    print(f"map: out of time at {name} {dtype} {shape}", file=sys.stderr)
                    return 1
                try:
                    rows = map_case(timer, data, judge, name, dtype, shape, a)
                except Failed as e:
                    rows = [{"op": name, "dtype": dtype, "shape": list(shape), "error": str(e)[:300]}]
                for row in rows:
                    print(json.dumps(row), file=out, flush=True)
        del data
    print(f"map: {time.perf_counter() - start:.1f} s", file=sys.stderr)
    return 0


def read_board(path, part):
    shapes = JUDGE_BOARD
    if path:
        with open(path, encoding="utf-8") as lines:
            shapes = [tuple(int(v) for v in line.split()[:2]) for line in lines if line.strip() and line[0] != "#"]
    i, n = (int(v) for v in part.split("/"))
    return shapes[i - 1::n]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=("check", "map", "list"))
    p.add_argument("--ops", type=lambda s: s.split(","))
    p.add_argument("--dtypes", type=lambda s: s.split(","), default=["float32", "bfloat16"])
    p.add_argument("--board", help="default: the judge's reductions")
    p.add_argument("--part", default="1/1", help="i/n: every n-th shape from the i-th on")
    p.add_argument("--own-hints", action="store_true", help="map: also what each family would offer were the shape a hint")
    p.add_argument("--pins", type=lambda s: s.split(";"), default=[], help="map: also these variants, separated by ;")
    p.add_argument("--only-pins", action="store_true", help="map: no others")
    p.add_argument("--shapes", type=lambda s: [tuple(int(n) for n in v.split("x")) for v in s.split(",")], help="instead of a board: 1x1048576,16x131072")
    p.add_argument("--judge", help="path of a judge whose copy and read kernels are the floor; default: PyTorch's copy")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--calls", type=int, default=24, help="most calls in a graph")
    p.add_argument("--buffer", type=int, default=3072, help="MiB of inputs, and as much of outputs")
    p.add_argument("--seconds", type=float, default=55.0, help="stops in front of the first shape after this time")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--out")
    a = p.parse_args()
    a.shapes = a.shapes or read_board(a.board, a.part)
    if a.what == "list":
        for name in a.ops or [*ROW_OPS, *PRODUCT_OPS]:
            print(f"{name}: {({**ROW_OPS, **PRODUCT_OPS})[name][0]}")
        return 0
    return check(a) if a.what == "check" else map_all(a)


if __name__ == "__main__":
    sys.exit(main())
