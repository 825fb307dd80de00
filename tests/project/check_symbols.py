#!/usr/bin/env python3
"""The shared library exports exactly what the public headers declare MD_API, and the objects define nothing global that
is not md_*. Arguments: source root, nm, libraries."""

import pathlib
import re
import subprocess
import sys


def defined(nm, options, library):
    text = subprocess.run([nm, *options, library], capture_output=True, text=True, check=True).stdout
    names = set()
    for line in text.splitlines():
        match = re.match(r"\s*[0-9a-fA-F]*\s+([A-Za-z])\s+(\S+)$", line)
        if match and match.group(1) in "TDBRVWGSCi":
            names.add(match.group(2).split("@")[0])
    return names


def declared(root):
    names = set()
    for path in (root / "include").rglob("*.h"):
        text = re.sub(r"/\*.*?\*/", " ", path.read_text(encoding="utf-8"), flags=re.S)
        for declaration in re.findall(r"^MD_API\b([^;{]*?)\(", text, flags=re.M):
            names.add(re.findall(r"\w+", declaration)[-1])
    return names


def main():
    root, nm, libraries = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    wanted, n_problems = declared(root), 0
    if not wanted:
        print("no MD_API found")
        return 1
    for library in libraries:
        if ".so" in library:
            # Sanitizers and coverage add their own.
            exported = {n for n in defined(nm, ["-D", "--defined-only"], library) if not re.match(r"__|_init$|_fini$", n)}
            for name in sorted(wanted - exported):
                print(f"{name}: declared MD_API, not exported")
            for name in sorted(exported - wanted):
                print(f"{name}: exported, not declared MD_API")
            n_problems += len(wanted ^ exported)
        else:
            for name in sorted(defined(nm, ["-g", "--defined-only"], library)):
                # NVTX is a header that defines its state in every program that includes it: weak, hidden, one of each name.
                if not name.startswith(("md_", "__", "nvtx", "InitializeInjectionNvtx")):
                    print(f"{name}: global in {pathlib.Path(library).name}, but not md_*")
                    n_problems += 1
    print(f"{len(wanted)} functions, {n_problems} problems")
    return 1 if n_problems else 0


if __name__ == "__main__":
    sys.exit(main())
