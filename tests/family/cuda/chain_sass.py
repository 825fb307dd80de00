#!/usr/bin/env python3
"""In the machine code of chain_wgmma the powers of a block stand before the wait for the product that they overlap.

    chain_sass.py TEST_CUDA_CHAIN

ptxas likes to move them behind it: then the tensor cores idle while they are computed, and nothing but the time tells.
Skipped, loudly, where there is no NVRTC or no disassembler (cuobjdump or nvdisasm, also of Triton's package).
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile


def disassemblers():
    for name in ("cuobjdump", "nvdisasm"):
        places = [shutil.which(name), os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin", name)]
        for pattern in ("~/.cache/multidispatch-tests/venv/lib/python*/site-packages", *sys.path):
            places += glob.glob(os.path.join(os.path.expanduser(pattern), "triton/backends/nvidia/bin", name))
        yield from ((name, p) for p in places if p and os.access(p, os.X_OK))


def instructions(tool, path):
    arguments = ["--dump-sass"] if tool[0] == "cuobjdump" else []
    text = subprocess.run([tool[1], *arguments, path], capture_output=True, text=True, check=True).stdout
    for line in text.splitlines():
        m = re.search(r"/\*([0-9a-f]{4,5})\*/\s+(?:@!?U?P\w+\s+)?(.*?);", line)
        if m:
            yield int(m.group(1), 16), m.group(2)


def loops(code):
    """Backward branches over products of both kinds, innermost first."""
    for at, text in code:
        m = re.match(r"BRA\b.*0x([0-9a-f]+)", text)
        if m and int(m.group(1), 16) < at:
            body = [t for a, t in code if int(m.group(1), 16) <= a <= at]
            if sum("HGMMA" in t for t in body) > 2 and not any(re.match(r"(STG|ST\.E|EXIT)", t) for t in body):
                yield body


def powers_between(body):
    """Powers before the first wait, between the two waits of a step, and behind the last."""
    counts = [0]
    for text in body:
        if re.match(r"WARPGROUP\.DEPBAR", text):
            counts.append(0)
        counts[-1] += text.startswith("MUFU.EX2")
    return counts


def main():
    tool = next(disassemblers(), None)
    if not tool:
        print("NOT RUN: no cuobjdump or nvdisasm")
        return 77
    seen = wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run([sys.argv[1], "chain_wgmma"], env=dict(os.environ, MD_TEST_CUBINS=folder),
                             capture_output=True, text=True)
        if run.returncode == 77:
            print(run.stdout)
            return 77
        for path in sorted(glob.glob(folder + "/*.cubin")):
            keys = int(re.search(r"keys(\d+)", path).group(1))
            for body in loops(list(instructions(tool, path))):
                counts = powers_between(body)
                seen += 1
                if len(counts) != 3 or counts[1] < keys // 2 or counts[0] + counts[2] > 4:
                    wrong += 1
                    print(f"{os.path.basename(path)}: powers before, between and behind the waits: {counts}")
    print(f"{seen} loops, {wrong} wrong")
    return int(wrong > 0 or seen == 0)


sys.exit(main())
