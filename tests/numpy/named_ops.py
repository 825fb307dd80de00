#!/usr/bin/env python3
"""Every named op of the catalogue beside NumPy: at infinities, NaN, equal, huge and tiny elements, single elements and empty rows.

  named_ops.py LIBRARY [--seed S] [--op NAME] [--share N] [--pins]

The library's kernels (the model's, and with --pins each variant of reductions, too) and its reference evaluator must give what the functions of
op_values.py give. Those stand beside the catalogue: they are written from what an op means in NumPy, SciPy or PyTorch, not from its formula. A kernel
may keep sums in f64 or f32, so a result is right that NumPy has in either. Exits with 77 where NumPy cannot be imported."""
import argparse
import pathlib
import random
import re
import sys
import warnings

try:
    import numpy as np
except ImportError as missing:
    print(f"SKIPPED: NAMED OPS WERE NOT COMPARED WITH NUMPY: {missing}; tools/bootstrap installs it", file=sys.stderr)
    sys.exit(77)

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "onnx"))
from md_host import Failed, Library
from op_values import ELSEWHERE, OPS, SCALARS

ROOT = pathlib.Path(__file__).resolve().parents[2]
INF, NAN = np.inf, np.nan
# what becomes of ordinary values: one row gets a few special elements, or all elements change
EDGES = {
    "plain": lambda x, rng: x,
    "an inf": lambda x, rng: placed(x, rng, [INF]),
    "a -inf": lambda x, rng: placed(x, rng, [-INF]),
    "both": lambda x, rng: placed(x, rng, [INF, -INF]),
    "a nan": lambda x, rng: placed(x, rng, [NAN]),
    "nan and inf": lambda x, rng: placed(x, rng, [NAN, INF, INF]),
    "infs": lambda x, rng: np.full_like(x, INF),
    "-infs": lambda x, rng: np.full_like(x, -INF),
    "nans": lambda x, rng: np.full_like(x, NAN),
    "zeros": lambda x, rng: np.zeros_like(x),
    "equal": lambda x, rng: np.full_like(x, 1.5),
    "huge": lambda x, rng: x * np.float32(2.0 ** 100),
    "largest": lambda x, rng: np.full_like(x, np.finfo(np.float32).max),
    "tiny": lambda x, rng: x * np.float32(2.0 ** -100),
}
RUNS = {"i": 3, "j": 37, "b": 2, "e": 6, "k": 19, "m": 5, "n": 9, "t": 6, "h": 2, "d": 8, "c": 4, "g": 3, "o": 3, "r": 2, "v": 7, "s": 3} # sizes


def placed(x, rng, values):
    """Special elements somewhere in the first row, the others stay: runs of vectors and ends of rows are both met."""
    x = x.copy()
    if x.size:
        row = x.reshape(-1, x.shape[-1])[0] if x.ndim else x.reshape(1)
        for value in values:
            row[rng.randrange(row.size)] = value
    return x


def parse(axes):
    """"ij" or "bct+": one letter an axis; "+" behind one: as long as a window of r needs, each "*": twice as long."""
    out = []
    for a in axes:
        if a in "+*":
            out[-1] = (out[-1][0], out[-1][1] + a)
        else:
            out.append((a, ""))
    return out


def extent(axis, sizes):
    name, more = axis
    return sizes[name] + (sizes["r"] - 1 if sizes[name] else 0) if more == "+" else sizes[name] << len(more)


def to_bf16(x):
    """As bits: NumPy has no such type. The values of this test need no rounding, or are cut."""
    return (np.ascontiguousarray(x).view(np.uint32) >> 16).astype(np.uint16)


def from_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def values(kind, shape, sizes, change, state, rng):
    """One argument. `change` is the edge that reals of this argument meet."""
    if kind in ("real", "positive", "bf16"):
        x = (state.integers(-16, 17, shape) / 8).astype(np.float32)
        x = change(np.abs(x) if kind == "positive" else x, rng)
        return to_bf16(x) if kind == "bf16" else x
    if kind == "bool":
        return state.integers(0, 2, shape).astype(np.bool_)
    if kind in ("u8", "i64"):
        return state.integers(0, 256 if kind == "u8" else 9, shape).astype(np.uint8 if kind == "u8" else np.int64)
    if kind == "i8":
        return state.integers(-128, 128, shape).astype(np.int8)
    if kind == "i4": # one to a byte here
        return state.integers(-8, 8, shape).astype(np.int8)
    if kind == "f8": # the bits of f8e4m3 without NaN
        return (state.integers(0, 127, shape) | state.integers(0, 2, shape) << 7).astype(np.uint8)
    n = sizes[kind[0]] # an index into an axis of that size; with '!' each once
    each_once = rng.sample(range(max(n, shape[0])), shape[0]) if kind.endswith("!") else state.integers(0, max(n, 1), shape)
    return np.array(each_once, dtype=np.int64)


def made(op, sizes, edge, special, rng):
    """The op's arguments by name. `special`: the input that meets the edge, or None for all."""
    state = np.random.default_rng(rng.randrange(1 << 32))
    return {name: values(kind, [extent(a, sizes) for a in parse(axes)], sizes, EDGES[edge if special in (None, name) else "plain"], state, rng)
            for name, (axes, kind) in op.inputs.items()}


def expected(op, arrays, scalars, real, compute):
    arrays = {n: from_bf16(a) if a.dtype == np.uint16 else a for n, a in arrays.items()}
    cast = {n: a.astype(real) if a.dtype == np.float32 else a for n, a in arrays.items()}
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore") # of means of nothing
        out = compute(*(cast[n] for n in op.inputs), **{n: real(v) for n, v in scalars.items()})
        return {n: np.asarray(v) for n, v in (out if isinstance(out, dict) else {op.result: out}).items()}


def is_close(got, want, op):
    """Equal, or both NaN, or near in relation to the largest finite element."""
    with np.errstate(all="ignore"):
        unit = 2e-5 if got.dtype != np.uint16 else 2.0 ** -8
        got = from_bf16(got) if got.dtype == np.uint16 else got
        rounded = want.astype(got.dtype)
        if got.dtype.kind != "f":
            return got == rounded
        a, b = got.astype(np.float64), rounded.astype(np.float64)
        finite = np.abs(b[np.isfinite(b)])
        near = np.abs(a - b) <= unit * (np.abs(b) + (finite.max() if finite.size else 0) * op.spread) + op.floor
        lost = np.isnan(a) & ~np.isfinite(b) if op.may_lose_infinities else False
        return (a == b) | (np.isnan(a) & np.isnan(b)) | near | lost


def mistake(op, arrays, scalars, got, label):
    wants = [expected(op, arrays, scalars, real, f) for f in (op.compute, op.also) if f for real in (np.float32, np.float64)]
    for name in wants[0]:
        right = np.logical_or.reduce([np.broadcast_to(is_close(got[name], w[name], op), got[name].shape) for w in wants])
        if not np.all(right):
            at = tuple(int(x[0]) for x in np.nonzero(~right)) if right.ndim else ()
            return f"{label}: {name}{list(at)} is {got[name][at]}, NumPy has {wants[0][name][at]} in f32, {wants[1][name][at]} in f64"
    return None


def may_refuse(op, sizes):
    """The op needs an element of what is empty: of a maximum, or by an index."""
    into = [kind[0] for _, kind in op.inputs.values() if kind.rstrip("!") in sizes]
    return any(sizes[a] == 0 for a in into + [op.needs_element] if a)


def call(library, handle, op, arrays, scalars):
    """The op's outputs by name, in memory of 77 (what is updated begins with its own values)."""
    everything = dict(arrays)
    for name, value in expected(op, arrays, scalars, np.float64, op.compute).items():
        if name not in everything:
            dtype = op.dtypes.get(name, np.float32)
            everything[name] = np.full(value.shape, 77, dtype=np.uint16 if dtype == "bf16" else dtype)
    everything = {n: np.array(a, order="C") for n, a in everything.items()}
    library.call(handle, {**everything, **scalars})
    return everything


class Judge:
    def __init__(self, library, seed, pins):
        self.compiled, self.reference = Library(library), Library(library, cc=b"/nonexistent/cc")
        self.seed, self.pins, self.n, self.wrong = seed, pins, 0, []

    def close(self):
        self.compiled.close()
        self.reference.close()

    def one(self, name, handles, sizes, edge, special, label):
        op, rng = OPS[name], random.Random(f"{self.seed} {name} {label} {edge} {special}")
        scalars = {n: SCALARS[n] for n in op.scalars}
        arrays = made(op, sizes, edge, special, rng)
        for library, handle, what in handles:
            self.n += 1
            where = f"{name}, {label}, {edge}{f' in {special}' if special else ''}, {what}"
            try:
                wrong = mistake(op, arrays, scalars, call(library, handle, op, arrays, scalars), where)
            except Failed as why:
                wrong = None if may_refuse(op, sizes) else f"{where}: {why}"
            if wrong:
                self.wrong.append(wrong)
                print(wrong, flush=True)

    def variants(self, name):
        """An op for each variant of the stages, pinned to it."""
        free, handles = self.compiled.create(name), []
        lib = self.compiled.lib
        n_stages = lib.md_op_n_stages(free)
        for s in range(n_stages):
            for v in range(lib.md_op_n_variants(free, s)):
                pin = lib.md_op_variant(free, s, v).decode()
                handles.append((self.compiled, self.compiled.create(name, pin=(f"{s}:{pin}" if n_stages > 1 else pin).encode()), pin))
        self.compiled.destroy(free)
        return handles

    def op(self, name):
        op = OPS[name]
        handles = [(self.compiled, self.compiled.create(name, max_variants=1), "kernels"), (self.reference, self.reference.create(name), "reference")]
        variants = self.variants(name) if self.pins and op.has_rows else []
        reals = [n for n, (_, kind) in op.inputs.items() if kind in ("real", "positive")]
        dims = sorted({a for axes, _ in op.inputs.values() for a, _ in parse(axes)} - {"r"})
        for edge in EDGES:
            if edge in op.overflows:
                continue
            for special in reals if edge != "plain" and len(reals) > 1 else [None]:
                self.one(name, handles, RUNS, edge, special, "short rows")
            self.one(name, handles, {**{d: 1 for d in RUNS}, "r": RUNS["r"], "d": 2 if name == "rope" else 1}, edge, None, "one element")
            if op.has_rows:
                self.one(name, handles + variants, {**RUNS, "j": 700}, edge, None, "long rows")
        for empty in dims:
            self.one(name, handles, {**RUNS, empty: 0}, "plain", None, f"{empty} = 0")
        for library, handle, _ in handles + variants:
            library.destroy(handle)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("library")
    options.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    options.add_argument("--op")
    options.add_argument("--share", type=int, default=1, help="every N-th op of the catalogue, from one that the seed picks")
    options.add_argument("--pins", action="store_true")
    a = options.parse_args()
    print(f"seed: --seed {a.seed}", flush=True)
    known = re.findall(r"^(\w+): ", (ROOT / "data/ops/catalogue.txt").read_text(encoding="utf-8"), re.M) if a.op is None else [a.op]
    judge = Judge(a.library, a.seed, a.pins)
    for i, name in enumerate(known):
        if name in OPS:
            if (i + a.seed) % a.share == 0:
                judge.op(name)
        elif name in ELSEWHERE:
            print(f"{name}: beside a reference of its own, in {ELSEWHERE[name]}")
        else:
            judge.wrong.append(name)
            print(f"{name}: op_values.py does not say what NumPy has for it")
    judge.close()
    print(f"{len(known)} ops, {judge.n} comparisons, {len(judge.wrong)} wrong")
    return bool(judge.wrong)


if __name__ == "__main__":
    sys.exit(main())
