"""The four layers of bench_sequence in PyTorch, JSON lines. Run it beside bench_sequence.

    judge_layers.py STEPS.txt [--ways eager,graphs,inductor,compiled,captured] [--device cuda] [--scale 1] [--passes 3]

eager; a CUDA graph for each token count; TorchInductor with a dynamic size; this library as torch.compile's backend, and by
md.capture. Times are of a step, wall, synchronised; "host" is the time until the step is enqueued. --scale divides all
sizes of the model, for a look on a CPU."""
import argparse
import json
import time

import torch
import torch.nn.functional as F


class Layers(torch.nn.Module):
    def __init__(self, device, scale):
        super().__init__()
        self.d, q, h = 4096 // scale, 6144 // scale, 11008 // scale
        d = self.d
        self.gain = torch.nn.Parameter(torch.ones(d, device=device, dtype=torch.bfloat16))
        self.weights = torch.nn.ParameterList(
            torch.nn.Parameter(torch.randn(shape, device=device, dtype=torch.bfloat16) * 0.02)
            for _ in range(4) for shape in ((q, d), (d, d), (h, d), (h, d), (d, h)))

    def forward(self, x):
        for i in range(0, len(self.weights), 5):
            w0, w1, w2, w3, w4 = (self.weights[i + k] for k in range(5))
            q = F.linear(F.rms_norm(x, (self.d,), self.gain, 1e-6), w0)
            x = x + F.linear(q[:, :self.d], w1)
            n = F.rms_norm(x, (self.d,), self.gain, 1e-6)
            x = x + F.linear(F.silu(F.linear(n, w2)) * F.linear(n, w3), w4)
        return x


class Judge:
    def __init__(self, options):
        torch.manual_seed(0)
        torch.set_grad_enabled(False)
        self.device, self.count = options.device, options.passes
        self.model = Layers(options.device, options.scale)
        self.steps = [int(line) for line in open(options.steps, encoding="utf-8")]

    def tokens(self, n):
        return torch.randn(n, self.model.d, device=self.device, dtype=torch.bfloat16)

    def wait(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def passes(self, what, step, mark=False):
        for number in range(self.count):
            us, host = [], []
            for t in self.steps:
                x = self.tokens(t)
                if mark and number == 0 and t > 1:
                    torch._dynamo.mark_dynamic(x, 0)
                self.wait()
                start = time.perf_counter()
                step(x)
                enqueued = time.perf_counter()
                self.wait()
                us.append((time.perf_counter() - start) * 1e6)
                host.append((enqueued - start) * 1e6)
            total, n = sum(us) / 1e3, len(us)
            us.sort()
            host.sort()
            print(json.dumps({"what": what, "pass": number, "total_ms": round(total, 2), "p50": round(us[n // 2], 1),
                              "p99": round(us[n * 99 // 100], 1), "max": round(us[-1], 1),
                              "host_p50": round(host[n // 2], 2)} | self.counts(what)), flush=True)

    @staticmethod
    def counts(what):
        """Of all runs of the last plan: those that bound a size anew, were one graph, made or changed a graph."""
        if what not in ("compiled", "captured"):
            return {}
        import multidispatch as md
        graph = md.explain_graph()[-1]
        return {name: graph[name] for name in ("binds", "graph_runs", "split_runs", "graph_builds", "graph_updates",
                                                "graph_failures", "forms")}

    def differs(self, what, step):
        """How far a way is from eager, relative to eager's largest element."""
        x = self.tokens(33)
        want, got = self.model(x).float(), step(x).float()
        print(json.dumps({"what": what, "difference": float((want - got).abs().max() / want.abs().max())}), flush=True)

    def eager(self):
        self.passes("eager", self.model)

    def graphs(self):
        graphs = {}
        start = time.perf_counter()
        for t in sorted(set(self.steps)):
            x = self.tokens(t)
            with torch.cuda.stream(torch.cuda.Stream()):
                self.model(x)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                y = self.model(x)
            graphs[t] = (graph, x, y)
        print(json.dumps({"what": "PyTorch graphs", "capture_s": round(time.perf_counter() - start, 2),
                          "graphs": len(graphs), "reserved_mb": round(torch.cuda.memory_reserved() / 2**20)}))

        def replay(x):
            graph, own, _ = graphs[x.shape[0]]
            own.copy_(x)
            graph.replay()

        self.passes("PyTorch graphs", replay)

    def inductor(self):
        torch._dynamo.reset()
        self.passes("Inductor, dynamic", torch.compile(self.model, dynamic=True), mark=True)

    def compiled(self):
        import multidispatch
        from multidispatch.compile import backend
        torch._dynamo.reset()
        step = torch.compile(self.model, backend=backend, dynamic=True)
        self.differs("compiled", step)
        multidispatch.wait_graphs()
        self.passes("compiled", step)

    def captured(self):
        import multidispatch as md
        start = time.perf_counter()
        plan = md.capture(self.model.eval(), (self.tokens(64),))
        print(json.dumps({"what": "captured", "capture_s": round(time.perf_counter() - start, 2)}), flush=True)
        self.differs("captured", plan)
        md.wait_graphs()
        self.passes("captured", plan)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps")
    parser.add_argument("--ways", default="eager,graphs")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--scale", type=int, default=1)
    parser.add_argument("--passes", type=int, default=3)
    options = parser.parse_args()
    judge = Judge(options)
    for way in options.ways.split(","):
        getattr(judge, way)()


if __name__ == "__main__":
    main()
