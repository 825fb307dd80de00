#!/usr/bin/env python3
"""PyTorch's own inputs for its optimizers (optim_db). What they call for a step runs by md.foreach (torch_shims.py),
beside PyTorch's loop over parameters. TEST_VERBOSE=1 lists what was skipped, why, and how often each formula ran."""

import collections
import os
import unittest
import warnings

import torch

import multidispatch as md
import torch_shims
from torch_device import DEVICE, IS_CUDA, database

optimizers = database("common_optimizers")
SHAPES = ((10, 5), (), (0, 3), (300,), (6, 4), (2, 3, 4), (33,))
STEPS = 4
TOLERANCE = {torch.float32: (2e-5, 2e-6), torch.complex64: (2e-5, 2e-6), torch.float64: (1e-6, 1e-9)}


def values(shape, dtype, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype).to(DEVICE)


def infos(fused=False):
    names = {"Adam", "AdamW", "SGD", "Adagrad"} | (set() if fused else {"RMSprop"})
    return [i for i in optimizers.optim_db if i.optim_cls.__name__ in names and
            (not fused or torch.device(DEVICE).type in i.supports_fused_on)]


def inputs(info):
    """What PyTorch gives for GPUs: more than for CPUs. Fresh each time, since optimizers keep tensors."""
    for given in info.optim_inputs_func(device="cuda"):
        yield given.desc, {k: v for k, v in given.kwargs.items() if k not in ("foreach", "fused", "differentiable")}


class Databases(unittest.TestCase):
    def setUp(self):
        warnings.simplefilter("ignore")
        self.left, self.ran = collections.Counter(), collections.Counter()
        torch_shims.calls.clear()

    def parameters(self, kinds):
        """Of several dtypes; the fifth is transposed."""
        made = [torch.nn.Parameter(values(s, kinds[n % len(kinds)], n)) for n, s in enumerate(SHAPES)]
        made[4].data = made[4].data.t().contiguous().t()
        return made

    def give(self, parameters, step, leaves_out, scale=1.0):
        for n, p in enumerate(parameters):
            p.grad = None if leaves_out and (n + step) % 5 == 4 else values(p.shape, p.dtype, 100 * step + n) * scale

    def compare(self, ours, theirs, own, other):
        # with capturable PyTorch's loop has the step, and what it computes of it, in f32
        is_f32 = IS_CUDA and own.defaults.get("capturable")
        for n, (p, q) in enumerate(zip(ours, theirs)):
            rtol, atol = TOLERANCE[torch.float32 if is_f32 else q.dtype]
            near = dict(rtol=rtol, atol=atol, msg=lambda m, n=n: f"parameter {n}: {m}")
            torch.testing.assert_close(p.detach(), q.detach(), **near)
            self.assertEqual(set(own.state[p]), set(other.state[q]))
            for key, value in other.state[q].items():
                if torch.is_tensor(value):
                    torch.testing.assert_close(own.state[p][key].to(value.device, value.dtype), value, **near)

    def pair(self, info, options, kinds, way):
        """PyTorch's optimizer by our kernels, and its loop."""
        plain = {k: v for k, v in options.items() if k != "capturable" or IS_CUDA}
        ours, theirs = self.parameters(kinds), self.parameters(kinds)
        loop = {"foreach": False} | ({"fused": False} if info.supports_fused_on else {})
        try:
            return ours, theirs, info.optim_cls(ours, **options, **{way: True}), info.optim_cls(theirs, **plain, **loop)
        except (ValueError, RuntimeError) as why:
            self.left[info.name, str(why)] += 1
            return None

    def run_info(self, info, way, kinds):
        for desc, options in inputs(info):
            with self.subTest(optimizer=info.name, given=desc, way=way):
                made = self.pair(info, options, kinds, way)
                if made is None:
                    continue
                ours, theirs, own, other = made
                for step in range(STEPS):
                    for p in (ours, theirs):
                        self.give(p, step, way == "foreach")
                    other.step()
                    before = torch_shims.calls.total()
                    with torch_shims.shims():
                        own.step()
                    self.assertGreater(torch_shims.calls.total(), before, "PyTorch did not call what was replaced")
                self.compare(ours, theirs, own, other)
                self.ran[info.name] += 1

    def report(self, at_least):
        if os.environ.get("TEST_VERBOSE"):
            for (name, why), n in sorted(self.left.items()):
                print(f"skipped: {n:4} x {name}: {why}")
            for formula, n in torch_shims.calls.most_common():
                print(f"{n:4} x {formula[:100]}")
        print(f"ran: {dict(self.ran)}, {self.left.total()} skipped, {len(torch_shims.calls)} formulas", flush=True)
        self.assertGreaterEqual(self.ran.total(), at_least)

    def test_fused(self):
        """The kernels of fused=True."""
        for info in infos(fused=True):
            self.run_info(info, "fused", (torch.float32, torch.float64))
        self.report(25)

    def test_foreach(self):
        """The functions of foreach=True, also with complex parameters and some without a gradient."""
        for info in infos():
            self.run_info(info, "foreach", (torch.float32, torch.float64, torch.complex64))
        self.report(35)

    def test_scaler(self):
        """Gradients that are scaled, and a step that found infinity."""
        for info in infos(fused=True):
            for desc, options in inputs(info):
                with self.subTest(optimizer=info.name, given=desc):
                    made = self.pair(info, options, (torch.float32, torch.float64), "fused")
                    if made is None:
                        continue
                    ours, theirs, own, other = made
                    for step in range(STEPS):
                        is_bad = step == 2
                        own.grad_scale = torch.tensor(8.0, device=DEVICE)
                        own.found_inf = torch.tensor(float(is_bad), device=DEVICE)
                        self.give(ours, step, False, float("inf") if is_bad else 8.0)
                        self.give(theirs, step, False)
                        if not is_bad:
                            other.step()
                        with torch_shims.shims():
                            own.step()
                    self.compare(ours, theirs, own, other)
                    self.ran[info.name] += 1
        self.report(25)


class DropIn(unittest.TestCase):
    """md.optim.AdamW on PyTorch's inputs."""

    def test_errors(self):
        """What PyTorch refuses. It is free to have no foreach without capturable; ours ignores the option."""
        info = next(i for i in optimizers.optim_db if i.optim_cls is torch.optim.AdamW)
        n = 0
        for given in info.optim_error_inputs_func(device="cpu", dtype=torch.float32):
            own = given.optimizer_error_input
            if own.kwargs.get("foreach") or issubclass(given.error_type, Warning):
                continue
            parameters = own.params if own.params is not None else [torch.nn.Parameter(torch.ones(2, device=DEVICE))]
            with self.subTest(own.desc), self.assertRaisesRegex(given.error_type, given.error_regex):
                md.optim.AdamW(parameters, **own.kwargs)
            n += 1
        self.assertGreaterEqual(n, 8)


if __name__ == "__main__":
    unittest.main()
