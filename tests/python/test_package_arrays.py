#!/usr/bin/env python3
"""Arrays of all kinds: every field that a buffer or a DLPack capsule may leave out, capsules of other versions, arrays
that may not be written, the dtypes of ml_dtypes and JAX where they are installed."""

import array
import ctypes
import mmap
import unittest

import numpy as np

import multidispatch as md

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None
try:
    import jax.numpy as jnp
except ImportError:
    jnp = None

F32 = np.float32
ADD = md.op("Y[i] = X[i] + 1")


class Refused(unittest.TestCase):
    def refused(self, text, function, *args, **options):
        with self.assertRaisesRegex(md.ArgumentError, text):
            function(*args, **options)


class Buffers(Refused):
    def test_without_strides(self):
        """Arrays of ctypes have no strides."""
        x = (ctypes.c_float * 4)(1, 2, 3, 4)
        np.testing.assert_array_equal(ADD(x), [2, 3, 4, 5])
        self.assertIs(ADD(np.zeros(4, F32), out=x), x)
        self.assertEqual(list(x), [1, 1, 1, 1])
        grid = ((ctypes.c_double * 3) * 2)((1, 2, 3), (4, 5, 6))
        np.testing.assert_array_equal(md.op("Y[j,i] = X[i,j]")(grid), np.array(grid).T)
        self.assertEqual(ADD((ctypes.c_float * 0)()).shape, (0,))
        self.assertEqual(float(md.op("Y[] = X[] + 1")(ctypes.c_float(2))), 3)
        self.assertIsNone(md.foreach(ADD, [x], out=[x]))
        self.assertEqual(list(x), [2, 2, 2, 2])

    def test_others(self):
        np.testing.assert_array_equal(ADD(array.array("d", [1, 2])), [2, 3])
        byte = md.op("Y[i] = X:u8[i] + 1")
        np.testing.assert_array_equal(byte(bytearray(b"\1\2")), [2, 3])
        with mmap.mmap(-1, 4096) as memory:
            byte(bytearray(4096), out=memory)
            self.assertEqual(memory[:3], b"\1\1\1")
        np.testing.assert_array_equal(ADD(memoryview(np.arange(8, dtype=F32))[::2]), [1, 3, 5, 7])
        self.refused("'X': its elements, of format '<P'|'X': its elements", ADD, (ctypes.c_void_p * 2)())

    def test_words(self):
        x, frozen = np.ones(4, F32), np.ones(4, F32)
        frozen.flags.writeable = False
        self.refused("'Y': is an output, and this array is read-only", ADD, x, out=frozen)
        self.refused("'Y': is an output, and this array is read-only", ADD, x, out=memoryview(bytes(16)).cast("f"))
        np.testing.assert_array_equal(ADD(frozen), x + 1)
        for dtype, text in ((">f4", "big endian"), (">i8", "big endian"), (complex, "complex"), (object, "objects"),
                            ([("a", "f4")], "structs"), (np.longdouble, "long doubles"), ("U1", "'1w'"), ("M8[s]", "'M'")):
            self.refused("'X': .*" + text, ADD, np.zeros(4, dtype))
        self.refused("'X' has 9 axes", ADD, np.ones((1,) * 9, F32))
        for item in range(2):
            self.refused(f"item {item}: .*big endian", md.foreach, ADD, [x] * item + [np.zeros(4, ">f4")] + [x])


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("offset", ctypes.c_uint64)]


class Managed(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", Tensor)]


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Producer:
    """Gives capsules over an array of four f32, with any field changed."""

    def __init__(self, version=None, name=None, device=(1, 0), flags=0, shape=(4,), strides=(1,), **fields):
        self.array = np.arange(4, dtype=F32)
        self.device = device
        self.sizes = (ctypes.c_int64 * 8)(*shape) if shape is not None else None
        self.steps = (ctypes.c_int64 * 8)(*strides) if strides is not None else None
        tensor = Tensor(self.array.ctypes.data, 1, 0, 1, 2, 32, 1, self.sizes, self.steps, 0)
        for field, value in fields.items():
            setattr(tensor, field, value)
        self.managed = Versioned(*version, None, None, flags, tensor) if version else Managed(tensor, None, None)
        self.name = (name or ("dltensor_versioned" if version else "dltensor")).encode()

    def __dlpack__(self, stream=None, max_version=None):
        return new_capsule(ctypes.addressof(self.managed), self.name, None)

    def __dlpack_device__(self):
        return self.device


class Old(Producer):
    def __dlpack__(self, stream=None):
        return super().__dlpack__(stream)


class Capsules(Refused):
    def test_taken(self):
        for x in (Producer(), Producer((1, 0)), Producer((1, 9)), Producer(strides=None), Old(), Producer((1, 0), flags=1)):
            np.testing.assert_array_equal(ADD(x), [1, 2, 3, 4])
            np.testing.assert_array_equal(ADD(x), [1, 2, 3, 4])  # each call has a capsule of its own
        np.testing.assert_array_equal(ADD(Producer(offset=4, shape=(3,))), [2, 3, 4])
        np.testing.assert_array_equal(ADD(Producer(shape=(2,), strides=(2,))), [1, 3])
        self.assertEqual(float(md.op("Y[] = X[] + 1")(Producer(ndim=0, shape=None, strides=None))), 1)
        for y in (Producer(), Producer((1, 0)), Old()):
            self.assertIs(ADD(np.zeros(4, F32), out=y), y)
            np.testing.assert_array_equal(y.array, [1, 1, 1, 1])

    def test_not_written(self):
        y = Producer((1, 0), flags=1)
        self.refused("'Y': is an output, and this array is read-only", ADD, np.zeros(4, F32), out=y)
        self.refused("'Y': is an output, and __dlpack__ gave a copy", ADD, np.zeros(4, F32), out=Producer((1, 0), flags=2))
        np.testing.assert_array_equal(y.array, [0, 1, 2, 3])

    def test_refused(self):
        for text, x in (("version 2.0", Producer((2, 0))), ("version 0.9", Producer((0, 9))),
                        ("consumed before", Producer(name="used_dltensor")), ("no DLPack capsule", Producer(name="other")),
                        ("consumed before", Producer((1, 0), name="used_dltensor_versioned")),
                        ("no shape", Producer(shape=None)), ("negative size", Producer(shape=(-4,))),
                        ("has 9 axes", Producer(ndim=9)), ("has -1 axes", Producer(ndim=-1)),
                        ("code 7, 32 bits", Producer(code=7)), ("2 lanes", Producer(lanes=2)),
                        ("complex", Producer(code=5, bits=64)), ("negative device", Producer(device_id=-1)),
                        ("pair of numbers", Producer(device=1)), ("pair of numbers", Producer(device=(1, 0, 0)))):
            self.refused("'X'.*" + text, ADD, x)
        with self.assertRaisesRegex(md.Unsupported, "device type 8"):
            ADD(Producer(device_type=8, device=(8, 0)))

        class Broken(Producer):
            def __dlpack__(self, **_):
                raise RuntimeError("my own")

        self.refused("'X': its memory cannot be read: my own", ADD, Broken())

    def test_after_a_buffer(self):
        """An array whose buffer fails is asked for a capsule."""
        class Seconds(np.ndarray):
            def __dlpack__(self, **options):
                return np.asarray(self).view(np.int64).__dlpack__(**options)

        x = np.array([3, 4], "M8[s]").view(Seconds)
        np.testing.assert_array_equal(ADD(x), [4, 5])
        ADD(np.zeros(2, np.int64), out=x)
        np.testing.assert_array_equal(x.view(np.int64), [1, 1])


@unittest.skipUnless(ml_dtypes, "ml_dtypes is not installed")
class Narrow(Refused):
    def test_in_and_out(self):
        for kind in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
            x, y = np.arange(6).astype(kind), np.zeros(6, kind)
            made = ADD(x)
            self.assertEqual(made.dtype, np.dtype(kind))
            np.testing.assert_array_equal(made.astype(F32), [1, 2, 3, 4, 5, 6])
            self.assertIs(ADD(x, out=y), y)
            np.testing.assert_array_equal(y, made)
            np.testing.assert_array_equal(ADD(x[::2]).astype(F32), [1, 3, 5])
            y.flags.writeable = False
            self.refused("'Y': is an output, and this array is read-only", ADD, x, out=y)
        self.refused("'X': its memory cannot be read", ADD, np.zeros(4, ml_dtypes.int4))

    @unittest.skipUnless(jnp, "JAX is not installed")
    def test_jax(self):
        for kind in (jnp.bfloat16, jnp.float8_e4m3fn, jnp.float8_e5m2, jnp.float32):
            made = ADD(jnp.arange(4).astype(kind))
            self.assertEqual(made.dtype, np.dtype(kind))
            np.testing.assert_array_equal(made.astype(F32), [1, 2, 3, 4])
        self.refused("'Y': is an output, and this array is read-only", ADD, np.zeros(4, F32), out=jnp.zeros(4))


class Scalars(unittest.TestCase):
    def test_in_f64(self):
        """What scalars alone make is computed in f64, and rounded once."""
        b, x = 0.9999999, np.ones(5, F32)
        one = F32(1 - b)
        op = md.op("scalar b; Y[i] = (1 - b) * X[i]")
        np.testing.assert_array_equal(op(b, x), np.full(5, one))
        y = np.empty(5, F32)
        op.call(b, y, x)
        np.testing.assert_array_equal(y, np.full(5, one))
        for found in md.foreach(op, [x, x], b=b):
            np.testing.assert_array_equal(found, np.full(5, one))
        md.foreach("scalar b; Y@t[i] = (1 - b) * X@t[i]", X=[x], b=b, out=[y])
        np.testing.assert_array_equal(y, np.full(5, one))
        for formula, right in (("scalar b, n:i64; Y[i] = X[i] * (1 - pow(b, n))", 1 - b**3),
                               ("scalar b, n:i64; Y[i] = X[i] / (1 - 0.1 * b) * f32(n) / 3", 1 / (1 - 0.1 * b)),
                               ("scalar b, n:i64; Y[i] = where(b < 1 and n == 3, X[i], 0)", 1)):
            got = md.op(formula)(b, 3, x)
            np.testing.assert_allclose(got, np.full(5, right), rtol=2.5e-7)
        wide = md.op("scalar b; Y[i] = b * X:f64[i]")
        np.testing.assert_array_equal(wide(0.1, x.astype(float)), np.full(5, 0.1))
        self.assertEqual(md.op(op.formula).formula, op.formula)


if __name__ == "__main__":
    unittest.main()
