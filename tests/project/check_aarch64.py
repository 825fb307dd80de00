#!/usr/bin/env python3
"""Host kernels and what the library knows of processors, compiled for aarch64 by a cross compiler. Where qemu-aarch64 is there, kernels
are run, too, and give the bytes that they give here.

  check_aarch64.py MDCTL ROOT BUILD CC

Debian: gcc-aarch64-linux-gnu, libc6-dev-arm64-cross, qemu-user. Exit 77 (skipped), and a line that says so: no compiler."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

MDCTL, ROOT, BUILD, CC = sys.argv[1:5]
CROSS = os.environ.get("MD_TEST_AARCH64_CC", "aarch64-linux-gnu-gcc")
FLAGS = "-std=gnu11 -O2 -fpeel-loops -w -fno-math-errno -fno-trapping-math -fwrapv -ffp-contract=off".split()
SOURCES = ["src/base", "src/device/host", "src/kernel"]  # what asks for an architecture, and what uses system calls
N = 1003  # elements: whole vectors and a tail

# Elementwise, so that the parameters are pointers, strides of one axis and its size.
FORMULAS = [f"Y:{t}[i] = relu(X:{t}[i])" for t in ("i4", "u4", "i8", "u8", "i16", "i32", "f16", "bf16", "f8e4m3", "f8e5m2", "f32", "i64")] + [
    f"Y[i] = X:{t}[i] * 0.5" for t in ("i4", "i8", "i16", "bool", "f16", "f8e4m3")] + [
    "Y:i8[i] = X:f32[i]", "Y:f8e4m3[i] = X:f32[i]", "Y:f16[i] = X:f32[i]", "Y[i] = floor(X:f32[i]) + abs(X[i])", "Y:f64[i] = X:f64[i] * 2 - 1"]

MAIN = """
#include <stdio.h>
#include <string.h>
static unsigned char in[8 * %(n)d + 64], out[8 * %(n)d + 64];
int main(void)
{
    unsigned x = 1;
    for (unsigned i = 0; i < sizeof in; i++) {
        x = x * 1664525u + 1013904223u;
        in[i] = i %% 4 == 3 ? 0x3f + (x >> 31 << 7) + (x >> 30 & 1) : x >> 24; /* as f32 about 1 */
    }
    md_params p = {%(fields)s};
    md_kernel(&p, 0, %(blocks)s, NULL);
    for (unsigned i = 0; i < sizeof out; i++)
        printf("%%02x", out[i]);
    return 0;
}
"""


def sources():
    """What the library has for other processors is there and compiles without warnings."""
    includes = [f"-I{x}" for x in (f"{ROOT}/src", f"{ROOT}/include", f"{BUILD}/src", f"{BUILD}/include", BUILD)]
    includes += [x for path in pathlib.Path("/usr/include").glob("**/cblas.h") for x in ("-idirafter", str(path.parent))]
    n = 0
    for folder in SOURCES:
        for path in sorted(pathlib.Path(ROOT, folder).rglob("*.c")):
            run([CROSS, "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Werror", "-fsyntax-only", *includes, "-idirafter", "/usr/include", str(path)])
            n += 1
    return n


def run(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def program(formula):
    """The text of a kernel for vectors of 16 bytes without any extension, with a main."""
    env = {**os.environ, "MD_CPU": "x86-64", "MD_DEVICE": "host"}
    variant = next(x for x in run([MDCTL, "source", formula], env=env).split() if "pointwise/flat0_strided0_nontemporal0" in x)
    text = run([MDCTL, "source", formula, "--variant", variant.split(":")[-1]], env=env)
    struct = re.search(r"typedef struct md_params \{(.*?)\} md_params;", text, re.S).group(1)
    names = re.findall(r"(\w+);", struct)
    first = min(int(x[1:]) for x in names if re.fullmatch(r"t\d+", x))
    value = lambda x: ("out" if int(x[1:]) == first else "in") if re.fullmatch(r"t\d+", x) else "1" if x.startswith("s") else str(N)
    fields = ", ".join(f".{x} = {value(x)}" for x in names)
    return text + MAIN % {"n": N, "fields": fields, "blocks": f"({N} + MD_BLOCK_POINTS - 1) / MD_BLOCK_POINTS"}


def main():
    if not shutil.which(CROSS):
        print(f"SKIPPED: no {CROSS}: nothing was compiled for aarch64 (Debian: gcc-aarch64-linux-gnu)")
        sys.exit(77)
    print(f"{sources()} files of {', '.join(SOURCES)} compile")
    qemu = shutil.which("qemu-aarch64")
    if not qemu:
        print("no qemu-aarch64: kernels are compiled, not run")
    with tempfile.TemporaryDirectory() as folder:
        source, there, here = (os.path.join(folder, x) for x in ("kernel.c", "there", "here"))
        for formula in FORMULAS:
            pathlib.Path(source).write_text(program(formula), encoding="utf-8")
            run([CROSS, *FLAGS, "-static", "-o", there, source, "-lm"])
            if not qemu:
                continue
            run([*CC.split(), *FLAGS, "-o", here, source, "-lm"])
            if run([qemu, there]) != run([here]):
                sys.exit(f"{formula}: other bytes on aarch64 than here")
    print(f"{len(FORMULAS)} kernels {'give the same bytes' if qemu else 'compile'}")


main()
