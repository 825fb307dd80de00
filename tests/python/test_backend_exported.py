#!/usr/bin/env python3
"""What torch.export assumed of sizes, and its files: written from a plan, read into one, and refused where they are no such
file or another version's."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
import zipfile

import needs_torch  # noqa: F401
import torch

import multidispatch as md
import strict  # noqa: F401 (faults are errors)
import quick  # noqa: F401 (kernels are compiled without optimising)


class Model(torch.nn.Module):
    """Its conditions: a branch, an equal size, a remainder."""

    def __init__(self, is_cut=False):
        super().__init__()
        self.linear, self.norm, self.is_cut = torch.nn.Linear(6, 4), torch.nn.LayerNorm(4), is_cut

    def forward(self, x, *more, scale):
        z = self.norm(self.linear(x))
        if x.shape[0] > 3:
            z = z * 2
        if more[0].shape[1] % 2:
            z = z + 1
        z = torch.cat([z, more[0]], 1) * scale["by"] / x.shape[0]
        return z + torch.nonzero(z).shape[0] if self.is_cut else z


def given(batch, length, more=2):
    return (torch.randn(batch, length, 6), torch.randn(batch, more, 4)), {"scale": {"by": torch.rand(4) + 0.5}}


FIT = ((5, 3, 2), (4, 1, 0), (9, 0, 4))
UNFIT = ((3, 3, 2), (1, 2, 4), (5, 3, 1), (4, 3, 3))


def in_a_process(text, *arguments):
    done = subprocess.run([sys.executable, "-c", text, *arguments], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else done.stderr[-2000:]


class Exported(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(18)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "model.pt2")

    def captured(self, m, **options):
        args, kwargs = given(5, 3)
        return md.capture(m, args, kwargs=kwargs, options=options or None)

    def check(self, f, m, sizes):
        for size in sizes:
            args, kwargs = given(*size)
            with torch.no_grad():
                torch.testing.assert_close(f(*args, **kwargs), m(*args, **kwargs))

    def test_what_was_assumed_is_checked(self):
        for m in (Model(), Model(is_cut=True)):
            f = self.captured(m.eval())
            self.check(f, m, FIT)
            self.assertEqual(sum(f._report.fallbacks.values()), 0)
            self.check(f, m, UNFIT)
            self.assertEqual(dict(f._report.fallbacks), {"sizes are not as torch.export assumed": len(UNFIT)})

    def test_there_and_back(self):
        for m in (Model(), Model(is_cut=True)):
            f = self.captured(m.eval(), numeric="deterministic")
            f.save(self.path)
            back = md.capture(self.path)
            self.assertEqual(back._options, f._options)
            self.assertEqual(md.capture(self.path, options={})._options.numeric, None)
            self.check(back, m, FIT)
            self.assertEqual(sum(back._report.fallbacks.values()), 0)
            for size in UNFIT:  # there is only the program, and torch.export refuses them
                args, kwargs = given(*size)
                with self.assertRaisesRegex(AssertionError, "Guard failed"):
                    back(*args, **kwargs)
            with torch.no_grad():
                m.linear.weight.mul_(2)
            f.save(self.path)  # the weights as they are now
            self.check(md.capture(self.path), m, FIT)

    def test_pytorch_reads_it(self):
        """Without this package; with it, where the program has its operations."""
        read = "import sys, torch; y = torch.export.load(sys.argv[1]).module()(torch.ones(2, 5, 6)); print(tuple(y.shape))"
        attention = torch.nn.functional.scaled_dot_product_attention
        md.capture(lambda x: attention(x, x, x), (torch.randn(3, 4, 6),)).save(self.path)
        self.assertEqual(in_a_process(read, self.path), "(2, 5, 6)\n")
        layer = torch.nn.GRU(6, 8).eval()
        md.capture(lambda x: layer(x)[0], (torch.randn(3, 4, 6),)).save(self.path)
        self.assertEqual(in_a_process("import torch, multidispatch; " + read, self.path), "(2, 5, 8)\n")
        x = torch.randn(7, 2, 6)
        torch.testing.assert_close(md.capture(self.path)(x), layer(x)[0].detach())

    def test_a_file_of_pytorch(self):
        m = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.GELU()).eval()
        program = torch.export.export(m, (torch.randn(4, 6),), dynamic_shapes=({0: torch.export.Dim("b", min=2, max=64)},))
        torch.export.save(program, self.path)
        f = md.capture(self.path)
        for b in (2, 9, 64):
            x = torch.randn(b, 6)
            torch.testing.assert_close(f(x), m(x).detach())
        with self.assertRaises(Exception):
            f(torch.randn(65, 6))
        out = self.path + ".mdp"
        md.package(self.path, (torch.randn(4, 6),), out)
        x = torch.randn(5, 6)
        torch.testing.assert_close(md.load_package(out)(x), m(x).detach())

    def test_packages_check_it_too(self):
        m = Model().eval()
        args, kwargs = given(5, 3)
        md.package(m, args, self.path, kwargs=kwargs)
        f = md.load_package(self.path)
        self.check(f, m, FIT)
        for size in UNFIT:
            args, kwargs = given(*size)
            with self.assertRaises(md.ArgumentError):
                f(*args, **kwargs)

    def tampered(self, change):
        path = os.path.join(os.path.dirname(self.path), "other.pt2")
        with zipfile.ZipFile(self.path) as old, zipfile.ZipFile(path, "w") as new:
            for name in old.namelist():
                new.writestr(name, change(name, old.read(name)))
        return path

    def test_bad_files(self):
        md.capture(lambda x: x * 2, (torch.randn(3),)).save(self.path)

        def later(name, data):
            if not name.endswith("models/model.json"):
                return data
            model = json.loads(data)
            model["schema_version"]["major"] += 1
            return json.dumps(model)

        def half(name, data):
            return data[:len(data) // 2]

        def foreign(name, data):
            return '{"options": {"speed": 9}}' if name.endswith("multidispatch.json") else data

        for change in (later, half):
            with self.assertRaisesRegex(md.ArgumentError, r"torch.export cannot load .*other.pt2' \(PyTorch 2"):
                md.capture(self.tampered(change))
        with self.assertRaisesRegex(md.ArgumentError, "there is no option 'speed'"):
            md.capture(self.tampered(foreign))
        with open(self.path, "w", encoding="utf-8") as file:
            file.write("hello")
        with self.assertRaisesRegex(md.ArgumentError, "torch.export cannot load .*model.pt2"):
            md.capture(self.path)
        with self.assertRaises(FileNotFoundError):
            md.capture(self.path + ".none")


if __name__ == "__main__":
    unittest.main()
