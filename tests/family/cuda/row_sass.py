#!/usr/bin/env python3
"""How rows of single elements load, in machine code: all elements of a thread are under way before the first is used. And how
many shuffles several rows at once take until their results are stored.

    row_sass.py TEST_CUDA_TILE

TEST_CUDA_TILE compiles the kernels. There are seven predicates: with one for each element, the assembler waited for some loads
before it started the next, which nothing but the time told. Skipped, loudly, without NVRTC; compiled only without a disassembler.
"""
import collections
import glob
import os
import re
import subprocess
import sys
import tempfile

import chain_sass

ROWS_AT_ONCE = {"align3": 1, "align4": 2, "align5": 4}
MOST_SHUFFLES = {"align5": 17}  # of two levels for four rows whose parts meet together (16); 40 if each row's met alone


def together(code):
    """Most loads of global memory that start before one of them is used."""
    turn, loaded_in = 0, {}
    turns = collections.Counter()
    for _, text in code:
        registers = re.findall(r"\bR(\d+)\b", text)
        writes = not re.match(r"(STG|ISETP|FSETP|STS)", text)
        if any(loaded_in.get(r) == turn for r in registers[writes:]):
            turn += 1
        if text.startswith("LDG"):
            loaded_in[registers[0]] = turn
            turns[turn] += 1
        elif writes and registers:
            loaded_in.pop(registers[0], None)
    return max(turns.values(), default=0)


def late_divisions(code):
    """Most divisions between a row's last shuffle and its store."""
    most = n = 0
    for _, text in code:
        n = 0 if text.startswith("SHFL") else n + text.startswith("MUFU.RCP")
        most = max(most, n if text.startswith("STG") else 0)
    return most


def complaints(tool, path):
    name = os.path.basename(path)
    m = re.search(r"row_persistent-lanes\d+_vecs(\d+)_.*_(align[345])", name)
    if not m:
        return
    code = list(chain_sass.instructions(tool, path))
    found, least = together(code), int(m.group(1)) * ROWS_AT_ONCE[m.group(2)]
    print(f"{name}: {found} loads together, at least {least}")
    if found < least:
        yield f"{name}: only {found} loads are under way together, and a thread has {least} elements"
    if m.group(2) == "align3" and late_divisions(code) > 1:
        yield f"{name}: what sizes alone give is computed when a row's results are there, not while its elements are on the way"
    shuffles, apart, stores = (sum(text.startswith(op) for _, text in code) for op in ("SHFL", "WARPSYNC.COLL", "STG"))
    shuffles -= apart  # many have a second form for warps that are not together
    if m.group(2) in MOST_SHUFFLES and shuffles > MOST_SHUFFLES[m.group(2)] * stores:
        yield f"{name}: {shuffles} shuffles in front of {stores} stores"


def main():
    tool = next(chain_sass.disassemblers(), None)
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run([sys.argv[1]], env=dict(os.environ, MD_TEST_CUBINS=folder), capture_output=True, text=True)
        print(run.stdout)
        if run.returncode:
            print(run.stderr)
            return run.returncode
        paths = sorted(glob.glob(folder + "/*.cubin"))
        if not paths:
            print("NOT RUN: no NVRTC")
            return 77
        wrong = [text for path in paths for text in complaints(tool, path)] if tool else []
    if not tool:
        print("NO MACHINE CODE IS LOOKED AT: no disassembler")
    print("\n".join(wrong))
    return len(wrong) > 0


if __name__ == "__main__":
    sys.exit(main())
