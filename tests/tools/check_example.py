#!/usr/bin/env python3
"""Runs an example and compares its output with what its first comment says under "Prints". A line that starts with "..."
stands for the rest of the output. Arguments: the example's source, the command. With --cxx COMPILER FOLDER FLAGS... instead
of the command: the source is compiled as C++17 first."""

import pathlib
import re
import subprocess
import sys
import tempfile

SKIP = 77


def expected_of(source):
    comment = source[: source.index("*/")]
    match = re.search(r"\n \* Prints[^\n]*:\n((?: \*     [^\n]*\n?)+)", comment)
    if not match:
        sys.exit("the first comment does not say what the program prints")
    return [line[len(" *     "):].rstrip() for line in match.group(1).splitlines()]


def differs(expected, printed):
    """Says where the output is another, or None."""
    for i, line in enumerate(expected):
        if line.startswith("..."):
            return None
        if i >= len(printed) or printed[i] != line:
            return f"line {i + 1}: '{printed[i] if i < len(printed) else '(the end)'}', expected '{line}'"
    return None if len(printed) == len(expected) else f"line {len(expected) + 1} is too much: '{printed[len(expected)]}'"


def compiled_as_cpp(source, folder, compiler, flags):
    program = pathlib.Path(folder) / "program"
    subprocess.run([*compiler.split(), "-std=c++17", "-Wall", "-Wextra", "-Werror", "-x", "c++", str(source), "-x", "none",
                    "-o", str(program), *flags], check=True)
    return [str(program)]


def main():
    source, command = pathlib.Path(sys.argv[1]), sys.argv[2:]
    with tempfile.TemporaryDirectory() as folder:
        if command[0] == "--cxx":
            command = compiled_as_cpp(source, folder, command[1], command[2:])
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode == SKIP:
        return SKIP
    print(done.stdout, end="")
    wrong = f"exit status {done.returncode}" if done.returncode else differs(expected_of(source.read_text(encoding="utf-8")),
                                                                         done.stdout.splitlines())
    if wrong:
        print(f"{source.name}: {wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
