#!/usr/bin/env python3
"""The package with PyTorch on the CPU: tensors in and out, what must be refused, and what other tensors of PyTorch's do."""

import gc
import os
import pickle
import threading
import unittest
import warnings

import torch

import multidispatch as md

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
        self.refused(md.ArgumentError, "'X': DLPack's dtype", op, torch.complex(random(4), random(4)))

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
        x, w = random(4, 8), random(6, 8)
        failures = []

        def work(b):
            for _ in range(50):
                if not torch.allclose(op(x[:b], w), x[:b] @ w.T, atol=1e-5):
                    failures.append(b)
        threads = [threading.Thread(target=work, args=(1 + i % 4,)) for i in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(failures, [])

    def test_pickle(self):
        op = pickle.loads(pickle.dumps(md.op("Y[i] = X[i] * 3")))
        torch.testing.assert_close(op(random(4)), random(4) * 3)


if __name__ == "__main__":
    unittest.main()
