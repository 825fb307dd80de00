#!/usr/bin/env python3
"""Training of compiled models by two processes over gloo: DistributedDataParallel, and FSDP2's fully_shard. Gradients are those
of eager PyTorch."""

import os
import subprocess
import sys
import tempfile
import unittest

import needs_torch  # noqa: F401

PROGRAM = """
import sys
import torch
import torch.distributed as dist
import multidispatch as md

rank, folder, how = int(sys.argv[1]), sys.argv[2], sys.argv[3]
dist.init_process_group("gloo", init_method="file://" + folder + "/" + how, rank=rank, world_size=2)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.norm, self.down = torch.nn.Linear(6, 16), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4)

    def forward(self, x):
        return self.down(self.norm(torch.nn.functional.gelu(self.up(x))))


def model():
    torch.manual_seed(5)
    return Net()


def wrapped(module):
    if how == "ddp":
        return torch.nn.parallel.DistributedDataParallel(module)
    from torch.distributed.fsdp import fully_shard
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (2,))
    return fully_shard(module, mesh=mesh)


def whole(gradient):
    return gradient.full_tensor() if hasattr(gradient, "full_tensor") else gradient


eager, ours = model(), wrapped(model())
compiled = torch.compile(ours, backend="multidispatch", dynamic=True, options={"eager_where_faster": False, "eager_while_building": False})
for step, b in enumerate((3, 7, 2)):
    torch.manual_seed(step)
    parts = [torch.randn(b, 6) for _ in range(2)]
    eager.zero_grad()
    ours.zero_grad()
    (sum(eager(x).square().sum() for x in parts) / 2).backward()
    compiled(parts[rank]).square().sum().backward()
    for wanted, got in zip(eager.parameters(), ours.parameters()):
        torch.testing.assert_close(whole(got.grad), wanted.grad, rtol=1e-4, atol=1e-5)
reports = md.explain_graph()
assert sum(len(r["kernels"]) for r in reports) > 3, reports
assert not any("reason" in r for r in reports), reports
dist.destroy_process_group()
"""


class Ranks(unittest.TestCase):
    def run_both(self, how):
        with tempfile.TemporaryDirectory() as folder:
            running = [subprocess.Popen([sys.executable, "-c", PROGRAM, str(rank), folder, how], stderr=subprocess.PIPE, text=True,
                                        env=os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}) for rank in range(2)]
            said = [p.communicate(timeout=600)[1] for p in running]
        for p, text in zip(running, said):
            self.assertEqual(p.returncode, 0, text[-3000:])

    def test_data_parallel(self):
        self.run_both("ddp")

    def test_sharded(self):
        self.run_both("fsdp")


if __name__ == "__main__":
    unittest.main()
