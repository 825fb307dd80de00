#!/usr/bin/env python3
"""Writes conformance.txt: formulas, inputs, and the results that NumPy gives. Run it again only when a case is added:

    python3 -m venv v && v/bin/pip install numpy && v/bin/python tests/expr/conformance.py > tests/expr/conformance.txt

One block a case, words separated by blanks:
    case NAME / formula TEXT / sizes TEXT / bounds report|clamp|zero / types DTYPE.. (default dtypes to run it with; all reals)
    scalar NAME VALUE
    in NAME DTYPE SHAPE VALUES..     DTYPE * is the default dtype; SHAPE 2,3 or - for rank 0
    out NAME DTYPE SHAPE VALUES..    expected, before rounding to the dtype
    init NAME VALUES..               what the output holds before
    fault TENSOR AXIS VALUE          the index outside that is reported
    fails TEXT                       the call fails with this in its message
    end
Inputs are exact in every real dtype, so that one case serves all of them."""
import math
import pathlib
import re
import sys
import numpy as np

np.seterr(all="ignore")
inf, nan = math.inf, math.nan
CASES = []


def f(values, shape=None):
    a = np.array(values, dtype=np.float64)
    return a if shape is None else a.reshape(shape)


def i(values, shape=None, dtype="i64"):
    a = np.array(values, dtype={"i64": np.int64, "i32": np.int32, "u8": np.uint8, "bool": np.bool_}[dtype])
    return a if shape is None else a.reshape(shape)


def kind(a):
    return {"f": "*", "i": "i64", "u": "u8", "b": "bool"}[a.dtype.kind] if a.dtype != np.int32 else "i32"


def text(a):
    def one(v):
        if a.dtype.kind == "f":
            return repr(float(v)).replace("nan", "nan")
        return str(int(v))
    return " ".join(one(v) for v in a.ravel())


def shape(a):
    return ",".join(str(s) for s in a.shape) if a.ndim else "-"


def case(name, formula, ins, outs, sizes=None, bounds=None, types=None, scalars=(), init=None, fault=None, fails=None,
         kinds=None):
    kinds = kinds or {}
    lines = [f"case {name}", f"formula {formula}"]
    if sizes:
        lines.append(f"sizes {sizes}")
    if bounds:
        lines.append(f"bounds {bounds}")
    if types:
        lines.append(f"types {types}")
    for n, v in dict(scalars).items():
        lines.append(f"scalar {n} {v!r}")
    for n, a in ins.items():
        a = np.asarray(a)
        lines.append(f"in {n} {kinds.get(n, kind(a))} {shape(a)} {text(a)}".rstrip())
    for n, a in outs.items():
        a = np.asarray(a)
        lines.append(f"out {n} {kinds.get(n, kind(a))} {shape(a)} {text(a)}".rstrip())
    for n, a in (init or {}).items():
        lines.append(f"init {n} {text(np.asarray(a))}".rstrip())
    if fault:
        lines.append(f"fault {fault}")
    if fails:
        lines.append(f"fails {fails}")
    CASES.append("\n".join(lines) + "\nend\n")


def vec(fn):
    return np.vectorize(fn, otypes=[np.float64])


# ---- every elementwise operation on reals --------------------------------------------------------------------------

V = f([-inf, -4, -2.5, -1.5, -1, -0.5, -0.25, -0.0, 0.0, 0.25, 0.5, 1, 1.5, 2.5, 3.5, 4, inf, nan])
erf = vec(math.erf)
sigmoid = lambda x: 1 / (1 + np.exp(-x))
# What NumPy has no function for, or one of another name. All others of the table are NumPy's of the same name.
OTHERS = {
    "round": np.rint, "rsqrt": lambda x: 1 / np.sqrt(x), "erf": erf, "erfc": vec(math.erfc), "sigmoid": sigmoid,
    "silu": lambda x: x * sigmoid(x), "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: x * sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)),
    "softplus": lambda x: np.logaddexp(x, 0),
}


def functions(n_operands):
    """Names of the functions in the table of operations that give a number."""
    table = (pathlib.Path(__file__).parents[2] / "src" / "expr" / "ops.def").read_text(encoding="utf-8")
    for row in re.finditer(r'^(NUMBER|SAME|REAL)\(\w+, (\w+), (\d), (.*)\)', table, re.M):
        if int(row[3]) == n_operands and "TEXT(" not in row[4] and "OPERATOR(" not in row[4]:
            yield row[2]


for name in functions(1):
    case(f"unary_{name}", f"Y[i] = {name}(X[i])", {"X": V}, {"Y": (OTHERS.get(name) or getattr(np, name))(V)})
case("unary_neg", "Y[i] = -X[i]", {"X": V}, {"Y": -V})
case("unary_not", "Y[i] = not X[i]", {"X": V}, {"Y": ~(V != 0)})
case("unary_isnan", "Y[i] = isnan(X[i])", {"X": V}, {"Y": np.isnan(V)})
case("unary_isinf", "Y[i] = isinf(X[i])", {"X": V}, {"Y": np.isinf(V)})

G = f([-inf, -3, -1.5, -0.0, 0.0, 0.5, 2, inf, nan])
A, B = (g.ravel() for g in np.meshgrid(G, G))


def np_clip(x, lo, hi):
    return np.minimum(np.maximum(x, lo), hi)


BINARY = {
    "A[i] + B[i]": A + B, "A[i] - B[i]": A - B, "A[i] * B[i]": A * B, "A[i] / B[i]": A / B,
    "A[i] // B[i]": np.floor_divide(A, B), "A[i] % B[i]": np.mod(A, B), "A[i] < B[i]": A < B, "A[i] <= B[i]": A <= B,
    "A[i] > B[i]": A > B, "A[i] >= B[i]": A >= B, "A[i] == B[i]": A == B, "A[i] != B[i]": A != B,
    "A[i] and B[i]": (A != 0) & (B != 0), "A[i] or B[i]": (A != 0) | (B != 0),
}
OTHERS |= {"min": np.minimum, "max": np.maximum}
BINARY |= {f"{name}(A[i], B[i])": (OTHERS.get(name) or getattr(np, name))(A, B) for name in functions(2)}
for n, (expression, want) in enumerate(BINARY.items()):
    case(f"binary_{n}", f"Y[i] = {expression}", {"A": A, "B": B}, {"Y": want})
C = np.roll(B, 7)
case("ternary_clamp", "Y[i] = clamp(A[i], B[i], C[i])", {"A": A, "B": B, "C": C}, {"Y": np_clip(A, B, C)})
case("ternary_fma", "Y[i] = fma(A[i], B[i], C[i])", {"A": A, "B": B, "C": C}, {"Y": A * B + C})
case("ternary_where", "Y[i] = where(A[i] > B[i], A[i], C[i])", {"A": A, "B": B, "C": C}, {"Y": np.where(A > B, A, C)})
case("where_real_condition", "Y[i] = where(A[i], B[i], C[i])", {"A": A, "B": B, "C": C}, {"Y": np.where(A != 0, B, C)})

# ---- integers and truth values -------------------------------------------------------------------------------------

IA = i([-9, -7, -3, -1, 0, 1, 2, 5, 8, 2 ** 62, -2 ** 63, 2 ** 63 - 1])
IB = i([2, -2, 3, -1, 0, 0, -5, 3, 8, 4, -1, 2])
wrap = lambda xs: i([(int(x) + 2 ** 63) % 2 ** 64 - 2 ** 63 for x in xs])
pyint = [(int(a), int(b)) for a, b in zip(IA, IB)]
INT = {
    "A[i] + B[i]": wrap(a + b for a, b in pyint), "A[i] - B[i]": wrap(a - b for a, b in pyint),
    "A[i] * B[i]": wrap(a * b for a, b in pyint), "-A[i]": wrap(-a for a, b in pyint),
    "A[i] // B[i]": wrap(a // b if b else 0 for a, b in pyint), "A[i] % B[i]": wrap(a % b if b else 0 for a, b in pyint),
    "min(A[i], B[i])": np.minimum(IA, IB), "max(A[i], B[i])": np.maximum(IA, IB), "abs(A[i])": wrap(abs(a) for a, b in pyint),
    "sign(A[i])": np.sign(IA), "relu(B[i])": np.maximum(IB, 0), "A[i] < B[i]": IA < IB, "A[i] >= B[i]": IA >= IB,
    "A[i] == B[i]": IA == IB, "A[i] != B[i]": IA != IB, "A[i] <= B[i]": IA <= IB, "A[i] > B[i]": IA > IB,
    "A[i] and B[i]": (IA != 0) & (IB != 0), "A[i] or B[i]": (IA != 0) | (IB != 0), "not B[i]": IB == 0,
    "clamp(A[i], -3, 5)": np_clip(IA, -3, 5), "fma(B[i], B[i], 1)": IB * IB + 1, "where(A[i] > B[i], A[i], B[i])": np.maximum(IA, IB),
    "floor(B[i])": IB, "ceil(B[i])": IB, "round(B[i])": IB, "trunc(B[i])": IB, "isnan(B[i])": IB != IB, "isinf(B[i])": IB != IB,
    "pow(B[i], 3)": IB ** 3, "A[i] / B[i]": None, "sqrt(B[i])": None,
}
for n, (expression, want) in enumerate(INT.items()):
    names = [t for t in ("A", "B") if t + "[" in expression]
    ins = {"A": IA, "B": IB}
    declared = expression
    for t in names:
        declared = declared.replace(t + "[i]", t + ":i64[i]", 1)
    if want is None:  # real results
        want = {"A[i] / B[i]": IA.astype(float) / IB.astype(float), "sqrt(B[i])": np.sqrt(IB.astype(float))}[expression]
        case(f"int_{n}", f"Y[i] = {declared}", {t: ins[t] for t in names}, {"Y": want}, types="f32")
    else:
        case(f"int_{n}", f"Y[i] = {declared}", {t: ins[t] for t in names}, {"Y": want}, types="f32")
SHIFTS = i([0, 1, 63, 64, -1, 5, 62, 2, 63, 1, 200, 63])
BITS = {
    "A[i] & B[i]": IA & IB, "A[i] | B[i]": IA | IB, "A[i] ^ B[i]": IA ^ IB, "~A[i]": ~IA,
    "A[i] & 6 | B[i] ^ 5": (IA & 6) | (IB ^ 5), "~A[i] + 1 << 2 & 12": ((~IA + 1) << 2) & 12, "A[i] & 1 == 0": ((IA & 1) == 0) * 1,
    "A[i] << S[i]": np.array([np.left_shift(a, s) if 0 <= s < 64 else 0 for a, s in zip(IA, SHIFTS)]),
    "A[i] >> S[i]": np.array([np.right_shift(a, s) if 0 <= s < 64 else -int(a < 0) for a, s in zip(IA, SHIFTS)]),
    "A[i] >> 3": IA >> 3, "A[i] << 62": IA << 62,
}
for n, (expression, want) in enumerate(BITS.items()):
    ins = {t: a for t, a in {"A": IA, "B": IB, "S": SHIFTS}.items() if t + "[" in expression}
    declared = expression
    for t in ins:
        declared = declared.replace(t + "[i]", t + ":i64[i]", 1)
    case(f"bits_{n}", f"Y:i64[i] = {declared}", ins, {"Y": want}, types="f32")
case("bits_of_truth", "Y[i] = (A[i] > 0) & ~(B[i] > 0) | (A[i] > 0) ^ true; Z[i] = (A[i] > 0) << 2",
     {"A": f([0, 0, 1, 1]), "B": f([0, 1, 0, 1])}, {"Y": i([1, 1, 1, 0], dtype="bool"), "Z": i([0, 0, 4, 4])})
case("bits_u8", "Y:u8[i] = ~X:u8[i] << 1; Z[i] = X[i] >> 9", {"X": i([0, 1, 200, 255], dtype="u8")},
     {"Y": i([254, 252, 110, 0], dtype="u8"), "Z": i([0, 0, 0, 0])}, types="f32")
case("bits_shared_shift", "scalar n:i64; Y[i] = A:i64[i] << n; Z[i] = n >> A[i]; W[i] = ~n ^ n & A[i]",
     {"A": i([0, 1, 5, -7, 64])}, {"Y": i([0, 8, 40, -56, 512]), "Z": i([3, 1, 0, 0, 0]), "W": i([-4, -3, -3, -3, -4])},
     types="f32", scalars={"n": 3})
case("int_pow_negative", "Y[i] = pow(A:i64[i], B:i64[i])", {"A": i([1, -1, -1, 2, 0, 3]), "B": i([-5, -3, -2, -1, 0, 4])},
     {"Y": i([1, -1, 1, 0, 1, 81])}, types="f32")


def philox(key, low, high):
    """The first 64 of 128 bits of Philox4x32-10, whose known answers are those of Random123 (kat_vectors)."""
    words = lambda x: [int(x) >> s & 0xffffffff for s in (0, 32)]
    (k0, k1), c = words(key), words(low) + words(high)
    for _ in range(10):
        a, b = c[0] * 0xd2511f53, c[2] * 0xcd9e8d57
        c = [b >> 32 ^ c[1] ^ k0, b & 0xffffffff, a >> 32 ^ c[3] ^ k1, a & 0xffffffff]
        k0, k1 = k0 + 0x9e3779b9 & 0xffffffff, k1 + 0xbb67ae85 & 0xffffffff
    return wrap([c[1] << 32 | c[0]])[0]


KEYS, LOW, HIGH = (wrap(xs) for xs in ((0, 2 ** 64 - 1, 0x299f31d0a4093822), (0, 2 ** 64 - 1, 0x85a308d3243f6a88),
                                       (0, 2 ** 64 - 1, 0x0370734413198a2e)))
KNOWN = wrap([0xe169c58d6627e8d5, 0x41c83b0e408f276d, 0x94fdccebd16cfe09])
assert [philox(*x) for x in zip(KEYS, LOW, HIGH)] == list(KNOWN)
case("philox_known", "Y[i] = philox(K:i64[i], A:i64[i], B:i64[i])", {"K": KEYS, "A": LOW, "B": HIGH}, {"Y": KNOWN}, types="f32")
case("philox_others", "Y[i] = philox(A:i64[i], B:i64[i], 7)", {"A": IA, "B": IB},
     {"Y": wrap(philox(a, b, 7) for a, b in pyint)}, types="f32")
uniform = lambda bits: (int(bits) >> 40 & 0xffffff) * 2.0 ** -24
P = range(19)
case("rand", "scalar s:i64; Y[i] = rand(s, i); Z[i] = rand(s, i, 0); W[i] = rand(s, 3, i, 5)",
     {}, {"Y": f([uniform(philox(-5, p, 0)) for p in P]), "Z": f([uniform(philox(-5, p, 0)) for p in P]),
          "W": f([uniform(philox(philox(-5, 3, p), 5, 0)) for p in P])}, types="f32", scalars={"s": -5}, sizes="i=19")
case("rand_of_truth", "Y[i] = rand(X[i] > 1, X[i] > 0); Z[i] = philox(X[i] > 1, X[i] > 0, false)", {"X": f([0, 1, 2])},
     {"Y": f([uniform(philox(*x, 0)) for x in ((0, 0), (0, 1), (1, 1))]),
      "Z": i([philox(*x, 0) for x in ((0, 0), (0, 1), (1, 1))])}, types="f32")
SMALL = i([-128, -3, 0, 1, 7, 100], dtype="i32")
case("int32_arithmetic", "Y[i] = X:i32[i] * X[i] + 1", {"X": SMALL}, {"Y": SMALL.astype(np.int64) ** 2 + 1}, types="f32")
case("int32_copy", "Y[i] = X:i32[i]", {"X": SMALL}, {"Y": SMALL}, types="f32")
case("uint8_arithmetic", "Y[i] = X:u8[i] - 200", {"X": i([0, 1, 200, 255], dtype="u8")}, {"Y": i([-200, -199, 0, 55])}, types="f32")
case("bool_arithmetic", "Y[i] = X:bool[i] + X[i]", {"X": i([0, 1, 1], dtype="bool")}, {"Y": i([0, 2, 2])}, types="f32")
case("bool_store", "Y:bool[i] = X[i]", {"X": f([0, -0.0, 2, nan])}, {"Y": i([0, 0, 1, 1], dtype="bool")})
case("bool_min_max", "Y[i] = max(A:bool[i], B:bool[i]); Z[i] = min(A[i], B[i])",
     {"A": i([0, 0, 1, 1], dtype="bool"), "B": i([0, 1, 0, 1], dtype="bool")},
     {"Y": i([0, 1, 1, 1], dtype="bool"), "Z": i([0, 0, 0, 1], dtype="bool")}, types="f32")
case("mixed_int_real", "Y[i] = N:i32[i] * X[i] + 2", {"N": i([3, -2, 0], dtype="i32"), "X": f([0.5, 1.5, 4])}, {"Y": f([3.5, -1, 2])})
case("int_division_is_real", "Y[i] = N:i64[i] / 4", {"N": i([1, -6, 8])}, {"Y": f([0.25, -1.5, 2])})
case("truth_values", "Y[i] = where(X[i] > 0 and not (X[i] > 2) or X[i] == -1, true, false)", {"X": f([-1, 0, 1, 2, 3])},
     {"Y": i([1, 0, 1, 1, 0], dtype="bool")})

# ---- casts, stores, constants --------------------------------------------------------------------------------------

W = f([-3.5, -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5])
case("cast_i64", "Y[i] = i64(X[i])", {"X": W}, {"Y": np.trunc(W).astype(np.int64)})
case("cast_i32_saturates", "Y[i] = i32(X[i] * 1e10)", {"X": f([-3, 0, 3, nan, inf, -inf])},
     {"Y": i([-2 ** 31, 0, 2 ** 31 - 1, 0, 2 ** 31 - 1, -2 ** 31])})
case("cast_u8", "Y[i] = u8(X[i])", {"X": f([-1, 0, 1.5, 255, 300, nan])}, {"Y": i([0, 0, 1, 255, 255, 0])})
case("cast_bool", "Y[i] = bool(X[i])", {"X": f([0, 0.5, nan])}, {"Y": i([0, 1, 1], dtype="bool")})
case("cast_real", "Y[i] = f32(N:i64[i]) / 8", {"N": i([1, 2, -4])}, {"Y": f([0.125, 0.25, -0.5])})
case("cast_bf16", "Y:f32[i] = bf16(X:f32[i])", {"X": f([1.00390625, 1.01171875, 1.0, 3.140625, -1.00390625])},
     {"Y": f([1.0, 1.015625, 1.0, 3.140625, -1.0])}, types="f32", kinds={"X": "f32", "Y": "f32"})
case("cast_f16", "Y:f32[i] = f16(X:f32[i])", {"X": f([2049, 2051, 65519, 65520, 2.0 ** -25, 6e-8])},
     {"Y": np.array([2049, 2051, 65519, 65520, 2.0 ** -25, 6e-8], dtype=np.float16).astype(float)}, types="f32",
     kinds={"X": "f32", "Y": "f32"})
case("let_typed_rounds", "let t:bf16[i] = X:f32[i]; Y:f32[i] = t[i] - X[i]", {"X": f([1.00390625, 1.01171875, 2.0])},
     {"Y": f([-0.00390625, 0.00390625, 0])}, types="f32", kinds={"X": "f32", "Y": "f32"})
case("let_untyped_keeps", "let t[i] = X:f16[i] + 0.0009765625; Y:f32[i] = t[i] - X[i]", {"X": f([1024, 2, 1])},
     {"Y": f([0.0009765625] * 3)}, types="f32", kinds={"X": "f16", "Y": "f32"})
case("output_read_back", "Y:bf16[i] = X:f32[i]; Z:f32[i] = Y[i] - X[i]", {"X": f([1.00390625, 2.0])},
     {"Y": f([1.0, 2.0]), "Z": f([-0.00390625, 0])}, types="f32", kinds={"X": "f32", "Y": "bf16", "Z": "f32"})
case("constants", "Y[i] = where(i == 0, inf, where(i == 1, -inf, where(i == 2, nan, pi)))", {}, {"Y": f([inf, -inf, nan, math.pi])},
     sizes="i=4")
case("literals", "Y[i] = X[i] * 2 + 0.5 - 1e-1 + 3 / 4", {"X": f([1, 2])}, {"Y": f([1, 2]) * 2 + 0.5 - 0.1 + 0.75})
case("scalars", "scalar a, b:i64; Y[i] = a * X[i] + b", {"X": f([1, 2])}, {"Y": f([4.5, 6])}, scalars={"a": 1.5, "b": 3})
case("scalar_f64", "scalar a:f64; Y:f64[i] = a * X[i]", {"X": f([1, 2])}, {"Y": f([0.1, 0.2])}, scalars={"a": 0.1}, types="f32",
     kinds={"Y": "f64"})
case("rank_0", "L[] = X[] * 2", {"X": f(3.5)}, {"L": f(7.0)})
case("index_value", "Y[i,j] = i * 10 + j", {}, {"Y": (np.arange(2)[:, None] * 10 + np.arange(3)).astype(np.int64)}, sizes="i=2, j=3",
     types="f32")
case("size_value", "Y[i] = X[i] / size(i)", {"X": f([2, 4, 6, 8])}, {"Y": f([0.5, 1, 1.5, 2])})
case("precedence", "Y[i] = A[i] + B[i] * C[i] - A[i] / B[i] // 1", {"A": f([3, 5]), "B": f([2, 4]), "C": f([1, 0.5])},
     {"Y": f([3 + 2 - 1, 5 + 2 - 1])})
case("comments_and_spaces", "let  t[i]=X[i] ;  Y[i] = t[i]*t[i] ;", {"X": f([1, -3])}, {"Y": f([1, 9])})

# ---- broadcasting, transposes, views ------------------------------------------------------------------------------

X23, R3, C2 = f(range(6), (2, 3)), f([10, 20, 30]), f([0.5, 2])
case("broadcast", "Y[i,j] = X[i,j] * C[i] + R[j]", {"X": X23, "C": C2, "R": R3}, {"Y": X23 * C2[:, None] + R3})
case("transpose", "Y[j,i] = X[i,j]", {"X": X23}, {"Y": X23.T})
case("outer", "Y[i,j] = A[i] * B[j]", {"A": C2, "B": R3}, {"Y": np.outer(C2, R3)})
case("diagonal", "Y[i] = X[i,i]", {"X": f(range(9), (3, 3))}, {"Y": f([0, 4, 8])})
case("rank_5", "Y[e,d,c,b,a] = X[a,b,c,d,e]", {"X": f(range(48), (2, 3, 2, 2, 2))}, {"Y": f(range(48), (2, 3, 2, 2, 2)).transpose()})
case("size_1", "Y[i,j] = X[i,j] + R[j]", {"X": f([[1.5]]), "R": f([2])}, {"Y": f([[3.5]])})
case("empty", "Y[i,j] = X[i,j] + R[j]", {"X": f([], (0, 3)), "R": R3}, {"Y": f([], (0, 3))})

# ---- reductions ----------------------------------------------------------------------------------------------------

M = f([1, -2, 3.5, 0.5, 4, -1, 2, 2, 0.25, -8, 1, 0], (3, 4))
N = M.copy()
N[0, 2], N[1, 1], N[2, 0], N[2, 3] = nan, inf, -inf, inf
RED = {
    "sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "mean": np.mean, "var": np.var,
    "argmax": np.argmax, "argmin": np.argmin,
}
for name, fn in RED.items():
    for tag, a in (("", M), ("_special", N)):
        case(f"reduce_{name}{tag}", f"Y[i] = {name}[k](X[i,k])", {"X": a}, {"Y": fn(a, axis=1)})
        case(f"reduce_{name}{tag}_columns", f"Y[i] = {name}[k](X[k,i])", {"X": a}, {"Y": fn(a, axis=0)})
    if not name.startswith("arg"):
        case(f"reduce_{name}_both", f"Y[] = {name}[i,k](X[i,k])", {"X": M}, {"Y": f(fn(M))})
T = f([0, 0, 0, 1, 0, 0, 2, nan, -3], (3, 3))
case("reduce_any", "Y[i] = any[k](X[i,k])", {"X": T}, {"Y": np.any(T, axis=1)})
case("reduce_all", "Y[i] = all[k](X[i,k])", {"X": T}, {"Y": np.all(T != 0, axis=1)})
case("reduce_var_unbiased", "Y[i] = var[k](X[i,k], unbiased)", {"X": M}, {"Y": np.var(M, axis=1, ddof=1)})
case("reduce_var_one", "Y[i] = var[k](X[i,k]); Z[i] = var[k](X[i,k], unbiased)", {"X": f([[3], [4]])}, {"Y": f([0, 0]), "Z": f([nan, nan])})
case("reduce_ties", "Y[i] = argmax[k](X[i,k]); Z[i] = argmin[k](X[i,k])", {"X": f([1, 2, 2, 1, 3, 3, 3, 3, nan, 5, nan, 5], (3, 4))},
     {"Y": i([1, 0, 0]), "Z": i([0, 0, 0])})
case("reduce_nothing", "S[i] = sum[k](X[i,k]); P[i] = prod[k](X[i,k]); A[i] = any[k](X[i,k]); B[i] = all[k](X[i,k]); M[i] = mean[k](X[i,k])",
     {"X": f([], (2, 0))}, {"S": f([0, 0]), "P": f([1, 1]), "A": i([0, 0], dtype="bool"), "B": i([1, 1], dtype="bool"), "M": f([nan, nan])})
for op in ("max", "min", "argmax", "argmin"):
    case(f"reduce_{op}_of_nothing", f"Y[i] = {op}[k](X[i,k])", {"X": f([], (2, 0))}, {"Y": i([0, 0]) if "arg" in op else f([0, 0])},
         fails=f"the {op} of nothing has no value")
case("reduce_no_rows", "Y[i] = sum[k](X[i,k])", {"X": f([], (0, 4))}, {"Y": f([])})
case("reduce_one", "Y[i] = sum[k](X[i,k])", {"X": f([[2.5]])}, {"Y": f([2.5])})
IM = i([5, -2, 7, 0, 3, 3], (2, 3))
case("reduce_ints", "S[i] = sum[k](N:i64[i,k]); P[i] = prod[k](N[i,k]); A[i] = max[k](N[i,k]); B[i] = min[k](N[i,k]); V[i] = mean[k](N[i,k])",
     {"N": IM}, {"S": IM.sum(1), "P": IM.prod(1), "A": IM.max(1), "B": IM.min(1), "V": IM.mean(1)})
case("reduce_argmax_ints", "Y[i] = argmax[k](N:i32[i,k]); Z[i] = argmin[k](N[i,k])", {"N": IM.astype(np.int32)}, {"Y": IM.argmax(1), "Z": IM.argmin(1)}, types="f32")
case("reduce_count", "Y[i] = sum[k](X[i,k] > 1)", {"X": M}, {"Y": (M > 1).sum(1)})
case("reduce_large_mean", "Y[i] = var[k](X[i,k])", {"X": f([4096, 4097, 4098, 4099], (1, 4))}, {"Y": f([1.25])}, types="f32 f64")
case("reduce_bound_reused", "Y[i] = sum[k](X[i,k]) + max[k](X[i,k]) * min[k](X[i,k])", {"X": M}, {"Y": M.sum(1) + M.max(1) * M.min(1)})
case("reduce_nested", "Y[i] = sum[k](X[i,k] * max[l](W[k,l]))", {"X": M, "W": f(range(8), (4, 2))}, {"Y": M @ f([1, 3, 5, 7])})
case("reduce_shadow", "Y[i] = sum[i](X[i]) - X[i]", {"X": f([1, 2, 4])}, {"Y": f([6, 5, 3])})

S = f([1, 2, 3, 0.5, -1, 0, 4, 4, 4], (3, 3))
E = np.exp(S - S.max(1, keepdims=True))
case("softmax", "Y[i,j] = exp(X[i,j] - max[k](X[i,k])) / sum[k](exp(X[i,k] - max[l](X[i,l])))", {"X": S}, {"Y": E / E.sum(1, keepdims=True)})
case("softmax_let", "let m[i] = max[k](X[i,k]); let e[i,j] = exp(X[i,j] - m[i]); Y[i,j] = e[i,j] / sum[k](e[i,k])", {"X": S},
     {"Y": E / E.sum(1, keepdims=True)})
case("softmax_masked_row", "Y[i,j] = exp(X[i,j] - max[k](X[i,k])) / sum[k](exp(X[i,k] - max[l](X[i,l])))",
     {"X": f([-inf, -inf, -inf, 0.0], (2, 2))}, {"Y": f([nan, nan, 0, 1], (2, 2))})
LN = (M - M.mean(1, keepdims=True)) / np.sqrt(M.var(1, keepdims=True) + 0.125)
case("layer_norm", "Y[i,j] = (X[i,j] - mean[k](X[i,k])) * rsqrt(var[k](X[i,k]) + 0.125) * G[j] + B[j]",
     {"X": M, "G": f([1, 2, 0.5, -1]), "B": f([0, 1, 2, 3])}, {"Y": LN * f([1, 2, 0.5, -1]) + f([0, 1, 2, 3])})
case("logsumexp", "Y[i] = max[k](X[i,k]) + log(sum[k](exp(X[i,k] - max[l](X[i,l]))))", {"X": S}, {"Y": np.log(np.exp(S).sum(1))})

# ---- products ------------------------------------------------------------------------------------------------------

P, Q = f(range(6), (2, 3)) / 2, f(range(12), (3, 4)) / 4 - 1
case("product", "Y[m,n] = sum[k](A[m,k] * B[k,n])", {"A": P, "B": Q}, {"Y": P @ Q})
case("product_transposed", "Y[m,n] = sum[k](A[m,k] * B[n,k])", {"A": P, "B": Q.T.copy()}, {"Y": P @ Q})
case("product_epilogue", "Y[m,n] = relu(sum[k](A[m,k] * B[k,n]) + c[n])", {"A": P, "B": Q, "c": f([-1, 0, 0.5, -4])},
     {"Y": np.maximum(P @ Q + f([-1, 0, 0.5, -4]), 0)})
case("product_nothing", "Y[m,n] = sum[k](A[m,k] * B[k,n])", {"A": f([], (2, 0)), "B": f([], (0, 3))}, {"Y": np.zeros((2, 3))})
case("product_batched", "Y[b,m,n] = sum[k](A[b,m,k] * B[b,k,n])", {"A": np.stack([P, -P]), "B": np.stack([Q, Q + 1])},
     {"Y": np.stack([P @ Q, -P @ (Q + 1)])})
case("product_chain", "let h[m,n] = relu(sum[k](A[m,k] * B[k,n])); Y[m] = sum[n](h[m,n] * v[n])", {"A": P, "B": Q, "v": f([1, -1, 2, 0.5])},
     {"Y": np.maximum(P @ Q, 0) @ f([1, -1, 2, 0.5])})
case("dot", "Y[] = sum[k](A[k] * B[k])", {"A": f([1, 2, 3]), "B": f([0.5, -1, 4])}, {"Y": f(10.5)})
case("quantized", "Y[m,n] = sum[k](A[m,k] * f32(B:u8[n,k])) * s[n]", {"A": P, "B": i([1, 2, 3, 4, 250, 6], (2, 3), "u8"), "s": f([0.5, 0.25])},
     {"Y": P @ f([1, 2, 3, 4, 250, 6], (2, 3)).T * f([0.5, 0.25])})

# ---- scans ---------------------------------------------------------------------------------------------------------

def scan(fn, a, start, exclusive=False, reverse=False):
    b = a[:, ::-1] if reverse else a
    r = fn.accumulate(b, axis=1)
    if exclusive:
        r = np.concatenate([np.full((a.shape[0], 1), start, dtype=r.dtype), r[:, :-1]], axis=1)
    return r[:, ::-1] if reverse else r


SCANS = {"cumsum": (np.add, 0), "cumprod": (np.multiply, 1), "cummax": (np.maximum, -inf), "cummin": (np.minimum, inf)}
for name, (fn, start) in SCANS.items():
    for options in ("", ", exclusive", ", reverse", ", exclusive, reverse"):
        tag = options.replace(", ", "_")
        case(f"scan_{name}{tag}", f"Y[i,j] = {name}[j](X[i,j]{options})", {"X": M},
             {"Y": scan(fn, M, start, "exclusive" in options, "reverse" in options)})
    case(f"scan_{name}_special", f"Y[i,j] = {name}[j](X[i,j])", {"X": N}, {"Y": scan(fn, N, start)})
    case(f"scan_{name}_columns", f"Y[i,j] = {name}[i](X[i,j])", {"X": M}, {"Y": scan(fn, M.T.copy(), start).T})
case("scan_ints", "Y[i,j] = cumsum[j](N:i64[i,j]); Z[i,j] = cummax[j](N[i,j])", {"N": IM}, {"Y": IM.cumsum(1), "Z": np.maximum.accumulate(IM, 1)}, types="f32")
case("scan_empty", "Y[i,j] = cumsum[j](X[i,j])", {"X": f([], (2, 0))}, {"Y": f([], (2, 0))})
case("scan_one", "Y[i,j] = cumsum[j](X[i,j])", {"X": f([[2.5]])}, {"Y": f([[2.5]])})
case("scan_epilogue", "Y[i,j] = cumsum[j](X[i,j] * X[i,j]) / (j + 1)", {"X": M}, {"Y": np.cumsum(M * M, 1) / np.arange(1, 5)})
case("scan_of_reduction", "Y[i] = cumsum[i](sum[k](X[i,k]))", {"X": M}, {"Y": np.cumsum(M.sum(1))})
case("scan_body_ignores_index", "Y[i,j] = cumsum[j](C[i]) + 0 * X[i,j]", {"C": C2, "X": X23}, {"Y": np.outer(C2, [1, 2, 3])})

# ---- subscripts that are not plain ---------------------------------------------------------------------------------

L8 = f([1, -2, 3, 0.5, 4, -1, 2, 8])
case("shift", "Y[i] = X[i+1] - X[i]", {"X": L8}, {"Y": np.diff(L8)}, sizes="i=7")
case("window", "Y[i] = sum[r](X[i+r] * W[r])", {"X": L8, "W": f([1, 0.5, -1])}, {"Y": np.convolve(L8, [-1, 0.5, 1], "valid")}, sizes="i=6")
case("stride", "Y[i] = X[2*i] + X[2*i+1]", {"X": L8}, {"Y": L8[::2] + L8[1::2]}, sizes="i=4")
case("longer_than_needed", "Y[i] = X[i+1]", {"X": L8}, {"Y": L8[1:4]}, sizes="i=3")
case("too_short", "Y[i] = X[i+1]", {"X": L8}, {"Y": np.zeros(8)}, sizes="i=8", fails="reaches 8")
case("floor_div", "Y[i] = X[i//2] * 10 + i % 2", {"X": L8}, {"Y": np.repeat(L8[:3], 2) * 10 + np.arange(6) % 2}, sizes="i=6")
case("flip", "Y[i] = X[size(i) - 1 - i]", {"X": L8}, {"Y": L8[::-1]}, sizes="i=8")
case("guarded", "Y[i] = where(i > 0, X[i-1], 0) + where(i < size(i) - 1, X[i+1], 0)", {"X": L8},
     {"Y": np.concatenate([[0], L8[:-1]]) + np.concatenate([L8[1:], [0]])}, sizes="i=8")
case("where_is_lazy", "Y[i] = where(i < 3, X[i+1], -1)", {"X": f([5, 6, 7, 8])}, {"Y": f([6, 7, 8, -1, -1])}, sizes="i=5")
case("causal", "Y[i] = sum[k](where(k <= i, X[i,k], 0))", {"X": f(range(9), (3, 3))}, {"Y": f([0, 7, 21])})
case("convolution_2d", "Y[h,w] = sum[r,s](X[h+r,w+s] * K[r,s])", {"X": f(range(16), (4, 4)), "K": f([1, -1, 2, 0.5], (2, 2))},
     {"Y": sum(k * f(range(16), (4, 4))[r:r + 3, s:s + 3] for (r, s), k in np.ndenumerate(f([1, -1, 2, 0.5], (2, 2))))}, sizes="h=3, w=3")

# ---- gathers -------------------------------------------------------------------------------------------------------

TAB = f(range(10), (5, 2))
IDS = i([4, 0, 0, 2])
case("gather", "Y[t,d] = E[ids[t],d]", {"E": TAB, "ids": IDS}, {"Y": TAB[IDS]})
case("gather_i32", "Y[t,d] = E[ids:i32[t],d]", {"E": TAB, "ids": IDS.astype(np.int32)}, {"Y": TAB[IDS]})
case("gather_u8", "Y[t] = E[ids:u8[t]]", {"E": L8, "ids": i([7, 1, 1], dtype="u8")}, {"Y": L8[[7, 1, 1]]})
case("gather_affine", "Y[t] = E[ids[t] * 2 + 1]", {"E": L8, "ids": i([0, 3, 1])}, {"Y": L8[[1, 7, 3]]})
case("gather_row_pick", "Y[i] = X[i, t[i]]", {"X": M, "t": i([3, 0, 1])}, {"Y": M[[0, 1, 2], [3, 0, 1]]})
case("gather_two_levels", "Y[t] = E[p[q[t]]]", {"E": L8, "p": i([3, 1, 0]), "q": i([2, 0])}, {"Y": L8[[0, 3]]})
case("gather_report", "Y[t] = E[ids[t]]", {"E": L8, "ids": i([1, 8, -1])}, {"Y": f([-2, 0, 0])}, fault="E 0 8")
case("gather_clamp", "Y[t] = E[ids[t]]", {"E": L8, "ids": i([1, 8, -1])}, {"Y": f([-2, 8, 1])}, bounds="clamp")
case("gather_zero", "Y[t] = E[ids[t]]", {"E": L8, "ids": i([1, 8, -1])}, {"Y": f([-2, 0, 0])}, bounds="zero")
case("gather_in_arm_not_taken", "Y[t] = where(ids[t] >= 0, E[ids[t]], -1)", {"E": L8, "ids": i([1, -5, 7])}, {"Y": f([-2, -1, 8])})
case("gather_behind_and", "Y[t] = where(ids[t] >= 0 and E[ids[t]] > 1, 1, 2)", {"E": L8, "ids": i([1, -5, 7])}, {"Y": f([2, 2, 1])}, fault="E 0 -5")
case("gather_none", "Y[t,d] = E[ids[t],d]", {"E": TAB, "ids": i([])}, {"Y": f([], (0, 2))})
case("embedding_sum", "Y[t,d] = E[ids[t],d] + P[t,d]", {"E": TAB, "ids": IDS, "P": f(range(8), (4, 2))}, {"Y": TAB[IDS] + f(range(8), (4, 2))})
case("cross_entropy", "L[i] = log(sum[k](exp(X[i,k]))) - X[i,t[i]]", {"X": S, "t": i([2, 0, 1])},
     {"L": np.log(np.exp(S).sum(1)) - S[[0, 1, 2], [2, 0, 1]]})

# ---- scatters ------------------------------------------------------------------------------------------------------

D = f(range(8), (4, 2)) + 1
Z52 = f([0.5] * 10, (5, 2))


def scattered(at, fn):
    r = Z52.copy()
    for row, k in zip(D, at):
        r[k] = fn(r[k], row)
    return r


case("scatter_set", "G[ids[i],d] = D[i,d]", {"ids": i([4, 0, 2, 1]), "D": D}, {"G": scattered([4, 0, 2, 1], lambda o, n: n)}, init={"G": Z52})
case("scatter_add", "G[ids[i],d] += D[i,d]", {"ids": IDS, "D": D}, {"G": scattered(IDS, lambda o, n: o + n)}, init={"G": Z52})
case("scatter_mul", "G[ids[i],d] *= D[i,d]", {"ids": IDS, "D": D}, {"G": scattered(IDS, lambda o, n: o * n)}, init={"G": Z52})
case("scatter_max", "G[ids[i],d] max= D[i,d]", {"ids": IDS, "D": -D}, {"G": scattered(IDS, lambda o, n: np.maximum(o, -n))}, init={"G": Z52})
case("scatter_min", "G[ids[i],d] min= D[i,d]", {"ids": IDS, "D": -D}, {"G": scattered(IDS, lambda o, n: np.minimum(o, -n))}, init={"G": Z52})
case("scatter_add_int", "G:i64[ids[i]] += N:i64[i]", {"ids": IDS, "N": i([1, 2, 3, 4])}, {"G": i([15, 10, 14, 10, 11])}, init={"G": i([10] * 5)},
     types="f32")
case("scatter_histogram", "H:i32[ids[i]] += 1", {"ids": IDS}, {"H": i([2, 0, 1, 0, 1], dtype="i32")}, init={"H": i([0] * 5, dtype="i32")}, types="f32")
case("scatter_column", "G[i,ids[i]] = X[i]", {"ids": i([2, 0]), "X": f([7, 8])}, {"G": f([0, 0, 7, 8, 0, 0], (2, 3))}, init={"G": f([0] * 6, (2, 3))})
case("scatter_report", "G[ids[i]] = X[i]", {"ids": i([1, 3, -2]), "X": f([7, 8, 9])}, {"G": f([1, 7, 1])}, init={"G": f([1, 1, 1])}, fault="G 0 3")
case("scatter_clamp", "G[ids[i]] += X[i]", {"ids": i([1, 3, -2]), "X": f([7, 8, 9])}, {"G": f([10, 8, 9])}, init={"G": f([1, 1, 1])}, bounds="clamp")
case("scatter_into_nothing", "G[ids[i]] += X[i]", {"ids": i([1, 3]), "X": f([7, 8])}, {"G": f([])}, init={"G": f([])})
case("scatter_zero", "G[ids[i]] += X[i]", {"ids": i([1, 3, -2]), "X": f([7, 8, 9])}, {"G": f([1, 8, 1])}, init={"G": f([1, 1, 1])}, bounds="zero")
case("accumulate_plain", "G[i] += X[i]", {"X": f([1, 2])}, {"G": f([11, 22])}, init={"G": f([10, 20])})
case("scatter_nan", "G[ids[i]] max= X[i]", {"ids": i([0, 0, 1]), "X": f([nan, 3, 2])}, {"G": f([nan, 2, 1])}, init={"G": f([1, 1, 1])})

case("chain_zero_add", "G[j,d] = 0; G[ids[i],d] += D[i,d]", {"ids": IDS, "D": D}, {"G": scattered(IDS, lambda o, n: o + n) - Z52}, init={"G": Z52},
     sizes="j=5")
case("chain_of_updates", "G[j] = X[j]; G[ids[i]] += U[i]; G[ids[i]] max= V[i]; G[j] = G[j] * 2",
     {"X": f([1, 2, 3]), "ids": i([0, 0, 2, 1]), "U": f([1, 2, 3, 4]), "V": f([7, 2, 1, 8])}, {"G": f([14, 16, 12])})
case("chain_read_between", "G[j] = 1; let h[j] = G[j] + 1; G[ids[i]] *= U[i]; Y[j] = h[j] + G[j]",
     {"ids": i([0, 2, 0]), "U": f([3, 5, 2])}, {"G": f([6, 1, 5]), "Y": f([8, 3, 7])}, sizes="j=3")

# ---- several outputs, statements ------------------------------------------------------------------------------------

p, g, m0, v0 = f([1, -2, 0.5]), f([0.5, 0.25, -1]), f([0, 0.5, 1]), f([1, 0.25, 0.5])
m1, v1 = 0.5 * m0 + 0.5 * g, 0.75 * v0 + 0.25 * g * g
case("adam_step", "scalar lr, b1, b2; M[i] = b1 * m[i] + (1 - b1) * g[i]; V[i] = b2 * v[i] + (1 - b2) * g[i] * g[i]; "
     "P[i] = p[i] - lr * M[i] / (sqrt(V[i]) + 0.125)", {"m": m0, "g": g, "v": v0, "p": p},
     {"M": m1, "V": v1, "P": p - 0.25 * m1 / (np.sqrt(v1) + 0.125)}, scalars={"lr": 0.25, "b1": 0.5, "b2": 0.75}, types="f32 f64")
case("two_outputs", "Y[i] = X[i] + 1; Z[i] = X[i] * 2", {"X": f([1, 2])}, {"Y": f([2, 3]), "Z": f([2, 4])})
case("value_and_index", "V[i] = max[k](X[i,k]); J[i] = argmax[k](X[i,k])", {"X": M}, {"V": M.max(1), "J": M.argmax(1)})
case("let_of_different_shape", "let c[j] = mean[i](X[i,j]); Y[i,j] = X[i,j] - c[j]", {"X": M}, {"Y": M - M.mean(0)})
case("let_shifted_read", "let s[i] = X[i] * 2; Y[i] = where(i > 0, s[i-1], 0)", {"X": f([1, 2, 3])}, {"Y": f([0, 2, 4])})
ATT = f(range(12), (4, 3)) / 8
SC = np.where(np.tri(4) > 0, ATT @ ATT.T * 0.5, -inf)
PR = np.exp(SC - SC.max(1, keepdims=True))
case("causal_attention", "let s[i,j] = where(j <= i, sum[d](Q[i,d] * K[j,d]) * 0.5, -inf); "
     "let p[i,j] = exp(s[i,j] - max[k](s[i,k])); Y[i,d] = sum[j](p[i,j] * V[j,d]) / sum[j](p[i,j])",
     {"Q": ATT, "K": ATT, "V": ATT}, {"Y": PR @ ATT / PR.sum(1, keepdims=True)}, types="f32 f64")

# ---- edges: the manual's section EDGES, line by line ---------------------------------------------------------------

LOG_SUM = "where(isinf(max[k](X[i,k])), 0, log(sum[k](exp(X[i,k] - max[l](X[i,l])))))"
ROWS = f([inf, 0, -inf, -inf, -inf, 0, inf, inf, inf, -inf, nan, inf, nan, -inf, 4, 4], (8, 2))
case("edge_logsumexp", f"Y[i] = max[k](X[i,k]) + {LOG_SUM}", {"X": ROWS},
     {"Y": f([inf, -inf, 0, inf, inf, nan, nan, 4 + math.log(2)])}, types="f64 f32 f16 bf16")
case("edge_logsumexp_of_nothing", f"Y[i] = where(size(k) == 0, -inf, max[k](X[i,k]) + {LOG_SUM})", {"X": f([], (2, 0))},
     {"Y": f([-inf, -inf])}, types="f64 f32 f16 bf16")
case("edge_cross_entropy", f"L[i] = max[k](X[i,k]) - X[i,t[i]] + {LOG_SUM}", {"X": ROWS, "t": i([1, 0, 0, 0, 1, 1, 0, 1])},
     {"L": f([inf, nan, inf, nan, inf, nan, nan, math.log(2)])}, types="f64 f32 f16 bf16")
case("edge_log_softmax", "Y[i,j] = X[i,j] - max[k](X[i,k]) - log(sum[k](exp(X[i,k] - max[l](X[i,l]))))",
     {"X": f([inf, 0, -inf, -inf, -inf, 0], (3, 2))}, {"Y": f([nan, nan, nan, nan, -inf, 0], (3, 2))}, types="f64 f32 f16 bf16")
case("edge_softmax_of_nothing", "Y[i,j] = exp(X[i,j] - max[k](X[i,k])) / sum[k](exp(X[i,k] - max[l](X[i,l])))",
     {"X": f([], (3, 0))}, {"Y": f([], (3, 0))})
case("edge_unneeded_max", "Y[i] = sum[k](exp(X[i,k] - max[l](X[i,l])))", {"X": f([], (3, 0))}, {"Y": f([0, 0, 0])})
case("edge_needed_max", "Y[i] = 1 + max[k](X[i,k])", {"X": f([], (3, 0))}, {"Y": f([0, 0, 0])}, fails="the max of nothing has no value")
case("edge_sign", "Y[i] = sign(X[i]); Z[i] = where(isnan(X[i]), 0, sign(X[i]))", {"X": f([nan, -inf, -0.0, 0, inf])},
     {"Y": f([nan, -1, 0, 0, 1]), "Z": f([0, -1, 0, 0, 1])}, types="f64 f32 f16 bf16")
case("edge_integer_zero", "Q:i64[i] = N:i64[i] // D:i64[i]; M:i64[i] = N[i] % D[i]; F:i64[i] = fmod(N[i], D[i])",
     {"N": i([5, -5, 0, -2 ** 63, 7]), "D": i([0, 0, 0, 0, -2])}, {"Q": i([0, 0, 0, 0, -4]), "M": i([0, 0, 0, 0, -1]), "F": i([0, 0, 0, 0, 1])},
     types="f32")
QUOTIENTS = f([5, -5, 0, inf, 1, -1, 1, 5]), f([0, 0, 0, 1, inf, inf, -inf, -2])
case("edge_real_zero", "Q[i] = X[i] // Z[i]; M[i] = X[i] % Z[i]", {"X": QUOTIENTS[0], "Z": QUOTIENTS[1]},
     {"Q": np.floor_divide(*QUOTIENTS), "M": np.mod(*QUOTIENTS)}, types="f64 f32 f16 bf16")
HALF = f([-0.5, -0.0, 0, 0.5])
case("edge_signed_zero", "A[i] = 1 / ceil(X[i]); B[i] = 1 / (ceil(X[i]) + 0); C[i] = 1 / (ceil(X[i]) + O[i]); D[i] = 1 / (0 - X[i]); E[i] = 1 / -X[i]; "
     "F[i] = 1 / round(X[i])", {"X": HALF, "O": 0 * f([1, 1, 1, 1])},
     {"A": f([-inf, -inf, inf, 1]), "B": f([inf, inf, inf, 1]), "C": f([inf, inf, inf, 1]), "D": f([2, inf, inf, -2]), "E": f([2, inf, -inf, -2]),
      "F": f([-inf, -inf, inf, inf])}, types="f64 f32 f16 bf16")
case("edge_to_u8", "S:u8[i] = X[i]; W:u8[i] = i64(X[i]); V:u8[i] = u8(i64(X[i]))", {"X": f([-1, -1.5, 300, 255, 2.5])},
     {"S": i([0, 0, 255, 255, 2], dtype="u8"), "W": i([255, 255, 44, 255, 2], dtype="u8"), "V": i([255, 255, 44, 255, 2], dtype="u8")}, types="f64 f32 f16")
for narrow, tenth in ("f16", 0.0999755859375), ("bf16", 0.10009765625):
    case(f"edge_constant_{narrow}", f"A:bool[i] = X:{narrow}[i] == 0.1; B:bool[i] = X[i] == {narrow}(0.1); C:bool[i] = X[i] > 0.1; "
         f"D:bool[i] = X[i] > {narrow}(0.1)", {"X": f([tenth, 1, nan])},
         {"A": i([0, 0, 0], dtype="bool"), "B": i([1, 0, 0], dtype="bool"), "C": i([tenth > 0.1, 1, 0], dtype="bool"), "D": i([0, 1, 0], dtype="bool")},
         types="f32", kinds={"X": narrow})
case("edge_activations", "A[i] = softplus(X[i]); B[i] = silu(X[i]); C[i] = gelu(X[i]); D[i] = sigmoid(X[i]); E[i] = relu(X[i])", {"X": f([inf, -inf, nan])},
     {"A": f([inf, 0, nan]), "B": f([inf, nan, nan]), "C": f([inf, nan, nan]), "D": f([1, 0, nan]), "E": f([inf, 0, nan])}, types="f64 f32 f16 bf16")

sys.stdout.write("# Made by conformance.py with NumPy " + np.__version__ + "; see there for the format.\n\n" + "\n".join(CASES))
