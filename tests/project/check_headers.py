#!/usr/bin/env python3
"""Compiles each public header alone as C11 and C++17, and each private one alone as the library is compiled.
Arguments: source root, folder of md_build_config.h, C compiler, C++ compiler or "" (words split at spaces), folder of CUDA's headers or ""."""

import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tempfile


def compiles(compiler, options, sources):
    done = subprocess.run(compiler + options + ["-fsyntax-only", *sources], capture_output=True, text=True, check=False)
    if done.returncode and len(sources) == 1:
        print(done.stderr)
    return done.returncode == 0


def mpi_flags():
    """Where MPI's header is, as a system's header; None: there is none."""
    for name in ("ompi-c", "mpich"):
        done = subprocess.run(["pkg-config", "--cflags", name], capture_output=True, text=True, check=False) if shutil.which("pkg-config") else None
        if done and done.returncode == 0:
            return done.stdout.replace("-I", "-isystem ").split()
    return None


def check(jobs):
    """How many headers do not compile alone. Those of one command are compiled by one run of it, and again one by one
    where that fails."""
    n_bad = 0
    with tempfile.TemporaryDirectory() as folder:
        groups = {}
        for i, (command, suffix, header) in enumerate(jobs):
            # Twice: the guard must hold. Something of its own: an empty file is not C.
            source = pathlib.Path(folder) / f"alone{i}{suffix}"
            source.write_text(f"#include <{header}>\n#include <{header}>\nextern int md_alone;\n", encoding="utf-8")
            groups.setdefault(str(command), (command, []))[1].append((str(source), header))
        for (compiler, options), sources in groups.values():
            if compiles(compiler, options, [source for source, _ in sources]):
                continue
            for source, header in sources:
                if not compiles(compiler, options, [source]):
                    n_bad += 1
                    print(f"{header} does not compile alone: {' '.join(compiler + options)}")
    return n_bad


def words(compiler):
    """Without the cache, which has nothing to keep."""
    return [w for w in compiler.split() if pathlib.Path(w).name != "ccache"]


def main():
    root, config, cc, cxx = pathlib.Path(sys.argv[1]), sys.argv[2], words(sys.argv[3]), words(sys.argv[4])
    strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    public, private = [f"-I{root}/include"], [f"-I{root}/include", f"-I{root}/src", f"-I{config}"]
    private += ["-isystem", sys.argv[5]] if sys.argv[5] else []
    python = pathlib.Path(sysconfig.get_path("include"))
    skipped = {"kernels"} if (python / "Python.h").exists() else {"kernels", "python"}
    private += ["-isystem", str(python)]
    jobs = []  # (compiler and options, suffix, header)
    for path in sorted((root / "include").rglob("*.h")):
        header = path.relative_to(root / "include")
        more = mpi_flags() if path.name == "mpi.h" else []
        if more is None:
            print("no MPI: md/mpi.h was not tried (libopenmpi-dev)")
            continue
        jobs.append(((cc, ["-std=c11", *strict, *public, *more]), ".c", header))
        if cxx:
            jobs.append(((cxx, ["-std=c++17", *strict, *public, *more]), ".cc", header))
    for path in sorted((root / "src").rglob("*.h")):
        if skipped.isdisjoint(path.relative_to(root).parts):
            jobs.append(((cc, ["-std=gnu11", "-D_GNU_SOURCE", *strict, *private]), ".c", path.relative_to(root / "src")))
    n_bad = check(jobs)
    if "python" in skipped:
        print("no Python.h: headers of src/python were not tried")
    if not cxx:
        print("no C++ compiler: C++17 was not tried")
    print(f"{len(jobs) - n_bad} good, {n_bad} bad")
    return 1 if n_bad or not jobs else 0


if __name__ == "__main__":
    sys.exit(main())
