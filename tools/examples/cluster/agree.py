#!/usr/bin/env python3
"""A tensor-parallel pair of linear layers that all ranks run by the same kernels: hybrid on, digests equal, and on GPUs
captured in a CUDA graph with its all-reduce.

    MD_AGREE=1 torchrun --nproc-per-node 2 agree.py host       # gloo, no GPU
    MD_AGREE=1 torchrun --nproc-per-node 2 agree.py cuda       # NCCL, a GPU for each rank

Rank 0 prints: the ranks, the shapes that were agreed on, and the largest error against one process."""

import sys

import torch
import torch.distributed as dist

import multidispatch as md

BATCHES, K, HIDDEN = (1, 3, 17, 64), 256, 512
UP = "Y[b,n] = gelu(sum[k](X[b,k] * W[n,k]))"
DOWN = "Y[b,n] = sum[k](X[b,k] * W[n,k])"


class Pair:
    """Columns of the first layer and rows of the second are shared out among the ranks; their sum is the result."""

    def __init__(self, device, rank, n_ranks):
        torch.manual_seed(1)  # the same weights everywhere
        self.up, self.down = torch.randn(HIDDEN, K) / 16, torch.randn(K, HIDDEN) / 22
        own = slice(rank * HIDDEN // n_ranks, (rank + 1) * HIDDEN // n_ranks)
        self.own_up, self.own_down = self.up[own].contiguous().to(device), self.down[:, own].contiguous().to(device)
        self.first, self.second = md.op(UP, select="hybrid"), md.op(DOWN, select="hybrid")

    def __call__(self, x):
        y = self.second(self.first(x, self.own_up), self.own_down)
        dist.all_reduce(y)
        return y

    def reference(self, x):
        return torch.nn.functional.gelu(x.cpu().double() @ self.up.double().T) @ self.down.double().T


def check_digests(found):
    every = [None] * dist.get_world_size()
    dist.all_gather_object(every, (str(found), md.digest(WHERE)))
    if len(set(every)) != 1:
        sys.exit(f"digests differ: {every}")


def captured(pair, x):
    """The pair as a CUDA graph: kernels, and NCCL's all-reduce."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            pair(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        y = pair(x)
    graph.replay()
    torch.cuda.synchronize()
    return y


def main():
    on_gpu = WHERE != "host"
    dist.init_process_group("nccl" if on_gpu else "gloo")
    rank, n_ranks = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", rank) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    pair = Pair(device, rank, n_ranks)
    xs = [torch.randn(b, K, device=device) for b in BATCHES]
    for x in xs:  # equal inputs on all ranks
        dist.broadcast(x, 0)
    for _ in range(200):  # hybrid records what is faster, and changes nothing
        for x in xs:
            pair(x)
    found = md.agree(device=WHERE)
    check_digests(found)
    error = 0.0
    for x in xs:
        y = captured(pair, x) if on_gpu else pair(x)
        error = max(error, float((y.cpu().double() - pair.reference(x)).abs().max()))
    check_digests(md.agree(device=WHERE))
    dist.destroy_process_group()
    if rank == 0:
        print(f"{n_ranks} ranks agree on {found.shapes} shapes, {found.disputed} were disputed; error {error:.1e}")
    return error > 1e-3


if __name__ == "__main__":
    WHERE = sys.argv[1] if len(sys.argv) > 1 else "host"
    if WHERE == "cuda":
        import os
        WHERE = "cuda:" + os.environ["LOCAL_RANK"]
    sys.exit(main())
