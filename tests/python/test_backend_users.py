#!/usr/bin/env python3
"""What users of torch.compile expect of a backend: training in all its forms, changed tensors, threads, forks, stances."""

import copy
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

import needs_torch  # noqa: F401
os.environ["MD_CC"] = "/no/compiler"  # kernels are not under test

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

import multidispatch as md
import strict  # noqa: F401 (faults are errors)

near = torch.testing.assert_close


def compiled(f, **options):
    return torch.compile(f, backend="multidispatch", dynamic=True, **options)


class Case(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        torch.manual_seed(34)
        self.before = {r["graph"] for r in md.explain_graph()}

    def tearDown(self):
        """Kernels served, not only PyTorch."""
        reports = [r for r in md.explain_graph() if r["graph"] not in self.before]
        self.assertEqual([r["reason"] for r in reports if "reason" in r], [])
        self.assertGreater(sum(len(r["kernels"]) for r in reports), 0)


class Fivefold(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return g * (x > 0) * 5


class Training(Case):
    def check(self, f, g, module):
        """f and g give losses of the module: equal gradients."""
        grads = []
        for loss in (f, g):
            module.zero_grad()
            loss().backward()
            grads.append([p.grad.clone() for p in module.parameters()])
        near(*grads)

    def test_several_losses(self):
        w = torch.randn(4, 5, requires_grad=True)

        def f(x):
            h = torch.tanh(x @ w)
            return h.sum(), (h * h).mean()

        x = torch.randn(3, 4)
        grads = []
        for g in (f, compiled(f)):
            a, b = g(x)
            grads.append((torch.autograd.grad(a, w, retain_graph=True)[0], torch.autograd.grad(b, w, retain_graph=True)[0],
                          torch.autograd.grad(a + 2 * b, w)[0]))
        near(*grads)

    def test_create_graph_is_refused(self):
        w, x = torch.randn(4, requires_grad=True), torch.randn(4)
        y = compiled(lambda x: (torch.tanh(x * w) ** 2).sum())(x)
        with self.assertRaisesRegex(RuntimeError, "double backward"):
            torch.autograd.grad(torch.autograd.grad(y, w, create_graph=True)[0].sum(), w)

    def test_checkpoints(self):
        m = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 4))
        x, inner = torch.randn(3, 4), compiled(m)
        outer = compiled(lambda x: checkpoint(m, x, use_reentrant=False).sum())
        self.check(lambda: m(x).sum(), lambda: outer(x), m)
        self.check(lambda: m(x).sum(), lambda: checkpoint(inner, x, use_reentrant=False).sum(), m)

    def test_accumulated_gradients(self):
        m = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh())
        c, xs = compiled(m), [torch.randn(2 + k, 4) for k in range(3)]
        self.check(lambda: sum(m(x).sum() for x in xs), lambda: sum(c(x).sum() for x in xs), m)

    def test_hooks_and_functions(self):
        m = torch.nn.Linear(4, 4)
        m.register_forward_hook(lambda m, i, o: Fivefold.apply(o * 2))
        m.weight.register_hook(lambda g: g * 3)
        c, x = compiled(m), torch.randn(3, 4)
        near(c(x), m(x))
        self.check(lambda: m(x).sum(), lambda: c(x).sum(), m)

    def test_autocast(self):
        m = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.LayerNorm(32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
        x, c = torch.randn(8, 16), compiled(m)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            got, want = c(x), m(x)
        near(got, want, rtol=3e-2, atol=3e-2)

    def test_scaled_losses(self):
        """GradScaler: a step is skipped where a gradient is infinite."""
        module = torch.nn.Linear(4, 3)
        other = copy.deepcopy(module)
        x = torch.randn(5, 4)
        for m, f in ((module, compiled(module)), (other, other)):
            optimizer, scaler = torch.optim.SGD(m.parameters(), lr=0.1), torch.amp.GradScaler("cpu", init_scale=2.0 ** 10)
            for scale in (1.0, 1e38, 1.0):
                scaler.scale((f(x) * scale).square().mean()).backward()
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
            self.assertEqual(scaler.get_scale(), 2.0 ** 9)
        near(list(module.parameters()), list(other.parameters()))

    def test_buffers(self):
        m = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.BatchNorm1d(5), torch.nn.ReLU())
        other = copy.deepcopy(m)
        c = compiled(other)
        for b in (4, 7, 4, 5):
            x = torch.randn(b, 6)
            near(c(x), m(x), rtol=1e-4, atol=1e-5)
        near(list(other.buffers()), list(m.buffers()))

    def test_dropout(self):
        x = torch.ones(20, 20)
        c = compiled(lambda x: F.dropout(x, 0.5, training=True) * 2, options={"eager_random": True})
        for seed in (1, 2):
            torch.manual_seed(seed)
            got = c(x)
            torch.manual_seed(seed)
            near(got, F.dropout(x, 0.5, training=True) * 2)


class Tensors(Case):
    def test_changed_inputs(self):
        def whole(x, y):
            x.add_(1)
            y[1:].mul_(2)
            return x * y.sum()

        def part(x, y):
            v = x[:, 1:]
            v.copy_(v * 2)
            return v.sum(), x.t() + y.t()

        for f in (whole, part):
            c = compiled(f)
            for n in (3, 5, 2):
                ours = [torch.randn(n, 4), torch.randn(n, 4)]
                theirs = [x.clone() for x in ours]
                near(c(*ours), f(*theirs))
                near(ours, theirs)

    def test_inputs_of_one_memory(self):
        def f(v, w):
            v.add_(1)
            return w * 2

        ours = torch.randn(6, 4)
        theirs = ours.clone()
        near(compiled(f)(ours[:3], ours[2:5]), f(theirs[:3], theirs[2:5]))
        near(ours, theirs)

    def test_outputs_that_are_inputs(self):
        def f(x):
            return x, x.view(-1), x[1:], x * 2, x.detach()

        c = compiled(f)
        for n in (3, 4):
            x = torch.randn(n, 4)
            out = c(x)
            near(out, f(x))
            self.assertIs(out[0], x)
            out[1].add_(1)
            near(out[2], x[1:])
        y = torch.randn(3, 4, requires_grad=True)
        a, b = compiled(lambda y: (y.t(), (y * 2).t()))(y)
        (a.sum() + b.sum()).backward()
        near(y.grad, torch.full_like(y, 3))

    def test_parameters_that_change(self):
        m, x = torch.nn.Linear(4, 4), torch.randn(3, 4)
        c = compiled(m)
        near(c(x), m(x))
        m.weight.data = m.weight.data.clone() * 2
        near(c(x), m(x))
        m.double()
        near(c(x.double()), m(x.double()))
        m.weight = torch.nn.Parameter(torch.randn(4, 4, dtype=torch.float64))
        near(c(x.double()), m(x.double()))

    def test_an_error_of_eager(self):
        c, x = compiled(lambda x, i: x.exp()[i] + 1), torch.randn(4, 3)
        near(c(x, torch.tensor([1, -1])), x.exp()[[1, 3]] + 1)
        with self.assertRaisesRegex(IndexError, "out of bounds"):
            c(x, torch.tensor([1, 9]))
        near(c(x, torch.tensor([0, 2])), x.exp()[[0, 2]] + 1)


class Calls(Case):
    def test_stances(self):
        c, x = compiled(lambda x: (x * 2).relu()), torch.randn(3, 4)
        c(x)
        with torch.compiler.set_stance("force_eager"):
            self.assertEqual(c(torch.randn(2, 2, 2)).shape, (2, 2, 2))
        with torch.compiler.set_stance("fail_on_recompile"):
            self.assertEqual(c(torch.randn(1, 9)).shape, (1, 9))
        with torch.compiler.set_stance("eager_on_recompile"):
            self.assertEqual(c(torch.randn(2, 2, 2)).shape, (2, 2, 2))

    def test_logs(self):
        """TORCH_LOGS knows the package by its name."""
        program = ("import torch, multidispatch\n"
                   "f = torch.compile(lambda x: torch.sort(torch.exp(x) * 2)[0], backend='multidispatch', dynamic=True)\n"
                   "f(torch.ones(3, 4))")
        ran = subprocess.run([sys.executable, "-c", program], env=os.environ | {"TORCH_LOGS": "+multidispatch"}, capture_output=True,
                             text=True, check=True)
        lines = [line for line in ran.stderr.splitlines() if "inference0:" in line]
        self.assertEqual(len(lines), 3, ran.stderr)
        self.assertRegex(lines[0], r"inference0: \d+ nodes, 1 kernels, 1 ops of PyTorch, in ")
        self.assertRegex(lines[1], r"kernel Y:f32.*exp\(")
        self.assertIn("PyTorch computes sort (aten.sort.default): the order of many elements", lines[2])
        near(compiled(lambda x: x * 2)(torch.ones(3)), torch.full((3,), 2.0))

    def test_marked_sizes(self):
        before = len(md.explain_graph())
        f, x = torch.compile(lambda x: x.exp().sum(1), backend="multidispatch"), torch.randn(3, 4)
        torch._dynamo.mark_dynamic(x, 0)
        for y in (x, torch.randn(5, 4), torch.randn(1, 4), torch.randn(0, 4)):
            near(f(y), y.exp().sum(1))
        self.assertEqual(len(md.explain_graph()), before + 1)
        g = torch.compile(lambda x: x.exp().sum(1) * 4, backend="multidispatch")
        z = torch.randn(3, 4)
        torch._dynamo.decorators.mark_unbacked(z, 0)
        near(g(z), z.exp().sum(1) * 4)

    def test_static_and_automatic_sizes(self):
        for dynamic in (None, False):
            torch._dynamo.reset()
            f = torch.compile(lambda x: x.exp() + 1, backend="multidispatch", dynamic=dynamic)
            for n in (3, 4, 5, 1):
                x = torch.randn(n, 4)
                near(f(x), x.exp() + 1)

    def test_reset(self):
        f, x = compiled(lambda x: x * 3), torch.randn(3)
        for reset in (torch._dynamo.reset, torch.compiler.reset):
            near(f(x), x * 3)
            reset()
        near(f(x), x * 3)

    def test_copies(self):
        m = torch.nn.Linear(3, 3)
        c = compiled(m)
        c(torch.randn(2, 3))
        near(copy.deepcopy(c)(torch.ones(1, 3)), m(torch.ones(1, 3)))

    def test_transforms(self):
        w, x = torch.randn(4, 5), torch.randn(3, 4)
        near(compiled(lambda x: torch.vmap(lambda v: torch.tanh(w.t() @ v))(x))(x), torch.tanh(x @ w))
        near(compiled(torch.func.grad(lambda z: (z ** 3).sum()))(x), 3 * x * x)

    def test_methods(self):
        """Of a class that is no module, compiled where it is written; each object has its own values."""
        class Scaled:
            def __init__(self, by):
                self.by = by

            @torch.compile(backend="multidispatch", dynamic=True)
            def __call__(self, x):
                return torch.tanh(x * self.by).sum(-1)

        for by in (2.0, 3.0):
            for n in (4, 7):
                x = torch.randn(n, 5)
                near(Scaled(by)(x), torch.tanh(x * by).sum(-1))

    def test_spawn(self):
        """A process that is started anew, with a compiled module as an argument."""
        text = """
import sys
import multiprocessing, torch, multidispatch

def work(module, x, results):
    results.put(torch.compile(module, backend="multidispatch", dynamic=True)(x).tolist())

if __name__ == "__main__":
    context, module, x = multiprocessing.get_context("spawn"), torch.nn.Linear(4, 3), torch.randn(5, 4)
    wanted = torch.compile(module, backend="multidispatch", dynamic=True)(x)
    results = context.Queue()
    p = context.Process(target=work, args=(module, x, results))
    p.start()
    torch.testing.assert_close(torch.tensor(results.get(timeout=120)), wanted)
    p.join()
    sys.exit(p.exitcode)
"""
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "program.py")
            program.write_text(text, encoding="utf-8")
            done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        x = torch.randn(3, 4)  # of this process, for the count of kernels
        near(compiled(torch.tanh)(x), torch.tanh(x))

    def test_threads(self):
        w, errors = torch.randn(8, 8), []
        c = compiled(lambda x: torch.softmax(x @ w, -1).sum(0))
        c(torch.randn(3, 8))

        def run(k):
            x = torch.arange(1.0, 41.0).reshape(5, 8) * (k + 1) / 40
            try:
                for i in range(12):
                    part = x[:1 + (k + i) % 5]
                    near(c(part), torch.softmax(part @ w, -1).sum(0))
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=run, args=(k,)) for k in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(errors, [])

    def test_fork(self):
        c, x = compiled(lambda x: (x * 2).tanh().sum(1)), torch.randn(4, 5)
        c(x)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                y = torch.randn(7, 5)
                near(c(y), (y * 2).tanh().sum(1))
                near(compiled(lambda x: x.exp() * 3)(y), y.exp() * 3)
                status = 0
            finally:
                os._exit(status)
        self.assertEqual(os.waitpid(child, 0)[1], 0)


if __name__ == "__main__":
    unittest.main()
