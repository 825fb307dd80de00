#!/usr/bin/env python3
"""The optimizers of the catalogue beside PyTorch's own: three steps of one parameter, each."""

import unittest

import torch

import multidispatch as md
from torch_device import DEVICE

STEPS = 3
N = 1003


def values(seed, n=N):
    return torch.randn(n, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def steps_of_torch(make, grads):
    """The parameter after each step."""
    p = torch.nn.Parameter(values(1))
    optimizer = make([p])
    for g in grads:
        p.grad = g.clone()
        optimizer.step()
        yield p.detach().clone()


class Clipping(unittest.TestCase):
    """clip_grad_norm_, and AdamW with max_norm, beside PyTorch's clipping and AdamW."""

    shapes = ((3, 5), (), (4097,), (0,), (64, 70))

    def parameters(self, dtypes, seed):
        g = torch.Generator().manual_seed(seed)
        made = []
        for k, shape in enumerate(self.shapes):
            p = torch.nn.Parameter(torch.randn(shape, generator=g).to(DEVICE, dtypes[k % len(dtypes)]))
            p.grad = torch.randn(shape, generator=g).to(DEVICE, p.dtype)
            made.append(p)
        if len(dtypes) > 1:
            made[0].grad = made[0].grad.t().contiguous().t() # another layout than the parameter's
        return made

    def test_clip(self):
        for dtypes in ([torch.float32], [torch.float64], [torch.bfloat16], [torch.float32, torch.float64]):
            for limit in (0.5, 1e9):
                ours, theirs = self.parameters(dtypes, 1), self.parameters(dtypes, 1)
                norm = md.optim.clip_grad_norm_(ours, limit)
                want = torch.nn.utils.clip_grad_norm_(theirs, limit)
                rough = {"rtol": 2e-2, "atol": 1e-3} if torch.bfloat16 in dtypes else {"rtol": 1e-5, "atol": 1e-6}
                torch.testing.assert_close(float(norm), float(want), **rough)
                for p, q in zip(ours, theirs):
                    torch.testing.assert_close(p.grad, q.grad, **rough)

    def test_clip_oddities(self):
        self.assertEqual(float(md.optim.clip_grad_norm_([torch.nn.Parameter(torch.ones(3, device=DEVICE))], 1.0)), 0.0)
        bad = self.parameters([torch.float32], 1)
        bad[2].grad[4096] = float("inf")
        with self.assertRaisesRegex(RuntimeError, "non-finite"):
            md.optim.clip_grad_norm_(bad, 1.0, error_if_nonfinite=True)
        self.assertEqual(float(md.optim.clip_grad_norm_(bad, 1.0)), float("inf"))
        self.assertTrue(bad[2].grad[4096].isnan() and bad[2].grad[0] == 0)
        one = self.parameters([torch.float32], 1)[4]
        want = one.grad.abs().max()
        torch.testing.assert_close(md.optim.clip_grad_norm_(one, 0.1, norm_type=float("inf")), want)

    def test_adamw(self):
        for options in ({}, {"amsgrad": True}, {"maximize": True}, {"capturable": True, "amsgrad": True}):
            for dtypes in ([torch.float32], [torch.float32, torch.float64]):
                ours, theirs = self.parameters(dtypes, 3), self.parameters(dtypes, 3)
                plain = {k: v for k, v in options.items() if k != "capturable"}
                own, other = md.optim.AdamW(ours, 0.02, max_norm=0.7, **options), torch.optim.AdamW(theirs, 0.02, **plain)
                for step in range(3):
                    for p, q, g in zip(ours, theirs, self.parameters(dtypes, 20 + step)):
                        p.grad, q.grad = g.grad.clone(), g.grad.clone()
                    torch.nn.utils.clip_grad_norm_(theirs, 0.7)
                    other.step()
                    own.step()
                    for p, q in zip(ours, theirs):
                        torch.testing.assert_close(p, q, rtol=3e-5, atol=3e-6, msg=lambda m: f"{options}: {m}")


class Optimizers(unittest.TestCase):
    def setUp(self):
        self.grads = [values(10 + i) for i in range(STEPS)]

    def compare(self, name, make, scalars, n_states):
        """Runs the op in place, beside PyTorch's."""
        op = md.op(name)
        p, states = values(1), [torch.zeros(N, device=DEVICE) for _ in range(n_states)]
        for i, want in enumerate(steps_of_torch(make, self.grads)):
            self.step(op, name, p, states, self.grads[i], {k: v(i + 1) if callable(v) else v for k, v in scalars.items()})
            torch.testing.assert_close(p, want, rtol=2e-5, atol=2e-6, msg=lambda m, i=i: f"{name}, step {i}: {m}")

    def step(self, op, name, p, states, g, scalars):
        """Tensors by the names of the formula's arguments: G, P, their new values P1, and the states in order."""
        by_name = {"G": g, "P": p, "P1": p}
        for letter, state in zip(self.letters[name], states):
            by_name[letter] = by_name[letter + "1"] = state
        op.call(*[by_name[a[0]] if a[0] in by_name else scalars[a[0]] for a in op.arguments])

    letters = {"adam": "MV", "adamw": "MV", "adamw_amsgrad": "MVX", "sgd_momentum": "V", "sgd_nesterov": "V", "adagrad": "S",
               "rmsprop": "V"}

    def test_adam(self):
        corrections = {"correction1": lambda t: 1 - 0.9**t, "correction2": lambda t: 1 - 0.99**t}
        common = {"lr": 0.02, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "decay": 0.1, **corrections}
        for name, make in (("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)):
            self.compare(name, lambda p, make=make: make(p, 0.02, (0.9, 0.99), 1e-8, 0.1), common, 2)
        self.compare("adamw_amsgrad", lambda p: torch.optim.AdamW(p, 0.02, (0.9, 0.99), 1e-8, 0.1, amsgrad=True), common, 3)

    def test_sgd(self):
        self.compare("sgd_momentum", lambda p: torch.optim.SGD(p, 0.05, 0.9), {"lr": 0.05, "momentum": 0.9}, 1)
        self.compare("sgd_nesterov", lambda p: torch.optim.SGD(p, 0.05, 0.9, weight_decay=0.1, nesterov=True),
                     {"lr": 0.05, "momentum": 0.9, "decay": 0.1}, 1)

    def test_captured(self):
        """As adamw, with the scale, the step and the rate in tensors; a step with found_inf changes nothing."""
        op, p, states = md.op("adamw_captured"), values(1), [torch.zeros(N, device=DEVICE), torch.zeros(N, device=DEVICE)]
        self.letters["adamw_captured"] = "MV"
        wants = steps_of_torch(lambda p: torch.optim.AdamW(p, 0.02, (0.9, 0.99), 1e-8, 0.1), self.grads)
        for i, want in enumerate(wants):
            tensors = {k: torch.tensor(v, device=DEVICE) for k, v in
                       (("scale", 8.0), ("t", i + 1.0), ("lr", 0.02), ("found_inf", 1.0))}
            scalars = {"beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "decay": 0.1, **tensors}
            before = [x.clone() for x in (p, *states)]
            self.step(op, "adamw_captured", p, states, self.grads[i] * float("inf"), scalars)
            for x, y in zip(before, (p, *states)):
                self.assertTrue(torch.equal(x, y))
            tensors["found_inf"].zero_()
            self.step(op, "adamw_captured", p, states, self.grads[i] * 8, scalars)
            torch.testing.assert_close(p, want, rtol=2e-5, atol=2e-6)

    def test_master(self):
        """Values and moments in f32, the parameter rounded once a step."""
        op, w, p = md.op("adamw_master"), values(1), torch.zeros(N, dtype=torch.bfloat16, device=DEVICE)
        m, v, grads = torch.zeros(N, device=DEVICE), torch.zeros(N, device=DEVICE), [g.bfloat16() for g in self.grads]
        wants = steps_of_torch(lambda p: torch.optim.AdamW(p, 0.02, (0.9, 0.99), 1e-8, 0.1), [g.float() for g in grads])
        for i, want in enumerate(wants):
            given = {"G": grads[i], "W": w, "W1": w, "M": m, "M1": m, "V": v, "V1": v, "P1": p, "lr": 0.02, "beta1": 0.9, "beta2": 0.99,
                     "eps": 1e-8, "decay": 0.1, "correction1": 1 - 0.9**(i + 1), "correction2": 1 - 0.99**(i + 1)}
            op.call(*[given[a[0]] for a in op.arguments])
            torch.testing.assert_close(w, want, rtol=2e-5, atol=2e-6)
            self.assertTrue(torch.equal(p, w.bfloat16()))

    def test_lion_and_averages(self):
        p, m, e, g = values(1), values(2), values(3), self.grads[0]
        want_p = p * (1 - 0.01 * 0.1) - 0.01 * torch.sign(0.9 * m + (1 - 0.9) * g)
        want_m = 0.99 * m + (1 - 0.99) * g
        op = md.op("lion")
        given = {"P": p, "P1": p, "M": m, "M1": m, "G": g, "lr": 0.01, "beta1": 0.9, "beta2": 0.99, "decay": 0.1}
        op.call(*[given[a[0]] for a in op.arguments])
        torch.testing.assert_close(p, want_p)
        torch.testing.assert_close(m, want_m)
        want_e = 0.9 * e + (1 - 0.9) * p
        op = md.op("ema_update")
        op.call(*[{"E": e, "E1": e, "P": p, "decay": 0.9}[a[0]] for a in op.arguments])
        torch.testing.assert_close(e, want_e)

    def test_clipping(self):
        grads = [g.clone() for g in self.grads]
        parameters = [torch.nn.Parameter(values(1)) for _ in grads]
        for p, g in zip(parameters, grads):
            p.grad = g.clone()
        torch.nn.utils.clip_grad_norm_(parameters, 2.0)
        norm = sum(md.op("norm_squared")(g) for g in grads)
        clip = md.op("clip_by_norm")
        for p, g in zip(parameters, grads):
            clip.call(*[{"G": g, "G1": g, "N": norm, "limit": 2.0}[a[0]] for a in clip.arguments])
            torch.testing.assert_close(g, p.grad, rtol=2e-5, atol=1e-7)

    def test_others(self):
        self.compare("adagrad", lambda p: torch.optim.Adagrad(p, 0.05, eps=1e-10), {"lr": 0.05, "eps": 1e-10}, 1)
        self.compare("rmsprop", lambda p: torch.optim.RMSprop(p, 0.01, 0.99, 1e-8), {"lr": 0.01, "alpha": 0.99, "eps": 1e-8}, 1)


if __name__ == "__main__":
    unittest.main()
