"""The library's host device through ctypes, on NumPy arrays: run(formula, inputs, outputs) makes an op and calls it."""
import ctypes as c
import pathlib
import re

import numpy as np

HEADER = pathlib.Path(__file__).parents[2] / "include" / "md" / "types.h"
RANK = 8


class Tensor(c.Structure):
    _fields_ = [("data", c.c_void_p), ("dtype", c.c_int), ("rank", c.c_int32), ("size", c.c_int64 * RANK), ("stride", c.c_int64 * RANK)]


class Arg(c.Structure):
    _fields_ = [("kind", c.c_int), ("dim", c.c_int32), ("tensor", c.POINTER(Tensor)), ("real", c.c_double), ("integer", c.c_int64)]


def struct_of(name):
    """A struct of md/types.h, read from it."""
    header = HEADER.read_text(encoding="utf-8").replace("[MD_MAX_RANK]", f"[{RANK}]")
    body = re.search(r"typedef struct " + name + r" \{(.*?)\n\} " + name + ";", header, re.S)[1]
    plain = {"int32_t": c.c_int32, "int64_t": c.c_int64, "double": c.c_double, "size_t": c.c_size_t}
    fields = []
    for line in re.sub(r"/\*.*?\*/", "", body, flags=re.S).split(";"):
        if pointer := re.match(r"\s*(?:const )?\w+ \*?\(\*(\w+)\)\(", line):
            fields.append((pointer[1], c.c_void_p))
        elif m := re.match(r"\s*(?:const )?(\w+) (\*?)(\w+)(?:\[(\d+)\])?\s*$", line):
            kind, star, field, n = m.groups()
            one = c.c_char_p if star and kind == "char" else c.c_void_p if star or kind == "md_log_fn" else plain.get(kind, c.c_int)
            fields.append((field, one * int(n) if n else one))
    return type(name, (c.Structure,), {"_fields_": fields})


ContextOptions, OpOptions, ArgInfo = (struct_of(n) for n in ("md_context_options", "md_op_options", "md_arg_info"))


I4, U4 = 16, 17 # md_dtype


class Failed(Exception):
    """The library refused; the message is its own."""


def is_packed(array):
    """Arrays of int4 and uint4 (ml_dtypes) have a byte for each element; the library's tensors have two elements in a byte."""
    return array.dtype.name in ("int4", "uint4")


def pack(array):
    halves = array.astype(np.int8).view(np.uint8).ravel() & 15
    halves = np.append(halves, np.zeros(halves.size % 2, np.uint8))
    return halves[0::2] | halves[1::2] << 4


def unpack(array, packed):
    halves = np.stack([packed & 15, packed >> 4], axis=-1).ravel()[:array.size].astype(np.int8)
    array[...] = (halves - 16 * (halves > 7) if array.dtype.name in ("int4", "int8") else halves).reshape(array.shape).astype(array.dtype)


class Library:
    """One context of the host device. `dtypes` are the names of the arrays' NumPy dtypes in formulas."""

    def __init__(self, path, **options):
        self.lib = lib = c.CDLL(str(path))
        lib.md_last_error.restype = c.c_char_p
        lib.md_dtype_parse.argtypes = [c.c_char_p]
        lib.md_op_n_stages.argtypes = lib.md_op_n_args.argtypes = lib.md_check.argtypes = [c.c_void_p]
        lib.md_op_n_variants.argtypes = [c.c_void_p, c.c_int32]
        lib.md_op_variant.argtypes = [c.c_void_p, c.c_int32, c.c_int32]
        lib.md_op_variant.restype = c.c_char_p
        lib.md_op_arg.argtypes = [c.POINTER(ArgInfo), c.c_void_p, c.c_int32]
        lib.md_call.argtypes = [c.c_void_p, c.c_void_p, c.POINTER(Arg), c.c_int32]
        self.context = c.c_void_p()
        self.check(lib.md_context_create(c.byref(self.context), c.byref(ContextOptions(device=b"host", **options))))

    def close(self):
        self.lib.md_context_destroy(c.byref(self.context))

    def check(self, status):
        if status:
            raise Failed(self.lib.md_last_error().decode(errors="replace"))

    def create(self, formula, **options):
        op = c.c_void_p()
        self.check(self.lib.md_op_create(c.byref(op), self.context, formula.encode(), c.byref(OpOptions(**options))))
        return op

    def destroy(self, op):
        self.lib.md_op_destroy(c.byref(op))

    def arguments(self, op):
        """(name, dtype, is_output) of each argument."""
        out = []
        for i in range(self.lib.md_op_n_args(op)):
            info = ArgInfo()
            self.check(self.lib.md_op_arg(c.byref(info), op, i))
            out.append((info.name.decode(), info.dtype, bool(info.is_output)))
        return out

    def tensor(self, array, dtype):
        t = Tensor(array.ctypes.data, dtype, array.ndim)
        for i, (n, s) in enumerate(zip(array.shape, array.strides)):
            t.size[i], t.stride[i] = n, s // array.itemsize
        return t

    def call(self, op, arrays):
        """arrays: by name; NumPy arrays, and Python numbers for scalars. Outputs are written in place."""
        keep, args, packed = [], [], []
        for name, dtype, _ in self.arguments(op):
            a = arrays[name]
            if isinstance(a, np.ndarray):
                keep.append(self.tensor(a, dtype))
                if is_packed(a) or dtype in (I4, U4):
                    packed.append((a, pack(a)))
                    keep[-1].data = packed[-1][1].ctypes.data
                args.append(Arg(kind=1, tensor=c.pointer(keep[-1])))
            else:
                args.append(Arg(kind=3, integer=a) if isinstance(a, int) else Arg(kind=2, real=a))
        self.check(self.lib.md_call(op, None, (Arg * len(args))(*args), len(args)))
        for a, halves in packed:
            unpack(a, halves)
