"""Modules such as KernelBench has, with the batch drawn at random: each through torch.compile(backend="multidispatch") beside
eager PyTorch, forward at several batches, one graph for all of them. MD_TEST_EFFORT multiplies the batches."""

import os
import random
import unittest

import torch
from torch import nn
from torch.nn import functional as f

import multidispatch as md  # noqa: F401 (registers the backend)

SEED, EFFORT = int(os.environ.get("MD_TEST_SEED", "18")), int(os.environ.get("MD_TEST_EFFORT", "1"))


class Call(nn.Module):
    """A function of the input and of parameters by their shapes."""

    def __init__(self, call, *shapes):
        super().__init__()
        self.call, self.p = call, nn.ParameterList([nn.Parameter(torch.randn(*shape) * 0.2) for shape in shapes])

    def forward(self, x):
        return self.call(x, *self.p)


def attention(x, wq, wk, wv):
    return f.scaled_dot_product_attention(x @ wq, x @ wk, x @ wv)


# Name, module, shape of an input behind the batch. One operation first, then several that a kernel should fuse, then small nets.
CASES = [
    ("square product", Call(lambda x, w: x @ w, (48, 48)), (48,)),
    ("product of a batch", Call(lambda x: x @ x.transpose(1, 2)), (9, 17)),
    ("matrix and vector", Call(lambda x, w: x @ w, (131, 1)), (131,)),
    ("transposed operand", Call(lambda x, w: x @ w.t(), (24, 40)), (40,)),
    ("triangular product", Call(lambda x: torch.tril(x) @ torch.tril(x)), (20, 20)),
    ("relu", nn.ReLU(), (77,)),
    ("hard swish", nn.Hardswish(), (77,)),
    ("softplus", nn.Softplus(), (77,)),
    ("selu", nn.SELU(), (77,)),
    ("softsign", nn.Softsign(), (77,)),
    ("log softmax", nn.LogSoftmax(1), (130,)),
    ("layer norm", nn.LayerNorm((6, 7)), (6, 7)),
    ("group norm", nn.GroupNorm(3, 6), (6, 5, 5)),
    ("instance norm", nn.InstanceNorm2d(4), (4, 6, 5)),
    ("rms norm", Call(lambda x: x * torch.rsqrt((x * x).mean(1, keepdim=True) + 1e-5)), (8, 5)),
    ("frobenius norm", Call(lambda x: x / torch.norm(x, p="fro")), (9, 4)),
    ("l1 norm", Call(lambda x: x / x.abs().sum(1, keepdim=True)), (33,)),
    ("max over the middle", Call(lambda x: x.amax(1)), (5, 9)),
    ("argmin", Call(lambda x: x.argmin(1)), (41,)),
    ("cumsum backwards", Call(lambda x: x.flip(1).cumsum(1).flip(1)), (29,)),
    ("exclusive cumsum", Call(lambda x: torch.cat([torch.zeros_like(x[:, :1]), x], 1)[:, :-1].cumsum(1)), (29,)),
    ("masked cumsum", Call(lambda x: torch.where(x > 0, x, 0.0).cumsum(1)), (29,)),
    ("average pooling", nn.AvgPool1d(3, 2), (4, 21)),
    ("max pooling", nn.MaxPool2d(2), (3, 8, 8)),
    ("hinge loss", Call(lambda x, y: torch.clamp(1 - x * torch.sign(y), min=0).mean(), (15,)), (15,)),
    ("huber loss", Call(lambda x, y: f.smooth_l1_loss(x, y.expand_as(x)), (15,)), (15,)),
    ("kl divergence", Call(lambda x, y: f.kl_div(f.log_softmax(x, 1), f.softmax(y, 0).expand_as(x), reduction="batchmean"), (15,)), (15,)),
    ("cosine loss", Call(lambda x, y: (1 - f.cosine_similarity(x, y.expand_as(x), dim=1)).mean(), (15,)), (15,)),
    ("linear, relu, division", Call(lambda x, w, b: torch.relu(f.linear(x, w, b)) / 2.0, (24, 40), (24,)), (40,)),
    ("linear, swish, bias", Call(lambda x, w, b: f.silu(f.linear(x, w)) + b, (24, 40), (24,)), (40,)),
    ("linear, mish, mish", Call(lambda x, w: f.mish(f.mish(f.linear(x, w))), (24, 40)), (40,)),
    ("linear, sum, logsumexp", Call(lambda x, w: torch.logsumexp(f.linear(x, w).sum(1, keepdim=True), 1), (24, 40)), (40,)),
    ("linear, max, minus mean, gelu", Call(lambda x, w: f.gelu((m := f.linear(x, w).amax(1, keepdim=True)) - m.mean(1, keepdim=True)), (24, 40)), (40,)),
    ("linear, group norm, hardtanh", nn.Sequential(nn.Linear(40, 24), nn.GroupNorm(4, 24), nn.Hardtanh()), (40,)),
    ("linear, sigmoid, sum", Call(lambda x, w: torch.sigmoid(f.linear(x, w)).sum(1), (24, 40)), (40,)),
    ("batch norm in evaluation", nn.Sequential(nn.Linear(40, 24), nn.BatchNorm1d(24)), (40,)),
    ("residual block", Call(lambda x, w, v: x + f.linear(f.gelu(f.linear(x, w)), v), (64, 32), (32, 64)), (32,)),
    ("gated unit", Call(lambda x, w, v: f.silu(f.linear(x, w)) * f.linear(x, v), (48, 32), (48, 32)), (32,)),
    ("attention", Call(attention, (32, 32), (32, 32), (32, 32)), (11, 32)),
    ("new gelu", Call(lambda x: 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x ** 3)))), (77,)),
    ("three layers", nn.Sequential(nn.Linear(20, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 7)), (20,)),
    ("vanilla recurrent cell", Call(lambda x, w, u: torch.tanh(f.linear(x[:, :20], w) + f.linear(x[:, 20:], u)), (16, 20), (16, 16)), (36,)),
    ("gru cell", nn.GRUCell(36, 16), (36,)),
]


class Modules(unittest.TestCase):
    def compare(self, module, shape, draw):
        module = module.eval()
        torch._dynamo.reset()
        compiled = torch.compile(module, backend="multidispatch", dynamic=True)
        batches = [draw.randint(2, 70) for _ in range(2 * EFFORT)] + [2, 64]
        with torch.no_grad():
            for batch in batches:
                x = torch.randn(batch, *shape)
                got, wanted = compiled(x), module(x)
                self.assertEqual((got.shape, got.dtype), (wanted.shape, wanted.dtype))
                torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5, msg=lambda said, batch=batch: f"batch {batch}: {said}")
        self.assertEqual(torch._dynamo.utils.counters["stats"]["unique_graphs"], 1)

    def test_modules(self):
        torch.manual_seed(SEED)
        draw = random.Random(SEED)
        for name, module, shape in CASES:
            with self.subTest(name):
                torch._dynamo.utils.counters.clear()
                self.compare(module, shape, draw)


if __name__ == "__main__":
    unittest.main()
