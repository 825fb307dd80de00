#!/usr/bin/env python3
"""Convolutions and pooling of PyTorch's graphs, by kernels, at sizes that change, in both layouts, beside eager PyTorch."""

import copy
import importlib.util
import sys
import unittest
from unittest import mock

if MISSING := [m for m in ("torch",) if importlib.util.find_spec(m) is None]:
    print(f"SKIPPED: test_backend_windows.py: {sys.executable} has no {', '.join(MISSING)}", file=sys.stderr)
    sys.exit(0)

import torch
import torch.nn.functional as F
from torch import nn

from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import multidispatch as md
from multidispatch.compile.lowering import windows
from multidispatch.compile.lowering.lower import Lowering
from multidispatch.compile.sizes import Dims
import strict  # noqa: F401 (faults are errors)

OURS = {"eager_where_faster": False, "eager_while_building": False}


class Residual(nn.Module):
    """A bottleneck as in a residual network."""

    def __init__(self, channels, middle, stride):
        super().__init__()
        self.first = nn.Conv2d(channels, middle, 1, bias=False)
        self.second = nn.Conv2d(middle, middle, 3, stride, 1, groups=2)
        self.third = nn.Conv2d(middle, channels, 1)
        self.past = nn.Conv2d(channels, channels, 1, stride)
        self.norm = nn.BatchNorm2d(middle)

    def forward(self, x):
        inner = F.relu(self.second(F.relu(self.norm(self.first(x)))))
        return F.relu(self.third(inner) + self.past(x))


MODULES = {
    "3 x 3": nn.Conv2d(5, 9, 3, padding=1),
    "stride and dilation": nn.Conv2d(5, 7, (3, 2), stride=(2, 3), padding=(2, 1), dilation=(2, 1)),
    "no padding": nn.Conv2d(5, 33, 4, bias=False),
    "1 x 1": nn.Conv2d(5, 40, 1),
    "groups": nn.Conv2d(10, 6, 3, padding=1, groups=2),
    "channels": nn.Conv2d(32, 16, 3, padding=1),
    "largest": nn.MaxPool2d(3, 2, 1),
    "mean": nn.AvgPool2d(2),
    "residual": Residual(12, 8, 2),
    "depthwise": nn.Conv2d(5, 5, 3, padding=1, groups=5),
    "depthwise, several": nn.Conv2d(5, 15, (2, 3), stride=(2, 1), padding=(0, 2), dilation=(1, 2), groups=5, bias=False),
    "largest, rounded up": nn.MaxPool2d(2, ceil_mode=True),
    "largest, rounded up, padded": nn.MaxPool2d(3, 2, 1, ceil_mode=True),
    "mean, rounded up": nn.AvgPool2d((2, 3), ceil_mode=True),
    "mean, rounded up, padded": nn.AvgPool2d(3, 2, 1, ceil_mode=True),
    "mean, rounded up, inside": nn.AvgPool2d(3, (2, 1), 1, ceil_mode=True, count_include_pad=False),
    "mean of large windows": nn.AvgPool2d(6, 4, 2, ceil_mode=True),
}


class Windows(unittest.TestCase):
    def check(self, module, shapes, layout):
        torch._dynamo.reset()
        graph = torch.compile(module, backend="multidispatch", dynamic=True, options=OURS)
        for shape in shapes:
            x = torch.randn(shape).contiguous(memory_format=layout)
            want, got = module(x), graph(x)
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
            self.assertEqual(got.stride(), want.stride())
        self.assertIn(" 0 ops of PyTorch", str(md.explain_graph()).splitlines()[-1])

    def test_modules(self):
        torch.manual_seed(7)
        for name, module in MODULES.items():
            channels = {"groups": 10, "channels": 32, "residual": 12}.get(name, 5)
            for layout in (torch.contiguous_format, torch.channels_last):
                with self.subTest(name, layout=layout), torch.no_grad():
                    self.check(module.eval(), [(2, channels, 11, 14), (3, channels, 8, 35)], layout)

    def test_other_ranks(self):
        with torch.no_grad():
            for module, shape in ((nn.Conv1d(3, 5, 4, 3, 2), (2, 3, 29)), (nn.Conv3d(2, 5, (2, 3, 3), padding=1), (2, 2, 4, 5, 7))):
                graph = torch.compile(module, backend="multidispatch", dynamic=True, options=OURS)
                x = torch.randn(shape)
                torch.testing.assert_close(graph(x), module(x), rtol=1e-4, atol=1e-5)

    def test_guards(self):
        """Windows as a GPU reads them, under guards: computed on a CPU. What the GPU's kernel does not take is PyTorch's."""
        taken = [(nn.Conv2d(16, 24, 3, 2, 1), (2, 16, 11, 14)), (nn.Conv2d(16, 8, 1, 2), (2, 16, 11, 14)), (nn.Conv2d(8, 40, 1), (2, 8, 5, 4)),
                 (nn.Conv2d(8, 16, (3, 5), padding=(0, 2), dilation=(2, 1), bias=False), (3, 8, 20, 9)),
                 (nn.Conv2d(3, 8, 7, stride=2, padding=3), (1, 3, 20, 17)), (nn.Conv2d(9, 8, 2, bias=False), (2, 9, 6, 6))]
        refused = [(nn.Conv2d(8, 12, 3), (1, 8, 6, 6)), (nn.Conv2d(2, 8, 3), (1, 2, 6, 6)), (nn.Conv2d(9, 8, 1), (1, 9, 6, 6)),
                   (nn.Conv2d(16, 16, 3, groups=2), (1, 16, 6, 6)),
                   (nn.Conv2d(8, 8, 9), (1, 8, 10, 10))]
        with mock.patch.object(windows, "_GUARDED", ("cpu",)), torch.no_grad():
            for i, (module, shape) in enumerate(taken + refused):
                torch._dynamo.reset()
                module = module.bfloat16().to(memory_format=torch.channels_last)
                graph = torch.compile(lambda x, m=module: F.relu(m(x)), backend="multidispatch", dynamic=True, options=OURS)
                for more in (0, 3):
                    x = torch.randn(shape[0] + more, shape[1], shape[2] + more, shape[3]).bfloat16().contiguous(memory_format=torch.channels_last)
                    want, got = F.relu(module(x)), graph(x)
                    torch.testing.assert_close(got, want, rtol=0.02, atol=0.02)
                    self.assertEqual(got.stride(), want.stride())
                text = str(md.explain_graph())
                self.assertEqual(" 0 ops of PyTorch" in text.splitlines()[-1], i < len(taken), text)
            grouped = torch.compile(nn.Conv2d(16, 16, 3, groups=2), backend="multidispatch", dynamic=True, options=OURS)
            grouped(torch.randn(1, 16, 6, 6))
            self.assertIn("not of 16 bits and one group", str(md.explain_graph()))

    def test_small_windows_of_gpus(self):
        """Written out, as on a CPU, unless there are very many results of filters; large pools and those that give places are PyTorch's."""
        def f(x, w, wide):
            x = F.conv2d(x, w, padding=1, groups=8)
            return F.conv2d(wide, w, groups=8), F.max_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 3, 1, 1), F.max_pool2d(x, 9, 4), \
                F.max_pool2d(x, 2, return_indices=True)[1]

        with FakeTensorMode(allow_non_fake_inputs=True):
            graph = make_fx(f)(*(torch.empty(*shape, device="cuda") for shape in ((8, 8, 60, 60), (8, 1, 3, 3), (8, 8, 150, 150))))
        with mock.patch.object(windows, "_is_guarded", lambda device: False):
            lowered = Lowering(graph, Dims(), torch.device("cuda", 0), None, False, {}).run()
        self.assertEqual([e.reason for e in lowered.eager], ["a depthwise convolution of many elements, for which PyTorch's kernel is faster",
                                                             *["PyTorch's kernels for windows, on a GPU"] * 2])

    def test_planes_under_guards(self):
        """Channels that are apart in memory are put side by side once, and stay so: three products, and copies of the image
        and of the filters of more than one point."""
        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b, self.c = nn.Conv2d(16, 8, 1), nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 16, 1)

            def forward(self, x):
                return F.relu(self.c(F.relu(self.b(F.relu(self.a(x))))) + x)

        class Stem(nn.Module):  # the product moves the axes of its image itself
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Conv2d(3, 16, 7, stride=2, padding=3), nn.Conv2d(16, 8, 3, padding=1)

            def forward(self, x):
                return F.relu(self.b(F.relu(self.a(x))))

        class Waves(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Conv1d(8, 16, 3, stride=2), nn.Conv1d(16, 8, 2, padding=1)

            def forward(self, x):
                return self.b(F.gelu(self.a(x))).transpose(1, 2).softmax(-1)

        with mock.patch.object(windows, "_GUARDED", ("cpu",)), torch.no_grad():
            for module, shapes, n in ((Block(), ((2, 16, 7, 9), (3, 16, 5, 5)), 5), (Waves(), ((2, 8, 40), (3, 8, 21)), 6),
                                      (Stem(), ((2, 3, 19, 22), (1, 3, 30, 16)), 3)):
                module, exact = module.bfloat16(), copy.deepcopy(module).double()
                graph = torch.compile(module, backend="multidispatch", dynamic=True, options=OURS)
                for shape in shapes:
                    x = torch.randn(shape).bfloat16()
                    torch.testing.assert_close(graph(x).double(), exact(x.double()), rtol=0.03, atol=0.03)
                report = md.explain_graph()[-1]
                self.assertEqual((report["eager"], report["fallbacks"]), ([], 0))
                self.assertLessEqual(len(report["kernels"]), n, [k["formula"] for k in report["kernels"]])

    def test_where_guards_are(self):
        """On Hopper alone: other GPUs have no kernel for them that is as fast as PyTorch's."""
        for capability, want in (((9, 0), True), ((8, 0), False), ((10, 0), False), (AssertionError("no GPU"), False)):
            with mock.patch("torch.cuda.get_device_capability", side_effect=[capability]):
                self.assertEqual(windows._is_guarded(torch.device("cuda")), want)
        self.assertFalse(windows._is_guarded(torch.device("cpu")))

    def test_few_filters(self):
        """A product of at most eight rows: by the family that packs windows. Another read each element of the image alone."""
        op = md.op("Y[n,o,y,x] = sum[c,r,s](X[n,c,y+r,x+s] * W[o,c,r,s])", static={"o": 8, "c": 16, "r": 3, "s": 3})
        views = md.op("Y[n,o,y,x] = sum[c,r,s](X[n,c,y,r,x,s] * W[o,c,r,s])", static={"o": 8, "c": 16, "r": 3, "s": 3})
        x, w, y = torch.randn(2, 16, 18, 18), torch.randn(8, 16, 3, 3), torch.empty(2, 8, 16, 16)
        for f, given in ((op, x), (views, x.as_strided((2, 16, 16, 3, 16, 3), (5184, 324, 18, 18, 1, 1)))):
            f.call(y, given, w)
            torch.testing.assert_close(y, F.conv2d(x, w), rtol=1e-4, atol=1e-4)
            self.assertNotIn("gemv", str(f.choice(given, w, out=y)))

    def test_sizes_of_interpolations(self):
        """A size that is an attribute of a module or an argument is a symbol of the graph."""
        def resized(x, size, mode):
            return F.interpolate(x, size=[size] * (x.dim() - 2), mode=mode) * 2

        for mode, shape in (("linear", (2, 3, 7)), ("bilinear", (2, 3, 5, 6)), ("bicubic", (2, 3, 5, 6)), ("trilinear", (1, 2, 3, 4, 5))):
            torch._dynamo.reset()
            compiled = torch.compile(resized, backend="multidispatch", dynamic=True, options=OURS)
            for size in (4, 9):
                x = torch.randn(shape)
                torch.testing.assert_close(compiled(x, size, mode), resized(x, size, mode))

    def test_one_graph_for_sizes(self):
        """Of what makes plain numbers of sizes in PyTorch."""
        def f(x):
            image = x.unflatten(1, (3, 1))
            return (F.interpolate(x, scale_factor=1.5, mode="linear"), F.interpolate(image, scale_factor=2.0, mode="bilinear"),
                    F.interpolate(image, scale_factor=2.0, mode="bicubic"), F.max_pool1d(x, 2), F.max_pool1d(x, 3, 1, 1) * 2,
                    F.interpolate(image[:, :, None], scale_factor=2.0, mode="trilinear"))

        torch._dynamo.utils.counters.clear()
        compiled = torch.compile(f, backend="multidispatch", dynamic=True, options=OURS)
        with torch.no_grad():
            for batch, length in ((2, 8), (4, 11)):
                x = torch.randn(batch, 3, length)
                torch.testing.assert_close(compiled(x), f(x))
        self.assertEqual(torch._dynamo.utils.counters["stats"]["unique_graphs"], 1)

    def test_what_is_pytorchs(self):
        """Where its kernels are faster; explain_graph says so."""
        for module, shape, why in ((nn.Conv2d(64, 64, 3, groups=64), (2, 64, 56, 56), "a depthwise convolution of many"),
                                   (nn.ConvTranspose2d(3, 4, 3, 2, 1), (2, 3, 5, 6), "a transposed convolution, for which"),
                                   (nn.Upsample(scale_factor=2, mode="bilinear"), (2, 3, 5, 6), "upsample_bilinear2d"),
                                   (nn.Upsample(scale_factor=1.5, mode="bicubic"), (2, 3, 5, 6), "upsample_bicubic2d"),
                                   (nn.Upsample(scale_factor=2, mode="linear"), (2, 3, 7), "upsample_linear1d")):
            torch._dynamo.reset()
            with torch.no_grad():
                compiled = torch.compile(lambda x: module(x) * 2, backend="multidispatch", dynamic=True, options=OURS)
                torch.testing.assert_close(compiled(torch.ones(shape)), module(torch.ones(shape)) * 2, rtol=1e-4, atol=1e-5)
            self.assertIn(why, str(md.explain_graph()))


if __name__ == "__main__":
    unittest.main()
