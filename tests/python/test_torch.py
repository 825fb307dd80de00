#!/usr/bin/env python3
"""The package with PyTorch on the CPU: tensors in and out, what must be refused, and what other tensors of PyTorch's do."""

import gc
import io
import os
import pickle
import unittest
import warnings

import torch

import multidispatch as md
from threads_agree import threads_agree

SEED = int(os.environ.get("MD_TEST_SEED", "18"))


def random(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(SEED), dtype=torch.float64).to(dtype)


class Tensors(unittest.TestCase):
    def test_results(self):
        op = md.op("Y[b,n] = relu(sum[k](X[b,k]*W[n,k]) + c[n])", static={"n": 24, "k": 16})
        w, c = random(24, 16), random(24)
        for b in (0, 1, 2, 7, 31):
            x = random(b, 16)
            y = op(x, w, c)
            self.assertIs(type(y), torch.Tensor)
            self.assertEqual((y.shape, y.stride(), y.dtype, y.requires_grad), ((b, 24), (24, 1), x.dtype, False))
            torch.testing.assert_close(y, torch.relu(x @ w.T + c), rtol=1e-5, atol=1e-5)
            y.zero_()
            self.assertIs(op(x, w, c, out=y), y)
            torch.testing.assert_close(y, torch.relu(x @ w.T + c), rtol=1e-5, atol=1e-5)
            y.zero_()
            op.call(y, x, w, c)
            torch.testing.assert_close(y, torch.relu(x @ w.T + c), rtol=1e-5, atol=1e-5)

    def test_dtypes(self):
        op = md.op("Y[i] = A[i] + A[i]")
        for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
            a = random(9, dtype=dtype)
            self.assertEqual(op(a).dtype, dtype)
            torch.testing.assert_close(op(a), a + a)
        for dtype in (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32,
                      torch.uint64):
            a = torch.arange(9).to(dtype)
            y = torch.zeros(9, dtype=dtype)
            self.assertEqual(op(a, out=y).tolist(), list(range(0, 18, 2)))
        flags = md.op("Y[i] = where(M[i], X[i], 0.0)")
        x, m = random(9), torch.arange(9) % 2 == 0
        torch.testing.assert_close(flags(m, x), torch.where(m, x, 0.0))

    def test_layouts(self):
        op = md.op("Y[i,j] = X[i,j] + c[j]")
        x, c = random(6, 8), random(8)
        for view, row in ((x[::2, ::3], c[:3]), (x.T.contiguous().T, c), (x[:1].expand(6, 8), c), (x, c[:1].expand(8)),
                          (x[:1, :1], c[:1]), (x[:0], c), (x[:, :0], c[:0]), (x[1:, 2:], c[2:])):
            torch.testing.assert_close(op(view, row), view + row)
        y = torch.zeros(8, 6)
        op(x, c, out=y.T)
        torch.testing.assert_close(y.T, x + c)

    def test_lazy_copies(self):
        """An input that shares its memory until someone writes stays shared; an output does not."""
        op = md.op("Y[i] = X[i] + 1")
        x = random(5)
        before = x.clone()
        lazy = torch._lazy_clone(x)
        torch.testing.assert_close(op(lazy), before + 1)
        self.assertTrue(torch._C._is_cow_tensor(lazy))
        op(before, out=lazy)
        torch.testing.assert_close(lazy, before + 1)
        torch.testing.assert_close(x, before)

    def test_parameters_and_modes(self):
        op = md.op("Y[i] = X[i] * 2")
        p = torch.nn.Parameter(random(4))
        for mode in (torch.no_grad, torch.inference_mode):
            with mode():
                torch.testing.assert_close(op(p), p.detach() * 2)
        with torch.inference_mode():
            made = op(random(4))
        torch.testing.assert_close(op(made), random(4) * 4)
        with torch.amp.autocast("cpu", dtype=torch.bfloat16):  # an op has the dtypes of its formula
            self.assertEqual(op(random(4)).dtype, torch.float32)
        torch.testing.assert_close(op(torch.nn.Parameter(random(4), requires_grad=False)), random(4) * 2)


class Constants(unittest.TestCase):
    """Weights that are packed once (option constant)."""

    def setUp(self):
        self.op = md.op("Y[t,n] = sum[k](X[t,k] * W[n,k])", constant="W", name="constants",
                        pin="gemm_packed/rows4_depth256_block480")
        self.w, self.x = random(64, 96), random(20, 96)

    def check(self, w=None):
        w = self.w if w is None else w
        torch.testing.assert_close(self.op(self.x, w), self.x @ w.T, rtol=1e-5, atol=1e-4)

    def packings(self):
        return sum(o["counts"]["packings"] for o in md.stats()["ops"] if o["op"] == "constants")

    def test_once(self):
        before = self.packings()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(4):
                self.check()
                self.check(self.w[:32])  # another tensor at the same address: packed by its sizes
        self.assertEqual(self.packings(), before + 2)

    def test_written_by_torch(self):
        self.check()
        self.w.mul_(2)
        with self.assertWarnsRegex(RuntimeWarning, "constant 'W' was written since it was packed"):
            self.check()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.check()
            self.op.changed("W")
            self.w.add_(1)
            self.check()

    def test_written_unseen(self):
        self.check()
        wanted = self.op(self.x, self.w)
        self.w.numpy()[:] = 1
        torch.testing.assert_close(self.op(self.x, self.w), wanted)  # nobody told the op
        self.op.changed()
        self.check()

    def test_freed(self):
        for _ in range(20):  # the op holds its constants: no other gets their memory
            self.check(torch.randn(64, 96))

    def test_refused(self):
        with self.assertRaisesRegex(md.ArgumentError, "'X' is not one of the op's constants"):
            self.op.changed("X")
        with self.assertRaisesRegex(md.MdError, "option constant: 'V' is no input"):
            md.op("Y[i] = X[i]", constant=("X", "V"))(torch.ones(3))
        again = pickle.loads(pickle.dumps(self.op))
        torch.testing.assert_close(again(self.x, self.w), self.op(self.x, self.w))


class Bad(unittest.TestCase):
    def refused(self, error, text, function, *args, **options):
        with self.assertRaisesRegex(error, text):
            function(*args, **options)

    def test_bits(self):
        op = md.op("Y[i] = X[i] + 0.0")
        neg = torch._neg_view(random(4))
        imag = torch.complex(random(4), random(4)).conj().imag
        one = torch.complex(random(1), random(1)).conj().imag
        for x in (neg, imag, one, neg[1:], neg[:1]):
            self.assertTrue(x.is_neg())
            self.refused(md.ArgumentError, "'X': .*resolve_neg", op, x)
            self.refused(md.ArgumentError, "'Y': .*resolve_neg", op.call, x, x.resolve_neg())
            torch.testing.assert_close(op(x.resolve_neg()), x.resolve_neg())
        self.refused(md.ArgumentError, "'X': ", op, torch.complex(random(4), random(4)).conj())
        self.refused(md.ArgumentError, "'X': its elements are complex", op, torch.complex(random(4), random(4)))

    def test_gradients(self):
        op = md.op("Y[i] = X[i] + 0.0")
        x = random(4).requires_grad_()
        self.refused(md.ArgumentError, "'X': requires a gradient", op, x)
        self.refused(md.ArgumentError, "'X': requires a gradient", op, x[1:])
        self.refused(md.ArgumentError, "'Y': requires a gradient", op.call, x, random(4))
        self.refused(md.ArgumentError, "'X': requires a gradient", op, torch.nn.Parameter(random(4)))
        with torch.no_grad():
            torch.testing.assert_close(op(x), x)

    def test_tensors_without_memory(self):
        from torch._subclasses.fake_tensor import FakeTensorMode
        op = md.op("Y[i] = X[i] + 0.0")
        with FakeTensorMode():
            fake = torch.ones(4)
        self.refused(md.ArgumentError, "'X'", op.call, torch.ones(4), fake)
        self.refused((md.ArgumentError, md.Unsupported), "", op.call, torch.ones(4), torch.ones(4, device="meta"))
        sparse = torch.eye(4).to_sparse()
        self.refused(md.ArgumentError, "'X'", md.op("Y[i,j] = X[i,j] + 0.0"), sparse)
        with warnings.catch_warnings(action="ignore"):
            quantized = torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8)
        self.refused(md.ArgumentError, "'X'", op, quantized)

    def test_subclasses(self):
        class Mine(torch.Tensor):
            pass
        op = md.op("Y[i] = X[i] + 0.0")
        self.refused(md.ArgumentError, "'X': .*subclass", op.call, torch.ones(4), torch.ones(4).as_subclass(Mine))

    def test_shapes(self):
        op = md.op("Y[i,j] = X[i,j] + c[j]")
        x, c = random(4, 3), random(3)
        self.refused(md.ArgumentError, "'c': axis 0 .* has size 1", op, x, c[:1])
        self.refused(md.ArgumentError, "rank 1, expected 2", op, c, c)
        self.refused(md.ArgumentError, "stride 0", op.call, torch.empty(1, 3).expand(4, 3), x, c)
        rows = md.op("Y[i,j] = E[ids[i],j]")
        self.refused(md.ArgumentError, "index 10 is outside", rows, random(10, 3), torch.tensor([3, 10]))


class Lives(unittest.TestCase):
    def test_memory_comes_and_goes(self):
        op = md.op("Y[i] = X[i] + 1")
        x = random(1000)
        for _ in range(1000):
            y = op(x)
        view = op(x)[3:]
        del y
        gc.collect()
        torch.testing.assert_close(view, x[3:] + 1)

    def test_threads(self):
        op = md.op("Y[b,n] = sum[k](X[b,k]*W[n,k])")
        self.assertTrue(threads_agree(op, random(4, 8), random(6, 8), torch.allclose))

    def test_pickle(self):
        op = pickle.loads(pickle.dumps(md.op("Y[i] = X[i] * 3")))
        torch.testing.assert_close(op(random(4)), random(4) * 3)


class Inside(unittest.TestCase):
    """What PyTorch's compiler, exporter and autograd make of an op."""

    @staticmethod
    def linear():
        op = md.op("Y[b,n] = relu(sum[k](X[b,k]*W[n,k]) + c[n])")
        w, c = random(8, 4), random(8)
        return op, (lambda x: op(x * 2, w, c) + 1), (lambda x: torch.relu((2 * x) @ w.T + c) + 1)

    def test_operator(self):
        op, _, _ = self.linear()
        call = torch.ops.multidispatch.call.default
        for b in (1, 3):
            torch.library.opcheck(call, (op._key, [random(b, 4), random(8, 4), random(8)], [], [], [b, 8]))
        scaled = md.op("scalar s; scalar n:i64; Y[i] = s * X[i] + n; Z[i] = X[i]")
        torch.library.opcheck(call, (scaled._key, [random(3)], [2.0], [5], [3, 3]))
        y, z = scaled(2.0, 5, random(3))
        torch.testing.assert_close(y, 2 * random(3) + 5)
        torch.testing.assert_close(z, random(3))

    def test_compiled(self):
        """One graph for all batches, 0 and 1 too."""
        from torch.fx.experimental import _config
        _, f, expected = self.linear()
        for backend in ("aot_eager", "inductor"):
            with self.subTest(backend), _config.patch(backed_size_oblivious=True):
                torch._dynamo.reset()
                torch._dynamo.utils.counters.clear()
                g = torch.compile(f, fullgraph=True, dynamic=True, backend=backend)
                for b in (3, 0, 1, 2, 7, 31):
                    torch.testing.assert_close(g(random(b, 4)), expected(random(b, 4)))
                self.assertEqual(torch._dynamo.utils.counters["stats"]["unique_graphs"], 1)

    def test_sizes_that_no_tensor_gives(self):
        """In compiled code they change without compiling anew, and formulas of gradients have them."""
        op = md.op("Y[b] = sum[j](X[b, j // 4] * f32(j % 3))",
                   grad={"X": "dX[b,c] = dY[b] * sum[j](where(j // 4 == c, f32(j % 3), 0)) + 0 * X[b,c]"})
        weight = torch.arange(12) % 3
        compiled = torch.compile(lambda x, j: op(x, j=j) * 2, dynamic=True, backend="aot_eager", fullgraph=True)
        for j in (3, 7, 12):
            x = torch.randn(2, 3, requires_grad=True)
            wanted = (x.repeat_interleave(4, 1) * weight)[:, :j].sum(1)
            torch.testing.assert_close(op(x, j=j), wanted)
            torch.testing.assert_close(compiled(x, j), wanted * 2)
            (mine,), (theirs,) = (torch.autograd.grad(y.sum(), x) for y in (op(x, j=j), wanted))
            torch.testing.assert_close(mine, theirs)

    def test_exported(self):
        _, f, expected = self.linear()

        class Model(torch.nn.Module):
            def forward(self, x):
                return f(x)
        program = torch.export.export(Model(), (random(3, 4),), dynamic_shapes={"x": {0: torch.export.Dim("b", min=2)}})
        file = io.BytesIO()
        torch.export.save(program, file)
        file.seek(0)
        again = torch.export.load(file).module()
        for b in (2, 7, 31):
            torch.testing.assert_close(again(random(b, 4)), expected(random(b, 4)))

    def test_gradients_given(self):
        op = md.op("Y[b,n] = tanh(sum[k](X[b,k]*W[n,k]))", grad={
            "X": "dX[b,k] = sum[n](dY[b,n]*(1-Y[b,n]*Y[b,n])*W[n,k])",
            "W": "dW[n,k] = sum[b](dY[b,n]*(1-Y[b,n]*Y[b,n])*X[b,k])"})
        x, w = random(3, 4, dtype=torch.float64).requires_grad_(), random(5, 4, dtype=torch.float64).requires_grad_()
        for one in (op, pickle.loads(pickle.dumps(op))):
            self.assertTrue(torch.autograd.gradcheck(one, (x, w)))
        torch._dynamo.reset()
        g = torch.compile(lambda x, w: op(x, w).sum(), fullgraph=True, backend="aot_eager", dynamic=True)
        for b in (3, 5):
            x, w = random(b, 4).requires_grad_(), random(5, 4).requires_grad_()
            got = torch.autograd.grad(g(x, w), (x, w))
            for a, b in zip(got, torch.autograd.grad(torch.tanh(x @ w.T).sum(), (x, w))):
                torch.testing.assert_close(a, b)
        with self.assertRaisesRegex(md.ArgumentError, "'Q' is none of X, W, Y, dY"):
            md.op("Y[i] = X[i] * W[i]", grad={"X": "dX[i] = Q[i]"})
        half = md.op("Y[i] = X[i] * W[i]", grad={"X": "dX[i] = dY[i]*W[i]"})
        torch.testing.assert_close(torch.autograd.grad(half(x[0], w[0].detach()).sum(), x)[0][0], w[0].detach())
        with self.assertRaisesRegex(md.ArgumentError, "'W' requires a gradient"):
            half(x[0], w[0]).sum().backward()

    def test_gradients_not_given(self):
        op, x = md.op("Y[i] = X[i] + 1"), random(4).requires_grad_()
        torch._dynamo.reset()
        with self.assertRaisesRegex(Exception, "gradient"):
            torch.compile(lambda x: op(x) * 2, backend="aot_eager")(x).sum().backward()

    def test_fake(self):
        from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
        op, _, _ = self.linear()
        with FakeTensorMode():
            y = op(torch.empty(3, 4, dtype=torch.bfloat16), torch.empty(8, 4, dtype=torch.bfloat16), torch.empty(8))
        self.assertIs(type(y), FakeTensor)
        self.assertEqual((y.shape, y.dtype), ((3, 8), torch.bfloat16))
        real = op(random(3, 4, dtype=torch.bfloat16), random(8, 4, dtype=torch.bfloat16), random(8))
        self.assertEqual((real.shape, real.dtype), (y.shape, y.dtype))


if __name__ == "__main__":
    unittest.main()
