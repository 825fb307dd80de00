#!/usr/bin/env python3
"""Checks what keeps the tree readable. Argument: the source root.

- A folder has at most 16 .c files, a file 400 lines, a function 60 lines and 6 parameters. EXCEPTIONS lists the rest.
- Each .c and .cu file opens with a comment that says what it is for.
- README.md has at most 180 lines, each README.md in src 120.

Functions are found by their layout (tools/format): the body opens and closes with a brace in column 0."""

import pathlib
import re
import sys

MAX_C_FILES, MAX_LINES, MAX_FUNCTION_LINES, MAX_PARAMETERS = 16, 400, 60, 6
MAX_README_LINES, MAX_SRC_README_LINES = 180, 120

# File, or file:function -> why it may be over a limit.
EXCEPTIONS = {
    "include/md/dlpack.h:md_tensor_from_parts": "a DLTensor's fields one by one: the header does not know the struct",
}

# Folder -> why its functions may have more parameters.
MANY_PARAMETERS = {
    "src/kernels": "all is inlined into one text, where arguments are registers; a struct is kept there only as long as "
                   "the compiler sees through it",
}

problems = []


def complain(path, line, text):
    problems.append(f"{path}:{line}: {text}")


def blank_comments(text):
    """Comments and texts are blanked, so that braces and commas in them do not count; lines stay."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group(0))
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', blank, text, flags=re.S)


def parameters_of(header):
    """(name, number of parameters) of a function's header, None where it is none."""
    opened = re.search(r"(\w+)\s*\(", re.sub(r"__attribute__\s*\(\(.*?\)\)|\b__launch_bounds__\s*\([^)]*\)",
                                              lambda m: " " * len(m.group(0)), header))
    if not opened:
        return None
    depth, count, inside = 0, 0, ""
    for c in header[opened.end() - 1:]:
        depth += c in "([{"
        depth -= c in ")]}"
        if depth == 0:
            break
        count += depth == 1 and c == ","
        inside += c
    words = inside[1:].strip()
    return opened.group(1), 0 if words in ("", "void") else count + 1


def functions_of(text):
    """(name, first line, lines, parameters) of every function that has a body."""
    lines = blank_comments(text).split("\n")
    for i, line in enumerate(lines):
        if line.rstrip() != "{":
            continue
        first = i
        while first > 0 and lines[first - 1].strip() and not re.match(r"[#}]|.*[;}\\]\s*$", lines[first - 1]):
            first -= 1
        last = next((k for k in range(i, len(lines)) if lines[k].startswith("}")), len(lines) - 1)
        found = parameters_of(" ".join(lines[first:i]))
        if found:
            yield found[0], first + 1, last - first + 1, found[1]


def check_file(root, path):
    name = str(path.relative_to(root))
    text = path.read_text(encoding="utf-8")
    n_lines = text.count("\n")
    if n_lines > MAX_LINES and name not in EXCEPTIONS:
        complain(name, n_lines, f"{n_lines} lines, more than {MAX_LINES}")
    if path.suffix != ".h" and not text.startswith(("/*", "//")):
        complain(name, 1, "does not open with a comment that says what the file is for")
    for function, line, length, parameters in functions_of(text):
        if f"{name}:{function}" in EXCEPTIONS:
            continue
        if length > MAX_FUNCTION_LINES:
            complain(name, line, f"{function} has {length} lines, more than {MAX_FUNCTION_LINES}")
        if parameters > MAX_PARAMETERS and not name.startswith(tuple(folder + "/" for folder in MANY_PARAMETERS)):
            complain(name, line, f"{function} has {parameters} parameters, more than {MAX_PARAMETERS}")


def check_folders(root, files):
    count = {}
    for path in files:
        if path.suffix == ".c":
            count[path.parent] = count.get(path.parent, 0) + 1
    for folder, n in sorted(count.items()):
        name = str(folder.relative_to(root))
        if n > MAX_C_FILES and name not in EXCEPTIONS:
            complain(name, 0, f"{n} .c files, more than {MAX_C_FILES}")


def check_pages(root):
    pages = [(root / "README.md", MAX_README_LINES)] + [
        (p, MAX_SRC_README_LINES) for p in sorted((root / "src").rglob("README.md"))]
    for path, most in pages:
        n_lines = path.read_text(encoding="utf-8").count("\n") if path.exists() else 0
        if n_lines > most:
            complain(path.relative_to(root), n_lines, f"{n_lines} lines, more than {most}")


def check_exceptions(root):
    for name in EXCEPTIONS:
        path, _, function = name.partition(":")
        if not (root / path).exists() or (function and function not in (root / path).read_text(encoding="utf-8")):
            complain(name, 0, "is an exception in check_limits.py, but does not exist")


def check(root):
    """The number of files looked at; what is wrong is in `problems`."""
    files = [p for top in ("include", "src", "tests", "tools") if (root / top).exists()
             for p in sorted((root / top).rglob("*")) if p.suffix in (".c", ".h", ".cu")]
    for path in files:
        check_file(root, path)
    check_folders(root, files)
    check_pages(root)
    check_exceptions(root)
    return len(files)


def main():
    n_files = check(pathlib.Path(sys.argv[1]).resolve())
    print("\n".join(problems))
    print(f"{n_files} files, {len(problems)} problems")
    return 1 if problems or not n_files else 0


if __name__ == "__main__":
    sys.exit(main())
