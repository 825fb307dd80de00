#!/usr/bin/env python3
"""ONNX's single-node test cases as formulas, run by the library on the CPU and compared with ONNX's expected outputs.

  run_cases.py LIBRARY [--sample N [--seed S]] [--only WORD] [--part K/N] [--pins] [--least N] [--list]

All cases run unless --sample asks for N of them. --pins also pins every variant of every stage in turn. --least N fails if fewer are right.
--list prints what is not translated, by reason. A case that is wrong, or that the library refuses, is a failure; so is --least. Exits with 77
where the package onnx cannot be imported."""
import argparse
import collections
import random
import sys
import warnings

try:
    import numpy as np
    warnings.filterwarnings("ignore")
    from onnx.backend.test.case.node import collect_testcases
except ImportError as missing:
    print(f"SKIPPED: ONNX'S CASES DID NOT RUN: {missing}", file=sys.stderr)
    sys.exit(77)
except Exception as broken: # a build of onnx that this Python cannot load
    print(f"SKIPPED: ONNX'S CASES DID NOT RUN: {broken}", file=sys.stderr)
    sys.exit(77)

from formula import Untranslatable
from md_host import Failed, Library
from translate import translate


def cases():
    """Cases of one node. An expanded function is a graph of several, or a copy of one of these."""
    found = [c for c in collect_testcases(None) if len(c.model.graph.node) == 1 and not c.model.functions and "expanded" not in c.name]
    return sorted(found, key=lambda c: c.name)


def is_close(case, got, want):
    if got.shape != want.shape:
        return False
    if got.dtype.kind in "iub":
        return np.array_equal(got, want)
    # ONNX's own reference rounds between the steps: two units of bf16, and of f32 what a sum of cancelling terms leaves.
    unit = {"bfloat16": 2.0 ** -6}.get(got.dtype.name, 0)
    got, want = got.astype(np.float64), want.astype(np.float64)
    largest = np.max(np.abs(want), where=np.isfinite(want), initial=0)
    return np.allclose(got, want, rtol=max(case.rtol, unit), atol=max(case.atol, 1e-6 * largest), equal_nan=True)


def run(library, case, formula, node, **options):
    """What is wrong, or None."""
    op = library.create(formula, **options)
    try:
        arrays = node.arrays()
        before = {t.name: arrays[t.name].copy() for t in node.y if t is not None}
        library.call(op, arrays)
        for name, output in node.names.items():
            want = np.asarray(node.expected[output])
            if not is_close(case, arrays[name], want):
                return f"{name} is {arrays[name].ravel()[:8]}, expected {want.ravel()[:8]}"
        if options or not run.pins:
            return None
        stages = library.lib.md_op_n_stages(op)
        names = [[library.lib.md_op_variant(op, s, v).decode() for v in range(library.lib.md_op_n_variants(op, s))] for s in range(stages)]
        for pin in {f"{s}:{v}" if stages > 1 else v for s in range(stages) for v in names[s]}:
            for name in before:
                arrays[name][...] = before[name]
            try:
                wrong = run(library, case, formula, node, pin=pin.encode())
            except Failed: # a pin outside of its envelope is refused
                continue
            if wrong:
                return f"{pin}: {wrong}"
        return None
    finally:
        library.destroy(op)


def judge(library, case):
    """('right' | 'wrong' | 'refused' | 'untranslated', why, formula)."""
    try:
        formula, node = translate(case)
    except Untranslatable as why:
        return "untranslated", str(why), ""
    try:
        wrong = run(library, case, formula, node)
    except Failed as why:
        return "refused", str(why), formula
    return ("wrong", wrong, formula) if wrong else ("right", "", formula)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("library")
    options.add_argument("--sample", type=int)
    options.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    options.add_argument("--only", default="")
    options.add_argument("--cc", default="")
    options.add_argument("--least", type=int, default=0)
    options.add_argument("--pins", action="store_true")
    options.add_argument("--part", default="1/1")
    options.add_argument("--list", action="store_true")
    a = options.parse_args()
    run.pins = a.pins
    chosen = [c for c in cases() if a.only in c.name]
    if a.sample:
        print(f"seed: --seed {a.seed}")
        chosen = random.Random(a.seed).sample(chosen, min(a.sample, len(chosen)))
    part, parts = map(int, a.part.split("/"))
    chosen = chosen[part - 1::parts]
    library = Library(a.library, **({"cc": a.cc.encode()} if a.cc else {}))
    counts, reasons = collections.Counter(), collections.defaultdict(list)
    for case in chosen:
        verdict, why, formula = judge(library, case)
        counts[verdict] += 1
        if verdict == "untranslated":
            reasons[why].append(case.name)
        elif verdict != "right":
            print(f"{verdict.upper()} {case.name}: {why}\n    {formula}", flush=True)
    if a.list:
        for why, names in sorted(reasons.items(), key=lambda r: -len(r[1])):
            print(f"{len(names):4} {why}: {' '.join(names)}")
    print(f"{len(chosen)} cases: {counts['right']} right, {counts['wrong']} wrong, {counts['refused']} refused, {counts['untranslated']} not translated")
    library.close()
    return bool(counts["wrong"] or counts["refused"] or counts["right"] < a.least)


if __name__ == "__main__":
    sys.exit(main())
