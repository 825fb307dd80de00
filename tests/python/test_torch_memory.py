#!/usr/bin/env python3
"""Temporaries on a GPU are memory of PyTorch's caching allocator. Skipped, loudly, without a GPU."""

import sys
import unittest

import torch

import multidispatch as md

if not torch.cuda.is_available():
    try:
        md.share_torch_memory()
        sys.exit("share_torch_memory() did not say that there is no GPU")
    except md.Unsupported:
        print("SKIPPED: test_torch_memory.py: PyTorch sees no GPU", file=sys.stderr)
        sys.exit(0)

SUM = "let a[b,i] = cumsum[i](X[b,i]); Y[b,i] = a[b,i] + max[k](a[b,k])"


class Memory(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        md.share_torch_memory()

    @staticmethod
    def expected(x):
        a = x.cumsum(1)
        return a + a.max(1, keepdim=True).values

    def test_workspaces_are_counted_by_pytorch(self):
        op = md.op(SUM)
        made = []
        for stream in (torch.cuda.current_stream(), torch.cuda.Stream(), torch.cuda.Stream()):
            with torch.cuda.stream(stream):
                x = torch.randn(64, 20000, device="cuda").round()
                y = torch.empty_like(x)
                before = torch.cuda.memory_allocated()
                for _ in range(3):
                    op(x, out=y)
                made.append(torch.cuda.memory_allocated() - before)
                torch.testing.assert_close(y, self.expected(x))
        self.assertTrue(all(n >= x.numel() * 4 for n in made), made)

    def test_sequences(self):
        def block(x):
            return (torch.relu(x @ x.T).softmax(-1) @ x).cumsum(0)

        x = torch.randn(384, 256, device="cuda", dtype=torch.float64).float()
        with torch.no_grad():
            before = torch.cuda.memory_allocated()
            plan = md.capture(block, (x,))
            got = plan(x)
            self.assertGreater(torch.cuda.memory_allocated() - before, 384 * 384 * 4)
            torch.testing.assert_close(got, block(x), rtol=1e-3, atol=1e-3)

    def test_memory_that_is_short(self):
        op = md.op(SUM)
        x = torch.ones(16, 1000, device="cuda")
        y = torch.empty_like(x)
        with torch.cuda.stream(torch.cuda.Stream()):
            torch.cuda.empty_cache()
            torch.cuda.set_per_process_memory_fraction(1e-6)  # a new stream has no workspace yet
            try:
                with self.assertRaisesRegex(MemoryError, "caller's allocator"):
                    op(x, out=y)
            finally:
                torch.cuda.set_per_process_memory_fraction(1.0)
            op(x, out=y)
            torch.testing.assert_close(y, self.expected(x))


if __name__ == "__main__":
    unittest.main()
