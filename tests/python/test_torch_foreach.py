#!/usr/bin/env python3
"""Lists of arrays, and the optimizer on top of them, beside PyTorch's."""

import copy
import itertools
import unittest

import torch

import multidispatch as md
from torch_device import DEVICE, IS_CUDA, database

SHAPES = ((3,), (64, 33), (1000,), (), (2, 3, 4, 5), (0, 4))


def values(shape, seed, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE, dtype)


class Foreach(unittest.TestCase):
    def test_results(self):
        a = [values((n,), n) for n in (3, 0, 1000, 7)]
        b = [values((n,), n + 1) for n in (3, 0, 1000, 7)]
        for y, p, q in zip(md.foreach("Y[i] = A[i] + B[i]", a, b), a, b):
            self.assertIs(type(y), torch.Tensor)
            self.assertTrue(torch.equal(y, p + q))
        self.assertEqual(md.foreach("Y[i] = A[i]", []), [])
        first, second = md.foreach("scalar s; Y[i] = A[i] * s; Z[i] = A[i] + 1", a, s=[1.0, 2.0, 3.0, 4.0])
        for i, p in enumerate(a):
            self.assertTrue(torch.equal(first[i], p * (i + 1)) and torch.equal(second[i], p + 1))

    def test_in_place(self):
        a = [values((n,), n) for n in (5, 70)]
        want = [x * 2 for x in a]
        self.assertIsNone(md.foreach("scalar s; Y[i] = A[i] * s", a, s=2.0, out=a))
        self.assertTrue(all(torch.equal(x, y) for x, y in zip(a, want)))

    def test_refusals(self):
        a, y = [values((4,), 1), values((5,), 2)], torch.zeros(4, device=DEVICE)
        for wrong, said in (
                (lambda: md.foreach("Y[i] = A[i]", a, out=[y]), "is a list of"),
                (lambda: md.foreach("Y[i] = A[i]", [a[0], a[1].double()]), "item 1: other dtypes"),
                (lambda: md.foreach("Y[i] = A[i]", [a[0], a[0]], out=[y, y]), "item 1.*overlaps.*item 0"),
                (lambda: md.foreach("Y[i] = A[i]"), "'A' is missing"),
                (lambda: md.foreach("Y[i] = A[i]", a, a), "too many"),
                (lambda: md.foreach("Y[i] = A[i]", a, B=a), "no argument 'B'"),
                (lambda: md.foreach("Y[i] = A[i]", a, out=([y], [y])), "1 outputs")):
            with self.assertRaisesRegex(md.ArgumentError, said):
                wrong()


class AdamW(unittest.TestCase):
    def pair(self, **options):
        """The same parameters twice, with PyTorch's optimizer and with ours."""
        made = []
        for kind in (torch.optim.AdamW, md.optim.AdamW):
            p = [torch.nn.Parameter(values(s, i)) for i, s in enumerate(SHAPES)]
            p[4].data = p[4].data.contiguous(memory_format=torch.channels_last)
            groups = [{"params": p[:2]}, {"params": p[2:], "lr": 0.003, "weight_decay": 0.2}]
            made.append((p, kind(groups, lr=0.02, betas=(0.8, 0.95), **options)))
        return made

    def run_steps(self, made, n, first=0):
        for step in range(first, first + n):
            for p, optimizer in made:
                for i, x in enumerate(p):
                    x.grad = None if (i + step) % 5 == 4 else values(x.shape, 100 * step + i)
                optimizer.step()
        for x, y in zip(*(p for p, _ in made)):
            torch.testing.assert_close(y, x, rtol=2e-5, atol=2e-6)

    def test_options(self):
        for amsgrad, maximize, capturable in itertools.product((False, True), repeat=3):
            if capturable and not IS_CUDA:  # PyTorch refuses it on the CPU: beside its own without it
                made = [self.pair(amsgrad=amsgrad, maximize=maximize)[0],
                        self.pair(amsgrad=amsgrad, maximize=maximize)[1]]
                for group in made[1][1].param_groups:
                    group["capturable"] = True
            else:
                made = self.pair(amsgrad=amsgrad, maximize=maximize, capturable=capturable)
            with self.subTest(amsgrad=amsgrad, maximize=maximize, capturable=capturable):
                self.run_steps(made, 4)

    def test_state_goes_both_ways(self):
        made = self.pair(amsgrad=True)
        self.run_steps(made, 2)
        states = [copy.deepcopy(optimizer.state_dict()) for _, optimizer in made]
        made[0][1].load_state_dict(states[1])
        made[1][1].load_state_dict(states[0])
        self.run_steps(made, 2, first=2)

    def test_scaler(self):
        """found_inf skips a step and grad_scale divides the gradient, if capturable."""
        p = torch.nn.Parameter(values((50,), 1))
        q = torch.nn.Parameter(p.detach().clone())
        ours, theirs = md.optim.AdamW([p], capturable=True), torch.optim.AdamW([q])
        self.assertTrue(ours._step_supports_amp_scaling)
        self.assertFalse(md.optim.AdamW([q])._step_supports_amp_scaling)
        ours.grad_scale, ours.found_inf = torch.tensor([4.0], device=DEVICE), torch.tensor([1.0], device=DEVICE)
        p.grad = torch.full_like(p, float("inf"))
        ours.step()
        self.assertTrue(torch.equal(p, q))
        ours.found_inf = torch.tensor([0.0], device=DEVICE)
        q.grad = values((50,), 2)
        p.grad = q.grad * 4
        ours.step()
        theirs.step()
        torch.testing.assert_close(p, q, rtol=2e-5, atol=2e-6)
        self.assertEqual(float(ours.state[p]["step"]), 1)

    def test_copies_and_new_memory(self):
        """A copy of an optimizer steps as the optimizer does, and parameters and moments may move between steps."""
        made = self.pair(amsgrad=True)
        self.run_steps(made, 2)
        p, ours = made[1]
        clipped = copy.deepcopy(md.optim.AdamW([torch.nn.Parameter(values((3,), 1))], max_norm=0.5, capturable=True))
        self.assertEqual((clipped.max_norm, clipped._step_supports_amp_scaling), (0.5, True))
        for x in p:
            x.data = x.data.clone()
        for state in ours.state.values():
            state["exp_avg"] = state["exp_avg"].clone()
        self.run_steps(made, 2, first=2)

    def test_strange_layouts(self):
        made = []
        for kind in (torch.optim.AdamW, md.optim.AdamW):
            p = [torch.nn.Parameter(values((6, 7), 1).t())]
            made.append((p, kind(p)))
        self.run_steps(made, 3)

    def test_refusals(self):
        p = torch.nn.Parameter(values((4, 3), 1))
        for options in ({"lr": -1.0}, {"eps": -1.0}, {"betas": (1.0, 0.9)}, {"weight_decay": -1}, {"differentiable": True},
                        {"lr": torch.tensor([0.1, 0.1])}, {"betas": (torch.tensor(0.9), 0.99)}):
            with self.assertRaises(ValueError):
                md.optim.AdamW([p], **options)
        p.grad = torch.sparse_coo_tensor([[0], [1]], [1.0], (4, 3), device=DEVICE)
        with self.assertRaisesRegex(RuntimeError, "sparse"):
            md.optim.AdamW([p]).step()

    def test_closure(self):
        p = torch.nn.Parameter(values((4,), 1))
        optimizer = md.optim.AdamW([p])

        def closure():
            optimizer.zero_grad()
            loss = (p * p).sum()
            loss.backward()
            return loss

        before = float((p * p).sum().detach())
        self.assertEqual(float(optimizer.step(closure)), before)
        self.assertLess(float((p * p).sum().detach()), before)

    def test_database_of_pytorch(self):
        """PyTorch's own inputs for AdamW, those for GPUs too: PyTorch's capturable is left out where it refuses it."""
        info = next(i for i in database("common_optimizers").optim_db if i.optim_cls is torch.optim.AdamW)
        n = 0
        for given in info.optim_inputs_func(device="cuda"):
            options = {k: v for k, v in given.kwargs.items() if k not in ("foreach", "fused")}
            made = []
            for kind in (torch.optim.AdamW, md.optim.AdamW):
                own = options | ({} if IS_CUDA or kind is md.optim.AdamW else {"capturable": False})
                p = [torch.nn.Parameter(values((10, 5), 1)), torch.nn.Parameter(values((10,), 2))]
                made.append((p, kind(p, **own)))
            with self.subTest(given=given.desc):
                self.run_steps(made, 3)
            n += 1
        self.assertGreater(n, 8)

    def test_rate_in_a_tensor(self):
        """It is read at each step, so that a schedule may change it in place."""
        made = []
        for kind in (torch.optim.AdamW, md.optim.AdamW):
            p = [torch.nn.Parameter(values(s, i)) for i, s in enumerate(SHAPES)]
            made.append((p, kind(p, lr=torch.tensor(0.1))))
        self.run_steps(made, 2)
        for _, optimizer in made:
            optimizer.param_groups[0]["lr"].fill_(0.01)
        self.run_steps(made, 2, first=2)


if __name__ == "__main__":
    unittest.main()
