#!/usr/bin/env python3
"""Makes the archive of a release (`meson dist`) and compares it with what Git knows; nothing that the tree needs may be
missing. With --build it is also unpacked, built and tested (SUITES).
Arguments: the source root, the build folder, the command that runs Meson. Exit 77: skipped."""

import pathlib
import subprocess
import sys
import tarfile
import tempfile

SUITES = ["base", "expr", "store", "stage", "api", "tools"]


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, check=False, **options)
    if done.returncode:
        sys.exit(f"{' '.join(str(c) for c in command)} failed:\n{done.stdout[-6000:]}")
    return done.stdout


def compare(archive, wanted):
    """Sentences about files that only one of the two has."""
    with tarfile.open(archive) as tar:
        found = {name.partition("/")[2] for name in tar.getnames() if not tar.getmember(name).isdir()}
    return ([f"{name} is not in {archive.name}" for name in sorted(wanted - found)] +
            [f"{name} is in {archive.name}, and not in the tree" for name in sorted(found - wanted)])


def build(archive, meson, folder):
    with tarfile.open(archive) as tar:
        tar.extractall(folder)
    tree = next(p for p in pathlib.Path(folder).iterdir() if p.is_dir())
    run(*meson, "setup", tree / "build", tree)
    run(*meson, "compile", "-C", tree / "build")
    run(*meson, "test", "-C", tree / "build", "--no-rebuild", "-t", "4", *[w for s in SUITES for w in ("--suite", s)])


def main():
    root, folder, meson = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3].split()
    known = subprocess.run(["git", "-C", root, "ls-tree", "-r", "--name-only", "-z", "HEAD"], text=True,
                           capture_output=True, check=False)
    if known.returncode:
        print("no Git repository here: archives are made of one")
        return 77
    for old in (folder / "meson-dist").glob("*.tar.gz*"):
        old.unlink()
    run(*meson, "dist", "-C", folder, "--no-tests", "--allow-dirty", "--formats", "gztar")
    archive = next((folder / "meson-dist").glob("*.tar.gz"))
    problems = compare(archive, set(known.stdout.split("\0")) - {""})
    if not problems and "--build" in sys.argv:
        with tempfile.TemporaryDirectory() as place:
            build(archive, meson, place)
    print("\n".join(problems) or f"{archive.name} is whole")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
