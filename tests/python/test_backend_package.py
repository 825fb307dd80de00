#!/usr/bin/env python3
"""md.package and md.load_package: models in one file, called in a process without a compiler, without the model's code, and
without PyTorch where NumPy's arrays are given."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

import needs_torch  # noqa: F401
import torch

import multidispatch as md

SEED = int(os.environ.get("MD_TEST_SEED", "18"))


class Block(torch.nn.Module):
    """A block of a transformer, with tied weights, a buffer and results of several kinds."""

    def __init__(self, width=16, heads=2):
        super().__init__()
        self.heads, self.norm = heads, torch.nn.LayerNorm(width)
        self.qkv, self.up = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, 2 * width)
        self.down = torch.nn.Linear(2 * width, width)
        self.tied = self.norm
        self.register_buffer("scale", torch.tensor([0.5]))

    def forward(self, x, *, mask):
        b, n, w = x.shape
        q, k, v = (t.view(b, n, self.heads, w // self.heads).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        y = x + y.transpose(1, 2).reshape(b, n, w) * self.scale
        y = y + self.down(torch.nn.functional.gelu(self.up(self.tied(y))))
        return {"hidden": y, "last": [y[:, -1], x], "nothing": None}


def inputs(b, n):
    return torch.randn(b, n, 16), torch.rand(b, 1, n, n) > 0.3


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        print("seed", SEED, file=sys.stderr)
        torch.manual_seed(SEED)
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = cls.folder.name + "/block.mdp"
        cls.model = Block().eval()
        x, mask = inputs(2, 5)
        md.package(cls.model, (x,), cls.path, kwargs={"mask": mask})

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_without_compiler(self, program, **env):
        env = os.environ | {"MD_CC": "/nonexistent/cc", "MD_CACHE_DIR": "", "MD_LOG": "debug"} | env
        program = "import sys\n" + textwrap.dedent(program)
        ran = subprocess.run([sys.executable, "-c", program, self.path, self.folder.name], env=env, capture_output=True, text=True, check=False)
        self.assertEqual(ran.returncode, 0, ran.stderr[-3000:])
        self.assertNotIn("picked reference", ran.stderr)
        self.assertIn("picked ", ran.stderr)
        return ran

    def test_another_process(self):
        calls = []
        with torch.no_grad():
            for b, n in ((2, 5), (1, 1), (7, 12), (3, 40), (0, 4)):
                x, mask = inputs(b, n)
                y = self.model(x, mask=mask)
                calls.append((x, mask, y["hidden"], y["last"][0]))
        torch.save(calls, self.folder.name + "/calls.pt")
        self.run_without_compiler("""\
            import torch, multidispatch as md
            block = md.load_package(sys.argv[1])
            for x, mask, hidden, last in torch.load(sys.argv[2] + "/calls.pt"):
                got = block(x.requires_grad_(), mask=mask)
                torch.testing.assert_close(got["hidden"], hidden, equal_nan=True)
                torch.testing.assert_close(got["last"][0], last, equal_nan=True)
                assert got["last"][1] is x and got["nothing"] is None and list(got) == ["hidden", "last", "nothing"]
            assert "torch._dynamo" not in sys.modules
            """)

    def test_without_pytorch(self):
        x, mask = inputs(3, 7)
        mask[:, :, :, 0] = True
        with torch.no_grad():
            expected = self.model(x, mask=mask)["hidden"]
        import numpy as np
        np.savez(self.folder.name + "/call.npz", x=x.numpy(), mask=mask.numpy(), y=expected.numpy())
        self.run_without_compiler("""\
            import numpy as np, multidispatch as md
            call = np.load(sys.argv[2] + "/call.npz")
            got = md.load_package(sys.argv[1])(call["x"], mask=call["mask"])
            np.testing.assert_allclose(got["hidden"], call["y"], rtol=1e-4, atol=1e-5)
            assert "torch" not in sys.modules
            """)

    def test_what_does_not_fit(self):
        block = md.load_package(self.path)
        x, mask = inputs(2, 5)
        for given, kwargs, part in (((x,), {}, "not as in the example"), ((x, x), {"mask": mask}, "expected tuple of"),
                                    ((x.double(),), {"mask": mask}, "dtype f64"), ((x[..., :8],), {"mask": mask}, "size 8 along axis 2"),
                                    ((x[0],), {"mask": mask}, "rank 2, not"), ((x,), {"mask": mask[:1]}, "size 1 along axis 0, not 2"),
                                    ((x.transpose(1, 2).contiguous().transpose(1, 2),), {"mask": mask}, "stride"),
                                    ((3,), {"mask": mask}, "no array")):
            with self.subTest(part), self.assertRaisesRegex(md.ArgumentError, part):
                block(*given, **kwargs)

    def test_files(self):
        good = pathlib.Path(self.path).read_bytes()
        bad = pathlib.Path(self.folder.name) / "bad.mdp"
        for data, part in ((b"", "shorter than a header"), (good[:-9], "not as long as it says"), (b"x" * 5000, "not a bundle"),
                           (good[:200] + b"\0" * 40 + good[240:], "digest")):
            bad.write_bytes(data)
            bad.chmod(0o600)
            with self.subTest(part), self.assertRaisesRegex(md.MdError, part):
                md.load_package(bad)
        with self.assertRaisesRegex(md.ArgumentError, "nonexistent"):
            md.load_package(self.folder.name + "/nonexistent.mdp")

    def test_what_only_pytorch_can_run(self):
        x = torch.randn(4, 6)
        for f, part in ((lambda x: torch.sort(x * 2)[0] + 1, r"only PyTorch can run aten\.sort"), (lambda x: torch.nonzero(x), "nonzero"),
                        (lambda x: x.shape[0], "a result that is a size")):
            with self.subTest(part), self.assertRaisesRegex(md.Unsupported, part):
                md.package(f, (x,), self.folder.name + "/none.mdp")
        self.assertFalse(os.path.exists(self.folder.name + "/none.mdp"))

    def test_shapes_of_results(self):
        """Of products, whose memory has fewer axes; expanded ones; of a pool, which PyTorch writes in place."""
        path = self.folder.name + "/shapes.mdp"

        def f(x, w):
            return x @ w, (x.sum(-1, keepdim=True) * 2).expand(-1, -1, 5), torch.nn.functional.adaptive_avg_pool2d(x[None], 1)

        md.package(f, [(torch.randn(2, 3, 6), torch.randn(6, 4)), (torch.randn(4, 2, 6), torch.randn(6, 4))], path, dynamic=None)
        shapes = md.load_package(path)
        self.assertEqual(len(shapes.plan["examples"]), 2)
        for b, n in ((2, 3), (7, 2)):
            x, w = torch.randn(b, n, 6), torch.randn(6, 4)
            torch.testing.assert_close(shapes(x, w), f(x, w))

    def test_constants_conditions_and_dtypes(self):
        path = self.folder.name + "/small.mdp"
        md.package(lambda x, n, y: ((x.to(torch.bfloat16).view(-1, 2) * n), y.t() + 1), (torch.randn(4, 6), 3, torch.ones(5, 7)), path)
        small = md.load_package(path)
        for b in (2, 8):
            x, y = torch.randn(b, 6), torch.randn(4, 9)
            got = small(x, 3, y)
            torch.testing.assert_close(got[0], x.to(torch.bfloat16).view(-1, 2) * 3)
            torch.testing.assert_close(got[1], y.t() + 1)
        with self.assertRaisesRegex(md.ArgumentError, "argument 1 is 4, but the example had 3"):
            small(x, 4, y)
        self.assertEqual(small.plan["version"], 1)
        self.assertTrue(json.dumps(small.plan))


if __name__ == "__main__":
    unittest.main()
