#!/usr/bin/env python3
"""Formulas against NumPy on the CPU: sums of products of several tensors, windows, short axes, counts.

Needs an installed package (or PYTHONPATH) and numpy. What is compared runs in turns; a line of JSON for each row: the
median and the least time of both in us, their ratio, and the largest difference from NumPy in f64, over the largest
value. `--rows NAME` takes the rows whose name has NAME in it."""

import argparse
import json
import statistics
import time

import numpy as np
import multidispatch as md

rng = np.random.default_rng(1)


def real(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def whole(*shape):
    return rng.integers(-128, 128, shape, dtype=np.int8)


def einsum(text):
    return lambda *x: np.einsum(text, *x, optimize=True)


def group_variance(x):
    b, c, h, w = x.shape
    return x.reshape(b, c // 4, 4, h, w).var(axis=(2, 3, 4))


def pool(reduce):
    return lambda x: reduce(x.reshape(x.shape[0], x.shape[1], x.shape[2] // 2, 2, x.shape[3] // 2, 2), axis=(3, 5))


def rows_by_pointer(values, pointer):
    return np.add.reduceat(values, pointer[:-1])


a60, a300, v300 = [real(60, 60) for _ in range(4)], [real(300, 300) for _ in range(3)], real(300)
x_image, m3, s3 = real(1000, 1000, 3), real(3), 1 + np.abs(real(3))
pooled, bytes_a, bytes_b = real(8, 64, 64, 64), whole(256, 512), whole(512, 256)
CHAIN = "Y[i,m] = sum[j,k,l](A[i,j]*B[j,k]*C[k,l]*D[l,m])"
NESTED = "Y[i,m] = sum[j](A[i,j]*sum[k](B[j,k]*sum[l](C[k,l]*D[l,m])))"
VECTOR = "Y[i] = sum[j,k,l](A[i,j]*B[j,k]*C[k,l]*v[l])"
GROUPS = "size c=4; Y[b,g] = var[c,y,x](X[b,g*4+c,y,x])"
POOL = "size r=2, s=2; Y[b,c,y,x] = %s[r,s](X[b,c,y*2+r,x*2+s])"
ROWS = {
    "A B C D of 60, one sum": (CHAIN, a60, einsum("ij,jk,kl,lm->im"), (60, 60)),
    "A B C D of 60, nested sums": (NESTED, a60, einsum("ij,jk,kl,lm->im"), (60, 60)),
    "A B C D of 60, matmul": (CHAIN, a60, lambda a, b, c, d: a @ b @ c @ d, (60, 60)),
    "A B C v of 300, one sum": (VECTOR, a300 + [v300], einsum("ij,jk,kl,l->i"), (300,)),
    "A B C v of 300, matmul": (VECTOR, a300 + [v300], lambda a, b, c, v: a @ (b @ (c @ v)), (300,)),
    "x A y of 64 x 300": ("Y[b] = sum[i,j](x[b,i]*A[i,j]*y[b,j])", [real(64, 300), a300[0], real(64, 300)],
                          einsum("bi,ij,bj->b"), (64,)),
    "tucker 30": ("Y[i,j,k] = sum[a,b,c](G[a,b,c]*U[a,i]*V[b,j]*W[c,k])", [real(30, 30, 30)] + [real(30, 30)] * 3,
                  einsum("abc,ai,bj,ck->ijk"), (30, 30, 30)),
    "group variance 7": (GROUPS, [real(4, 32, 7, 7)], group_variance, (4, 8)),
    "group variance 14": (GROUPS, [real(4, 32, 14, 14)], group_variance, (4, 8)),
    "group variance 28": (GROUPS, [real(4, 32, 28, 28)], group_variance, (4, 8)),
    "last axis of 3": ("Y[y,x,c] = (X[y,x,c]-m[c])/s[c]", [x_image, m3, s3], lambda x, m, s: (x - m) / s,
                       (1000, 1000, 3)),
    "last axis of 3, static": ("size c=3; Y[y,x,c] = (X[y,x,c]-m[c])/s[c]", [x_image, m3, s3],
                               lambda x, m, s: (x - m) / s, (1000, 1000, 3)),
    "planar": ("Y[c,y,x] = (X[c,y,x]-m[c])/s[c]", [real(3, 1000, 1000), m3, s3],
               lambda x, m, s: (x - m[:, None, None]) / s[:, None, None], (3, 1000, 1000)),
    "2 x 2 max": (POOL % "max", [pooled], pool(np.max), (8, 64, 32, 32)),
    "2 x 2 sum": (POOL % "sum", [pooled], pool(np.sum), (8, 64, 32, 32)),
    "i8 x i8": ("Y:i32[i,j] = sum[k](A:i8[i,k]*B:i8[k,j])", [bytes_a, bytes_b],
                lambda a, b: a.astype(np.float32) @ b.astype(np.float32), (256, 256)),
    "i8 x i8, one row": ("Y:i32[j] = sum[k](a:i8[k]*B:i8[j,k])", [whole(2048), whole(2048, 2048)],
                         lambda a, b: b.astype(np.float32) @ a.astype(np.float32), (2048,)),
    "i8 x i8, k <= 1024": ("size k=1..1024; Y:i32[i,j] = sum[k](A:i8[i,k]*B:i8[k,j])", [bytes_a, bytes_b],
                           lambda a, b: a.astype(np.float32) @ b.astype(np.float32), (256, 256)),
    "f32 x f32": ("Y[i,j] = sum[k](A[i,k]*B[k,j])", [real(256, 512), real(512, 256)], lambda a, b: a @ b, (256, 256)),
}


def timed(f):
    start = time.perf_counter()
    f()
    return (time.perf_counter() - start) * 1e6


def measure(name, formula, inputs, numpy, shape, rounds):
    op = md.op(formula, hints=None)
    out = np.empty(shape, np.int32 if ":i32" in formula.split("=")[0] or "Y:i32" in formula else np.float32)
    want = numpy(*[x.astype(np.float64) for x in inputs])
    ours, theirs = (lambda: op(*inputs, out=out)), (lambda: numpy(*inputs))
    for _ in range(5):
        ours(), theirs()
    time.sleep(2)  # kernels are built in the background
    pairs = []
    for _ in range(rounds):
        pairs.append((timed(ours), timed(theirs)))
    a, b = zip(*pairs)
    error = float(np.abs(out - want).max() / np.abs(want).max())
    print(json.dumps({"row": name, "us": round(statistics.median(a), 1), "least": round(min(a), 1),
                      "numpy_us": round(statistics.median(b), 1), "numpy_least": round(min(b), 1),
                      "ratio": round(min(a) / min(b), 2), "error": float(f"{error:.2g}")}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="", help="part of a row's name")
    parser.add_argument("--rounds", type=int, default=61)
    args = parser.parse_args()
    for name, row in ROWS.items():
        if args.rows in name:
            measure(name, *row, args.rounds)


if __name__ == "__main__":
    main()
