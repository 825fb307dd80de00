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


class Case(unittest.TestCase):
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


class Reports(Case):
    def test_source_is_also_a_result(self):
        """108963: of an index_add with alpha, halved, beside its source."""
        def f(x, at, source):
            return torch.zeros_like(x).index_add(0, at, source, alpha=2.0) / 2, source

        self.check(f, *((torch.rand(n), torch.arange(n), torch.rand(n)) for n in (1, 5, 70)))

    def test_index_add_of_repeated_rows(self):
        """94778: the source is one row for all."""
        self.check(lambda x, row: x.index_add(0, torch.arange(x.shape[0]), row.expand(x.shape[0], -1)),
                   *((torch.randn(n, 5), torch.randn(5)) for n in (5, 1, 33)))

    def test_one_memory_as_two_results(self):
        """191449: a view of all of a result is a tensor of its own, whose size may change alone."""
        compiled = torch.compile(lambda x: ((y := x * 2), y.view(y.shape)), backend=backend, dynamic=True, options=OURS)
        with torch.no_grad():
            for n in (3, 5):
                y, z = compiled(torch.ones(n, 4))
                self.assertIsNot(y, z)
                z.mul_(3)
                self.assertEqual(y[0, 0], 6)
                z.resize_(1)
                self.assertEqual(y.shape, (n, 4))

    def test_places_of_extremes_in_turned_memory(self):
        """183082: argmax of a transposed tensor that was changed in place counts in the order of its axes."""
        def f(x):
            return x.sin_().t().argmax(), x.t().argmin(0), x.t().flatten().argmax(), x[::2].t().argmax(), x.flip(0).argmax()

        self.check(f, *((torch.randn(a, b),) for a, b in ((5, 9), (3, 4), (1, 6))), rtol=1e-6, atol=1e-6)

    def test_whole_numbers_that_overflow(self):
        """190764: of 32 bits, added, multiplied and summed in 64."""
        def f(x, y):
            return ((x + y) * 3 - x * 3).sum(-1), (x * y).to(torch.int64).sum(), x.sum(dtype=torch.int32)

        def drawn(*size):
            return torch.randint(-2 ** 31, 2 ** 31 - 1, size, dtype=torch.int32)

        self.check(f, *((drawn(n, m), drawn(n, m)) for n, m in ((3, 40), (1, 7))), exact=True)

    def test_scans_of_constants(self):
        """179571."""
        def f(x):
            n = x.shape[0]
            return (torch.full((n,), 3).cumsum(0), torch.full((n, 4), 0.5).cumsum(1), torch.full((n,), 2.0).cumprod(0),
                    torch.ones(n, dtype=torch.bool).cumsum(0))

        self.check(f, (torch.ones(3),), (torch.ones(7),))

    def test_angles_of_what_is_no_number(self):
        """143978."""
        self.check(lambda x: (torch.sin(torch.atan(torch.angle(torch.rsqrt(x)))), torch.angle(x), torch.angle(-x * 0)),
                   (torch.tensor([0.5, -1.0, 0.0, -0.0, torch.nan, torch.inf, -torch.inf]),), (torch.tensor([-2.0, 3.0]),))

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


class Twice(torch.autograd.Function):
    """A sine whose backward says that its derivative is 2."""

    @staticmethod
    def forward(x):
        return torch.sin(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


class Changes(Case):
    """Tensors that change, and what reads them before and after; results that are laid out in another way."""

    def test_gradient_of_columns_that_are_written(self):
        """136662: two writes into one column."""
        def g(x):
            y = torch.zeros_like(x)
            y[:, 0] += x[:, 2].abs()
            y[:, 0] += x[:, 2].abs()
            return y.sum()

        self.check(torch.func.grad(g), *((torch.randn(n, 3),) for n in (2, 1, 5)))

    def test_a_backward_of_ones_own(self):
        """193279: under func.grad."""
        self.check(lambda x: torch.func.grad(lambda y: Twice.apply(y).sum())(x), (torch.randn(4),), (torch.randn(9),))

    def test_another_type_of_the_same_memory(self):
        """198101: read before a part of it changes."""
        def f(x):
            y = x.view(torch.int32) * 2
            y.sub_(-4)
            x[:, 2:5] = 2
            return y.view(torch.int64)

        self.check(f, *((torch.arange(-12, 6 * n - 12).reshape(n, 6),) for n in (4, 1, 7)))

    def test_reads_of_other_rows(self):
        """198270: after rows were written, and of rows that move by one."""
        def f(x):
            x.index_put_((torch.arange(x.size(0)),), x * 2.0)
            x.add_(x.flip(0))
            return x

        def g(x):
            x[torch.arange(x.size(0)).flip(0)] = x + 1
            x[1:] = x[:-1].clone()
            return x

        for h in (f, g):
            self.setUp()
            self.check(h, *((torch.randn(n, 8),) for n in (4, 2, 65)))

    def test_rows_that_are_repeated(self):
        """174074, 183986: a row by two equal indices; updates of rows that are one row in memory."""
        def f(x, source):
            x[[0, 0]] += x[[0, 0]]
            rows = x[:1].expand(4, -1)
            return x, rows.index_add(0, torch.tensor([1, 1]), source), rows.index_fill(0, torch.tensor([3]), 5.0)

        self.check(f, *((torch.randn(n, 6), torch.randn(2, 6)) for n in (3, 1, 20)))

    def test_borders_of_sums(self):
        """189895: offsets of sequences, with the first."""
        def f(mask):
            ends = torch.cumsum(mask.sum(-1, dtype=torch.int32), 0, dtype=torch.int32)
            return F.pad(ends, (1, 0)), F.pad(mask.sum(-1), (1, 1), value=-1), F.pad(mask.float().mean(-1), (2, 0), value=0.5)

        self.check(f, (torch.ones(1, 4096, dtype=torch.bool),), (torch.rand(5, 70) > 0.5,), (torch.rand(3, 1) > 0.5,))

    def test_extremes_of_truths(self):
        """184893: with the places of the first ones."""
        self.check(lambda x: (x.min(0), x.max(0), x.amax(1), x.any(0)), *((torch.rand(n, 32) > 0.5,) for n in (1, 2, 8)), exact=True)

    def test_scales_of_turned_heads(self):
        """96456: a division in place of what is permuted, and its transpose (DeBERTa)."""
        def f(x):
            y = x.relu().view(2, -1, 4, 3).permute(0, 2, 1, 3)
            y /= torch.sqrt(torch.tensor(y.size(-1), dtype=torch.float) * 0.5)
            return y.transpose(-1, -2)

        self.check(f, (torch.randn(2, 60),), (torch.randn(2, 36),))

    def test_results_with_gaps(self):
        """130394, 116433: a tensor laid out as an argument that is a part, and axes of one element."""
        def f(x):
            z = torch.empty_strided(x.size(), x.stride())
            z[:] = x + x
            return z, (x + 1).reshape(-1, 1, 2)

        compiled = torch.compile(f, backend=backend, dynamic=True, options=OURS)
        for n in (16, 9):
            x = torch.randn(n, 12)[:, :8]
            for got, wanted in zip(compiled(x), f(x), strict=True):
                torch.testing.assert_close(got, wanted)
                self.assertEqual(got.stride(), wanted.stride())

    def test_inputs_that_are_parts(self):
        """125999: written, of odd lengths."""
        def f(a, b):
            a.copy_(torch.max(a, b) + torch.log(1 + torch.exp(torch.min(a, b) - torch.max(a, b))))

        compiled = torch.compile(f, backend=backend, dynamic=True, options=OURS)
        for shape in ((1, 3, 2, 26), (2, 5, 4, 9)):
            x = torch.randn(shape)
            y, b = x.clone(), torch.randn(shape[0], shape[1], shape[3])
            compiled(x[..., 1, :], b), f(y[..., 1, :], b)
            torch.testing.assert_close(x, y)


def scattered(x, d):
    """182012: gradients of what is below a diagonal that was written."""
    y = torch.diagonal_scatter(x, d)
    return y.sum(0) * 2 + y.sum()


def cut(x, y):
    """180164: gradients of what is beside a part that was written, summed along the axis of the part."""
    return torch.slice_scatter(x, y, 1, 0, 6).sum(1)


def pooled(x, w, b):
    """185509: an image enlarged by reals, cut, convolved, and chosen from. Its sizes are bounded by reals."""
    y = F.interpolate(x, scale_factor=(1.5, 1.25), mode="bilinear", align_corners=False)[:, :, 1:7, 1:8]
    c = F.conv2d(y, w, b, padding=1)
    return torch.where(c > F.max_pool2d(c, 3, 1, 1).mean((2, 3), keepdim=True), c, c * 0.5)


def two_ways(x, a, b):
    """186799: the largest of what is read in another way, too."""
    y = x @ a
    y = y + y @ b
    return y + y.amax(1, keepdim=True).expand(-1, y.shape[1], -1) @ b


class Gradients(Case):
    def check_gradients(self, f, *inputs):
        compiled = torch.compile(f, backend=backend, dynamic=True, options=OURS)
        for given in inputs:
            grads = []
            for g in (f, compiled):
                xs = [x.clone().requires_grad_() for x in given]
                out = g(*xs)
                (out * torch.linspace(0.5, 1.5, out.numel()).view(out.shape)).sum().backward()
                grads.append([x.grad for x in xs])
            torch.testing.assert_close(grads[1], grads[0], rtol=1e-4, atol=1e-4)

    def test_written_parts(self):
        self.check_gradients(scattered, *((torch.randn(n, n), torch.randn(n)) for n in (8, 5)))
        self.check_gradients(cut, *((torch.randn(b, n, 7), torch.randn(b, 6, 7)) for b, n in ((4, 13), (2, 9))))

    def test_chosen_parts(self):
        self.check_gradients(pooled, *((torch.randn(n, 3, 8, 9), torch.randn(4, 3, 3, 3), torch.randn(4)) for n in (2, 3)))

    def test_extremes_of_two_paths(self):
        self.check_gradients(two_ways, *((torch.randn(b, n, 2), torch.randn(2, 2), torch.randn(2, 2)) for b, n in ((3, 10), (2, 4))))


class Narrow(Case):
    def test_bytes(self):
        """198081, 187018, 105264, 93829: what is computed of bytes wraps before it is widened, and keeps its type."""
        def f(x):
            y = -x.abs()
            return (torch.cat([y, y]).sum(), (x + x).to(torch.int16), torch.lt(torch.neg(x), torch.tensor(4, dtype=torch.uint8)),
                    torch.any(x) * 200 + 100, x.any(0), torch.all(x) * 3, (x * 3).float(), (x - 7) // 2, x.square().to(torch.int32))

        self.check(f, *((torch.tensor(n, dtype=torch.uint8),) for n in ([200, 100, 6], [255, 0], [0, 0, 0])), exact=True)

    def test_products(self):
        """183901, 191308: of 64 bits, and of bytes by bytes."""
        self.check(lambda x: torch.arange(0, x.shape[0], dtype=torch.int64) * torch.tensor([1500000000]),
                   (torch.zeros(9),), (torch.zeros(4),), exact=True)
        self.check(lambda a, b: (torch.matmul(a, b), a.sum(-1)),
                   *((torch.randint(-99, 99, (n, 3, 4), dtype=torch.int8), torch.randint(-99, 99, (n, 4, 5), dtype=torch.int8)) for n in (2, 3)),
                   exact=True)


class Order(Case):
    """What is read before and after it changes."""

    def test_copies_of_inputs_that_change(self):
        """198131, 198101."""
        def copied(to, x):
            to[0:, :] = x[0:, :]
            x.add_(1)
            return x

        def of_another_type(x):
            y = x.view(torch.int32) * 2
            y.sub_(-4)
            x[:, 2:5] = 2
            return y.view(torch.int64)

        self.check(copied, *((torch.zeros(n, 4), torch.randn(n, 4)) for n in (3, 5)), exact=True)
        self.check(of_another_type, *((torch.randint(-99, 99, (4, n)),) for n in (6, 8)), exact=True)

    def test_results_are_no_inputs(self):
        """195451: an update that is written back, and given as well."""
        def f(x):
            y = x.slice_scatter(x[:, 1:3] * 0.5, 1, 1, 3)
            x.copy_(y)
            return y.clone(), y

        compiled = torch.compile(f, backend=backend, dynamic=True, options=OURS)
        for n in (4, 3):
            x = torch.randn(n, 6)
            wanted = f(x.clone())[0]
            for y in compiled(x):
                y.mul_(0)
            torch.testing.assert_close(x, wanted)

    def test_reads_of_what_was_added(self):
        """191571, 174074: rows that are added into one, and rows that are named twice."""
        def f(x, at):
            y = torch.zeros(1, x.shape[1]).scatter_add_(0, at.unsqueeze(-1).expand(-1, x.shape[1]), x)
            x[[0, 0]] += x[[0, 0]]
            return torch.index_select(y, 0, at), x * 1

        self.check(f, *((torch.randn(n, 4), torch.zeros(n, dtype=torch.int64)) for n in (8, 5)), rtol=1e-5, atol=1e-5)

    def test_places_before_the_first(self):
        """185885, 131321: eager refuses them."""
        for f in (lambda x, at, y: torch.index_add(x, 0, at, y), lambda x, at, y: torch.scatter_reduce(x, 0, at, y, "sum")):
            compiled = torch.compile(f, backend=backend, dynamic=True, options=OURS)
            for n in (4, 6):
                given = torch.zeros(n), torch.tensor([0, -1]), torch.ones(2)
                with self.assertRaises((IndexError, RuntimeError)):
                    f(*given)
                with self.assertRaises((IndexError, RuntimeError)):
                    compiled(*given)


if __name__ == "__main__":
    unittest.main()
