#!/usr/bin/env python3
"""Uses the library as others would: installed through pkg-config (shared and static) and CMake, or as a Meson subproject.
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


def check_pkg_config(source, build, cc, meson, folder):
    packages = install(meson, build, folder)
    libraries = packages.parent
    wisdom = {p.name for p in folder.rglob("share/multidispatch/wisdom/*")}
    if wisdom != {p.name for p in (source.parents[3] / "data" / "wisdom").glob("*.jsonl")}:
        print("data/wisdom is not what is installed:", wisdom)
        sys.exit(1)
    env = dict(os.environ, PKG_CONFIG_PATH=str(packages), PKG_CONFIG_SYSROOT_DIR=str(folder))
    flags = run("pkg-config", "--cflags", "--libs", "multidispatch", env=env).split()
    if list(libraries.glob("*.so")):
        run(*cc, source, "-o", folder / "shared", *flags, f"-Wl,-rpath,{libraries}")
        print(run(folder / "shared").strip(), "(shared)")
    if (libraries / "libmultidispatch.a").exists():
        # With a sysroot pkg-config would move the -L of the other libraries too.
        flags = run("pkg-config", "--static", "--libs-only-l", "multidispatch", env=env).split()
        include = next(folder.rglob("include/md")).parent
        flags = [str(libraries / "libmultidispatch.a") if f == "-lmultidispatch" else f for f in flags]
        paths = run("pkg-config", "--libs-only-L", "openblas").split() if "-lopenblas" in flags else []
        run(*cc, source, f"-I{include}", "-o", folder / "static", *paths, *flags, "-pthread")
        print(run(folder / "static").strip(), "(static)")


def check_cmake(source, build, cc, meson, folder):
    if not shutil.which("cmake"):
        print("no cmake here")
        sys.exit(SKIP)
    packages = install(meson, build, folder)
    run("cmake", "-S", source.parent, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={packages.parent}",
        f"-Dmultidispatch_DIR={packages.parent / 'cmake' / 'multidispatch'}", f"-DCMAKE_C_COMPILER={cc[-1]}")
    run("cmake", "--build", folder / "build")
    print(run(folder / "build" / "consumer").strip(), "(CMake)")


def check_subproject(source, root, meson, folder):
    project = folder / "consumer"
    shutil.copytree(source.parent, project)
    (project / "subprojects").mkdir()
    (project / "subprojects" / "multidispatch").symlink_to(root, target_is_directory=True)
    run(*meson, "setup", folder / "build", project, "-Doptimization=0",
        "-Ddefault_library=shared", "-Dmultidispatch:default_library=shared", "--wrap-mode=nodownload")
    run(*meson, "compile", "-C", folder / "build", "consumer")
    print(run(folder / "build" / "consumer").strip(), "(subproject)")


def main():
    what, root, build = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    cc, meson = sys.argv[4].split(), sys.argv[5].split()
    source = root / "tests" / "project" / "consumer" / "consumer.c"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if what == "pkg-config":
            check_pkg_config(source, build, cc, meson, folder)
        elif what == "cmake":
            check_cmake(source, build, cc, meson, folder)
        else:
            check_subproject(source, root, meson, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
