#!/usr/bin/env python3
"""Kinds of programs that public reports say torch.compile computed in another way than eager PyTorch, or not at all
(numbers of pytorch/pytorch), written anew for the backend multidispatch."""

import unittest

import needs_torch  # noqa: F401
import torch
import torch.nn.functional as F

from multidispatch.compile import backend
import quick  # noqa: F401 (kernels of -O0)
import strict  # noqa: F401 (faults are errors)

OURS = {"eager_where_faster": False, "eager_while_building": False}


class Reports(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        torch.manual_seed(18)

    def check(self, f, *inputs, dynamic=True, exact=False, **bounds):
        """f gives the same of copies of each tuple of arguments, and leaves the same in them."""
        compiled = torch.compile(f, backend=backend, dynamic=dynamic, options=OURS)
        for given in inputs:
            a, b = ([x.clone() if isinstance(x, torch.Tensor) else x for x in given] for _ in range(2))
            wanted, got = f(*a), compiled(*b)
            compare = dict(rtol=0, atol=0, equal_nan=True) if exact else dict(equal_nan=True, **bounds)
            torch.testing.assert_close((got, b), (wanted, a), **compare)

    def test_source_is_also_a_result(self):
        """108963: of an index_add with alpha, halved, beside its source."""
        def f(x, at, source):
            return torch.zeros_like(x).index_add(0, at, source, alpha=2.0) / 2, source

        self.check(f, *((torch.rand(n), torch.arange(n), torch.rand(n)) for n in (1, 5, 70)))

    def test_index_add_of_repeated_rows(self):
        """94778: the source is one row for all."""
        self.check(lambda x, row: x.index_add(0, torch.arange(x.shape[0]), row.expand(x.shape[0], -1)),
                   *((torch.randn(n, 5), torch.randn(5)) for n in (5, 1, 33)))

    def test_numbers_below_the_normal_ones(self):
        """126848: they stay what they are, also in eager code afterwards."""
        def f(x):
            return x * 2.0 ** -124

        x = torch.tensor([0.1875, 3.0, -0.5] * 30)
        self.assertTrue((f(x) != 0).all())
        self.check(f, (x,), (x[:1],), exact=True)
        self.assertTrue((f(x) != 0).all())

    def test_sums_over_all_axes_but_one(self):
        """159154: weights of each image, divided by their sum."""
        def f(x, decay):
            e = torch.exp(-torch.einsum("i...,i->i...", x, decay))
            return torch.einsum("i,i...->i...", 1 / torch.einsum("i...->i", e), e)

        self.check(f, *((torch.rand(n, 1, 8, m), torch.rand(n)) for n, m in ((5, 8), (1, 3), (7, 33))))

    def test_order_of_results(self):
        """113015, 113017: sums of whole numbers beside a maximum of slices, in either order."""
        def parts(x):
            last, each = x[-9:-8], x[-9::4]
            return each.sum(0), torch.max(last, -each[:1]), each.max()

        for dtype in (torch.int64, torch.int32, torch.int8):
            x = torch.randint(-100, 100, (40, 3)).to(dtype)
            self.setUp()
            self.check(parts, (x,), (x[:12],), exact=True)
            self.setUp()
            self.check(lambda x: parts(x)[::-1], (x,), (x[:12],), exact=True)

    def test_updates_that_repeat_a_place(self):
        """138908: y[at] += y[at] writes each place once, though it is named twice."""
        def f(at, y):
            at = at + 10
            y[at] += y[at]
            return y.sum()

        self.check(f, (torch.full((1, 2), -10), torch.randn(2, 32)), (torch.tensor([[-9, -9, -10]]), torch.randn(3, 4)))

    def test_remainders_of_large_numbers(self):
        """149496: rows of a table at the remainders of numbers up to 2^63."""
        large = torch.iinfo(torch.long).max
        self.check(lambda x, table: F.embedding(x % table.shape[0], table),
                   *((torch.randint(-large, large, (n, 3)), torch.randn(1000, 4)) for n in (2, 64)), exact=True)

    def test_scalars_of_short_integers(self):
        """164486: a tensor without axes by as_strided, whose quotient is a real."""
        def f(x, gain):
            return torch.div(torch.full((), 1, dtype=x.dtype) + x, torch.full((1,), 3, dtype=x.dtype).squeeze()) * gain

        self.check(f, *((torch.as_strided(torch.tensor([n], dtype=torch.int16), (), ()), torch.tensor(1.5)) for n in (7, -32768)))

    def test_branches_on_a_mean(self):
        """160730: a repeated tensor in 16 bits, whose mean chooses."""
        def f(x):
            e = torch.tan(x).expand(31, 51, 1)
            return torch.sin(e - e * 0.5 if e.float().mean().item() > 0.5 else e + e * 0.5)

        self.check(f, (torch.rand(31, 51, 1).half(),), (-torch.rand(31, 51, 1).half(),), rtol=2e-3, atol=2e-3)

    def test_loops_that_are_written_out(self):
        """96064: steps that read what the step before wrote."""
        def f(x, decay):
            out = torch.zeros_like(x)
            for i in range(1, 4):
                out[i] = out[i - 1] * decay + x[i]
                x[i] = out[i] - x[i - 1]
            return out, x.cumsum(0)

        self.check(f, *((torch.randn(4, n), torch.rand(n)) for n in (1, 3, 40)))

    def test_differences(self):
        """116493: along each axis, of any size."""
        self.check(lambda x: (torch.diff(x, dim=-1).sum(-1), torch.diff(x, n=2, dim=0), torch.diff(x, prepend=x[:, :1])),
                   *((torch.randn(n, m),) for n, m in ((4, 5), (3, 4), (9, 2))))

    def test_sizes_as_factors(self):
        """145587."""
        self.check(lambda a, b: a.shape[0] * a * b + b.shape[1], *((torch.randn(n, 3), torch.randn(n, 3)) for n in (4, 8, 1)))

    def test_floors_of_enlarged_images(self):
        """148859: how many runs of equal numbers there are depends on each rounding."""
        def f(x):
            return torch.unique_consecutive(F.interpolate(torch.floor(x), scale_factor=2, mode="nearest"))

        self.check(f, *((torch.randn(1, 3, n, n) * 3,) for n in (16, 5)), exact=True)

    def test_scans_of_narrow_types(self):
        """109925: running sums and products have the dtypes that eager code gives them."""
        def f(x):
            return x.cumsum(0), x.cumprod(-1), x.to(torch.int8).cumsum(0, dtype=torch.int8), (x > 0).cumsum(1), x.cummax(0)

        self.check(f, *((torch.randint(-3, 4, (n, 5), dtype=torch.int16),) for n in (7, 1, 60)), exact=True)


if __name__ == "__main__":
    unittest.main()
