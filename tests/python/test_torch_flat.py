#!/usr/bin/env python3
"""Lists of tensors of any shape as one axis each, and what the optimizer keeps from step to step."""

import unittest

import torch

import multidispatch as md


def values(shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


class Flat(unittest.TestCase):
    def test_shapes_and_layouts(self):
        shapes = ((3,), (), (0, 4), (5, 1, 7), (2, 3, 4, 5))
        for wide in (lambda x: x, lambda x: x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x.mT
                     if x.dim() == 3 else x):
            a, b = ([wide(values(s, i + k)) for i, s in enumerate(shapes)] for k in (1, 100))
            want = [x * 2 + y for x, y in zip(a, b)]
            self.assertIsNone(md.foreach("Y[i] = A[i] * 2 + B[i]", a, b, out=a, flat=True))
            for x, y in zip(a, want):
                torch.testing.assert_close(x, y)

    def test_one_array_for_all_items(self):
        a = [values((n, 2), n) for n in (3, 0, 40)]
        want = [x * 0.5 for x in a]
        md.foreach("Y[i] = A[i] * s[]", a, torch.tensor(0.5), out=a, flat=True)
        self.assertTrue(all(torch.equal(x, y) for x, y in zip(a, want)))

    def test_lists_of_a_formula_over_lists(self):
        g = [values((3, 4), 1), values((5,), 2)]
        norm = torch.empty(())
        md.foreach("N:f32[] = sqrt(sum[t,i](G@t[i] * G@t[i]))", g, out=norm, flat=True)
        torch.testing.assert_close(norm, torch.cat([x.view(-1) for x in g]).norm())
        with self.assertRaisesRegex(md.ArgumentError, "item 1: flat"):
            md.foreach("N:f32[] = sum[t,i](G@t[i])", [g[0], values((8,), 3)[::2]], out=norm, flat=True)

    def test_refusals(self):
        a, y = values((4, 6), 1), torch.full((4, 6), 7.0)
        for wrong, said in ((lambda: md.foreach("Y[i] = A[i]", [a], flat=True), "give output 'Y'"),
                            (lambda: md.foreach("Y[i] = A[i]", [a], out=[y.mT.contiguous().mT], flat=True), "layouts"),
                            (lambda: md.foreach("Y[i] = A[i]", [a], out=[y[:, :3]], flat=True), "flat"),
                            (lambda: md.foreach("Y[i] = A[i]", [a[:, ::2]], out=[y[:, ::2]], flat=True), "gaps"),
                            (lambda: md.foreach("Y[i] = A[i]", [a], out=[y.view(6, 4)], flat=True), "sizes")):
            with self.assertRaisesRegex(md.ArgumentError, said):
                wrong()
        self.assertTrue((y == 7.0).all())


class Kept(unittest.TestCase):
    """What others do to the state between two steps is seen."""

    def steps(self, change):
        made = []
        for kind in (torch.optim.AdamW, md.optim.AdamW):
            p = [torch.nn.Parameter(values(s, i)) for i, s in enumerate(((3, 2), (7,), (2, 3, 4, 5)))]
            o = kind(p, lr=0.02, weight_decay=0.1)
            for step in range(5):
                for i, x in enumerate(p):
                    x.grad = values(x.shape, 10 * step + i)
                if step in (2, 3):
                    change(p, o)
                o.step()
            made.append((p, o))
        for x, y in zip(*(p for p, _ in made)):
            torch.testing.assert_close(y, x, rtol=1e-4, atol=2e-5)
        for s, t in zip(*(o.state_dict()["state"].values() for _, o in made)):
            self.assertEqual(float(s["step"]), float(t["step"]))

    def test_steps(self):
        self.steps(lambda p, o: None)
        self.steps(lambda p, o: o.state[p[1]]["step"].add_(3))
        self.steps(lambda p, o: o.state[p[0]].update(step=torch.tensor(9.0)))
        self.steps(lambda p, o: o.load_state_dict(o.state_dict()))

    def test_tensors(self):
        self.steps(lambda p, o: o.state[p[2]].update(exp_avg=torch.ones(p[2].shape)))
        self.steps(lambda p, o: o.state.clear())
        self.steps(lambda p, o: setattr(p[0], "grad", None))
        self.steps(lambda p, o: setattr(p[2], "data", p[2].data.contiguous(memory_format=torch.channels_last)))
        self.steps(lambda p, o: o.param_groups[0]["params"].reverse())
        self.steps(lambda p, o: o.param_groups[0].update(lr=0.5, betas=(0.5, 0.6)))


if __name__ == "__main__":
    unittest.main()
