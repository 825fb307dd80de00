"""Values of random formulas: NumPy arrays over the indices in scope, with the error that an f32 kernel may have.

A value has a kind: 'bool', 'i64', 'u64' or 'real'. Reals are computed in f64; `error` is a bound on what a kernel of f32 may differ by, 0 where
every step is exact. `bits` is how many bits of a mantissa an exact value needs: tests and roundings take exact values only, so that no rounding
moves a result over an edge."""
import math
from dataclasses import dataclass

import numpy as np

UNIT = 2.0 ** -24
EXACT_BITS = 22
DTYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
          "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "bool": np.bool_}


@dataclass
class Value:
    text: str
    kind: str
    array: np.ndarray
    error: object = 0.0
    bits: int = 0 # of the value in units of 1/8, an upper bound; 99: not exact
    fraction: int = 0 # bits behind the point

    @property
    def is_exact(self):
        return self.kind != "real" or self.bits + self.fraction <= EXACT_BITS


def kind_of(dtype):
    return "bool" if dtype == "bool" else "u64" if dtype == "u64" else "i64" if dtype[0] in "iu" else "real"


def to_int(value, kind="i64"):
    """Integers wrap."""
    return value.astype(np.int64).astype(np.uint64) if kind == "u64" and value.dtype != np.uint64 else \
        value.astype(np.uint64 if kind == "u64" else np.int64)


def truncated(x, dtype):
    """A real as an integer type: toward zero, saturated, 0 of NaN."""
    info = np.iinfo(dtype)
    flat = [0 if math.isnan(v) else info.min if v <= info.min else info.max if v >= info.max else int(v) for v in np.ravel(x)]
    return np.array(flat, dtype=dtype).reshape(np.shape(x))


def as_real(v):
    """The value as a real: exact below 2^22, else rounded to f32."""
    if v.kind == "real":
        return v
    array = v.array.astype(np.float64)
    largest = float(np.max(np.abs(array), initial=0))
    bits = max(1, math.frexp(largest)[1])
    return Value(v.text, "real", array, 0.0 if bits <= EXACT_BITS else UNIT * np.abs(array), bits if bits <= EXACT_BITS else 99)


def common(a, b):
    """Both in their common kind."""
    if "real" in (a.kind, b.kind):
        return as_real(a), as_real(b), "real"
    kind = "u64" if "u64" in (a.kind, b.kind) else "i64"
    return (Value(a.text, kind, to_int(a.array, kind)), Value(b.text, kind, to_int(b.array, kind)), kind)


def measured(text, array, error, exact):
    """A real result: exact with these bits, or with the error and one rounding more."""
    if exact and exact[0] + exact[1] <= EXACT_BITS:
        return Value(text, "real", array, 0.0, *exact)
    return Value(text, "real", array, error + UNIT * np.abs(array), 99)


def perturbed(f, a, b=None):
    """How far the errors of the operands move a result."""
    base, worst = f(a.array) if b is None else f(a.array, b.array), 0.0
    for s in (-1, 1):
        moved = [f(a.array + s * a.error)] if b is None else [f(a.array + s * a.error, b.array + t * b.error) for t in (-1, 1)]
        for m in moved:
            worst = np.maximum(worst, np.where(np.isfinite(base) & np.isfinite(m), np.abs(m - base), np.where(m == base, 0, np.inf)))
    return base, 1.5 * np.nan_to_num(worst, nan=np.inf, posinf=np.inf)


def shift(a, n, left):
    """Of Python's integers, so that counts and signs are what the manual says."""
    def one(x, c):
        x, c = int(x), int(c)
        if left:
            return x << c if 0 <= c < 64 else 0
        return x >> c if 0 <= c < 64 else (-1 if x < 0 else 0)
    wrapped = np.asarray(np.frompyfunc(lambda x, c: one(x, c) & 0xffffffffffffffff, 2, 1)(a, n)).astype(np.uint64)
    return wrapped if a.dtype == np.uint64 else wrapped.astype(np.int64)


def by_integer(f, a, b):
    """0 where b is 0. A bare 0 or 1 beside one u64 would make both f64 in NumPy 1, which lacks bits for it."""
    return np.where(b == 0, np.zeros_like(a), f(a, np.where(b == 0, np.ones_like(b), b)))


def floor_divide(a, b, kind):
    return np.floor_divide(a, b) if kind == "real" else by_integer(np.floor_divide, a, b)


def modulo(a, b, kind):
    return np.mod(a, b) if kind == "real" else by_integer(np.mod, a, b)


def compare(sign, a, b):
    """As numbers, whatever the types."""
    f = {"<": lambda x, y: x < y, "<=": lambda x, y: x <= y, ">": lambda x, y: x > y, ">=": lambda x, y: x >= y, "==": lambda x, y: x == y,
         "!=": lambda x, y: x != y}[sign]
    if a.dtype == b.dtype:
        return f(a, b)
    return np.asarray(np.frompyfunc(lambda x, y: f(int(x), int(y)), 2, 1)(a, b)).astype(np.bool_)


ERF = np.vectorize(math.erf, otypes=[float])
ERFC = np.vectorize(math.erfc, otypes=[float])
# name: function of f64, where operands are taken to first, units in the last place of f32
FUNCTIONS = {
    "exp": (np.exp, "min({}, 3)", 3), "exp2": (np.exp2, "min({}, 4)", 3), "expm1": (np.expm1, "min({}, 2)", 4), "log": (np.log, "abs({}) + 0.5", 3),
    "log1p": (np.log1p, "abs({})", 4), "log2": (np.log2, "abs({}) + 0.5", 4), "sqrt": (np.sqrt, "abs({})", 1),
    "rsqrt": (lambda x: 1 / np.sqrt(x), "abs({}) + 0.25", 4), "cbrt": (np.cbrt, "{} * {} + 0.125", 4), "sin": (np.sin, "{}", 4), "cos": (np.cos, "{}", 4),
    "asin": (np.arcsin, "clamp({}, -0.75, 0.75)", 5), "acos": (np.arccos, "clamp({}, -0.75, 0.75)", 5), "atan": (np.arctan, "{}", 5),
    "sinh": (np.sinh, "clamp({}, -3, 3)", 6), "cosh": (np.cosh, "clamp({}, -3, 3)", 5), "tanh": (np.tanh, "{}", 6), "asinh": (np.arcsinh, "{}", 7),
    "acosh": (np.arccosh, "abs({}) + 1.25", 9), "atanh": (np.arctanh, "clamp({}, -0.75, 0.75)", 7), "erf": (ERF, "{}", 4), "erfc": (ERFC, "min({}, 3)", 9),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), "{}", 9), "silu": (lambda x: x / (1 + np.exp(-x)), "{}", 10),
    "softplus": (lambda x: np.logaddexp(x, 0), "{}", 8), "relu": (lambda x: np.maximum(x, 0), "{}", 0),
}
