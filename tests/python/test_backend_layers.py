#!/usr/bin/env python3
"""Layers that PyTorch computes between kernels: recurrent ones, transposed convolutions, long sorts, Fourier transforms,
samples of a grid, pools of three axes. Each lies in one graph for all sizes, and its error is at most twice eager's."""

import copy
import unittest
import warnings

import needs_torch  # noqa: F401
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils import _pytree as pytree

import multidispatch as md
import strict  # noqa: F401 (faults are errors)
import quick  # noqa: F401 (kernels are compiled without optimising)

FLOOR = {torch.float32: 2e-6, torch.bfloat16: 8e-3, torch.float64: 1e-13}


class Between(nn.Module):
    """A layer between others that are the plan's."""

    def __init__(self, layer, width=32, call=None):
        super().__init__()
        self.first, self.layer, self.call = nn.Linear(6, width), layer, call

    def forward(self, x, *more):
        x = torch.relu(self.first(x))
        y = self.call(x) if self.call else self.layer(x, *more)
        return pytree.tree_map(lambda t: torch.tanh(t) + 0.5, y)


def graphs_since(names):
    return [r for r in md.explain_graph() if r["graph"] not in names]


class Case(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        torch.manual_seed(18)
        self.before = {r["graph"] for r in md.explain_graph()}

    def graphs(self):
        return graphs_since(self.before)

    def compiled(self, f, **options):
        return torch.compile(f, backend="multidispatch", dynamic=True, options={"eager_where_faster": False}, **options)

    def check(self, m, calls, dtype=torch.float32, n_graphs=1):
        """All calls, each a tuple of arguments, beside eager and f64; gives what PyTorch computed in the first graph."""
        self.setUp()
        m = m.to(dtype).eval()
        exact, compiled = copy.deepcopy(m).double(), self.compiled(m)
        with torch.no_grad():
            for given in calls:
                given = pytree.tree_map(lambda t: t.to(dtype), given)
                wanted = exact(*pytree.tree_map(lambda t: t.double(), given))
                for y, e, w in zip(*map(pytree.tree_leaves, (compiled(*given), m(*given), wanted)), strict=True):
                    self.assertEqual((y.shape, y.dtype), (e.shape, e.dtype))
                    bound = 2 * (e.double() - w).abs().max() + FLOOR[dtype] * max(1, w.abs().max())
                    self.assertLessEqual((y.double() - w).abs().max(), bound, (m, dtype, given[0].shape))
        reports = self.graphs()
        self.assertEqual((len(reports), [r["fallbacks"] for r in reports]), (n_graphs, [0] * n_graphs))
        return [e["op"].removesuffix(".default") for e in reports[0]["eager"]]


def steps(n, batch):
    return (torch.randn(n, batch, 6),)


class Recurrent(Case):
    CALLS = [steps(3, 2), steps(5, 4), steps(2, 1), steps(1, 3), steps(33, 2)]

    def test_all_lengths_and_batches(self):
        for kind, options, op in (
                ("LSTM", {}, "lstm"), ("LSTM", {"batch_first": True, "num_layers": 2}, "lstm"),
                ("LSTM", {"bidirectional": True, "bias": False}, "lstm"), ("LSTM", {"proj_size": 10}, "lstm"),
                ("GRU", {"batch_first": True, "bidirectional": True, "num_layers": 2}, "gru"),
                ("RNN", {}, "rnn_tanh"), ("RNN", {"nonlinearity": "relu"}, "rnn_relu")):
            for dtype in FLOOR if kind != "RNN" else (torch.float32,):
                with self.subTest(kind=kind, dtype=dtype, **options), warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # PyTorch's, of projections
                    ran = self.check(Between(getattr(nn, kind)(32, 48, **options)), self.CALLS, dtype)
                    self.assertEqual(ran, ["multidispatch." + op])

    def test_a_state_and_one_sequence(self):
        h = [torch.randn(1, b, 48) for b in (2, 4)]
        self.check(Between(nn.LSTM(32, 48)), [(*steps(3, 2), (h[0], h[0])), (*steps(5, 4), (h[1], h[1]))])
        self.check(Between(nn.GRU(32, 48)), [(*steps(3, 2), h[0]), (*steps(5, 4), h[1])])
        self.check(Between(nn.LSTM(32, 48)), [(torch.randn(3, 6),), (torch.randn(5, 6),)])

    def test_packed_sequences(self):
        layer, compiled = nn.LSTM(6, 8, batch_first=True), None

        def f(x, n):
            packed = pack_padded_sequence(torch.relu(x), n, batch_first=True, enforce_sorted=False)
            return torch.tanh(pad_packed_sequence(layer(packed)[0], batch_first=True)[0])

        compiled = self.compiled(f)
        with torch.no_grad():
            for n in ([5, 2], [3, 7, 1], [4]):
                x = torch.randn(len(n), max(n), 6)
                torch.testing.assert_close(compiled(x, torch.tensor(n)), f(x, torch.tensor(n)))

    def test_where_a_layer_stays_dynamos_break(self):
        """Gradients, dropout and autocast are PyTorch's; so are graphs of other backends."""
        m = Between(nn.LSTM(32, 48, num_layers=2, dropout=0.5)).train()
        compiled, other = self.compiled(m), copy.deepcopy(m)
        x = steps(5, 3)[0]
        with self.assertLogs("multidispatch", "INFO") as logged:
            for f in (compiled, other):
                torch.manual_seed(1)
                f(x)[0].square().sum().backward()
        self.assertIn("a layer of LSTM cuts the graph, since gradients are recorded, which torch.no_grad() ends",
                      [record.getMessage() for record in logged.records])
        for p, q in zip(m.parameters(), other.parameters()):
            torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-5)
        with torch.no_grad():
            torch.manual_seed(1)
            y = compiled(x)[0]
            torch.manual_seed(1)
            torch.testing.assert_close(y, m(x)[0])
            self.assertFalse(torch.equal(y, compiled(x)[0]))
            with torch.autocast("cpu", torch.bfloat16):
                torch.testing.assert_close(compiled(x.clone())[0].shape, y.shape)
        self.assertEqual([e for r in self.graphs() for e in r["eager"]], [])
        with self.assertRaises(torch._dynamo.exc.Unsupported), torch.no_grad():
            torch.compile(m.eval(), backend="eager", fullgraph=True)(x)

    def test_captured_and_whole(self):
        m = Between(nn.GRU(32, 48, batch_first=True)).eval()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch.export's, of a GRU's lists of weights
            captured = md.capture(m, (torch.randn(2, 5, 6),))
        whole = self.compiled(m, fullgraph=True)
        with torch.no_grad():
            for batch, n in ((2, 5), (3, 17), (1, 2)):
                x = torch.randn(batch, n, 6)
                torch.testing.assert_close(captured(x), m(x))
                torch.testing.assert_close(whole(x), m(x))
            m.layer.weight_hh_l0.mul_(0.5)  # bound by address
            torch.testing.assert_close(captured(x), m(x))
        self.assertEqual([r["fallbacks"] for r in self.graphs()], [0, 0])

    def test_bad_input(self):
        layer = nn.LSTM(6, 8).eval()
        compiled = self.compiled(lambda x, h: layer(x, h)[0])
        state = (torch.zeros(1, 3, 8), torch.zeros(1, 3, 8))
        with torch.no_grad():
            self.assertEqual(compiled(torch.randn(5, 3, 6), state).shape, (5, 3, 8))
            with self.assertRaisesRegex(RuntimeError, r"Expected hidden\[0\] size \(1, 2, 8\), got \[1, 3, 8\]"):
                compiled(torch.randn(5, 2, 6), state)
            with self.assertRaisesRegex(RuntimeError, "sequence length to be larger than 0"):
                compiled(torch.randn(0, 3, 6), state)


def wide(*sizes):
    """Inputs of which the first layer makes 32 at the end."""
    return [(torch.randn(*s, 6),) for s in sizes]


class Encoder(Case):
    def test_is_taken_apart(self):
        """PyTorch makes one operation of torch.nn's encoder layer: its parts are the plan's. With a mask it stays one."""
        for options in ({}, {"norm_first": True, "activation": "gelu"}):
            layer = nn.TransformerEncoderLayer(16, 4, 24, dropout=0.0, batch_first=True, **options)
            for dtype in (torch.float32, torch.bfloat16):
                with self.subTest(dtype=dtype, **options):
                    calls = [(torch.randn(b, n, 6),) for b, n in ((2, 5), (3, 9), (1, 7))]
                    self.assertEqual(self.check(Between(layer, 16), calls, dtype), [])
        self.setUp()
        layer = layer.float()
        x, hidden = torch.randn(2, 5, 16), torch.arange(5) > torch.tensor([[2], [4]])
        with torch.no_grad():
            y = self.compiled(lambda x: layer(x, src_key_padding_mask=hidden))(x)
            torch.testing.assert_close(y[~hidden], layer(x, src_key_padding_mask=hidden)[~hidden])
        self.assertEqual([e["op"] for e in self.graphs()[0]["eager"]], ["aten._transformer_encoder_layer_fwd.default"])


class Others(Case):
    def check_all(self, table, dtypes=(torch.float32, torch.bfloat16)):
        for name, (layer, sizes, op) in table.items():
            call, module = (None, layer) if isinstance(layer, nn.Module) else (layer, nn.Identity())
            for dtype in dtypes:
                with self.subTest(name, dtype=dtype):
                    self.assertEqual(self.check(Between(module, call=call), wide(*sizes), dtype), op)

    def test_transposed_convolutions(self):
        whole = ["aten.convolution"]
        self.check_all({
            "1": (nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1), [(2, 4), (3, 4)], whole),
            "2": (nn.ConvTranspose2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 0)), [(2, 4, 7), (1, 4, 5)], whole),
            "groups": (nn.ConvTranspose2d(4, 8, 3, groups=2, dilation=2), [(2, 4, 7), (1, 4, 5)], whole),
            "each": (nn.ConvTranspose2d(4, 4, 4, 2, 1, groups=4, bias=False), [(2, 4, 7), (1, 4, 5)], whole),
            "3": (nn.ConvTranspose3d(3, 5, 3, 2, 1, 1), [(2, 3, 4, 5), (1, 3, 3, 2)], whole),
            "one image": (nn.ConvTranspose2d(4, 6, 3), [(4, 7), (4, 5)], whole)})

    def test_long_sorts(self):
        def padded(y):
            return F.pad(y, (0, 1)).transpose(0, -1)

        self.check_all({
            "sort": (lambda y: padded(y).sort(-1)[0], [(80,), (200,), (65,)], ["aten.sort"]),
            "order": (lambda y: padded(y).gather(-1, padded(y).argsort(dim=-1, stable=True)), [(80,), (99,)], ["aten.sort.stable"]),
            "topk": (lambda y: padded(y).topk(70)[0], [(80,), (200,)], ["aten.topk"]),
            "median": (lambda y: padded(y).median(-1)[0], [(81,), (201,)], ["aten.median.dim"])})

    def test_fourier(self):
        self.check_all({
            "there": (lambda y: torch.fft.fft2(y).real, [(3, 4), (2, 7)], ["aten._to_copy", "aten._fft_c2c", "aten.view_as_real"]),
            "and back": (lambda y: torch.fft.irfft(torch.fft.rfft(y) * 0.5, n=y.shape[-1]), [(3,), (5,)],
                         ["aten._fft_r2c", "aten.mul.Tensor", "aten._fft_c2r"])}, (torch.float32, torch.float64))

    def test_grids_and_three_axes(self):
        def sampled(y, **options):
            return F.grid_sample(y, torch.tanh(y[:, :2]).permute(0, 2, 3, 1) * 1.3, align_corners=False, **options)

        self.check_all({
            "grid": (sampled, [(2, 3, 7), (1, 3, 5)], ["aten.grid_sampler_2d"]),
            "nearest": (lambda y: sampled(y, mode="nearest", padding_mode="border"), [(2, 3, 7), (1, 3, 5)], ["aten.grid_sampler_2d"]),
            "pool": (nn.MaxPool3d(2), [(2, 3, 4, 5), (1, 3, 2, 2)], ["aten.max_pool3d_with_indices"]),
            "convolution": (nn.Conv3d(3, 5, 3, padding=1), [(2, 3, 4, 5), (1, 3, 3, 2)], [])}, (torch.float32,))


if __name__ == "__main__":
    unittest.main()
