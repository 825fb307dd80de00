#!/usr/bin/env python3
"""Compiles and runs the C blocks of README.md as a user would, and compares its environment variables with the library's.
A block with a main is a program; any other is put into one. ```c cpp also compiles and runs as C++17; ```c fragment is
not compiled. Arguments: source root, folder of the library, program that prints the variables, C and C++ compiler."""

import pathlib
import re
import subprocess
import sys
import tempfile

SKIP = 77
WRAPPED = "#include <md/md.h>\n#include <stdio.h>\n#include <stdlib.h>\nint main(void)\n{\n%s\nreturn 0;\n}\n"


def blocks(text):
    """Line, words after the fence, code."""
    for match in re.finditer(r"^```(c\b[^\n]*)\n(.*?)^```", text, flags=re.S | re.M):
        yield text.count("\n", 0, match.start()) + 1, match.group(1).split(), match.group(2)


def build_and_run(compiler, options, source, root, library):
    program = source.with_suffix("")
    command = compiler + options + ["-Wall", "-Wextra", "-Werror", f"-I{root}/include", str(source), "-o", str(program),
                                    f"-L{library}", f"-Wl,-rpath,{library}", "-lmultidispatch", "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        done = subprocess.run([str(program)], capture_output=True, text=True, check=False, timeout=120,
                              cwd=source.parent, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout[-4000:] + done.stderr[-4000:]


def check_examples(root, text, library, cc, cxx):
    n_good = n_bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for line, words, code in blocks(text):
            if "fragment" in words:
                continue
            full = code if re.search(r"\bmain\s*\(", code) else WRAPPED % code
            languages = [(cc, ["-std=c11"], ".c")]
            if "cpp" in words and cxx:
                languages.append((cxx, ["-std=c++17"], ".cc"))
            for compiler, options, suffix in languages:
                source = pathlib.Path(folder) / f"line{line}{suffix}"
                source.write_text(full, encoding="utf-8")
                code_out, output = build_and_run(compiler, options, source, root, library)
                if code_out == 0:
                    n_good += 1
                else:
                    n_bad += 1
                    print(f"README.md:{line}: {options[0]}: exit status {code_out}\n{output}")
    print(f"{n_good} examples good, {n_bad} bad")
    return n_bad


def check_variables(root, text, print_variables):
    output = subprocess.run([print_variables], capture_output=True, text=True, check=True).stdout
    real = set(output.split())
    constants = set()
    for path in (root / "include").rglob("*.h"):
        constants |= set(re.findall(r"\bMD_[A-Z0-9_]+", path.read_text(encoding="utf-8")))
    constants -= real
    named = set(re.findall(r"\bMD_[A-Z0-9_]+", text)) - constants
    for name in sorted(real - named):
        print(f"README.md does not name {name}")
    for name in sorted(named - real):
        print(f"README.md names {name}, which is no variable or constant")
    return len(real ^ named) if real else 1


def main():
    root, library, print_variables = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    cc, cxx = sys.argv[4].split(), sys.argv[5].split()
    readme = root / "README.md"
    if not readme.exists():
        print("there is no README.md")
        return SKIP
    text = readme.read_text(encoding="utf-8")
    n_bad = check_examples(root, text, library, cc, cxx) + check_variables(root, text, print_variables)
    return 1 if n_bad else 0


if __name__ == "__main__":
    sys.exit(main())
