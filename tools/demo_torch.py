#!/usr/bin/env python3
"""Times PyTorch, eager and compiled, on the ops and steps that mdctl demo timed, and prints all side by side.

    demo_torch.py DEMO.json [--rounds N] [--json]

DEMO.json is what `mdctl demo --output` wrote, on a GPU or a CPU. On a GPU each op is captured into a CUDA graph, so that launches count for
nobody. With --json the demo's object is printed with a field "torch", null where it cannot be compared. Exit 77: PyTorch
is missing, or has no GPU where the demo had one.
"""
import argparse
import json
import statistics
import sys
import time

REPEATS = 10


def functions(torch, hidden, heads):
    """Of each op: a function, and the sizes of its tensors at (tokens, context) for a width."""
    linear, gelu = torch.nn.functional.linear, torch.nn.functional.gelu
    return {
        "rms_norm": (lambda x, g: torch.nn.functional.rms_norm(x, g.shape, g, 1e-6), lambda i, j, w: [(i, w), (w,)]),
        "qkv": (lambda x, w: linear(x, w), lambda i, j, w: [(i, w), (3 * w, w)]),
        "softmax": (lambda x: torch.softmax(x, 1), lambda i, j, w: [(i * heads, j)]),
        "up_gelu": (lambda x, w, c: gelu(linear(x, w, c), approximate="tanh"), lambda i, j, w: [(i, w), (hidden, w), (hidden,)]),
        "down": (lambda x, w, r: r + linear(x, w), lambda i, j, w: [(i, hidden), (w, hidden), (i, w)]),
        "row_sum": (lambda x: x.sum(1), lambda i, j, w: [(i, j)]),
    }


class Machine:
    """Where tensors lie, and how a call is timed there."""

    def __init__(self, torch, demo):
        self.torch, self.gpu = torch, demo["device"] != "host"
        self.options = {"device": "cuda" if self.gpu else "cpu", "dtype": {"bf16": torch.bfloat16, "f16": torch.float16}.get(demo["dtype"], torch.float32)}

    def make(self, size):
        return self.torch.randn(*size, device=self.options["device"]).to(self.options["dtype"])

    def wait(self):
        if self.gpu:
            self.torch.cuda.synchronize()

    def timer(self, call):
        """A function that returns the time of one call in us."""
        for _ in range(3):
            call()
        self.wait()
        if not self.gpu:
            def host():
                start = time.perf_counter()
                call()
                return (time.perf_counter() - start) * 1e6
            return host
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph):
            for _ in range(REPEATS):
                call()

        def replay():
            begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            return begin.elapsed_time(end) * 1e3 / REPEATS
        return replay

    def time_us(self, call, rounds):
        timed = self.timer(call)
        times = [timed() for _ in range(rounds + 1)][1:]
        return statistics.median(times) if self.gpu else min(times)  # what else runs on a CPU only adds


def time_op(machine, call, tensors, rounds):
    """Time of a call in us, and what its first call took longer, in seconds: compiling, where there is any."""
    start = time.perf_counter()
    call(*tensors)
    machine.wait()
    first = time.perf_counter() - start
    us = machine.time_us(lambda: call(*tensors), rounds)
    return us, max(0.0, first - us / 1e6)


def measure(torch, demo, op, function, sizes, rounds):
    """Of the sampled steps: eager us, compiled us, and what each first compiled call took longer, in seconds; graphs."""
    machine = Machine(torch, demo)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(function, dynamic=True)
    said = {"eager_us": [], "compiled_us": [], "first_s": []}
    with torch.no_grad():
        for i, j in op["sampled"]:
            tensors = [machine.make(size) for size in sizes(i, j, demo["width"])]
            said["eager_us"].append(time_op(machine, function, tensors, rounds)[0])
            us, first = time_op(machine, compiled, tensors, rounds)
            said["compiled_us"].append(us)
            said["first_s"].append(first)
    return said | {"graphs": torch._dynamo.utils.counters["stats"]["unique_graphs"]}


def measure_all(torch, demo, rounds):
    if demo["device"] == "host":
        torch.set_num_threads(demo["threads"])
    table = functions(torch, demo["hidden"], demo["heads"])
    ops = {}
    for op in demo["ops"] + [demo["lopsided"]]:
        print(f"\r\033[Kbeside PyTorch: {op['op']}", end="", file=sys.stderr, flush=True) if sys.stderr.isatty() else None
        ops[op["op"]] = measure(torch, demo, op, *table[op["op"]], rounds)
    print("\r\033[K", end="", file=sys.stderr) if sys.stderr.isatty() else None
    return {"version": torch.__version__, "ops": ops}


def print_table(demo, said):
    print(f"\nbeside PyTorch {said['version']} at the same steps, ms{'' if demo['device'] == 'host' else ', kernels without launches'}")
    for op in demo["ops"] + [demo["lopsided"]]:
        times = said["ops"][op["op"]]
        ours, eager, compiled = op["builds"][0]["us"], sum(times["eager_us"]), sum(times["compiled_us"])
        print(f"  {op['op']:9} dispatched {ours / 1e3:9.2f}, eager {eager / 1e3:9.2f} ({eager / ours:5.2f}x), torch.compile {compiled / 1e3:9.2f} ({compiled / ours:5.2f}x), "
              f"compiled {times['graphs']} graphs in {sum(times['first_s']):5.1f} s")


def print_sentences(demo, said):
    block = [said["ops"][op["op"]] for op in demo["ops"]]
    ours = sum(op["builds"][0]["us"] for op in demo["ops"])
    eager, compiled = (sum(sum(op[way]) for op in block) for way in ("eager_us", "compiled_us"))
    first = sorted(s for op in block for s in op["first_s"])
    print(f"\nThe block takes {ours / 1e3:.2f} ms: {eager / ours:.2f} times as fast as eager PyTorch, {compiled / ours:.2f} times as fast as torch.compile (dynamic=True).")
    print(f"torch.compile made {sum(op['graphs'] for op in block)} graphs for these sizes in {sum(first):.1f} s; this library's kernels were built in {demo['build_us'] / 1e6:.1f} s, "
          f"or read from its store.")
    print(f"A size not met before adds {demo['new_shapes']['median_us']:.0f} us to its first call at the median and {demo['new_shapes']['worst_us']:.0f} us at worst; "
          f"by torch.compile {first[len(first) // 2] * 1e6:.0f} us at the median and {first[-1]:.1f} s at worst.")


def import_torch(demo):
    """PyTorch, or None after a message where it cannot stand beside the demo."""
    try:
        import torch
    except ImportError:
        torch = None
    if torch is None or (demo["device"] != "host" and not torch.cuda.is_available()):
        missing = "is not installed" if torch is None else "sees no GPU"
        print(f"PyTorch {missing}: nothing to compare with", file=sys.stderr)
        return None
    return torch


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("demo")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--json", action="store_true")
    a = p.parse_args()
    with open(a.demo, encoding="utf-8") as f:
        demo = json.load(f)
    torch = import_torch(demo)
    said = measure_all(torch, demo, a.rounds) if torch else None
    if a.json:
        print(json.dumps(demo | {"torch": said}))
    elif said:
        print_table(demo, said)
        print_sentences(demo, said)
    return 0 if torch else 77


if __name__ == "__main__":
    sys.exit(main())
