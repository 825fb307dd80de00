#!/usr/bin/env python3
"""Times PyTorch, eager and compiled, on the lines of boards, as `mdctl bench` times this library: lines for `mdctl report`.

    bench_peers.py BOARD... [--device host|cuda] [--ways eager,inductor] [--output FILE] [--resume] [--part K/N] [--budget S]
                   [--repeat N] [--threads N]

k calls on k sets of tensors that no cache holds together; on a GPU as one CUDA graph between two events, after 2.5 times the
L2 was read. The ways of a line take turns. --ways: eager, inductor (torch.compile, dynamic=True), max-autotune. A line whose
operation has no row in OPS is left out, which is said. With --output the lines are added to the file; --resume leaves out
those that it has. Exit 77: PyTorch is missing, or has no GPU for --device cuda.
"""
import argparse
import json
import pathlib
import statistics
import sys
import time

COLD_BYTES, MOST_SETS = 192e6, 16
TYPES = {"f32": "float32", "bf16": "bfloat16", "f16": "float16", "f64": "float64"}


def matrices(*names):
    """Shapes of operands by names of dims: "ij", "j"."""
    return lambda d: [tuple(d[c] for c in name) for name in names]


def heads(d):
    b, h, i, j, k = (d[c] for c in "bhijd")
    return [(b, h, i, k), (b, h, j, k), (b, h, j, d.get("e", k))]


def grouped_heads(d):
    b, g, r, i, j, k = (d[c] for c in "bgrijd")
    return [(b, g * r, i, k), (b, g, j, k), (b, g, j, d.get("e", k))]


def attention_and_gradients(d):
    q, k, v = heads(d)
    y = q[:3] + v[3:]
    return [q, k, q[:3], y, y, v]


def backward_of_attention(torch):
    """PyTorch's backward, whose forward runs once for each Q: on the stream that graphs are captured on, since a backward
    runs on its forward's stream. L and Y are its own."""
    made = torch.utils.weak.WeakTensorKeyDictionary()

    def forward(*operands):
        leaves = [x.detach().clone().requires_grad_() for x in operands]
        with torch.enable_grad():
            return leaves, torch.nn.functional.scaled_dot_product_attention(*leaves)

    def call(q, k, lse, dy, y, v):
        if q not in made and q.is_cuda:
            capture = torch.cuda.graph.default_capture_stream = torch.cuda.graph.default_capture_stream or torch.cuda.Stream()
            torch.cuda.synchronize()
            with torch.cuda.stream(capture):
                made[q] = forward(q, k, v)
            torch.cuda.synchronize()
        elif q not in made:
            made[q] = forward(q, k, v)
        leaves, result = made[q]
        return torch.autograd.grad(result, leaves, dy, retain_graph=True)
    return call


EAGER_ONLY = {"attention_backward"}  # torch.compile would take the forward along


def operations(torch):
    """Of each op: the function, the shapes of its real operands, and of its indices with their bound."""
    from torch.nn.attention.bias import causal_lower_right
    f, sdpa = torch.nn.functional, torch.nn.functional.scaled_dot_product_attention
    return {
        "copy": (torch.clone, matrices("ij")),
        "transpose": (lambda x: x.t().contiguous(), matrices("ji")),
        "add": (torch.add, matrices("ij", "ij")),
        "mul": (torch.mul, matrices("ij", "ij")),
        "relu": (torch.relu, matrices("ij")),
        "gelu": (f.gelu, matrices("ij")),
        "silu": (f.silu, matrices("ij")),
        "bias_gelu": (lambda x, b: f.gelu(x + b), matrices("ij", "j")),
        "silu_mul": (lambda g, u: f.silu(g) * u, matrices("ij", "ij")),
        "softmax": (lambda x: torch.softmax(x, 1), matrices("ij")),
        "log_softmax": (lambda x: torch.log_softmax(x, 1), matrices("ij")),
        "layer_norm": (lambda x, g, b: f.layer_norm(x, g.shape, g, b, 1e-5), matrices("ij", "j", "j")),
        "rms_norm": (lambda x, g: f.rms_norm(x, g.shape, g, 1e-6), matrices("ij", "j")),
        "sum": (lambda x: x.sum(1), matrices("ij")),
        "max": (lambda x: x.amax(1), matrices("ij")),
        "var": (lambda x: x.var(1, correction=0), matrices("ij")),
        "argmax": (lambda x: x.argmax(1), matrices("ij")),
        "column_sum": (lambda x: x.sum(0), matrices("ij")),
        "cumsum": (lambda x: x.cumsum(1), matrices("ij")),
        "cumprod": (lambda x: x.cumprod(1), matrices("ij")),
        "linear": (f.linear, matrices("bk", "nk")),
        "linear_bias_gelu": (lambda x, w, b: f.gelu(f.linear(x, w, b)), matrices("bk", "nk", "n")),
        "matmul": (torch.matmul, matrices("mk", "kn")),
        "embedding": (lambda e, ids: f.embedding(ids, e), lambda d: [(d["E.0"], d["j"])], lambda d: ((d["i"],), d["E.0"])),
        "attention": (sdpa, heads),
        "attention_causal": (lambda q, k, v: sdpa(q, k, v, attn_mask=causal_lower_right(q.shape[2], k.shape[2])), heads),
        "attention_backward": (backward_of_attention(torch), attention_and_gradients),
        "attention_gqa": (lambda q, k, v: sdpa(q, k, v, enable_gqa=True), grouped_heads),
    }


class Machine:
    """Where tensors lie, and how k calls are timed there."""

    def __init__(self, torch, device, repeat):
        self.torch, self.gpu, self.repeat = torch, device == "cuda", repeat
        self.device = "cuda" if self.gpu else "cpu"
        cache = torch.cuda.get_device_properties(0).L2_cache_size if self.gpu else 0
        self.swept = torch.zeros(int(2.5 * cache) // 4 + 1, device=self.device)

    def tensors(self, row, sizes, dtype):
        made = [self.torch.randn(*shape, device=self.device).to(dtype) for shape in row[1](sizes)]
        if len(row) > 2:
            shape, bound = row[2](sizes)
            made.append(self.torch.randint(bound, shape, device=self.device))
        return made

    def passes(self, call, sets):
        """A function that runs the call on every set once and returns the us of one call."""
        for _ in range(3):
            outputs = [call(*tensors) for tensors in sets]
        if not self.gpu:
            def host():
                start = time.perf_counter()
                for tensors in sets:
                    call(*tensors)
                return (time.perf_counter() - start) * 1e6 / len(sets)
            return host
        self.torch.cuda.synchronize()
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph):
            outputs = [call(*tensors) for tensors in sets]

        def replay(kept=outputs):  # the graph writes to them
            begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
            self.swept.sum()
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            return begin.elapsed_time(end) * 1e3 / len(kept)
        return replay


def compiled(torch, way, function):
    if way == "eager":
        return function
    return torch.compile(function, dynamic=True, mode="max-autotune-no-cudagraphs" if way == "max-autotune" else None)


def quantile(times, q):
    return sorted(times)[min(int(q * len(times)), len(times) - 1)]


def race(machine, row, sizes, dtype, functions):
    """{way: times in us, in turns}, the number of sets, their bytes."""
    first = machine.tensors(row, sizes, dtype)
    n_bytes = sum(x.nbytes for x in first)
    k = max(1, min(MOST_SETS, int(COLD_BYTES / (n_bytes + 1))))
    sets = [first] + [machine.tensors(row, sizes, dtype) for _ in range(k - 1)]
    passes = {way: machine.passes(call, sets) for way, call in functions.items()}
    times = {way: [] for way in passes}
    for turn in range(machine.repeat):
        for way in (list(passes), list(reversed(passes)))[turn % 2]:
            times[way].append(passes[way]())
    return times, k, n_bytes


def cases_of(boards):
    """(op, dtype, sizes) of every line."""
    for board in boards:
        for line in pathlib.Path(board).read_text(encoding="utf-8").splitlines():
            words = line.partition("#")[0].replace(",", " ").split()
            if words:
                yield words[0], words[1], {name: int(size) for name, _, size in (word.partition("=") for word in words[2:])}


def done_in(path):
    """What the lines of a file are of; a line that was cut off is none."""
    done = set()
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines() if path and pathlib.Path(path).exists() else []:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if "torch" in row:
            done.add((row["peer"], row["op"], row["dtype"], str(row["sizes"])))
    return done


def part(text):
    k, n = map(int, text.split("/"))
    if not 1 <= k <= n:
        raise ValueError(text)
    return k, n


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("board", nargs="+")
    p.add_argument("--device", choices=("host", "cuda"), default="host")
    p.add_argument("--ways", type=lambda text: text.split(","), default=["eager", "inductor"])
    p.add_argument("--output")
    p.add_argument("--resume", action="store_true")
    p.add_argument("--part", type=part, default=(1, 1))
    p.add_argument("--budget", type=float, default=float("inf"))
    p.add_argument("--repeat", type=int, default=15)
    p.add_argument("--threads", type=int)
    return p.parse_args()


def run(given, torch, out):
    start, table, machine = time.monotonic(), operations(torch), Machine(torch, given.device, given.repeat)
    done, missing, functions = done_in(given.output) if given.resume else set(), set(), {}
    for number, (op, name, sizes) in enumerate(cases_of(given.board)):
        k, n = given.part
        ways = [way for way in given.ways if (way, op, name, str(sizes)) not in done and (way == "eager" or op not in EAGER_ONLY)]
        if number % n != k - 1 or not ways:
            continue
        if time.monotonic() - start > given.budget:
            break
        if op not in table or name not in TYPES:
            missing.add(op)
            continue
        for way in ways:
            functions.setdefault((way, op), compiled(torch, way, table[op][0]))
        times, sets, n_bytes = race(machine, table[op], sizes, getattr(torch, TYPES[name]), {way: functions[way, op] for way in ways})
        for way, us in times.items():
            print(json.dumps({"peer": way, "op": op, "sizes": sizes, "shape": list(sizes.values()), "dtype": name, "device": "cuda:0" if machine.gpu else "host",
                              "torch": torch.__version__, "us": statistics.median(us), "lo": quantile(us, 0.1), "hi": quantile(us, 0.9), "k": sets, "bytes": n_bytes}), file=out, flush=True)
    if missing:
        print(f"bench_peers: no function for {', '.join(sorted(missing))}: left out", file=sys.stderr)


def main():
    given = arguments()
    try:
        import torch
    except ImportError:
        torch = None
    if torch is None or (given.device == "cuda" and not torch.cuda.is_available()):
        print("bench_peers: PyTorch is not installed, or has no GPU", file=sys.stderr)
        return 77
    if given.threads:
        torch.set_num_threads(given.threads)
    out = open(given.output, "a" if given.resume else "w", encoding="utf-8") if given.output else sys.stdout
    with torch.no_grad(), out:
        if given.output and out.tell() and not pathlib.Path(given.output).read_bytes().endswith(b"\n"):
            print(file=out)  # behind a line that was cut off
        run(given, torch, out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
