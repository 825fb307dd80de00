"""Convolutions of ResNet-50 beside PyTorch's, JSON lines.

    judge_convolution.py [--batches 1,7] [--layers 3] [--rounds 15] [--layout nchw] [--threads 1] [--seed 1]
                         [--device cuda] [--pin VARIANT]... [--kept]

Both run with the same number of threads, in turns, in one process. With one thread times are the processor's, which a busy
machine disturbs least, else the wall's; the least of all rounds counts. Data come from the seed. On a GPU operands are
bf16, times are those of graphs of ten calls, and PyTorch's is the better of both layouts by cuDNN's benchmarks;
--pin times these variants instead of the pick, a line each; --kept: the filter is constant, so that it is packed, or its axes
are moved, once."""
import argparse
import json
import math
import os
import statistics
import time

import torch
import torch.nn.functional as F

# channels in, channels out, image, kernel, stride
LAYERS = [(3, 64, 224, 7, 2), (64, 64, 56, 1, 1), (64, 64, 56, 3, 1), (64, 256, 56, 1, 1), (256, 64, 56, 1, 1),
          (256, 128, 56, 1, 1), (128, 128, 56, 3, 2), (128, 512, 28, 1, 1), (256, 512, 56, 1, 2), (512, 128, 28, 1, 1),
          (128, 128, 28, 3, 1), (512, 256, 28, 1, 1), (256, 256, 28, 3, 2), (256, 1024, 14, 1, 1), (512, 1024, 28, 1, 2),
          (1024, 256, 14, 1, 1), (256, 256, 14, 3, 1), (1024, 512, 14, 1, 1), (512, 512, 14, 3, 2), (512, 2048, 7, 1, 1),
          (1024, 2048, 14, 1, 2), (2048, 512, 7, 1, 1), (512, 512, 7, 3, 1)]


def formula(kernel, stride, layout, dtype):
    """Y = X * W with `same` padding. 1 x 1: no guards."""
    pad = kernel // 2
    place = [f"{i}*{stride}+{r}-{pad}" if kernel > 1 else f"{i}*{stride}" if stride > 1 else i for i, r in ("yr", "xs")]
    axes = (2, 3) if layout == "nchw" else (1, 2)
    guard = " and ".join(f"{at} >= 0 and {at} < size(X.{axis})" for at, axis in zip(place, axes))
    read = f"X:{dtype}[n,c,{place[0]},{place[1]}]" if layout == "nchw" else f"X:{dtype}[n,{place[0]},{place[1]},c]"
    weight = "[o,c]" if kernel == 1 else "[o,c,r,s]" if layout == "nchw" else "[o,r,s,c]"
    left = f"Y:{dtype}[n,o,y,x]" if layout == "nchw" else f"Y:{dtype}[n,y,x,o]"
    return f"{left} = sum[{weight[3:-1]}]({f'where({guard}, {read}, 0)' if kernel > 1 else read} * W:{dtype}{weight})"


def host_turns(rounds, *calls):
    """The least seconds of each call, taken in turns."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    times = [[] for _ in calls]
    for call in calls:
        call()
        call()
    for _ in range(rounds):
        for call, kept in zip(calls, times):
            start = clock()
            call()
            kept.append(clock() - start)
    return [min(t) for t in times]


def gpu_turns(rounds, *calls):
    """The least seconds of each call, in turns, as a graph of ten: PyTorch's calls take its host 20 us."""
    import judge_attention
    graphs = [judge_attention.graph_of(lambda _, call=call: call(), 10) for call in calls]
    times = [[] for _ in calls]
    for _ in range(rounds):
        for graph, kept in zip(graphs, times):
            graph.replay()
            kept.append(judge_attention.time_of(graph.replay) / 1e7)
    return [min(t) for t in times]


def tensors(layer, batch, options):
    channels, out, image, kernel, stride = layer
    kind = {"device": options.device, "dtype": torch.bfloat16 if options.device == "cuda" else torch.float32}
    x = torch.randn(batch, channels, image, image, **kind)
    w = torch.randn(out, channels, kernel, kernel, **kind) / math.sqrt(channels * kernel * kernel)
    side = (image + kernel // 2 * 2 - kernel) // stride + 1
    y = torch.empty(batch, out, side, side, **kind)
    if options.layout == "nhwc":
        x, w, y = (t.contiguous(memory_format=torch.channels_last) for t in (x, w, y))
    mine = [t.permute(0, 2, 3, 1) if options.layout == "nhwc" else t for t in (y, x, w)]
    return x, w, y, mine[:2] + [w.view(out, channels) if kernel == 1 else mine[2]]


def judge(layer, batch, options, pin):
    channels, out, _, kernel, stride = layer
    x, w, y, mine = tensors(layer, batch, options)
    static = {"o": out, "c": channels} | ({"r": kernel, "s": kernel} if kernel > 1 else {})
    text = formula(kernel, stride, options.layout, "bf16" if options.device == "cuda" else "f32")
    op = md.op(text, static=static, pin=pin, hints="n=1,7 y=7,56 x=7,56",
               constant="W" if options.kept else None)
    op.call(*mine)
    op.wait()
    want = F.conv2d(x, w, stride=stride, padding=kernel // 2)
    op.call(*mine)
    error = (y - want).abs().max().item()
    rivals = [lambda: F.conv2d(x, w, stride=stride, padding=kernel // 2)]
    if options.device == "cuda":
        other = torch.contiguous_format if options.layout == "nhwc" else torch.channels_last
        xo, wo = x.contiguous(memory_format=other), w.contiguous(memory_format=other)
        rivals.append(lambda: F.conv2d(xo, wo, stride=stride, padding=kernel // 2))
    turns = gpu_turns if options.device == "cuda" else host_turns
    ours, *theirs = turns(options.rounds, lambda: op.call(*mine), *rivals)
    flops = 2 * y.numel() * channels * kernel * kernel
    return {"layer": layer, "batch": batch, "layout": options.layout, "ours_us": ours * 1e6, "torch_us": min(theirs) * 1e6,
            "torch_same_layout_us": theirs[0] * 1e6, "ratio": min(theirs) / ours, "gflops": flops / ours / 1e9,
            "torch_gflops": flops / min(theirs) / 1e9,
            "error": error, "variant": " ".join(stage["variant"] for stage in op.choice(*mine[1:], out=mine[0])["stages"]
                                                if stage["variant"] != "idle")}


def read_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", default="1,7")
    parser.add_argument("--layers", default="")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--layout", default="nchw", choices=("nchw", "nhwc"))
    parser.add_argument("--pin", action="append")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--kept", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def main():
    options = read_options()
    os.environ["MD_THREADS"] = str(options.threads)  # read when the library is loaded
    os.environ["MD_DEVICE"] = "host" if options.device == "cpu" else "cuda"
    global md
    import multidispatch as md
    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(False)
    torch.backends.cudnn.benchmark = True
    chosen = [int(i) for i in options.layers.split(",")] if options.layers else range(len(LAYERS))
    for batch in (int(b) for b in options.batches.split(",")):
        rows = []
        for i in chosen:
            for pin in options.pin or [None]:
                try:
                    rows.append(judge(LAYERS[i], batch, options, pin))
                except md.MdError as e:
                    print(json.dumps({"layer": LAYERS[i], "pin": pin, "error": str(e)}), flush=True)
                    continue
                print(json.dumps(rows[-1]), flush=True)
        if rows:
            ratio = math.exp(statistics.fmean(math.log(r["ratio"]) for r in rows))
            print(f"batch {batch}: geometric mean of PyTorch's time over ours {ratio:.2f}, least "
                  f"{min(r['ratio'] for r in rows):.2f}")


if __name__ == "__main__":
    main()
