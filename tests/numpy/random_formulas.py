#!/usr/bin/env python3
"""Random formulas of the whole grammar: the library's kernels, its reference evaluator and NumPy must agree.

  random_formulas.py LIBRARY [-n COUNT] [--seed S] [--one S] [--pins]

Formula number k has the seed S + k, which a failure prints; --one S runs that formula alone and shows it. --pins also pins a variant of each
stage. Exits with 77 where NumPy cannot be imported."""
import argparse
import collections
import pathlib
import random
import re
import sys

try:
    import numpy as np
except ImportError as missing:
    print(f"SKIPPED: RANDOM FORMULAS WERE NOT COMPARED WITH NUMPY: {missing}; tools/bootstrap installs it", file=sys.stderr)
    sys.exit(77)

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "onnx"))
from md_host import Failed, Library
from statements import program


def mistakes(p, got, label):
    for name, (want, tolerance) in p.expected.items():
        is_real = want.dtype.kind == "f"
        a, b = (x.astype(np.float64) if is_real else x for x in (got[name], want))
        if is_real:
            tolerance = np.broadcast_to(np.nan_to_num(tolerance, nan=np.inf), b.shape)
            with np.errstate(invalid="ignore"):
                right = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= tolerance) | ~np.isfinite(tolerance)
        else:
            right = a == b
        if not np.all(right):
            at = tuple(int(x[0]) for x in np.nonzero(~right)) if right.ndim else ()
            of = f", tolerance {tolerance[at]:.3g}" if is_real else ""
            return f"{label}: {name}{list(at)} is {a[at]}, NumPy says {b[at]}{of}; {int(np.sum(~right))} of {right.size} differ"
    return None


def create(library, p, static, **options):
    """The op, with those sizes fixed that no tensor gives, or with all of them."""
    fixed = dict(p.sizes) if static else {}
    while True:
        sizes = ", ".join(f"{n}={s}" for n, s in fixed.items())
        try:
            return library.create(p.text, sizes=sizes.encode() or None, **options)
        except Failed as why:
            missing = re.search(r"indexed by just '(\w+)'", str(why))
            unknown = re.search(r"has no dim '(\w+)'", str(why))
            if missing and missing[1] not in fixed:
                fixed[missing[1]] = p.sizes[missing[1]]
            elif unknown and unknown[1] in fixed:
                del fixed[unknown[1]]
            else:
                raise


def call(library, p, static, **options):
    op = create(library, p, static, **options)
    try:
        arrays = {name: np.array(a, order="C") for name, a in p.arrays.items()}
        sizes = {name: int(n) for name, n in p.sizes.items()}  # of dims that no tensor gives
        library.call(op, {**sizes, **arrays, **p.scalars})
        stages = [[library.lib.md_op_variant(op, s, v).decode() for v in range(library.lib.md_op_n_variants(op, s))]
                  for s in range(library.lib.md_op_n_stages(op))]
        return arrays, stages
    finally:
        library.destroy(op)


def judge(contexts, p, seed, pins):
    """What is wrong, or None."""
    rng = random.Random(seed ^ 0x5eed)
    compiled, reference = contexts
    static = rng.random() < 0.3
    got, stages = call(compiled, p, static, **({} if pins else {"max_variants": 1}))
    wrong = mistakes(p, got, "kernels")
    if not wrong:
        wrong = mistakes(p, call(reference, p, static)[0], "reference")
    if wrong or not pins:
        return wrong
    for s, names in enumerate(stages):
        pin = rng.choice(names)
        try:
            wrong = mistakes(p, call(compiled, p, static, pin=(f"{s}:{pin}" if len(stages) > 1 else pin).encode())[0], f"stage {s} {pin}")
        except Failed as why: # a variant outside of its envelope is refused
            if "envelope" not in str(why) and "pin" not in str(why):
                return f"stage {s} {pin}: {why}"
        if wrong:
            return wrong
    return None


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("library")
    options.add_argument("-n", type=int, default=200)
    options.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    options.add_argument("--one", type=int)
    options.add_argument("--pins", action="store_true")
    a = options.parse_args()
    contexts = Library(a.library), Library(a.library, cc=b"/nonexistent/cc")
    seeds = [a.one] if a.one is not None else range(a.seed, a.seed + a.n)
    print(f"seed: --seed {seeds[0]}", flush=True)
    counts = collections.Counter()
    for seed in seeds:
        p = program(random.Random(seed))
        if a.one is not None:
            print(p.text, {n: x.shape for n, x in p.arrays.items()}, p.sizes, p.scalars)
        try:
            wrong = judge(contexts, p, seed, a.pins)
        except Failed as why:
            wrong = f"refused: {why}"
        counts["wrong" if wrong else "right"] += 1
        if wrong:
            print(f"--one {seed}: {wrong}\n    {p.text}", flush=True)
    print(f"{sum(counts.values())} formulas: {counts['right']} right, {counts['wrong']} wrong")
    for c in contexts:
        c.close()
    return bool(counts["wrong"])


if __name__ == "__main__":
    sys.exit(main())
