#!/usr/bin/env python3
"""Training steps of models beside each other: eager PyTorch, Inductor, multidispatch. Prints lines of JSON.

    tools/bench_models.py [--models bert,gpt2] [--device cuda] [--batch 8] [--length 64] [--seconds 5] [--kernels 10]
                          [--jobs 4]

A step is forward, loss and backward (--optimizer: and PyTorch's AdamW) under bf16 autocast (--no-amp: f32),
compiled for these sizes (--dynamic: for any). The ways take turns, step by step, so that a machine whose speed drifts
does so for all. Per model and way: the median and the
smallest step time, the first step, its loss and the norm of its gradients, the last loss; at the end the geometric mean of eager's time over each way's. On CUDA
a step is captured in a CUDA graph where that is possible ("graph": true), after all kernels of this library are built:
a graph keeps those that it was captured with. "operations": PyTorch's in a step, those inside of others not counted;
"kernels" (CUDA): kernels, copies and fills of a step outside of a graph, and "kernel_us" their time; --kernels N: the N that
take most of it, their times and how many there are. "plain" is a BERT of PyTorch's own modules: it needs no transformers.
--jobs: so many models at once, each in a process; while one is timed, the others are stopped."""

import argparse
import collections
import concurrent.futures
import contextlib
import copy
import json
import math
import multiprocessing
import os
import pathlib
import statistics
import sys
import tempfile
import time

import torch

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "python"))
import model_table
import models

WAYS = ("eager", "inductor", "multidispatch")
WARM_S = 2.0  # of steps after the kernels are built, before anything is timed or captured


class Layer(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)

    def forward(self, x):
        b, n, width = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        a = torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, width)
        x = self.norm1(x + self.out(a))
        return self.norm2(x + self.down(torch.nn.functional.gelu(self.up(x))))


class Plain(torch.nn.Module):
    """BERT with a head that predicts tokens."""

    def __init__(self, layers, width):
        super().__init__()
        self.tokens, self.positions = torch.nn.Embedding(models.VOCABULARY, width), torch.nn.Embedding(512, width)
        self.norm, self.head = torch.nn.LayerNorm(width), torch.nn.Linear(width, models.VOCABULARY)
        self.layers = torch.nn.ModuleList(Layer(width, max(1, width // 64)) for _ in range(layers))

    def forward(self, ids):
        x = self.norm(self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device)))
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def compiled(model, way, is_dynamic):
    if way == "eager":
        return model
    if way == "inductor":
        return torch.compile(model, dynamic=is_dynamic)
    from multidispatch.compile import backend
    return torch.compile(model, backend=backend, dynamic=is_dynamic)


class Trainer:
    """One model, trained in one way."""

    def __init__(self, model, way, x, options):
        self.model, self.x, self.options, self.way = model, x, options, way
        self.f = compiled(model, way, options.dynamic or None)
        self.target = x if x.dtype == torch.int64 else torch.zeros(x.shape[0], dtype=torch.int64, device=x.device)
        is_cuda = x.device.type == "cuda"
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=is_cuda)
        self.times, self.graph, self.why, self.start = [], None, "", None
        start = time.perf_counter()
        self.run()
        self.first = time.perf_counter() - start
        for _ in range(2):
            self.run()
        if way == "multidispatch":
            self.wait()
        self.counts = self.count()
        if is_cuda:
            self.capture()

    def wait(self):
        """Until the kernels are built, and chosen anew. Kernels of many items are built behind the first runs."""
        import multidispatch as md
        md.wait_graphs()
        end = time.perf_counter() + WARM_S
        while time.perf_counter() < end:
            self.run()

    def count(self):
        """What one step launches, by PyTorch's profiler."""
        is_cuda = self.x.device.type == "cuda"
        activity = torch.profiler.ProfilerActivity
        with torch.profiler.profile(activities=[activity.CPU] + [activity.CUDA] * is_cuda) as profile:
            self.run()
        events = profile.events()
        operations = [e for e in events if e.name.startswith("aten::")
                      and not (e.cpu_parent and e.cpu_parent.name.startswith("aten::"))]
        out = {"operations": len(operations)}
        if is_cuda:
            kernels = [e for e in events if e.device_type == torch.autograd.DeviceType.CUDA]
            us, n = collections.Counter(), collections.Counter(e.name[:100] for e in kernels)
            for e in kernels:
                us[e.name[:100]] += e.time_range.elapsed_us()
            out |= {"kernels": len(kernels), "kernel_us": round(sum(us.values()), 1)}
            if self.options.kernels:
                out["most"] = {name: [round(t, 1), n[name]] for name, t in us.most_common(self.options.kernels)}
        return out

    def compute(self):
        with torch.autocast(self.x.device.type, dtype=torch.bfloat16, enabled=not self.options.no_amp):
            out = self.f(self.x)
            loss = torch.nn.functional.cross_entropy(out.flatten(0, -2), self.target.flatten())
        loss.backward()
        if self.start is None:
            square = sum(p.grad.double().square().sum() for p in self.model.parameters() if p.grad is not None)
            self.start = {"loss_at_first": round(loss.item(), 5), "norm_at_first": round(math.sqrt(square.item()), 5)}
        if self.options.optimizer:
            self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()

    def capture(self):
        try:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(3):
                    self.compute()
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.loss = self.compute()
            self.graph = graph
        except Exception as error:  # the step is then timed without a graph
            self.why = str(error).splitlines()[0]

    def run(self):
        if self.graph is not None:
            self.graph.replay()
        else:
            self.loss = self.compute()
        if self.x.device.type == "cuda":
            torch.cuda.synchronize()

    def step(self):
        start = time.perf_counter()
        self.run()
        self.times.append(time.perf_counter() - start)

    def line(self, name):
        out = {"model": name, "way": self.way, "device": self.x.device.type, "shape": list(self.x.shape),
               "dtype": "f32" if self.options.no_amp else "bf16 autocast", "steps": len(self.times),
               "median_ms": round(statistics.median(self.times) * 1e3, 3), "min_ms": round(min(self.times) * 1e3, 3),
               "first_s": round(self.first, 2), "loss": round(self.loss.item(), 5), "graph": self.graph is not None}
        out |= self.counts | self.start
        return out | ({"why_no_graph": self.why} if self.why else {})


def make(name, options):
    if name == "plain":
        return Plain(options.layers, options.width)
    function = (models.LANGUAGE | models.VISION)[name]
    return function(width=options.width) if name == "convnext" else function(options.layers, options.width)


def bench(name, options, alone=contextlib.nullcontext()):
    """Prints a line for each way, and gives the medians. `alone`: where nothing else is timed."""
    torch.manual_seed(18)
    model = make(name, options).to(options.device).train()
    x = torch.randint(1, models.VOCABULARY, (options.batch, options.length)) if name == "plain" else \
        models.inputs(name, options.batch, options.length)
    trainers = [Trainer(copy.deepcopy(model), way, x.to(options.device), options) for way in options.ways.split(",")]
    if "multidispatch" in options.ways:
        print(json.dumps({"model": name, "graphs": graphs()}), flush=True)
    with alone:
        end = time.perf_counter() + options.seconds
        while time.perf_counter() < end or len(trainers[0].times) < 5:
            for t in trainers:
                t.step()
    for t in trainers:
        print(json.dumps(t.line(name)), flush=True)
    return {t.way: statistics.median(t.times) for t in trainers}


def forked(name, options, folder):
    os.setsid()
    medians = bench(name, options, model_table.Turns(options.folder).alone())
    pathlib.Path(folder, "medians").write_text(json.dumps(medians), encoding="utf-8")


def in_a_process(name, options):
    """The medians; {} if the process failed."""
    with tempfile.TemporaryDirectory() as folder:
        model_table.Turns(options.folder).run(forked, (name, options, folder), None)
        medians = pathlib.Path(folder, "medians")
        return json.loads(medians.read_text(encoding="utf-8")) if medians.exists() else {}


def side_by_side(options):
    multiprocessing.get_context("forkserver").set_forkserver_preload([*model_table.IMPORTED, "models"])
    with tempfile.TemporaryDirectory() as options.folder, concurrent.futures.ThreadPoolExecutor(options.jobs) as jobs:
        return list(jobs.map(lambda name: in_a_process(name, options), options.models.split(",")))


def graphs():
    """What became of the graphs of the last model."""
    import multidispatch as md
    return [{k: len(r[k]) if isinstance(r[k], list) else r[k]
             for k in ("graph", "nodes", "kernels", "eager", "steps", "fallbacks", "reason", "seconds") if k in r}
            for r in md.explain_graph()[-2:]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for option, value in (("models", "bert"), ("device", "cpu"), ("batch", 8), ("length", 64), ("layers", 4),
                          ("width", 256), ("seconds", 5.0), ("kernels", 0), ("jobs", 1), ("ways", ",".join(WAYS))):
        parser.add_argument("--" + option, type=type(value), default=value)
    parser.add_argument("--no-amp", action="store_true")
    parser.add_argument("--optimizer", action="store_true")
    parser.add_argument("--dynamic", action="store_true")
    options = parser.parse_args()
    times = side_by_side(options) if options.jobs > 1 else [bench(name, options) for name in options.models.split(",")]
    for way in options.ways.split(",")[1:]:
        ratios = [t["eager"] / t[way] for t in times if "eager" in t]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            print(json.dumps({"way": way, "models": len(ratios), "speedup_over_eager_geomean": round(mean, 3)}))


if __name__ == "__main__":
    main()
