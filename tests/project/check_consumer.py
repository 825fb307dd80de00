#!/usr/bin/env python3
"""Builds and runs the examples and README's program as others would: with the library installed below a prefix, by a
compiler and pkg-config, by CMake and by Meson, with the build files that come along and with README's lines; and with
the library as a subproject. Arguments: pkg-config | cmake | meson | subproject, source root, build folder, C compiler,
command that runs Meson."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import check_example  # noqa: E402

SKIP = 77


def fail(message):
    print(message)
    sys.exit(1)


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          stdin=subprocess.DEVNULL, check=False, **options)
    if done.returncode:
        fail(f"{' '.join(str(c) for c in command)}: exit status {done.returncode}\n{done.stdout[-6000:]}")
    return done.stdout


class Consumer:
    def __init__(self, source, build, cc, meson, folder):
        self.source, self.build, self.cc, self.meson, self.folder = source, build, cc, meson, folder
        self.env = dict(os.environ, MD_DEVICE="host", HOME=str(folder))

    def install(self):
        """Installs into folder/md; the packages say so."""
        run(*self.meson, "install", "-C", self.build, "--no-rebuild", "--destdir", self.folder / "root")
        package = next((self.folder / "root").rglob("multidispatch.pc"))
        old = re.search(r"^prefix=(.*)$", package.read_text(encoding="utf-8"), flags=re.M).group(1)
        self.prefix = self.folder / "md"
        (self.folder / "root" / old.lstrip("/")).rename(self.prefix)
        self.packages = next(self.prefix.rglob("multidispatch.pc")).parent
        self.libraries = self.packages.parent
        package = self.packages / "multidispatch.pc"
        package.write_text(package.read_text(encoding="utf-8").replace(f"prefix={old}\n", f"prefix={self.prefix}\n"), encoding="utf-8")
        self.env["PKG_CONFIG_PATH"] = str(self.packages)
        self.examples = self.prefix / "share" / "doc" / "multidispatch" / "examples"

    def run_program(self, path, example="first_program"):
        """Runs an example and looks at what it prints."""
        code = (self.source / "tools" / "examples" / f"{example}.c").read_text(encoding="utf-8")
        arguments = ["host"] if example == "custom_kernel" else []
        done = subprocess.run([str(path), *arguments], stdout=subprocess.PIPE, text=True, env=self.env, check=False)
        wrong = check_example.differs(check_example.expected_of(code), done.stdout.splitlines())
        if wrong or done.returncode:
            fail(f"{path}: exit status {done.returncode}, {wrong}")
        print(path.relative_to(self.folder), "ran")

    def run_examples(self, folder):
        """All that need no GPU."""
        for example in sorted(p.stem for p in self.examples.glob("*.c")):
            if example != "cuda_graph":
                self.run_program(folder / example, example)

    def readme(self, words):
        """The text of README's block of that kind, with this prefix's folder of libraries; its program lies beside."""
        text = (self.source / "README.md").read_text(encoding="utf-8")
        block = re.search(rf"^```{words}\n(.*?)^```", text, flags=re.S | re.M).group(1)
        folder = self.folder / "readme"
        folder.mkdir()
        program = re.search(r"^```c\n(.*?)^```", text, flags=re.S | re.M).group(1)
        (folder / "program.c").write_text(program, encoding="utf-8")
        return folder, block.replace("$HOME/md/lib", f"$HOME/{self.libraries.relative_to(self.folder)}")

    def pkg_config(self):
        self.install()
        if list(self.libraries.glob("*.so")):
            # Nothing else is installed for developers: no package but ours is found.
            self.env["PKG_CONFIG_LIBDIR"] = str(self.packages)
            run("make", "-C", self.examples, f"CC={' '.join(self.cc)}", env=self.env)
            self.run_examples(self.examples)
            folder, text = self.readme("install")
            commands = [line for line in text.splitlines() if re.match(r"export |cc ", line)]
            run("sh", "-e", "-c", "\n".join(commands), cwd=folder, env=self.env)
            self.run_program(folder / "program")
            del self.env["PKG_CONFIG_LIBDIR"]
        if (self.libraries / "libmultidispatch.a").exists():
            flags = run("pkg-config", "--static", "--cflags", "--libs", "multidispatch", env=self.env)
            flags = [str(self.libraries / "libmultidispatch.a") if f == "-lmultidispatch" else f for f in flags.split()]
            run(*self.cc, self.examples / "first_program.c", "-o", self.folder / "static", *flags)
            self.run_program(self.folder / "static")

    def cmake(self):
        if not shutil.which("cmake"):
            print("no cmake here")
            sys.exit(SKIP)
        self.install()
        folder, text = self.readme("cmake")
        (folder / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.17)\nproject(program C)\n" + text, encoding="utf-8")
        for source, program in (self.examples, "first_program"), (folder, "program"):
            build = self.folder / f"build_{program}"
            run("cmake", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}", f"-DCMAKE_C_COMPILER={self.cc[-1]}",
                *([] if self.libraries.parent == self.prefix else [f"-Dmultidispatch_DIR={self.libraries}/cmake/multidispatch"]))
            run("cmake", "--build", build)
            self.run_program(build / program)

        for version, fits in ("0.1", True), ("99.0", False), ("1.0", False):  # later ones of one major number serve
            (folder / "CMakeLists.txt").write_text(f"cmake_minimum_required(VERSION 3.17)\nproject(program C)\n"
                                                   f"find_package(multidispatch {version} QUIET)\nmessage(\"is ${{multidispatch_FOUND}}\")\n")
            said = run("cmake", "-S", folder, "-B", self.folder / f"build_{version}", f"-Dmultidispatch_DIR={self.libraries}/cmake/multidispatch")
            if ("is 1" in said) != fits:
                fail(f"version {version}: {said}")

    def meson_installed(self):
        self.install()
        folder, text = self.readme("meson")
        (folder / "meson.build").write_text(text, encoding="utf-8")
        for source, program in (self.examples, "first_program"), (folder, "program"):
            build = self.folder / f"build_{program}"
            run(*self.meson, "setup", build, source, "--wrap-mode=nofallback", env=self.env)
            run(*self.meson, "compile", "-C", build, env=self.env)
            self.run_program(build / program)

    def subproject(self):
        project = self.folder / "examples"
        shutil.copytree(self.source / "tools" / "examples", project)
        (project / "subprojects").mkdir()
        (project / "subprojects" / "multidispatch").symlink_to(self.source, target_is_directory=True)
        run(*self.meson, "setup", self.folder / "build", project, "-Doptimization=0",
            "-Ddefault_library=shared", "-Dmultidispatch:default_library=shared", "--wrap-mode=nodownload")
        run(*self.meson, "compile", "-C", self.folder / "build", "first_program")
        self.run_program(self.folder / "build" / "first_program")


def main():
    what = {"pkg-config": "pkg_config", "meson": "meson_installed"}.get(sys.argv[1], sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        consumer = Consumer(pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]), sys.argv[4].split(), sys.argv[5].split(),
                            pathlib.Path(name))
        getattr(consumer, what)()
    return 0


if __name__ == "__main__":
    sys.exit(main())
