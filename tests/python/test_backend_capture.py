#!/usr/bin/env python3
"""md.capture: plans without Dynamo. Skipped, loudly, where PyTorch is missing."""

import unittest

import needs_torch  # noqa: F401
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import multidispatch as md
from multidispatch.compile.lowering import decompositions
from multidispatch.compile.assumed import conditions
from multidispatch.compile.capture import _taken_apart
import strict  # noqa: F401 (faults are errors)


class Capture(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(18)

    def test_module_at_other_batches(self):
        m = torch.nn.Sequential(torch.nn.Linear(8, 12), torch.nn.GELU(), torch.nn.LayerNorm(12))
        captured = md.capture(m, (torch.randn(3, 8),))
        for b in (3, 1, 0, 7, 31):
            x = torch.randn(b, 8)
            with torch.no_grad():
                torch.testing.assert_close(captured(x), m(x), rtol=2e-6, atol=2e-6)
        report = md.explain_graph()[-1]
        self.assertEqual((report["calls"], report["fallbacks"], report["eager"]), (5, 0, []))
        self.assertIsNone(md.wait_graphs())
        with torch.no_grad():
            m[0].bias.add_(1)  # weights are bound by address
            torch.testing.assert_close(captured(x), m(x), rtol=2e-6, atol=2e-6)

    def test_packed_weights(self):
        m = torch.nn.Sequential(torch.nn.Linear(256, 192), torch.nn.GELU(), torch.nn.Linear(192, 64))
        captured = md.capture(m, (torch.randn(12, 256),), options={"packed_weights": True, "eager_where_faster": False})
        x = torch.randn(14, 256)

        def check():
            with torch.no_grad():
                torch.testing.assert_close(captured(x), m(x), rtol=2e-5, atol=2e-5)

        def packings():
            return sum(o["counts"]["packings"] for o in md.stats()["ops"])

        before = packings()
        check()
        md.wait_graphs()
        for _ in range(5):
            check()
        made = packings() - before
        self.assertGreater(made, 0)
        self.assertLessEqual(made, 2)
        with torch.no_grad():
            m[0].weight.mul_(2)  # PyTorch counts its writes
        check()
        m[2].weight.detach().numpy()[:] = 1  # that one nobody sees
        captured.changed()
        check()
        with self.assertRaisesRegex(md.ArgumentError, "packed_weights: 3"):
            md.capture(m, (x,), options={"packed_weights": 3})

    def test_signatures(self):
        """Parameters with stars and names, and what torch.export has made."""
        class Stars(torch.nn.Module):
            def forward(self, x, *rest, scale, **more):
                return x * scale + rest[0] + more["z"]

        class All(torch.nn.Module):
            def forward(self, *args):
                return args[0] - args[1]

        x, y = torch.randn(3), torch.randn(5)
        stars = md.capture(Stars(), (x, x), kwargs={"z": x, "scale": x})
        torch.testing.assert_close(stars(y, y, scale=y, z=y), y * y + y + y)
        torch.testing.assert_close(md.capture(All(), (x, x + 1))(y, y * 3), y - y * 3)
        named = md.capture(lambda x, y=None: x + y, (x,), kwargs={"y": x})
        torch.testing.assert_close(named(y, y=y), y + y)
        layer = torch.nn.Linear(4, 2)
        program = torch.export.export(layer, (torch.randn(3, 4),), dynamic_shapes=({0: torch.export.Dim.AUTO},))
        made, z = md.capture(program), torch.randn(7, 4)
        with torch.no_grad():
            torch.testing.assert_close(made(z), layer(z))
        for report in md.explain_graph()[-4:]:
            self.assertEqual((report["calls"], report["fallbacks"], report["eager"]), (1, 0, []))
        with self.assertRaisesRegex(md.ArgumentError, "give an example"):
            md.capture(layer)

    def test_what_export_assumed_of_sizes(self):
        """It is checked at each call: the function itself serves the others."""
        for f, *others in ((lambda x: x.sum() / max(x.shape[1], 1), (3, 0), (0, 2), (3, 1)),
                           (lambda x: x * 2 if x.shape[0] > 3 else x * 3, (2, 6), (3, 0), (4, 1)),
                           (lambda x: x * 2 if x.shape[0] % 3 == 0 else x * 3, (4, 2), (9, 5)),
                           (lambda x: x + 1 if x.shape[0] <= x.shape[1] else x + 2, (7, 6), (0, 0))):
            captured = md.capture(f, (torch.randn(6, 6),))
            for shape in ((6, 6), *others):
                x = torch.randn(shape)
                torch.testing.assert_close(captured(x), f(x))
        self.assertEqual(md.explain_graph()[-1]["fallback_reasons"], {"sizes are not as torch.export assumed": 1})

    def test_changes_inside(self):
        """Results that are changed in place, which PyTorch takes apart by another way."""
        def f(x):
            y = x * 2
            y.add_(1)
            y[:, 1:].mul_(3)
            return y.sum(-1), y

        captured = md.capture(f, (torch.randn(4, 5),))
        for b in (2, 7):
            x = torch.randn(b, 5)
            torch.testing.assert_close(captured(x), f(x))
        self.assertEqual(md.explain_graph()[-1]["fallbacks"], 0)

    def test_branches(self):
        """Graphs inside of the graph: PyTorch computes it."""
        def f(x):
            return torch.cond(x.shape[0] > 4, torch.sin, torch.cos, (x,))

        captured = md.capture(f, (torch.randn(6, 5),))
        for b in (6, 2):
            x = torch.randn(b, 5)
            torch.testing.assert_close(captured(x), f(x))

    def test_root_mean_square_norms_of_gpus(self):
        """There PyTorch makes one operation of the norm, which has to be taken apart. By fake tensors."""
        class Norm(torch.nn.Module):
            def forward(self, x, gain):
                return torch.nn.functional.rms_norm(x, (x.shape[-1],), gain, 1e-6)

        with FakeTensorMode():
            x, gain = torch.empty(4, 8, device="cuda"), torch.empty(8, device="cuda")
            program = torch.export.export(Norm(), (x, gain), strict=False)
        for graph in (_taken_apart(program, decompositions.table()).graph, program.run_decompositions(decompositions.table()).graph):
            self.assertFalse([n for n in graph.nodes if "rms_norm" in str(n.target)])

    def test_function_with_several_results(self):
        captured = md.capture(lambda a, b: {"sum": a + b, "top": a.amax(-1)}, (torch.randn(4, 5), torch.randn(4, 5)))
        a, b = torch.randn(2, 3), torch.randn(2, 3)
        got = captured(a, b)
        self.assertEqual(sorted(got), ["sum", "top"])
        torch.testing.assert_close(got["sum"], a + b)
        torch.testing.assert_close(got["top"], a.amax(-1))

    def test_what_does_not_fit_is_pytorchs(self):
        captured = md.capture(lambda x: x * 2 + 1, (torch.randn(4, 6),))
        for x in (torch.randn(6, 4).t(), torch.randn(4, 12)[:, ::2]):
            torch.testing.assert_close(captured(x), x * 2 + 1)
        report = md.explain_graph()[-1]
        self.assertEqual((report["fallbacks"], list(report["fallback_reasons"])),
                         (2, ["arguments are not as the graph was made for: argument 0 has other strides"]))

    def test_conditions_of_inputs(self):
        """What a graph in pieces was captured for: the dtype, the device and the axes of each tensor, and its sizes."""
        m = torch.nn.Linear(4, 3)
        program = torch.export.export(m, (torch.randn(5, 4),), dynamic_shapes=({0: torch.export.Dim("b", min=2, max=9)},))
        holds = conditions(program, False)
        for b in (2, 5, 9):
            self.assertTrue(holds([torch.randn(b, 4)]))
        for other in (torch.randn(10, 4), torch.randn(5, 3), torch.randn(5, 4).double(), torch.randn(4), torch.randn(5, 4, 1),
                      torch.empty(5, 4, device="meta")):
            self.assertFalse(holds([other]))

    def test_refusals(self):
        captured = md.capture(lambda x: x * 2, (torch.randn(4),))
        with self.assertRaisesRegex(md.ArgumentError, "requires a gradient"):
            captured(torch.randn(4, requires_grad=True))
        with self.assertRaisesRegex(md.ArgumentError, "negative or conjugate bit"):
            captured(torch.randn(4, dtype=torch.complex64).conj().imag)
        with self.assertRaises(ValueError):
            captured(torch.randn(4), torch.randn(4))
        with self.assertRaisesRegex(md.Unsupported, "changes its arguments"):
            md.capture(lambda x: x.add_(1), (torch.randn(4),))


if __name__ == "__main__":
    unittest.main(verbosity=0)
