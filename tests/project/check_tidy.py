#!/usr/bin/env python3
"""Runs clang-tidy (.clang-tidy) over all C files that a build compiles. Arguments: the source root, the build folder.

Exit 77 (skipped): there is no clang-tidy."""

import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys

FILES_PER_RUN = 8
EXIT_SKIPPED = 77


def files_of(root, build):
    entries = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    paths = {(pathlib.Path(e["directory"]) / e["file"]).resolve() for e in entries}
    return sorted(str(p) for p in paths if p.is_relative_to(root) and not p.is_relative_to(build) and p.suffix == ".c")


def main():
    root, build = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    program = shutil.which("clang-tidy")
    if not program:
        print("tidy: SKIPPED, nothing was checked: no clang-tidy (tools/bootstrap --full installs it)")
        return EXIT_SKIPPED
    files = files_of(root, build)
    parts = [files[i:i + FILES_PER_RUN] for i in range(0, len(files), FILES_PER_RUN)]

    def run(part):
        return subprocess.run([program, "-p", str(build), "--quiet", *part], capture_output=True, text=True)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(run, parts))
    print("\n".join(r.stdout for r in results if r.returncode != 0))
    n_failed = sum(r.returncode != 0 for r in results)
    print(f"{len(files)} files, {n_failed} of {len(parts)} runs found something")
    return 1 if n_failed or not files else 0


if __name__ == "__main__":
    sys.exit(main())
