#!/usr/bin/env python3
"""Tries what README.md shows, as a user would, on the host device:
  ```c      a program: compiles, runs, and prints what its first comment says
  ```sh     commands: each ends with status 0; ./program is the first program
  | .. | `formula` |   in the section Formulas, and md.op("formula") in ```python: the library accepts it
The program must be the same text as in tools/examples, and each variable and constant named must exist.
check_consumer.py tries the blocks ```install, ```cmake and ```meson with an installed library.
Arguments: source root, folder of the library, mdctl, program that prints the variables, C compiler."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import check_example  # noqa: E402

SKIP = 77
MOST_LINES = 180


def blocks(text):
    """(line, words behind the fence, text) of each fenced block."""
    for match in re.finditer(r"^```(\w[^\n]*)\n(.*?)^```", text, flags=re.S | re.M):
        yield text.count("\n", 0, match.start()) + 1, match.group(1).split(), match.group(2)


class Checker:
    def __init__(self, arguments, folder):
        self.root, self.library, self.mdctl = (pathlib.Path(a).resolve() for a in arguments[:3])
        self.print_variables = str(pathlib.Path(arguments[3]).resolve())
        self.cc = arguments[4].split()
        self.folder = folder
        self.n_good = self.n_bad = 0
        self.env = dict(os.environ, MD_DEVICE="host", MD_CACHE_DIR=str(folder / "store"),
                        PATH=f"{self.mdctl.parent}:{os.environ.get('PATH', '')}")

    def report(self, is_good, line, message):
        self.n_good += is_good
        self.n_bad += not is_good
        if not is_good:
            print(f"README.md:{line}: {message}")

    def run(self, command, **more):
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=self.folder,
                              stdin=subprocess.DEVNULL, **{"env": self.env, **more})

    def check_program(self, line, code):
        source, program = self.folder / "program.c", self.folder / "program"
        source.write_text(code, encoding="utf-8")
        done = self.run(self.cc + ["-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{self.root}/include", str(source),
                                   "-o", str(program), f"-L{self.library}", f"-Wl,-rpath,{self.library}",
                                   "-lmultidispatch", "-lm"])
        if done.returncode == 0:
            done = self.run([str(program)])
        wrong = f"exit status {done.returncode}\n{done.stderr[-3000:]}" if done.returncode else (
            check_example.differs(check_example.expected_of(code), done.stdout.splitlines()))
        self.report(not wrong, line, wrong)

    def check_examples(self, text):
        programs = [(line, code) for line, words, code in blocks(text) if words[0] == "c"]
        for line, code in programs:
            self.check_program(line, code)
        example = (self.root / "tools" / "examples" / "first_program.c").read_text(encoding="utf-8")
        self.report([code for _, code in programs] == [example], 1, "the program is not tools/examples/first_program.c")

    def check_commands(self, text):
        for first, words, code in blocks(text):
            if words[0] != "sh":
                continue
            for line, command in enumerate(code.splitlines(), first + 1):
                done = self.run(["bash", "-e", "-o", "pipefail", "-c", command])
                self.report(done.returncode == 0, line, f"exit status {done.returncode}: {command}\n{done.stderr[-2000:]}")

    def check_formula(self, line, formula):
        command = "check" if "@" in formula else "source"  # formulas over lists have no source of their own
        done = self.run([str(self.mdctl), command, formula], env=dict(self.env, MD_CC="false"))  # which needs no compiler
        self.report(done.returncode == 0, line, f"{formula}\n{done.stderr[-1000:]}")

    def check_formulas(self, text):
        for line, words, code in blocks(text):
            for formula in re.findall(r'md\.op\("([^"]*)"', code) if words[0] == "python" else ():
                self.check_formula(line, formula)
        section = re.search(r"^## Formulas\n(.*?)^## ", text, flags=re.S | re.M)
        first = text.count("\n", 0, section.start()) + 1
        n = 0
        for line, row in enumerate(section.group(0).splitlines(), first):
            cell = re.match(r"\|.*\| `(.*)` \|$", row)
            if cell:
                n += 1
                self.check_formula(line, cell.group(1))
        self.report(n > 0, first, "the table of formulas is gone")

    def check_names(self, text):
        real = set(self.run([self.print_variables]).stdout.split())
        for path in (self.root / "include").rglob("*.h"):
            real |= set(re.findall(r"\bMD_[A-Z0-9_]+", path.read_text(encoding="utf-8")))
        for line, row in enumerate(text.splitlines(), 1):
            for name in re.findall(r"\bMD_[A-Z0-9_]+", row):
                self.report(name in real, line, f"{name} is no variable or constant")
            for path in re.findall(r"`((?:src|tools|tests|data|include)/[\w./-]+)", row):
                self.report((self.root / path).exists(), line, f"there is no {path}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        checker = Checker(sys.argv[1:], pathlib.Path(folder))
        readme = checker.root / "README.md"
        if not readme.exists():
            print("there is no README.md")
            return SKIP
        text = readme.read_text(encoding="utf-8")
        n_lines = len(text.splitlines())
        checker.report(n_lines <= MOST_LINES, n_lines, f"more than {MOST_LINES} lines")
        checker.check_examples(text)
        checker.check_commands(text)
        checker.check_formulas(text)
        checker.check_names(text)
        print(f"{checker.n_good} checks good, {checker.n_bad} bad")
        return 1 if checker.n_bad else 0


if __name__ == "__main__":
    sys.exit(main())
