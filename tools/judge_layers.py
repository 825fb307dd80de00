"""The four layers of bench_sequence in PyTorch: eager, and one CUDA graph for each token count. JSON lines.

    judge_layers.py STEPS.txt

Times are of a step, wall, synchronised; "host" is the time until the step is enqueued. Run it beside bench_sequence."""
import json
import sys
import time

import torch
import torch.nn.functional as F

D, Q, H, L = 4096, 6144, 11008, 4


def main():
    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    shapes = ((Q, D), (D, D), (H, D), (H, D), (D, H))
    weights = [[torch.randn(s, device="cuda", dtype=torch.bfloat16) * 0.02 for s in shapes] for _ in range(L)]
    gain = torch.ones(D, device="cuda", dtype=torch.bfloat16)
    steps = [int(line) for line in open(sys.argv[1])]

    def model(x):
        for w0, w1, w2, w3, w4 in weights:
            q = F.linear(F.rms_norm(x, (D,), gain, 1e-6), w0)
            x = x + F.linear(q[:, :D], w1)
            n = F.rms_norm(x, (D,), gain, 1e-6)
            x = x + F.linear(F.silu(F.linear(n, w2)) * F.linear(n, w3), w4)
        return x

    def passes(what, step, count):
        for number in range(count):
            us, host = [], []
            for t in steps:
                x = torch.randn(t, D, device="cuda", dtype=torch.bfloat16)
                torch.cuda.synchronize()
                start = time.perf_counter()
                step(x)
                enqueued = time.perf_counter()
                torch.cuda.synchronize()
                us.append((time.perf_counter() - start) * 1e6)
                host.append((enqueued - start) * 1e6)
            total = sum(us) / 1e3
            us.sort()
            host.sort()
            print(json.dumps({"what": what, "pass": number, "total_ms": round(total, 2),
                              "p50": round(us[len(us) // 2], 1), "p99": round(us[len(us) * 99 // 100], 1),
                              "max": round(us[-1], 1), "host_p50": round(host[len(host) // 2], 2)}), flush=True)

    passes("eager", model, 2)
    graphs = {}
    start = time.perf_counter()
    for t in sorted(set(steps)):
        x = torch.randn(t, D, device="cuda", dtype=torch.bfloat16)
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            model(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = model(x)
        graphs[t] = (graph, x, y)
    print(json.dumps({"what": "PyTorch graphs", "capture_s": round(time.perf_counter() - start, 2),
                      "graphs": len(graphs), "reserved_mb": round(torch.cuda.memory_reserved() / 2**20)}))

    def replay(x):
        graph, own, _ = graphs[x.shape[0]]
        own.copy_(x)
        graph.replay()

    passes("PyTorch graphs", replay, 3)


if __name__ == "__main__":
    main()
