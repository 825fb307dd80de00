#!/usr/bin/env python3
"""A Llama of transformers under the token counts of a trace: eager, TorchInductor, this library. Lines of JSON.

    bench_trace.py STEPS.txt [--ways eager,inductor,multidispatch,captured] [--steps 400] [--passes 3] [--scale 1]
    bench_trace.py STEPS.txt --ways traced --passes 0     the first result where PyTorch computes what was traced

STEPS.txt has a number of tokens a line; a step is a forward pass of ids [1, tokens] through 8 layers of width 4096 in
bf16, with random weights. Times are wall times, synchronised: "first_s" until the first result, with what compiling it
needs; then per pass the total, median and worst step. "graphs" counts what Dynamo compiled: more than one is a
recompilation. --scale divides all sizes of the model, for a look on a CPU."""
import argparse
import json
import statistics
import time

import torch


class Llama(torch.nn.Module):
    """The layers of a Llama as a function of ids."""

    def __init__(self, scale):
        super().__init__()
        from transformers import LlamaConfig, LlamaModel
        self.config = LlamaConfig(vocab_size=1024, hidden_size=4096 // scale, intermediate_size=11008 // scale,
                                  num_hidden_layers=8, num_attention_heads=32 // min(scale, 8),
                                  num_key_value_heads=8 // min(scale, 8), max_position_embeddings=8192, use_cache=False)
        self.model = LlamaModel(self.config)

    def forward(self, ids):
        return self.model(ids, use_cache=False).last_hidden_state


class Bench:
    def __init__(self, options):
        torch.manual_seed(22)
        torch.set_grad_enabled(False)
        self.device, self.passes = options.device, options.passes
        self.model = Llama(options.scale).to(options.device, torch.bfloat16).eval()
        with open(options.trace, encoding="utf-8") as lines:
            self.steps = [int(line) for line in lines][:options.steps]
        self.expected = self.model(self.inputs(333)).float()

    def inputs(self, tokens):
        generator = torch.Generator().manual_seed(tokens)
        return torch.randint(0, 1024, (1, tokens), generator=generator).to(self.device)

    def wait(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def timed(self, f, tokens):
        given = self.inputs(tokens)
        self.wait()
        start = time.perf_counter()
        f(given)
        self.wait()
        return (time.perf_counter() - start) * 1e3

    def run(self, way, make):
        start, graphs = time.perf_counter(), []
        f = make(graphs)
        error = (f(self.inputs(333)).float() - self.expected).abs().max() / self.expected.abs().max()
        self.wait()
        row = {"way": way, "first_s": round(time.perf_counter() - start, 2), "difference": round(error.item(), 4)}
        print(json.dumps(row), flush=True)
        for number in range(self.passes):
            ms = [self.timed(f, tokens) for tokens in self.steps]
            row = {"way": way, "pass": number, "total_ms": round(sum(ms), 1), "graphs": len(graphs),
                   "median_ms": round(statistics.median(ms), 3), "worst_ms": round(max(ms), 2)}
            print(json.dumps(row | self.counts(way)), flush=True)

    @staticmethod
    def counts(way):
        """Of the last plan: kernels, operations of PyTorch, and what its runs were."""
        if way not in ("multidispatch", "captured"):
            return {}
        import multidispatch as md
        graph = md.explain_graph()[-1]
        return {name: len(x) if isinstance(x, list) else x for name, x in graph.items()
                if name in ("kernels", "eager", "fallbacks", "binds", "graph_runs", "split_runs", "graph_builds", "graph_updates")}

    def eager(self, graphs):
        return self.model

    def compiled(self, graphs, backend):
        torch._dynamo.reset()

        def counting(module, inputs):
            graphs.append(module)
            return backend(module, inputs)

        return torch.compile(self.model, backend=counting, dynamic=True)

    def inductor(self, graphs):
        from torch._inductor.compile_fx import compile_fx
        return self.compiled(graphs, compile_fx)

    def traced(self, graphs):
        """What PyTorch needs before it calls a backend."""
        from torch._dynamo.backends.debugging import aot_eager
        return self.compiled(graphs, aot_eager)

    def multidispatch(self, graphs):
        from multidispatch.compile import backend
        return self.compiled(graphs, backend)

    def captured(self, graphs):
        import multidispatch as md
        return md.capture(self.model, (self.inputs(64),))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    parser.add_argument("--ways", default="eager,inductor,multidispatch,captured")
    parser.add_argument("--device", default="cuda")
    for option, value in (("steps", 400), ("passes", 3), ("scale", 1)):
        parser.add_argument("--" + option, type=int, default=value)
    options = parser.parse_args()
    bench = Bench(options)
    for way in options.ways.split(","):
        bench.run(way, getattr(bench, way))


if __name__ == "__main__":
    main()
