#!/usr/bin/env python3
"""The package with NumPy: results, dtypes, outputs, choices, errors, threads, pickling, forks and
the end of the interpreter."""

import contextlib
import doctest
import io
import json
import multiprocessing
import os
import pathlib
import pickle
import runpy
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import numpy as np

import multidispatch as md
from threads_agree import threads_agree

F32 = np.float32
SEED = int(os.environ.get("MD_TEST_SEED", "18"))


def random(*shape, dtype=F32):
    return np.random.default_rng(SEED).standard_normal(shape).astype(dtype)


class Calls(unittest.TestCase):
    def test_product(self):
        op = md.op("Y[b,n] = relu(sum[k](X[b,k]*W[n,k]) + c[n])", static={"n": 24, "k": 16})
        w, c = random(24, 16), random(24)
        for b in (1, 2, 7, 31):
            x = random(b, 16)
            np.testing.assert_allclose(op(x, w, c), np.maximum(x @ w.T + c, 0), rtol=1e-5, atol=1e-5)

    def test_out_and_call(self):
        op = md.op("Y[i] = A[i] + B[i]")
        a, b = random(5), random(5)
        y = np.empty(5, F32)
        self.assertIs(op(a, b, out=y), y)
        np.testing.assert_array_equal(y, a + b)
        y[:] = 0
        self.assertIsNone(op.call(y, a, b))
        np.testing.assert_array_equal(y, a + b)
        np.testing.assert_array_equal(op(B=b, A=a), a + b)

    def test_several_outputs(self):
        op = md.op("Y[i] = X[i] + 1; Z[i] = X[i] * 2")
        x = random(6)
        y, z = op(x)
        np.testing.assert_array_equal(y, x + 1)
        np.testing.assert_array_equal(z, x * 2)
        mine = np.empty(6, F32)
        y, z = op(x, out=(None, mine))
        self.assertIs(z, mine)
        np.testing.assert_array_equal(z, x * 2)

    def test_random_numbers(self):
        """A number depends on the seed and its place only: in every variant, beside whatever else is computed, in parts."""
        texts = ("scalar s:i64; Y[i,j] = rand(s, i, j)", "scalar s:i64; Y[i,j] = rand(s, i, j) + sum[k](X[i,k] * W[j,k])",
                 "scalar s:i64; let p[i,k] = X[i,k] * rand(s, i, k); Y[i,j] = rand(s, i, j) + sum[k](p[i,k])")
        wanted = np.empty((67, 300), F32)
        md.op(texts[0])(s=5, out=wanted)
        n = wanted.size
        self.assertLess(abs(wanted.mean() - 0.5), 5 * (1 / 12 / n) ** 0.5)
        self.assertLess(abs(wanted.var() - 1 / 12), 5 * (1 / 180 / n) ** 0.5)
        self.assertLess(abs(np.corrcoef(wanted[:, 1:].ravel(), wanted[:, :-1].ravel())[0, 1]), 5 / n ** 0.5)
        self.assertTrue((wanted >= 0).all() and (wanted < 1).all())
        x, w = np.zeros((67, 8), F32), np.zeros((300, 8), F32)
        for text in texts:
            given = {"s": 5} | ({"X": x} if "X[" in text else {}) | ({"W": w} if "W[" in text else {})
            op = md.op(text)
            op(**given, out=np.empty_like(wanted))
            for variant in op.variants()[0] if len(op.variants()) == 1 else ():
                got = np.full_like(wanted, np.nan)
                md.op(text, pin=variant)(**given, out=got)
                np.testing.assert_array_equal(got, wanted, variant)
        other = np.empty_like(wanted)
        md.op(texts[0])(s=6, out=other)
        self.assertLess(abs(np.corrcoef(wanted.ravel(), other.ravel())[0, 1]), 5 / n ** 0.5)
        with self.assertRaisesRegex(md.FormulaError, "integers, a seed and indices, not f32; declare the scalar as i64"):
            md.op("scalar s; Y[i] = X[i] * rand(s, i)")

    def test_scalar_and_sizes(self):
        op = md.op("scalar s; Y[b,n] = s * X[b,n]")
        x = random(4, 8)
        np.testing.assert_array_equal(op(2.0, x), 2 * x)
        np.testing.assert_array_equal(op(np.float32(2), x, sizes={"b": 2}), 2 * x)
        with self.assertRaisesRegex(md.ArgumentError, "no dynamic dim 'q'"):
            op(2.0, x, sizes={"q": 1})

    def test_sizes_that_no_tensor_gives(self):
        """They are keywords, and stand behind the inputs without a name."""
        op = md.op("Y[b] = sum[j](X[page:i32[b, j // 4], j % 4])")
        x, page = random(9, 4), np.array([[3, 0, 8], [1, 1, 2]], np.int32)
        self.assertEqual(op.arguments[3], ("j", "i64", True, False, ()))
        for j in (0, 1, 4, 7, 12):
            wanted = x[page].reshape(2, 12)[:, :j].sum(1)
            np.testing.assert_allclose(op(x, page, j=j), wanted, atol=1e-5)
            np.testing.assert_allclose(op(x, page, j), wanted, atol=1e-5)
        with self.assertRaisesRegex(md.ArgumentError, "1:12: .* indexed by just 'j', so the call gives its size"):
            op(x, page)
        with self.assertRaisesRegex(md.ArgumentError, "axis 1 has size 3, but subscript 'j // 4' reaches 3"):
            op(x, page, j=13)
        with self.assertRaisesRegex(md.ArgumentError, "'j'"):
            op(x, page, j=2.5)
        self.assertIn("j=7", [shape for row in op.stats() for shape in row["shape"].split()])

    def test_halves_of_bytes(self):
        """Bytes serve as i4, two to each, the first in the low half."""
        bits = np.arange(48, dtype=np.uint8).reshape(3, 16) * 5 + 3
        halves = np.stack([bits & 15, bits >> 4], axis=-1).reshape(3, 32).astype(np.int8)
        w = np.where(halves > 7, halves - 16, halves).astype(F32)
        x = random(2, 32)
        y = md.op("Y[b,n] = sum[k](X[b,k] * f32(W:i4[n,k]))")(x, bits)
        np.testing.assert_allclose(y, x @ w.T, rtol=1e-5, atol=1e-4)
        out = np.zeros((3, 16), np.uint8)
        md.op("Y:u4[n,k] = W:i4[n,k]").call(out, bits)
        np.testing.assert_array_equal(out, bits)
        with self.assertRaisesRegex(md.ArgumentError, "no dtype i4"):
            md.op("Y:i4[n,k] = W:i4[n,k]")(bits)

    def test_rows_with_gaps_are_no_halves(self):
        """Two halves lie in each byte: bytes with gaps between them, or more than one byte wide, are no i4."""
        bits = np.arange(64, dtype=np.uint8).reshape(4, 16)
        op = md.op("Y:i32[n,k] = i32(W:i4[n,k])")
        for good in (bits, bits[::2], bits[:, 3:9], bits[:, ::2][:, :1], bits[:0]):
            halves = np.stack([good & 15, good >> 4], axis=-1).reshape(good.shape[0], 2 * good.shape[1]).astype(np.int32)
            np.testing.assert_array_equal(op(good), np.where(halves > 7, halves - 16, halves))
        for bad in (bits[:, ::2], bits.T, np.asfortranarray(bits), bits.astype(np.int8), bits.view(np.uint16)):
            with self.assertRaisesRegex(md.ArgumentError, "expected i4"):
                op(bad)

    def test_dtypes_of_outputs(self):
        """Each dtype of the library that NumPy has, made without out=, holds its own values."""
        for name, numpy_name in (("f32", "float32"), ("f64", "float64"), ("f16", "float16"), ("i8", "int8"), ("u8", "uint8"),
                                 ("i16", "int16"), ("u16", "uint16"), ("i32", "int32"), ("u32", "uint32"), ("i64", "int64"),
                                 ("u64", "uint64"), ("bool", "bool_")):
            dtype = np.dtype(getattr(np, numpy_name))
            most = 1 if name == "bool" else 1000 if dtype.kind == "f" else np.iinfo(dtype).max
            x = np.array([0, 1, most], dtype)
            y = md.op(f"Y:{name}[i] = X:{name}[i]")(x)
            self.assertEqual(y.dtype, dtype, name)
            np.testing.assert_array_equal(y, x)
        for name in ("bf16", "f8e4m3", "f8e5m2", "i4", "u4"):
            with self.assertRaisesRegex(md.ArgumentError, f"no dtype {name}"):
                md.op(f"Y:{name}[i] = X[i]")(random(4))

    def test_dtypes_follow(self):
        op = md.op("Y[i] = A[i] * B[i]")
        for dtype in (np.float64, np.float16, F32):
            a, b = random(9, dtype=dtype), random(9, dtype=dtype)
            y = op(a, b)
            self.assertEqual(y.dtype, dtype)
            np.testing.assert_allclose(y, a * b, rtol=1e-3)
        y = op(random(9), random(9, dtype=np.float64))
        np.testing.assert_allclose(y, random(9).astype(float) * random(9, dtype=np.float64), rtol=1e-6)
        rows = md.op("Y[i,j] = E[ids[i],j]")
        e = random(10, 3)
        for integer in (np.int32, np.int64):
            np.testing.assert_array_equal(rows(e, np.array([3, 9], integer)), e[[3, 9]])

    def test_layouts(self):
        op = md.op("Y[i,j] = X[i,j] + c[j]")
        x, c = random(6, 8), random(8)
        np.testing.assert_array_equal(op(x[::2, ::3], c[:3]), x[::2, ::3] + c[:3])
        np.testing.assert_array_equal(op(np.ascontiguousarray(x.T).T, c), x + c)
        np.testing.assert_array_equal(op(np.broadcast_to(x[:1], (6, 8)), c), np.broadcast_to(x[:1], (6, 8)) + c)
        np.testing.assert_array_equal(op(x[:1, :1], c[:1]), x[:1, :1] + c[:1])
        self.assertEqual(op(x[:0], c).shape, (0, 8))
        self.assertEqual(op(x[:, :0], c[:0]).shape, (6, 0))
        y = np.zeros((8, 6), F32)
        op(x, c, out=y.T)
        np.testing.assert_array_equal(y.T, x + c)

    def test_named(self):
        np.testing.assert_allclose(md.ops.softmax(random(3, 5)).sum(1), np.ones(3), rtol=1e-6)
        self.assertIn("softmax", dir(md.ops))
        with self.assertRaises(AttributeError):
            md.ops.sofmax
        for name in md.catalogue():
            self.assertTrue(md.op(name).formula)


class Box:
    """An array of which only DLPack is known; of a device, and with or without versions."""

    def __init__(self, array, device=(1, 0), **asked):
        self.array, self.device, self.asked = array, device, asked

    def __dlpack__(self):
        return self.array.__dlpack__(**self.asked)

    def __dlpack_device__(self):
        return self.device


class Exchange(unittest.TestCase):
    def test_arrays_of_others(self):
        op = md.op("Y[i,j] = X[i,j] * 2 + c[j]")
        x, c = random(6, 8), random(8)
        for asked in ({}, {"max_version": (1, 0)}):
            y = np.zeros((6, 8), F32)
            op.call(Box(y, **asked), Box(x, **asked), Box(c, **asked))
            np.testing.assert_array_equal(y, x * 2 + c)
            op.call(Box(y.T[:4].T, **asked), Box(x[::2, ::2].repeat(2, 0)[:, :4], **asked), Box(c[:4], **asked))  # strides
            np.testing.assert_array_equal(y[:, :4], x[::2, ::2].repeat(2, 0) * 2 + c[:4])
        y = op(x, Box(c))  # made like the first, of NumPy
        np.testing.assert_array_equal(y, x * 2 + c)

    def test_bad_arrays_of_others(self):
        op = md.op("Y[i] = X[i] * 2")
        y = np.empty(4, F32)
        for array, text in ((random(4).astype(complex), "argument 'X': its elements are complex"),
                            (random(2, 2), "rank 2, expected 1"), (random(5), "size 5|has size")):
            with self.assertRaisesRegex(md.ArgumentError, text):
                op.call(y, Box(array))

        class Broken(Box):
            def __dlpack__(self):
                raise RuntimeError("no capsule")

        class Wrong(Box):
            def __dlpack__(self):
                return "no capsule"

        class Nowhere(Box):
            def __dlpack_device__(self):
                return "cpu"

        for kind in (Broken, Wrong, Nowhere):
            with self.assertRaises((md.ArgumentError, RuntimeError, TypeError, ValueError)):
                op.call(y, kind(random(4)))

    def test_no_input(self):
        """Outputs of an op without inputs are NumPy's, if their sizes are known."""
        y = md.op("Y[i,j] = i * 10 + j", static={"i": 3, "j": 4})()
        self.assertIsInstance(y, np.ndarray)
        np.testing.assert_array_equal(y, np.add.outer(10 * np.arange(3), np.arange(4)))
        op = md.op("Y[i,j] = i * 10 + j", static={"i": 3})
        with self.assertRaisesRegex(md.ArgumentError, "no input gives axis 1"):
            op()
        y = np.zeros((3, 2), F32)
        op(out=y)
        np.testing.assert_array_equal(y, np.add.outer(10 * np.arange(3), np.arange(2)))


class Choices(unittest.TestCase):
    def test_dtypes_of_questions(self):
        """Undeclared inputs have the dtype that is asked about, declared ones their own."""
        op = md.op("Y[i] = X[i] * W:f64[i] + Z:bf16[i]")
        for dtype in ("f32", "f16", "f64"):
            self.assertEqual(op._dtypes(dtype), tuple(
                "" if is_output else {"X": dtype, "W": "f64", "Z": "bf16"}[name] for name, _, _, is_output, _ in op.arguments))

    def test_asked(self):
        op = md.op("Y[b,n] = exp(X[b,n])", name="asked")
        x = random(2, 8)
        y = op(x)
        variant = op.choice(x, out=y)["stages"][0]["variant"]
        self.assertIn(variant, op.variants()[0])
        self.assertIn("exp", op.source(variant))
        self.assertIsInstance(op.explain({"b": 2, "n": 8}), dict)
        self.assertIn(variant, op.explain("b=2, n=8", text=True))
        op.prepare(b=[1, 2], n=8)
        op.wait()
        self.assertEqual(op.stats()[0]["op"], "asked")
        self.assertEqual(len(md.digest()), 32)
        self.assertIn("version", json.dumps(md.info()))

    def test_table(self):
        md.op("Y[i] = X[i] - 9", name="table")(random(3))
        stats = md.stats()
        self.assertIn("table", [row["op"] for row in stats["shapes"]])
        try:
            import pandas  # noqa: F401
        except ImportError:
            self.skipTest("there is no pandas")
        self.assertEqual(len(stats.to_pandas()), len(stats["shapes"]))

    def test_freeze(self):
        op = md.op("Y[b] = exp(X[b]) + 3", name="frozen")
        op(random(4))
        op.freeze("fail")
        with self.assertRaises(md.Unsupported):
            op(random(5))
        op.freeze("none")
        self.assertEqual(op(random(5)).shape, (5,))

    def test_pickle(self):
        op = md.op("Y[b,n] = X[b,n] * 2", static={"n": 4}, numeric="deterministic")
        again = pickle.loads(pickle.dumps(op))
        self.assertEqual(repr(again), repr(op))
        np.testing.assert_array_equal(again(random(2, 4)), random(2, 4) * 2)


class Pages(unittest.TestCase):
    def test_report(self):
        md.op("Y[i,j] = X[i,j] * 3", name="tripled")(random(3, 400))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "page.html")
            self.assertEqual(md.stats().report(path), path)
            with open(path, encoding="utf-8") as page:
                text = page.read()
            self.assertIn("<h2>A program's calls</h2>", text)
            self.assertIn("tripled", text)
            self.assertRegex(text, r"\d+% of (memory|arithmetic)")
            with self.assertRaisesRegex(md.MdError, "cannot write '/nonexistent/x.html'"):
                md.stats().report("/nonexistent/x.html")

    def test_commands(self):
        def ran(*words, **env):
            return subprocess.run([sys.executable, "-m", "multidispatch", *words], capture_output=True, text=True, check=False,
                                  env=os.environ | env)
        said = ran("info", "--json")
        self.assertEqual((said.returncode, said.stderr), (0, ""))
        self.assertEqual(json.loads(said.stdout)["version"], md.__version__)
        self.assertRegex(ran("info").stdout, r"(?m)^device +host$")
        said = ran("check")
        self.assertEqual(said.returncode, 0, said.stdout + said.stderr)
        self.assertRegex(said.stdout, r"(?m)^ok   results +largest difference to NumPy")
        with mock.patch.object(md, "info", lambda _: {"device": "cuda:0", "can_compile": True, "compiler": "NVRTC"}), io.StringIO() as text:
            with contextlib.redirect_stdout(text):
                runpy.run_module("multidispatch.__main__")["main"](["check", "--device", "cuda"])
            self.assertRegex(text.getvalue(), r"(?m)^--   store +none: .*\n--   results +not checked on cuda:0$")
        self.assertRegex(ran("explain", "softmax", "--sizes", "i=3, j=40").stdout, r"(?m)^  pick: ")
        for words, status, part in [(["check"], 1, "BAD  compiler   none"), (["explain", "Y[i] = ", "--sizes", "i=3"], 1, "expected"),
                                    (["explain", "softmax", "--sizes", "k=3"], 1, "k"), (["check", "--device", "tpu"], 1, "'tpu'"), (["else"], 2, "invalid choice")]:
            with self.subTest(words):
                said = ran(*words, MD_CC="/nonexistent/cc" if "BAD" in part else os.environ.get("MD_CC", ""))
                self.assertEqual(said.returncode, status, said.stdout + said.stderr)
                self.assertIn(part, said.stdout + said.stderr)


class Bad(unittest.TestCase):
    def refused(self, error, text, function, *args, **options):
        with self.assertRaisesRegex(error, text):
            function(*args, **options)

    def test_formulas(self):
        self.refused(md.FormulaError, r"(?s)1:11: .*\n.*\^", md.op, "Y[i] = X[i")
        self.refused(md.FormulaError, "softmax", md.op, "sofmax")
        self.refused(md.ArgumentError, "option select: 'best'", md.op, "softmax", select="best")
        self.refused(TypeError, "", md.op, 3)
        self.assertTrue(issubclass(md.FormulaError, ValueError) and issubclass(md.FormulaError, md.MdError))

    def test_arguments(self):
        op = md.op("Y[i,j] = X[i,j] + c[j]")
        x, c = random(4, 3), random(3)
        refused = self.refused
        refused(md.ArgumentError, "'c': axis 0 .* has size 2, but", op, x, c[:2])
        refused(md.ArgumentError, "'c': axis 0", op, x, c[:1])  # size 1 is not broadcast
        refused(md.ArgumentError, "rank 1, expected 2", op, c, c)
        refused(md.ArgumentError, "'c' is missing", op, x)
        refused(md.ArgumentError, "3 arguments given", op, x, c, c)
        refused(md.ArgumentError, "no argument 'q'", op, x, c, q=c)
        refused(md.ArgumentError, "given twice", op, x, c, X=x)
        refused(md.ArgumentError, "is no array", op, x, 3)
        refused(md.ArgumentError, "is no array", op, x, [1.0, 2.0, 3.0])
        refused(md.ArgumentError, "format", op, x, np.array(["a", "b", "c"]))
        refused(md.ArgumentError, "'X': its elements are big endian", op, x.astype(">f4"), c)
        refused(md.ArgumentError, "its elements are complex", op, x.astype(complex), c)
        refused(md.ArgumentError, "stride", op, x[::-1], c)
        refused(md.ArgumentError, "2 arguments given", op.call, x, c)
        refused(md.ArgumentError, "axis", op, x, c, out=np.empty((3, 3), F32))
        refused(md.ArgumentError, "outputs", op, x, c, out=(c, c))
        refused(md.ArgumentError, "stride 0", op.call, *self.expanded(x, c))
        refused(md.ArgumentError, "overlap", op, x, c, out=np.lib.stride_tricks.as_strided(x, (4, 3), (4, 4)))
        frozen = np.empty((4, 3), F32)
        frozen.flags.writeable = False
        refused(md.ArgumentError, "'Y': is an output, and this array is read-only", op, x, c, out=frozen)
        x.flags.writeable = False  # an input may be
        np.testing.assert_array_equal(op(x, c), x + c)

    def test_fields_of_records(self):
        """Strides are counted in elements: a field of a packed record has none that is a whole number of them."""
        op = md.op("Y[i] = X[i] * 2")
        n = 5
        for layout, good in (([("a", "u1"), ("x", "<f4")], False), ([("x", "<f4"), ("a", "<u2")], False),
                             ([("x", "<f4"), ("a", "<i4")], True), ([("a", "<f4"), ("x", "<f4"), ("b", "<f4")], True)):
            records = np.zeros(n, np.dtype(layout))
            records["x"] = np.arange(n)
            if good:
                np.testing.assert_array_equal(op(records["x"]), 2 * np.arange(n))
                op(np.arange(n, dtype=F32), out=records["x"])
                np.testing.assert_array_equal(records["x"], 2 * np.arange(n))
            else:
                self.refused(md.ArgumentError, "argument 'X'.* strides are no whole elements", op, records["x"])
                self.refused(md.ArgumentError, "argument 'Y'.* strides are no whole elements", op, random(n), out=records["x"])
        bytes_of = np.zeros((3, 7), np.uint8)
        rows = bytes_of[:, :4].view(F32)  # rows 7 bytes apart
        self.refused(md.ArgumentError, "no whole elements", md.op("Y[i,j] = X[i,j]"), rows)

    @staticmethod
    def expanded(x, c):
        return np.lib.stride_tricks.as_strided(np.empty(3, F32), (4, 3), (0, 4)), x, c

    def test_indices(self):
        rows = md.op("Y[i,j] = E[ids[i],j]")
        self.refused(md.ArgumentError, "index 10 is outside", rows, random(10, 3), np.array([3, 10]))
        self.refused(md.ArgumentError, "index -1 is outside", rows, random(10, 3), np.array([-1]))
        for far in (2**31, 2**32, 2**40 + 3, -2**63):  # no index is cut to 32 bits
            self.refused(md.ArgumentError, f"index {far} is outside", rows, random(10, 3), np.array([0, far]))
        self.refused(md.ArgumentError, "also read", md.op("G[ids[i]] += X[i]"), np.array([1]), random(1))

    def test_no_gpu(self):
        op = md.op("Y[i] = X[i] + 5")
        if "cuda" not in json.dumps(md.info()):
            with self.assertRaises(md.MdError):
                op.prepare(device="cuda:15", i=4)
        self.refused(md.ArgumentError, "expected host", op.prepare, device="tpu", i=4)


def in_child(queue, x):
    queue.put(md.op("Y[i] = X[i] * 2 + 1")(x))


class Processes(unittest.TestCase):
    def run_python(self, text, **env):
        return subprocess.run([sys.executable, "-c", "import numpy as np, multidispatch as md\n" + text], text=True,
                              capture_output=True, timeout=120, env=os.environ | env)

    def test_threads(self):
        op = md.op("Y[b,n] = sum[k](X[b,k]*W[n,k])")
        self.assertTrue(threads_agree(op, random(4, 8), random(6, 8), np.allclose))

    def test_first_calls_of_threads_share_a_context(self):
        """Each context would warn of the variable."""
        done = self.run_python("import concurrent.futures\nx = np.ones(3, np.float32)\n"
                               "with concurrent.futures.ThreadPoolExecutor(10) as pool:\n"
                               "    made = list(pool.map(lambda i: md.op('Y[i] = X[i] + 1')(x).tolist(), range(10)))\n"
                               "print(made == [[2.0] * 3] * 10)", MD_NO_SUCH_VARIABLE="1")
        self.assertEqual((done.returncode, done.stdout), (0, "True\n"))
        self.assertEqual(done.stderr.count("MD_NO_SUCH_VARIABLE"), 1, done.stderr)

    def test_fork(self):
        x = random(5)
        md.op("Y[i] = X[i] * 2 + 1")(x)
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        child = context.Process(target=in_child, args=(queue, x))
        child.start()
        np.testing.assert_array_equal(queue.get(timeout=60), x * 2 + 1)
        child.join(60)
        self.assertEqual(child.exitcode, 0)

    def test_import_in_a_forked_worker(self):
        text = ("import os, sys\nchild = os.fork()\nif child == 0:\n    import multidispatch as md, numpy as np\n"
                "    os._exit(md.op('Y[i] = X[i] + 1')(np.ones(3, np.float32)).tolist() != [2.0, 2.0, 2.0])\n"
                "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))")
        done = subprocess.run([sys.executable, "-c", text], timeout=120, env=os.environ, check=False)
        self.assertEqual(done.returncode, 0)

    def test_shutdown_with_live_ops(self):
        done = self.run_python("op = md.op('Y[i] = exp(X[i])', async_=True); keep = [op]; keep.append(keep)\n"
                               "op(np.ones(3, np.float32)); md.ops.softmax(np.ones((2, 2), np.float32))")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_trace_is_whole(self):
        """No context is destroyed at the end of Python."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "trace.json")
            self.run_python("op = md.op('Y[b,n] = sum[k](X[b,k]*W[n,k])')\n"
                            "for b in (1, 7): op(np.ones((b, 64), np.float32), np.ones((32, 64), np.float32))",
                            MD_TRACE=str(path))
            kinds = {event["cat"] for event in json.loads(path.read_text(encoding="utf-8"))}
        self.assertLessEqual({"build", "choice"}, kinds)

    def test_missing_compiler(self):
        done = self.run_python("print(md.op('Y[i] = X[i] + 1')(np.ones(3, np.float32)).tolist())", MD_CC="/nonexistent")
        self.assertEqual((done.returncode, done.stdout.strip()), (0, "[2.0, 2.0, 2.0]"))


def load_tests(loader, tests, pattern):
    del loader, pattern
    for module in (md, md.ops):
        tests.addTests(doctest.DocTestSuite(module, optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL))
    return tests


if __name__ == "__main__":
    unittest.main()
