#!/usr/bin/env python3
"""The optimizers of the catalogue beside PyTorch's own: three steps of one parameter, each."""

import copy
import os
import pathlib
import subprocess
import sys
import tempfile
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


class Bundled(unittest.TestCase):
    """What one process makes another one runs, which has no compiler."""

    program = """
import sys, torch, multidispatch as md
if sys.argv[1:]:
    md.bundle_begin()
torch.manual_seed(0)
p = [torch.nn.Parameter(torch.randn(*shape)) for shape in ((3, 5), (4097,))]
step = md.optim.AdamW(p, lr=1e-2, max_norm=1.0)
for _ in range(2):
    for x in p:
        x.grad = torch.randn_like(x)
    step.step()
print([float(x.detach().double().sum()) for x in p])
if sys.argv[1:]:
    md.bundle_write(sys.argv[1])
"""

    def run_program(self, *args, **env):
        done = subprocess.run([sys.executable, "-c", self.program, *args], env={**os.environ, "MD_CACHE_DIR": "", **env},
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, timeout=600)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_optimizer(self):
        with tempfile.TemporaryDirectory() as folder:
            path = str(pathlib.Path(folder, "optimizer.mdb"))
            made = self.run_program(path)
            self.assertEqual(self.run_program(MD_BUNDLE=path, MD_CC="/nonexistent"), made)


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


class Accuracy(unittest.TestCase):
    """AdamW beside PyTorch's in f64. Numbers of a group are f64 until they meet an element."""

    def largest_errors(self, dtype, beta2, **options):
        p = torch.nn.Parameter(values(1).to(dtype))
        q = torch.nn.Parameter(p.detach().double())
        own = md.optim.AdamW([p], 0.01, (0.9, beta2), **options)
        other = torch.optim.AdamW([q], 0.01, (0.9, beta2))
        for i in range(STEPS):
            p.grad = values(10 + i).to(dtype)
            q.grad = p.grad.to(torch.float64, copy=True)
            if "max_norm" in options:
                torch.nn.utils.clip_grad_norm_([q], options["max_norm"])
            own.step()
            other.step()
        v, w = own.state[p]["exp_avg_sq"].double(), other.state[q]["exp_avg_sq"]
        return float((p - q).detach().abs().max()), float(((v - w) / w).abs().max())

    def test_betas(self):
        for beta2 in (0.999, 0.9999999, 0.99999999):
            for options in ({}, {"capturable": True}, {"max_norm": 0.5}, {"capturable": True, "max_norm": 0.5}):
                for dtype, most_p, most_v in ((torch.float32, 3e-6, 2e-6), (torch.float64, 1e-10, 1e-13)):
                    p, v = self.largest_errors(dtype, beta2, **options)
                    self.assertLess(p, most_p, f"parameters: {beta2}, {options}, {dtype}")
                    self.assertLess(v, most_v, f"second moments: {beta2}, {options}, {dtype}")


class States(unittest.TestCase):
    """What load_state_dict takes: states that PyTorch's own AdamW takes."""

    def made(self, kind, **options):
        p = torch.nn.Parameter(values(1))
        return p, kind([p], 0.01, **options)

    def after(self, made, state):
        """The parameter after loading a state and a step."""
        p, optimizer = made
        optimizer.load_state_dict(copy.deepcopy(state))  # it keeps the tensors
        p.grad = values(5)
        optimizer.step()
        return p.detach(), float(optimizer.state[p]["step"])

    def test_loads(self):
        options = {"weight_decay", "lr", "betas", "eps"}
        for step in (3, 3.0, torch.tensor(3.0), torch.tensor(3.0, dtype=torch.float64)):
            for missing in ({"capturable"}, {"foreach", "fused", "maximize"}, {"amsgrad", "differentiable"}, set()):
                for capturable in (False, True):
                    capturable = capturable and DEVICE.startswith("cuda")
                    _, source = self.made(torch.optim.AdamW, capturable=capturable)
                    group = {k: v for k, v in source.state_dict()["param_groups"][0].items()
                             if k in options | {"params"} or k not in missing}
                    state = {"state": {0: {"step": step, "exp_avg": values(2), "exp_avg_sq": values(3).abs()}},
                             "param_groups": [group]}
                    got, n = self.after(self.made(md.optim.AdamW, capturable=capturable), state)
                    want, m = self.after(self.made(torch.optim.AdamW, capturable=capturable), state)
                    self.assertEqual((n, m), (4, 4))
                    torch.testing.assert_close(got, want, rtol=2e-5, atol=2e-6)

    def test_number_set_by_hand(self):
        p, optimizer = self.made(md.optim.AdamW)
        optimizer.state[p].update(step=3, exp_avg=values(2), exp_avg_sq=values(3).abs())
        p.grad = values(5)
        optimizer.step()
        self.assertEqual(float(optimizer.state[p]["step"]), 4)


class Numbers(unittest.TestCase):
    """Lists take the items' types, and so do the numbers for all items."""

    def test_sums(self):
        for dtype, kind in ((torch.float64, torch.float64), (torch.float32, torch.float32), (torch.int32, torch.int64),
                            (torch.int64, torch.int64), (torch.bfloat16, torch.float32)):
            x = [torch.arange(n, device=DEVICE).to(dtype) for n in (3, 5, 0)]
            for formula in ("N = sum[t,i](X@t[i])", "N[] = sum[t,i](X@t[i])"):
                got = md.foreach(formula, x)
                self.assertEqual((got.dtype, float(got)), (kind, 13.0), f"{formula} {dtype}")
        wide = [torch.full((5,), 0.1, dtype=torch.float64, device=DEVICE)]
        self.assertAlmostEqual(float(md.foreach("N = sum[t,i](X@t[i])", wide)), 0.5, delta=1e-15)
        out = torch.empty((), dtype=torch.float64, device=DEVICE)
        self.assertIsNone(md.foreach("N = sum[t,i](X@t[i])", wide, out=out))
        with self.assertRaisesRegex(md.ArgumentError, "argument 'X' is missing"):
            md.foreach("N = sum[t,i](X@t[i])", X=None)

    def test_words(self):
        """An update of a list has names of its own inside."""
        x = torch.ones(10, device=DEVICE)
        with self.assertRaisesRegex(md.ArgumentError, r"output 'X' of .* item 0 .* overlaps input 'X' of .* item 1"):
            md.foreach("let u@t[i] = X@t[i] * 2; let n = sum[t,i](u@t[i]); X@t[i] = u@t[i] / n", X=[x[:5], x[4:9]])


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
