#!/usr/bin/env python3
"""Builds the package as `pip install .` does, and checks what a wheel would hold: the package alone, which needs no
library but those of the C library, exports nothing but its entry, and can be imported.
Arguments: the source root. Exit 77: skipped."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib

ALLOWED = re.compile(r"(libc|libm|libdl|librt|libpthread|ld-linux-.*)\.so")


def run(*command, **options):
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **options)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-4000:]}")
    return done.stdout


def main():
    root = pathlib.Path(sys.argv[1])
    args = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["meson-python"]["args"]
    with tempfile.TemporaryDirectory() as folder:
        build = folder + "/build"
        run("meson", "setup", build, str(root), "--prefix=/usr", *args["setup"])
        run(shutil.which("ninja") or "ninja-build", "-C", build, *args["compile"])
        run("meson", "install", "-C", build, "--no-rebuild", "--destdir", folder + "/wheel", *args["install"])
        files = [p for p in pathlib.Path(folder, "wheel").rglob("*") if p.is_file()]
        core = next(p for p in files if p.name == "_core.abi3.so")
        strange = [str(p) for p in files if p.parent != core.parent and core.parent not in p.parents]
        needed = re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", str(core)))
        missing = [n for n in needed if not ALLOWED.match(n)]
        exported = [line.split()[-1] for line in run("nm", "-D", "--defined-only", str(core)).splitlines()]
        said = run(sys.executable, "-c", "import multidispatch as md; print(md.op('softmax').formula)",
                   env={"PYTHONPATH": str(core.parent.parent), "MD_CACHE_DIR": ""})
    print(f"needs {' '.join(needed)}; {len(files)} files; {said.strip()}")
    if missing or strange or exported != ["PyInit__core"]:
        sys.exit(f"not self-contained: libraries {missing}, files elsewhere {strange}, exports {exported}")


if __name__ == "__main__":
    main()
