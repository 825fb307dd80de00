#!/usr/bin/env python3
"""PyPI's PyTorch is linked to CUDA's libraries, several gigabytes that a test on the CPU never calls. Puts empty ones in
their place: every function answers "no device". Run by the Python that has PyTorch; needs cc and readelf.
Libraries that are there are left alone, so where CUDA is installed with PyTorch nothing is done."""

import ctypes
import importlib.util
import pathlib
import re
import subprocess
import sys
import tempfile

NO_DEVICE = 100  # cudaErrorNoDevice


def read(*arguments):
    return subprocess.run(["readelf", "-W", *arguments], check=True, text=True, stdout=subprocess.PIPE).stdout


def symbols_of(library):
    """Names that the library defines, and those that it must find elsewhere with their versions ("": none)."""
    defined, wanted = set(), set()
    for line in read("--dyn-syms", str(library)).splitlines():
        words = line.split()
        if len(words) < 8 or words[3] not in ("FUNC", "NOTYPE", "OBJECT"):
            continue
        name, _, version = words[7].partition("@")
        if words[6] != "UND":
            defined.add(name)
        elif words[4] == "GLOBAL":
            wanted.add((name, version.strip("@")))
    return defined, wanted


def versions_of(library):
    """Version of symbols -> the library that has it."""
    found, file = {}, None
    for line in read("-V", str(library)).splitlines():
        if match := re.search(r"\bFile: (\S+)", line):
            file = match.group(1)
        if file and (match := re.search(r"\bName: (\S+) ", line)):
            found[match.group(1)] = file
    return found


def can_be_loaded(name):
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def make_stub(folder, name, functions):
    """functions: (name, version)."""
    versions = sorted({v for _, v in functions if v})
    with tempfile.TemporaryDirectory() as place:
        source, script = pathlib.Path(place, "stub.c"), pathlib.Path(place, "stub.map")
        source.write_text("".join(f"long {f}(void) {{ return {NO_DEVICE}; }}\n" for f, _ in sorted(functions)))
        script.write_text("".join(f"{v} {{ global: {' '.join(f + ';' for f, w in sorted(functions) if w == v)} }};\n"
                                  for v in versions))
        subprocess.run(["cc", "-shared", "-fPIC", "-w", "-fno-builtin", str(source), f"-Wl,-soname,{name}", "-o",
                        str(folder / name), *([f"-Wl,--version-script={script}"] if versions else [])], check=True)


def main():
    folder = pathlib.Path(importlib.util.find_spec("torch").origin).parent / "lib"
    libraries = sorted(p for p in folder.glob("*.so*"))
    needed, defined, wanted, versions = set(), set(), set(), {}
    for library in libraries:
        needed |= set(re.findall(r"NEEDED.*\[(.*)\]", read("-d", str(library))))
        has, lacks = symbols_of(library)
        defined |= has
        wanted |= lacks
        versions |= versions_of(library)
    missing = sorted(n for n in needed if not (folder / n).exists() and not can_be_loaded(n))
    functions = {name: set() for name in missing}
    for name, version in wanted:
        if name in defined or name.startswith(("_Z", "Py", "_Py")):
            continue
        for file in [versions.get(version)] if version else missing:  # without a version: of any of them
            if file in functions:
                functions[file].add((name, version))
    for name in missing:
        make_stub(folder, name, functions[name])
    print(f"{len(missing)} stubs in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
