#!/usr/bin/env python3
"""Lists and optimizers' steps inside torch.cuda.graph, replayed on new contents. On the CPU, which has no graphs, what
would be captured is called again for each replay."""

import itertools
import unittest

import torch

import multidispatch as md
from torch_device import DEVICE, IS_CUDA

SHAPES = ((3,), (64, 33), (), (0, 4), (1000,), (70000,))
REPLAYS = 3


def values(shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def captured(function, warm_ups):
    """Calls the function as often, then captures a call. Returns what replays that."""
    if not IS_CUDA:
        for _ in range(warm_ups):
            function()
        return function
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(warm_ups):
            function()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # on another stream
        function()
    return graph.replay


class Constants(unittest.TestCase):
    """Weights that are packed once; in a capture nothing is: there a call packs for itself."""

    def unpacked(self):
        device = "cuda" if IS_CUDA else "host"
        return sum(o["counts"]["unpacked"] for o in md.stats(device)["ops"] if o["op"] == "captured_constants")

    def check(self, w, seen_before):
        pin = "gemm_widened/rows64_columns16_depths1_split2_blocks1" if IS_CUDA else "gemm_packed/rows4_depth256_block480"
        dtype = torch.bfloat16 if IS_CUDA else torch.float32
        op = md.op("Y[t,n] = sum[k](X[t,k] * W[n,k])", constant="W", pin=pin, name="captured_constants")
        x, y = torch.zeros(9, 256, dtype=dtype, device=DEVICE), torch.zeros(9, 72, dtype=dtype, device=DEVICE)
        op(x, torch.zeros_like(w))  # its kernels are there
        before = self.unpacked()
        replay = captured(lambda: op.call(y, x, w), 2 if seen_before else 0)
        for seed in range(REPLAYS):
            x.copy_(values(x.shape, seed))
            replay()
            torch.testing.assert_close(y, (x.float() @ w.float().T).to(dtype), rtol=2e-2, atol=1e-1)
        return self.unpacked() - before

    def test_constants(self):
        for dtype in (torch.int8,) if IS_CUDA else (torch.float32,):
            weights = [(values((72, 256), seed) * 20).to(dtype) for seed in (1, 2)]
            self.assertEqual(self.check(weights[0], True), 0)
            self.assertEqual(self.check(weights[1], False), int(IS_CUDA))


class Lists(unittest.TestCase):
    def setUp(self):
        self.a, self.b = ([torch.zeros(s, device=DEVICE).view(-1) for s in SHAPES] for _ in range(2))
        self.y = [torch.full_like(x, float("nan")) for x in self.a]

    def fill(self, round_):
        for i, (p, q) in enumerate(zip(self.a, self.b)):
            p.copy_(values(p.shape, 100 * round_ + i))
            q.copy_(values(p.shape, 100 * round_ + i + 50))

    def test_results_and_scalars(self):
        """Addresses and scalars are captured by value, also of two lists of equal shapes."""
        factors = [1.0 + i for i in range(len(SHAPES))]
        z = [torch.empty_like(x) for x in self.y]

        def both():
            md.foreach("scalar s; Y[i] = A[i] * s + 1", self.a, s=factors, out=self.y)
            md.foreach("scalar s; Y[i] = A[i] * s + 1", self.b, s=3.0, out=z)

        replay = captured(both, 2)
        for round_ in range(REPLAYS):
            self.fill(round_)
            replay()
            for p, q, y, w, s in zip(self.a, self.b, self.y, z, factors):
                torch.testing.assert_close(y, p * s + 1)
                torch.testing.assert_close(w, q * 3 + 1)

    def test_not_warmed_up(self):
        """A list that the capture meets first; the op has met others."""
        op = md.op("Y[i] = A[i] - B[i] * 5")
        md.foreach(op, self.a[:2], self.b[:2])
        replay = captured(lambda: md.foreach(op, self.a, self.b, out=self.y), 0)
        for round_ in range(REPLAYS):
            self.fill(round_)
            replay()
            for p, q, y in zip(self.a, self.b, self.y):
                torch.testing.assert_close(y, p - q * 5)

    def test_new_results(self):
        """Results that the call makes lie in the memory of the graph."""
        made = []

        def call():
            made[:] = md.foreach("Y[i] = A[i] + B[i]", self.a, self.b)

        replay = captured(call, 1)
        for round_ in range(REPLAYS):
            self.fill(round_)
            replay()
            for p, q, y in zip(self.a, self.b, made):
                torch.testing.assert_close(y, p + q)

    def test_in_place_with_a_norm(self):
        norm = torch.zeros((), device=DEVICE)
        formula = "let n = sqrt(sum[t,i](P@t[i] * P@t[i])); N = n; P@t[i] = P@t[i] / n"
        replay = captured(lambda: md.foreach(formula, P=self.a, out=norm), 2)
        for round_ in range(REPLAYS):
            self.fill(round_)
            before = [p.clone() for p in self.a]
            replay()
            want = torch.cat(before).norm()
            torch.testing.assert_close(norm, want)
            for p, x in zip(self.a, before):
                torch.testing.assert_close(p, x / want)

    @unittest.skipUnless(IS_CUDA, "needs a GPU and MD_TEST_TORCH_DEVICE=cuda")
    def test_refusals(self):
        """What is refused in a capture leaves it as it was."""
        wrong = list(reversed(self.b))

        def call():
            with self.assertRaises(md.MdError):
                md.foreach("Y[i] = A[i] + B[i]", self.a, wrong, out=self.y)
            md.foreach("Y[i] = A[i] + B[i]", self.a, self.b, out=self.y)

        replay = captured(call, 1)
        self.fill(0)
        replay()
        for p, q, y in zip(self.a, self.b, self.y):
            torch.testing.assert_close(y, p + q)


class AdamW(unittest.TestCase):
    def run_pair(self, max_norm=None, is_scaled=False, **options):
        """Steps that are replayed beside PyTorch's, one at a time."""
        ours, theirs = ([torch.nn.Parameter(values(s, i)) for i, s in enumerate(SHAPES)] for _ in range(2))
        own = md.optim.AdamW(ours, lr=0.02, capturable=True, max_norm=max_norm, **options)
        other = torch.optim.AdamW(theirs, lr=0.02, foreach=False, **options)
        for p in ours:
            p.grad = torch.zeros_like(p)
        if is_scaled:
            own.grad_scale, own.found_inf = torch.tensor(4.0, device=DEVICE), torch.tensor(0.0, device=DEVICE)

        def give(step):
            for i, (p, q) in enumerate(zip(ours, theirs)):
                q.grad = values(q.shape, 100 * step + i)
                p.grad.copy_(q.grad * (4 if is_scaled else 1))

        def step_of_theirs():
            if max_norm is not None:
                torch.nn.utils.clip_grad_norm_(theirs, max_norm)
            other.step()

        give(0)
        replay = captured(own.step, 2)
        step_of_theirs()
        if max_norm is not None:  # it scaled them
            give(0)
        step_of_theirs()
        for step in range(1, REPLAYS + 1):
            give(step)
            is_skipped = is_scaled and step == 2
            if is_scaled:
                own.found_inf.fill_(is_skipped)
            replay()
            if not is_skipped:
                step_of_theirs()
            for p, q in zip(ours, theirs):
                torch.testing.assert_close(p, q, rtol=3e-5, atol=3e-6, msg=lambda m, s=step: f"step {s}: {m}")
        self.assertEqual({float(s["step"]) for s in own.state.values()}, {2.0 + REPLAYS - is_scaled})

    def test_steps(self):
        for amsgrad, maximize in itertools.product((False, True), repeat=2):
            with self.subTest(amsgrad=amsgrad, maximize=maximize):
                self.run_pair(amsgrad=amsgrad, maximize=maximize)

    def test_clipping(self):
        self.run_pair(max_norm=0.7)

    def test_scaler(self):
        self.run_pair(is_scaled=True)
        self.run_pair(is_scaled=True, max_norm=0.7)


if __name__ == "__main__":
    unittest.main()
