#!/usr/bin/env python3
"""Writes at indices in graphs, bags of embeddings, and values written into parts of others, against eager PyTorch."""

import os
import unittest

import needs_torch  # noqa: F401
import torch
import torch.nn.functional as F

import multidispatch as md
from multidispatch.compile import backend
import strict  # noqa: F401 (faults are errors)

SEED = int(os.environ.get("MD_TEST_SEED", "18"))


def ids(n, *shape):
    return torch.randint(0, n, shape)


def distinct(n, k):
    return torch.randperm(n)[:k]


def edges(n):
    """Among them bounds of bins, what is outside, infinities and nan."""
    return torch.cat([torch.randn(n, 3), torch.tensor([[-1.0, 1.0, -0.3], [2.0, torch.inf, torch.nan]])])


def bags(n, k, dtype=torch.int64, is_last=False):
    """Ids, and where their k bags begin; some are empty."""
    starts = torch.cat([torch.zeros(1), torch.randint(0, n + 1, (k - 1,)).sort()[0], torch.tensor([n] * is_last)])
    return ids(11, n).to(dtype), starts.to(dtype)


# What is computed, of which arguments for a size n.
CASES = {
    "index_add": (lambda x, i, s: x.index_add(0, i, s * 2), lambda n: (torch.randn(9, 5), ids(9, n), torch.randn(n, 5))),
    "index_add_columns": (lambda x, i, s: x.index_add(1, i, s, alpha=0.5),
                          lambda n: (torch.randn(4, 9), ids(9, n), torch.randn(4, n))),
    "index_add_i64": (lambda x, i: x.index_add(0, i, torch.ones_like(i)), lambda n: (torch.zeros(7, dtype=torch.int64), ids(7, n))),
    "index_copy": (lambda x, i, s: x.index_copy(0, i, s), lambda n: (torch.randn(n + 9, 5), distinct(n + 9, n), torch.randn(n, 5))),
    "index_fill": (lambda x, i: x.index_fill(1, i, 7.0) + 1, lambda n: (torch.randn(3, n + 9), distinct(n + 9, n))),
    "index_put": (lambda x, i, j, s: torch.index_put(x, (i, j), s),
                  lambda n: (torch.randn(n + 1, 8), torch.arange(n) - 2, ids(8, n), torch.randn(n))),
    "index_put_adds": (lambda x, i, s: torch.index_put(x, (i,), s, accumulate=True),
                       lambda n: (torch.randn(9, 4, 3), ids(9, n) - 4, torch.randn(n, 1, 3))),
    "index_put_behind": (lambda x, i, s: torch.ops.aten.index_put(x, (None, i), s, True),
                         lambda n: (torch.randn(2, 9, 3), ids(9, n, 2), torch.randn(2, n, 2, 3))),
    "assigned": (lambda x, i, s: _assigned(x, i, s), lambda n: (torch.randn(n + 4, 5), distinct(n + 4, n), torch.randn(n, 5))),
    "scatter_add": (lambda x, i, s: x.scatter_add(1, i, s) * 2, lambda n: (torch.randn(n, 9), ids(9, n, 4), torch.randn(n, 4))),
    "scatter_add_part": (lambda x, i, s: x.scatter_add(0, i, s), lambda n: (torch.randn(9, n + 2), ids(9, 3, n), torch.randn(5, n + 2))),
    "scatter": (lambda x, i, s: x.scatter(1, i, s), lambda n: (torch.randn(n, 9), torch.stack([distinct(9, 4) for _ in range(n)])
                                                               if n else ids(9, 0, 4), torch.randn(n, 4))),
    "scatter_value": (lambda x, i: x.scatter(1, i, -1.0), lambda n: (torch.randn(n, 9), ids(9, n, 4))),
    "scatter_max": (lambda x, i, s: x.scatter_reduce(1, i, s, "amax"), lambda n: (torch.randn(n, 9), ids(9, n, 4), torch.randn(n, 4))),
    "scatter_min": (lambda x, i, s: x.scatter_reduce(1, i, s, "amin"), lambda n: (torch.randn(n, 9), ids(9, n, 4), torch.randn(n, 4))),
    "scatter_without_self": (lambda x, i, s: x.scatter_reduce(1, i, s, "mean", include_self=False)
                             + x.scatter_reduce(1, i, s, "amin", include_self=False) + x.scatter_reduce(1, i, s, "mean"),
                             lambda n: (torch.randn(n, 9), ids(9, n, 4), torch.randn(n, 4))),
    "slice": (lambda x, y: torch.slice_scatter(x, y, 1, 2, 6, 2) + 1, lambda n: (torch.randn(n, 9), torch.randn(n, 2))),
    "slice_end": (lambda x, y: torch.slice_scatter(x, y, 0, -2), lambda n: (torch.randn(n + 3, 4), torch.randn(2, 4))),
    "select": (lambda x, y: torch.select_scatter(x, y, 1, -2), lambda n: (torch.randn(n, 5, 3), torch.randn(n, 3))),
    "shifted": (lambda x: _shifted(x), lambda n: (ids(9, n, 6),)),
    "bag_sum": (lambda w, i: F.embedding_bag(i, w, mode="sum") * 2, lambda n: (torch.randn(11, 6), ids(11, n, 4))),
    "bag_mean": (lambda w, i: F.embedding_bag(i, w), lambda n: (torch.randn(11, 6), ids(11, n, 4))),
    # places that do not depend on an axis of what is added, as those of positions not on the batch
    "scatter_rows": (lambda x, i: x.scatter_add(0, i[None].expand(3, -1), x[:3]),
                     lambda n: (torch.randn(n + 3, 4), ids(n + 3, 4))),
    "scatter_rows_max": (lambda x, i: x.scatter_reduce(0, i[None].expand(3, -1), x[:3] * 2, "amax"),
                         lambda n: (torch.randn(n + 3, 4), ids(n + 3, 4))),
    "histc": (lambda x: torch.histc(x * 2, 10, -2, 2), lambda n: (edges(n),)),
    "histc_of_many_bins": (lambda x: torch.histc(x * 2, 50, -2, 2), lambda n: (edges(n),)),
    "histc_f64": (lambda x: torch.histc(x, 7, -0.3, 2.0) + 1, lambda n: (edges(n).double(),)),
    "bag_ragged": (lambda w, i, o: F.embedding_bag(i, w, o, mode="sum") * 2, lambda n: (torch.randn(11, 6), *bags(n, n))),
    "bag_ragged_mean": (lambda w, i, o: F.embedding_bag(i, w, o, padding_idx=3), lambda n: (torch.randn(11, 6), *bags(4 * n, n))),
    "bag_ragged_max": (lambda w, i, o: F.embedding_bag(i, w, o, mode="max", padding_idx=-2),
                       lambda n: (torch.randn(11, 6), *bags(4 * n, n, torch.int32))),
    "bag_ragged_last": (lambda w, i, o: F.embedding_bag(i, w, o, include_last_offset=True),
                        lambda n: (torch.randn(12, 6), *bags(3 * n, n, is_last=True))),
    "bag_ragged_weighted": (lambda w, i, o, s: F.embedding_bag(i, w, o, mode="sum", per_sample_weights=s),
                            lambda n: (torch.randn(11, 6), *bags(3 * n, n), torch.randn(3 * n))),
    "bag_padded": (lambda w, i: F.embedding_bag(i, w, mode="max", padding_idx=3), lambda n: (torch.randn(11, 6), ids(11, n, 4))),
    "bag_weighted": (lambda w, i, s: F.embedding_bag(i, w, mode="sum", per_sample_weights=s),
                     lambda n: (torch.randn(11, 6), ids(11, n, 4), torch.randn(n, 4))),
}


def _assigned(x, i, s):
    x = x + 1
    x[i] = s
    x[0] += 2
    x[1:3, 1] = 5
    return x * 2


def _shifted(x):
    out = x.new_zeros(x.shape)
    out[:, 1:] = x[:, :-1].clone()
    out[:, 0] = 2
    return out


class Scatters(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        torch.manual_seed(SEED)
        self.before = len(md.explain_graph())

    def compiled(self, f, **options):
        return torch.compile(f, backend=backend, dynamic=True, options={"eager_where_faster": False} | options)

    def check(self, name):
        f, arguments = CASES[name]
        compiled = self.compiled(f)
        for n in (10, 8, 2, 33):
            given = arguments(n)
            torch.testing.assert_close(compiled(*given), f(*given), rtol=1e-5, atol=1e-5)
        reports = md.explain_graph()[self.before:]
        self.assertEqual(len(reports), 1, "recompiled")
        self.assertEqual((reports[0]["eager"], reports[0]["fallbacks"], reports[0].get("reason")), ([], 0, None))

    def test_out_of_range(self):
        compiled = self.compiled(lambda x, i, s: x.index_add(0, i, s))
        x, s = torch.zeros(4, 3), torch.ones(2, 3)
        compiled(x, torch.tensor([0, 3]), s)
        for bad in (4, -1):
            with self.assertRaises((IndexError, RuntimeError, md.MdError)):
                compiled(x, torch.tensor([0, bad]), s)
                md.check("host")
        torch.testing.assert_close(compiled(x, torch.tensor([1, 1]), s)[1], torch.full((3,), 2.0))

    def test_offsets_that_are_none(self):
        """Eager's exception: offsets that do not begin with 0, fall, or lie behind the ids."""
        def bag(w, i, o):
            return F.embedding_bag(i, w, o, mode="sum")

        compiled, w, i = self.compiled(bag), torch.randn(11, 6), torch.arange(5)
        compiled(w, i, torch.tensor([0, 3]))
        for bad in ([0, 9], [1, 3], [0, 3, 2]):
            with self.assertRaises(RuntimeError) as theirs:
                bag(w, i, torch.tensor(bad))
            with self.assertRaises(RuntimeError) as ours:
                compiled(w, i, torch.tensor(bad))
            self.assertEqual(str(ours.exception), str(theirs.exception))

    def test_narrow_sums_round_once(self):
        compiled = self.compiled(lambda x, i, s: x.index_add(0, i, s))
        s = torch.ones(1000, 3, dtype=torch.bfloat16)
        y = compiled(torch.zeros(2, 3, dtype=torch.bfloat16), torch.zeros(1000, dtype=torch.int64), s)
        self.assertEqual(y[0].tolist(), [1000.0] * 3)

    def test_gradient_of_an_embedding(self):
        for padding in (None, 3):
            torch._dynamo.reset()

            def f(w, i, padding=padding):
                return F.embedding(i, w, padding_idx=padding) * 3

            compiled = self.compiled(f)
            for shape in ((4, 7), (2, 3), (1, 1)):
                w, i = torch.randn(11, 6), ids(11, *shape)
                a, b = w.clone().requires_grad_(), w.clone().requires_grad_()
                y, z = f(a, i), compiled(b, i)
                dy = torch.randn_like(y)
                y.backward(dy)
                z.backward(dy)
                torch.testing.assert_close(b.grad, a.grad, rtol=1e-5, atol=1e-5)
        self.assertEqual([e for r in md.explain_graph()[self.before:] for e in r["eager"]], [])

    def test_gradient_of_bags(self):
        """Of any lengths, some empty; the forward, whose other results nobody reads then, is no operation of PyTorch."""
        def f(w, i, o, s):
            return F.embedding_bag(i, w, o, padding_idx=3) * F.embedding_bag(i, w, o, mode="sum", per_sample_weights=s)

        compiled = self.compiled(f)
        for n in (9, 5):
            w, (i, o), s = torch.randn(11, 6), bags(4 * n, n), torch.rand(4 * n)
            a, b = w.clone().requires_grad_(), w.clone().requires_grad_()
            y, z = f(a, i, o, s), compiled(b, i, o, s)
            dy = torch.randn_like(y)
            y.backward(dy)
            z.backward(dy)
            torch.testing.assert_close(b.grad, a.grad, rtol=1e-5, atol=1e-5)
        self.assertEqual([e for r in md.explain_graph()[self.before:] for e in r["eager"]], [])

    def test_determinism(self):
        """Writes whose order shows are PyTorch's where determinism was asked for."""
        for f, left in ((CASES["scatter"][0], 1), (CASES["scatter_add"][0], 0)):
            torch._dynamo.reset()
            self.compiled(f, numeric="deterministic")(*CASES["scatter"][1](5))
            self.assertEqual(len(md.explain_graph()[-1]["eager"]), left)

    def test_batch_norm_in_training(self):
        """Buffers that the forward changes."""
        for momentum, affine in ((0.1, True), (None, False)):
            torch._dynamo.reset()
            ours, theirs = (torch.nn.BatchNorm2d(5, momentum=momentum, affine=affine) for _ in range(2))
            compiled = self.compiled(ours)
            for n in (4, 2, 7):
                x = torch.randn(n, 5, 3, n) * 3 + 1
                a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
                y, z = theirs(a), compiled(b)
                torch.testing.assert_close(z, y, rtol=1e-4, atol=1e-5)
                dy = torch.randn_like(y)
                y.backward(dy)
                z.backward(dy)
                torch.testing.assert_close(b.grad, a.grad, rtol=1e-3, atol=1e-5)
                for name, value in theirs.state_dict().items():
                    torch.testing.assert_close(ours.state_dict()[name], value, rtol=1e-5, atol=1e-6)
        ours.eval(), theirs.eval()
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), theirs(x), rtol=1e-4, atol=1e-5)


def add_tests():
    for name in CASES:
        setattr(Scatters, f"test_{name}", lambda self, name=name: self.check(name))


add_tests()

if __name__ == "__main__":
    unittest.main(verbosity=int(os.environ.get("TEST_VERBOSE", "0")))
