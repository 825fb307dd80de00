#!/usr/bin/env python3
"""Bad input with PyTorch: an exception or PyTorch's own result, never a crash or a silent wrong answer. What is not
here is in test_torch.Bad (bits, gradients, FakeTensor, meta, sparse, subclasses, shapes), test_backend.Eager (sizes that
depend on data), test_package.Bad (no GPU, indices, read-only) and test_package.Processes (fork, import after a fork)."""

import os
import subprocess
import sys
import unittest
import warnings

import torch

import multidispatch as md
from multidispatch.compile import backend


def run_python(text, **env):
    return subprocess.run([sys.executable, "-c", "import torch, multidispatch as md\n" + text], text=True,
                          capture_output=True, timeout=240, env=os.environ | {"MD_LOG": "none"} | env, check=False)


class Ops(unittest.TestCase):
    def refused(self, error, text, function, *args, **options):
        with self.assertRaisesRegex(error, text):
            function(*args, **options)

    def test_expanded_outputs(self):
        """Elements of an output that share memory."""
        op = md.op("Y[i,j] = X[i,j] + 1.0")
        x = torch.ones(4, 3)
        for y in (torch.zeros(3).expand(4, 3), torch.zeros(1, 1).expand(4, 3), torch.zeros(12).as_strided((4, 3), (1, 1))):
            self.refused(md.ArgumentError, "Y", op, x, out=y)
            self.refused(md.ArgumentError, "Y", op.call, y, x)
        y = torch.zeros(1, 3).expand(1, 3)  # no element twice
        self.assertEqual(op(x[:1], out=y).tolist(), [[2.0] * 3])

    def test_outputs_over_inputs(self):
        op = md.op("Y[i] = X[i] + 1.0")
        x = torch.arange(9.0)
        self.refused(md.ArgumentError, "overlap", op, x[:8], out=x[1:])
        self.assertEqual(op(x, out=x).tolist(), [i + 1.0 for i in range(9)])

    def test_far_indices(self):
        rows = md.op("Y[i,j] = E[ids[i],j]")
        for far in (10, -1, 2**31, 2**32 + 1, 2**40, -2**63):
            self.refused(md.ArgumentError, f"index {far} is outside", rows, torch.ones(10, 3), torch.tensor([0, far]))

    def test_fake_and_wrapped(self):
        from torch._subclasses.fake_tensor import FakeTensorMode
        op = md.op("Y[i] = X[i] + 1.0")
        with FakeTensorMode() as mode:
            fake = torch.ones(4)
        self.refused(md.ArgumentError, "'X'", op.call, torch.ones(4), fake)
        with mode:
            self.assertEqual(tuple(op(fake).shape), (4,))
        wrapped = torch.masked.masked_tensor(torch.ones(4), torch.tensor([True, False, True, True]))
        self.refused((md.MdError, TypeError), "", op.call, torch.ones(4), wrapped)


class Lists(unittest.TestCase):
    """One error that names what is wrong, and nothing is written. More: test_torch_foreach, test_package_lists."""

    def refused(self, error, text, formula, *lists, out, **given):
        before = [y.clone() for y in out]
        with self.assertRaisesRegex(error, text):
            md.foreach(formula, *lists, out=out, **given)
        for x, y in zip(before, out):
            self.assertTrue(torch.equal(x, y))

    def test_overlaps_of_lists(self):
        """A formula over lists names both items, as one for each item does."""
        a, y = torch.ones(4), torch.zeros(8)
        self.refused(md.ArgumentError, "item 1.*overlaps.*item 0", "Y@t[i] = A@t[i]", [a, a], out=[y[:4], y[3:7]])
        self.refused(md.ArgumentError, "'Y'.*item 1.*overlaps input 'A'.*item 0", "Y[i] = A[i]", [y[:4], y[4:]],
                     out=[y[4:], y[:4]])
        with self.assertRaisesRegex(md.ArgumentError, "item 1.*overlaps.*item 0"):
            md.foreach("P@t[i] = P@t[i] + 1", [y, y])
        self.assertEqual(float(y.sum()), 0)

    def test_shapes_that_do_not_fit(self):
        a, b = [torch.ones(4), torch.ones(4)], [torch.ones(4), torch.ones(5)]
        for at in ("", "@t"):
            formula = f"Y{at}[i] = A{at}[i] + B{at}[i]"
            self.refused(md.ArgumentError, "'B': axis 0.*item 1", formula, a, b, out=[torch.zeros(4), torch.zeros(4)])
            self.refused(md.ArgumentError, "item 1", formula, a, a, out=[torch.zeros(4), torch.zeros(3)])
            self.refused(md.ArgumentError, "item 1.*rank 2|rank 2.*item 1", formula, a, [b[0], torch.ones(2, 2)],
                         out=[torch.zeros(4), torch.zeros(4)])
        self.refused(md.ArgumentError, "max of nothing.*item 1", "Y[] = max[i](A[i])", [a[0], a[0][:0]],
                     out=[torch.zeros(()), torch.zeros(())])

    def test_scalars(self):
        a = [torch.ones(4), torch.ones(4)]
        for at in ("", "@t"):
            formula = f"scalar s; Y{at}[i] = A{at}[i] * s"
            cases = ({}, "'s' is missing"), ({"s": None}, "'s' is a scalar"), ({"s": "x"}, "'s' is a scalar")
            for given, text in cases:
                self.refused(md.ArgumentError, text, formula, A=a, out=[torch.zeros(4), torch.zeros(4)], **given)
        self.refused(md.ArgumentError, "is a list of 2, others have 1", "scalar s; Y[i] = A[i] * s", A=a, s=[1.0],
                     out=[torch.zeros(4), torch.zeros(4)])
        self.refused(md.ArgumentError, "item 1: argument 's'", "scalar s; Y[i] = A[i] * s", A=a, s=[1.0, None],
                     out=[torch.zeros(4), torch.zeros(4)])

    def test_too_many_items(self):
        a, y, n = torch.ones(4), torch.zeros(4), 2**20 + 1
        for formula in ("Y[i] = A[i]", "Y@t[i] = A@t[i]"):
            with self.assertRaisesRegex(md.ArgumentError, "1048576"):
                md.foreach(formula, [a] * n, out=[y] * n)
        self.assertEqual(float(y.sum()), 0)

    def test_far_elements(self):
        """More than 2^31 elements, of one byte of memory."""
        far, near = torch.ones(1, dtype=torch.uint8).expand(2**31 + 5), torch.ones(3, dtype=torch.uint8)
        self.assertEqual([int(y) for y in md.foreach("Y:i64[] = sum[i](A[i])", [far, near])], [2**31 + 5, 3])
        self.assertEqual(int(md.foreach("N:i64[] = sum[t,i](i64(A@t[i]))", [far, near])), 2**31 + 8)

    def test_nothing(self):
        none = [torch.ones(0), torch.ones(0)]
        self.assertEqual([y.numel() for y in md.foreach("Y[i] = A[i] + 1", none)], [0, 0])
        self.assertEqual([float(y) for y in md.foreach("Y[] = sum[i](A[i])", none)], [0.0, 0.0])
        self.assertEqual(float(md.foreach("N = sum[t,i](A@t[i])", none)), 0.0)
        total = torch.ones(())
        md.foreach("N = sum[t,i](A@t[i])", [], out=total)
        self.assertEqual(float(total), 0.0)
        with self.assertRaisesRegex(md.ArgumentError, "max of no elements"):
            md.foreach("N = max[t,i](A@t[i])", none)

    def test_weights_of_an_optimizer(self):
        """Tied weights and parameters that are given twice: both items are named, and not even steps are counted."""
        for options in ({}, {"capturable": True}, {"amsgrad": True, "max_norm": 1.0}):
            p = torch.nn.Parameter(torch.ones(6))
            q = torch.nn.Parameter(p.detach()[2:4])
            p.grad, q.grad = torch.ones(6), torch.ones(2)
            for parameters in ([p, q], [p, p]):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    optimizer = md.optim.AdamW(parameters, **options)
                with self.assertRaisesRegex(md.ArgumentError, "item 1.*overlaps.*item 0|item 0.*overlaps.*item 1"):
                    optimizer.step()
                self.assertEqual(p.tolist(), [1.0] * 6)
                for state in optimizer.state.values():
                    self.assertTrue(all(float(x.sum()) == 0 for x in state.values()))
                optimizer.param_groups[0]["params"] = [p]
                optimizer.step()
                self.assertEqual(float(optimizer.state[p]["step"]), 1)
                p.data.fill_(1)

    def test_weights_with_other_layouts(self):
        """They are copied for a step. Tied ones are refused, too; columns of one matrix are not tied."""
        d = torch.arange(16.0).view(4, 4)
        p, q = torch.nn.Parameter(d), torch.nn.Parameter(d.t())
        p.grad, q.grad = torch.ones(4, 4), torch.ones(4, 4)
        optimizer = md.optim.AdamW([p, q])
        with self.assertRaisesRegex(md.ArgumentError, "item 1 overlaps parameter of item 0"):
            optimizer.step()
        self.assertEqual(d.tolist(), torch.arange(16.0).view(4, 4).tolist())
        self.assertEqual([float(s["step"]) for s in optimizer.state.values()], [0.0, 0.0])
        results = []
        for kind in (torch.optim.AdamW, md.optim.AdamW):
            d = torch.arange(16.0).view(4, 4)
            p, q = torch.nn.Parameter(d[:, ::2]), torch.nn.Parameter(d[:, 1::2])
            p.grad, q.grad = torch.ones(4, 2), -torch.ones(4, 2)
            kind([p, q], lr=0.1).step()
            results.append(d)
        torch.testing.assert_close(*results)


class Graphs(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()

    def test_far_indices(self):
        table = torch.ones(10, 3)
        f = torch.compile(lambda i: torch.nn.functional.embedding(i, table) * 2, backend=backend, dynamic=True)
        self.assertEqual(f(torch.tensor([1, 9])).tolist(), [[2.0] * 3] * 2)
        for far in (10, 2**32 + 1):
            with self.assertRaises(Exception):
                f(torch.tensor([0, far]))
        self.assertEqual(f(torch.tensor([3, 4, 5])).tolist(), [[2.0] * 3] * 3)

    def test_bits_and_layouts(self):
        f = torch.compile(lambda x, c: torch.relu(x + c) * 2, backend=backend, dynamic=True)
        x, c = torch.randn(6, 8), torch.randn(8)
        for a in (x, torch._neg_view(x), x[::2], x.flip(0).T.contiguous().T, x[:1].expand(6, 8), x[:1], x[:0]):
            torch.testing.assert_close(f(a, c), torch.relu(a + c) * 2)

    def test_subclass(self):
        class Mine(torch.Tensor):
            pass
        f = torch.compile(lambda x: torch.sin(x) + 1, backend=backend, dynamic=True)
        x = torch.randn(5).as_subclass(Mine)
        torch.testing.assert_close(f(x).as_subclass(torch.Tensor), (torch.sin(x) + 1).as_subclass(torch.Tensor))


class Processes(unittest.TestCase):
    def test_no_compiler(self):
        done = run_python("from multidispatch.compile import backend\n"
                          "f = torch.compile(lambda x: torch.relu(x).sum(-1), backend=backend, dynamic=True)\n"
                          "print(f(torch.ones(3, 4)).tolist())", MD_CC="/nonexistent", MD_CACHE_DIR="")
        self.assertEqual((done.returncode, done.stdout.strip()), (0, "[4.0, 4.0, 4.0]"), done.stderr)

    def test_first_calls_of_threads(self):
        """The first tensor that is met makes the package try PyTorch's functions, and other threads run meanwhile. The
        second argument ends the calls before anything is built; each child meets its first tensor."""
        done = run_python("import concurrent.futures, os, sys, threading\nsys.setswitchinterval(1e-6)\n"
                          "gate, op = threading.Barrier(10), md.op('Y[i] = X[i] + V[i]')\n"
                          "def call(x):\n    gate.wait()\n    try:\n        op(x, 'V')\n"
                          "    except md.ArgumentError as error:\n        return 'no array' in str(error)\n"
                          "def child():\n    with concurrent.futures.ThreadPoolExecutor(10) as pool:\n"
                          "        os._exit(not all(pool.map(call, [torch.ones(3)] * 10)))\n"
                          "print([os.waitpid(os.fork() or child(), 0)[1] for _ in range(8)])")
        self.assertEqual((done.returncode, done.stdout), (0, f"{[0] * 8}\n"), done.stderr)

    def test_end_with_live_ops_and_plans(self):
        done = run_python("op = md.op('Y[i] = exp(X[i])', async_=True); keep = [op]; keep.append(keep)\n"
                          "op(torch.ones(3)); plan = md.capture(lambda x: torch.tanh(x) * 2, (torch.ones(3, 4),))\n"
                          "plan(torch.ones(5, 4)); keep.append(plan)")
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
