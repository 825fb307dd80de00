#!/usr/bin/env python3
"""Builds and runs the examples as others would: with the library installed, through their Makefile (pkg-config, shared and
static) and their CMakeLists.txt, or with the library as a subproject of their meson.build.
Arguments: pkg-config | cmake | subproject, source root, build folder, C compiler, command that runs Meson."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SKIP = 77


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          stdin=subprocess.DEVNULL, check=False, **options)
    if done.returncode:
        print(f"{' '.join(str(c) for c in command)}: exit status {done.returncode}\n{done.stdout[-6000:]}")
        sys.exit(1)
    return done.stdout


def install(meson, build, folder):
    """Installs below folder; returns where the package files are."""
    run(*meson, "install", "-C", build, "--no-rebuild", "--destdir", folder)
    return next(folder.rglob("multidispatch.pc")).parent


def run_example(folder):
    """Runs the first program; its results are known."""
    said = run(folder / "first_program").split()
    if said != ["0.0900", "0.2447", "0.6652", "0.3333", "0.3333", "0.3333"]:
        print("first_program printed", said)
        sys.exit(1)


def check_installed(source, folder):
    """What comes along with the library."""
    for where, wanted in ("wisdom", source / "data" / "wisdom"), ("examples", source / "tools" / "examples"):
        found = {p.name for p in folder.rglob(f"share/**/multidispatch/{where}/*")}
        if found != {p.name for p in wanted.iterdir()} - {"README.md"}:
            print(f"{wanted} is not what is installed:", found)
            sys.exit(1)


def check_pkg_config(source, build, cc, meson, folder):
    packages = install(meson, build, folder)
    check_installed(source, folder)
    libraries = packages.parent
    examples = next(folder.rglob("share/doc/multidispatch/examples"))
    env = dict(os.environ, PKG_CONFIG_PATH=str(packages), PKG_CONFIG_SYSROOT_DIR=str(folder))
    if list(libraries.glob("*.so")):
        run("make", "-C", examples, f"CC={' '.join(cc)}", f"LDFLAGS=-Wl,-rpath,{libraries}", env=env)
        run_example(examples)
        print("shared")
    if (libraries / "libmultidispatch.a").exists():
        # A sysroot would move the -L of the other libraries too; the prefix is that of multidispatch alone.
        env = dict(os.environ, PKG_CONFIG_PATH=str(packages))
        prefix = next(folder.rglob("include/md")).parent.parent
        flags = run("pkg-config", f"--define-variable=prefix={prefix}", "--static", "--cflags", "--libs", "multidispatch", env=env)
        flags = [str(libraries / "libmultidispatch.a") if f == "-lmultidispatch" else f for f in flags.split()]
        (folder / "static").mkdir()
        run(*cc, examples / "first_program.c", "-o", folder / "static" / "first_program", *flags)
        run_example(folder / "static")
        print("static")


def check_cmake(source, build, cc, meson, folder):
    if not shutil.which("cmake"):
        print("no cmake here")
        sys.exit(SKIP)
    packages = install(meson, build, folder)
    run("cmake", "-S", source / "tools" / "examples", "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={packages.parent}",
        f"-Dmultidispatch_DIR={packages.parent / 'cmake' / 'multidispatch'}", f"-DCMAKE_C_COMPILER={cc[-1]}")
    run("cmake", "--build", folder / "build")
    run_example(folder / "build")


def check_subproject(source, meson, folder):
    project = folder / "examples"
    shutil.copytree(source / "tools" / "examples", project)
    (project / "subprojects").mkdir()
    (project / "subprojects" / "multidispatch").symlink_to(source, target_is_directory=True)
    run(*meson, "setup", folder / "build", project, "-Doptimization=0",
        "-Ddefault_library=shared", "-Dmultidispatch:default_library=shared", "--wrap-mode=nodownload")
    run(*meson, "compile", "-C", folder / "build", "first_program")
    run_example(folder / "build")


def main():
    what, source, build = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    cc, meson = sys.argv[4].split(), sys.argv[5].split()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if what == "pkg-config":
            check_pkg_config(source, build, cc, meson, folder)
        elif what == "cmake":
            check_cmake(source, build, cc, meson, folder)
        else:
            check_subproject(source, meson, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
