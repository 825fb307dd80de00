#!/usr/bin/env python3
"""What autograd sees of ops: second derivatives, transforms, checkpoints, scalars, gradients of wrong axes, and writes."""

import unittest

import torch
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint

import multidispatch as md

CUBE = {"X": "G[i] = 3 * X[i] * X[i] * dY[i]"}


def cube():
    return md.op("Y[i] = X[i] * X[i] * X[i]", grad=CUBE)


class Derivatives(unittest.TestCase):
    def refused(self, kind, text, function, *args, **options):
        with self.assertRaisesRegex(kind, text):
            function(*args, **options)

    def test_second(self):
        op, x = cube(), torch.tensor([2.0, 3.0], requires_grad=True)
        y = op(x)
        first, = torch.autograd.grad(y.sum(), x, create_graph=True)
        torch.testing.assert_close(first, 3 * x.detach()**2, check_stride=False)
        self.refused(md.Unsupported, "second derivative", (y + first**2).sum().backward)
        self.assertIsNone(x.grad)  # nothing was added before

    def test_twice(self):
        x = torch.tensor([2.0], requires_grad=True)
        y = cube()(x).sum()
        for _ in range(2):
            torch.testing.assert_close(torch.autograd.grad(y, x, retain_graph=True)[0], torch.tensor([12.0]))

    def test_transforms(self):
        op, plain, x = cube(), md.op("Y[i] = X[i] + 1"), torch.tensor([2.0, 3.0])
        torch.testing.assert_close(torch.func.grad(lambda x: op(x).sum())(x), 3 * x**2)
        torch.testing.assert_close(torch.func.vjp(op, x)[1](torch.ones(2))[0], 3 * x**2)
        self.refused(md.Unsupported, "second derivative", torch.func.grad(lambda x: torch.func.grad(
            lambda x: op(x).sum())(x).sum()), x)
        for one in (op, plain):
            self.refused(md.Unsupported, "vmap", torch.vmap(one), torch.ones(3, 2))
            self.refused(md.Unsupported, "jvp", torch.func.jvp, one, (x,), (x,))
            with forward_ad.dual_level():
                self.refused(md.Unsupported, "jvp", one, forward_ad.make_dual(x, x))
                self.assertEqual(one(x).shape, x.shape)
        self.refused(md.Unsupported, "give grad=", torch.func.grad(lambda x: plain(x).sum()), x)
        with torch.no_grad():
            self.refused(md.Unsupported, "vmap", torch.vmap(op), torch.ones(3, 2))

    def test_checkpoint(self):
        x = torch.tensor([2.0], requires_grad=True)
        checkpoint(cube(), x, use_reentrant=False).sum().backward()
        torch.testing.assert_close(x.grad, torch.tensor([12.0]))

    def test_scalars(self):
        a, x = torch.tensor(2.0, requires_grad=True), torch.ones(2)
        op = md.op("scalar a; Y[i] = X[i] * a")
        for one in (op, md.op("scalar a; Y[i] = X[i] * a", grad={"X": "scalar a; G[i] = dY[i] * a"})):
            self.refused(md.ArgumentError, "'a'.* is a scalar", one, a, x)
            torch.testing.assert_close(one(a.detach(), x), x * 2)
            with torch.no_grad():
                torch.testing.assert_close(one(a, x), x * 2)
        self.refused(md.ArgumentError, "'a'.* is a scalar", op.call, a, torch.empty(2), x)
        self.refused(md.ArgumentError, "'a'.* is a scalar", md.foreach, op, [x], a=a)
        self.refused(md.ArgumentError, "'a'.* is a scalar", md.foreach, "scalar a; X@t[i] = X@t[i] * a", X=[x], a=a)

    def test_wrong_axes(self):
        rows = "Y[i] = sum[j](X[i,j] * W[j])"
        for formula, grad in (("Y[i] = X[i] * X[i]", "G[i,j] = dY[i] * X[j]"), (rows, "G[j,i] = dY[i] * W[j]"),
                              (rows, "G[i] = dY[i]"), (rows, "G[b,a] = dY[a] * W[b]")):
            self.refused(md.ArgumentError, "grad of 'X': its formula gives the axes", md.op, formula, grad={"X": grad})
        op = md.op(rows, static={"j": 4}, grad={"X": "G[a,b] = dY[a] * W[b]"})  # other names, right axes
        x, w = torch.ones(3, 4, requires_grad=True), torch.arange(4.0)
        torch.testing.assert_close(torch.autograd.grad(op(x, w).sum(), x)[0], w.expand(3, 4), check_stride=False)
        short = md.op("Y[i] = X[0] * Z[i]", grad={"X": "G[i] = dY[i] * Z[i]"})  # only the call shows it
        self.refused(md.ArgumentError, r"grad of 'X' has the shape \(3,\), and the input \(1,\)",
                     short(torch.ones(1, requires_grad=True), torch.ones(3)).sum().backward)


class Writes(unittest.TestCase):
    def check(self, write):
        """`write` changes a tensor that a product has saved."""
        p = torch.nn.Parameter(torch.ones(3))
        y = (p * p).sum()
        with torch.no_grad():
            write(p)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            y.backward()

    def test_calls(self):
        op = md.op("Y[i] = X[i] + 1")
        self.check(lambda p: op(p, out=p))
        self.check(lambda p: op.call(p, p))
        self.check(lambda p: md.foreach(op, [p], out=[p]))
        self.check(lambda p: md.foreach(op, [torch.ones(3), p], out=[torch.ones(3), p]))
        self.check(lambda p: md.foreach("X@t[i] = X@t[i] + 1", X=[p]))
        self.check(lambda p: cube()(torch.ones(3), out=p))

    def test_optimizers(self):
        for options in ({}, {"max_norm": 1.0}, {"capturable": True}, {"amsgrad": True}):
            def step(p, options=options):
                p.grad = torch.ones(3)
                md.optim.AdamW([p], **options).step()
            self.check(step)

        def clip(p):
            q = torch.nn.Parameter(torch.ones(3))
            q.grad = p
            md.optim.clip_grad_norm_([q], 0.1)
        self.check(clip)

    def test_counts(self):
        op, x = md.op("Y[i] = X[i] + 1; Z[i] = X[i]"), torch.ones(3)
        y, z = torch.ones(3), op(x)[1]
        self.assertEqual((y._version, z._version), (0, 0))  # what is made new, and what is read, is not written
        op(x, out=(y, None))
        self.assertEqual((x._version, y._version), (0, 1))
        with self.assertRaises(md.ArgumentError):
            op(x, out=(y, torch.ones(4)))
        self.assertEqual(y._version, 1)
        with torch.inference_mode():
            made = torch.ones(3)
            op(x, out=(y, made))
        op(x, out=(made, None))  # it has no version
        self.assertEqual(y._version, 2)


if __name__ == "__main__":
    unittest.main()
