#!/usr/bin/env python3
"""Checks what keeps the tree readable. Argument: the source root.

- A file of src has at most 400 lines, another 500; a function 60 lines and 6 parameters. EXCEPTIONS lists the rest.
- Each .c and .cu file opens with a comment that says what it is for.
- README.md has at most 180 lines, each README.md in src 160. Lines of pages have at most 120 columns; outside of src rows
  of tables and what stands in code blocks may be longer. Pages of results (data/results) are as they are.
- Commits since FIRST_COMMIT have a subject "topic: what changed" of at most 72 columns, where there is a repository.

Functions are found by their layout (tools/format): the body opens and closes with a brace in column 0."""

import pathlib
import re
import subprocess
import sys

MAX_LINES, MAX_SRC_LINES, MAX_FUNCTION_LINES, MAX_PARAMETERS = 500, 400, 60, 6
MAX_README_LINES, MAX_SRC_README_LINES, MAX_COLUMNS, MAX_SUBJECT = 180, 160, 120, 72
FIRST_COMMIT = "4b4deb21"  # of those whose subjects are checked, exclusive

# File, or file:function -> why it may be over a limit.
EXCEPTIONS = {
    "src/tune/model/tree_table.h": "a table that tools/fit_trees writes: a tree has three lines",
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


def check_length(name, text):
    n_lines, most = text.count("\n"), MAX_SRC_LINES if name.startswith("src/") else MAX_LINES
    if n_lines > most and name not in EXCEPTIONS:
        complain(name, n_lines, f"{n_lines} lines, more than {most}")
    elif n_lines <= most and name in EXCEPTIONS:
        complain(name, n_lines, "is an exception in check_limits.py, but is within the limit")


def check_file(root, path):
    name = str(path.relative_to(root))
    text = path.read_text(encoding="utf-8")
    check_length(name, text)
    if path.suffix == ".py":
        return
    if path.suffix != ".h" and not text.startswith(("/*", "//")):
        complain(name, 1, "does not open with a comment that says what the file is for")
    for function, line, length, parameters in functions_of(text):
        if f"{name}:{function}" in EXCEPTIONS:
            continue
        if length > MAX_FUNCTION_LINES:
            complain(name, line, f"{function} has {length} lines, more than {MAX_FUNCTION_LINES}")
        if parameters > MAX_PARAMETERS and not name.startswith(tuple(folder + "/" for folder in MANY_PARAMETERS)):
            complain(name, line, f"{function} has {parameters} parameters, more than {MAX_PARAMETERS}")


def check_width(name, text):
    is_code, is_strict = False, name.parts[0] == "src"
    for number, line in enumerate(text.split("\n"), 1):
        is_code ^= line.lstrip().startswith("```")
        if len(line) > MAX_COLUMNS and (is_strict or not (is_code or line.startswith(("|", "    ")))):
            complain(name, number, f"{len(line)} columns, more than {MAX_COLUMNS}")


def check_pages(root):
    lengths = {root / "README.md": MAX_README_LINES,
               **{p: MAX_SRC_README_LINES for p in (root / "src").rglob("README.md")}}
    others = [p for top in (".github", "data", "tests", "tools") for p in (root / top).rglob("*.md")
              if "results" not in p.parts or p.name == "README.md"]
    for path in sorted([*lengths, *others]):
        name, text = path.relative_to(root), path.read_text(encoding="utf-8") if path.exists() else ""
        most = lengths.get(path, text.count("\n"))
        if text.count("\n") > most:
            complain(name, text.count("\n"), f"{text.count(chr(10))} lines, more than {most}")
        check_width(name, text)


def check_subject(commit, subject):
    if len(subject) > MAX_SUBJECT:
        complain(commit, 0, f"its subject has {len(subject)} columns, more than {MAX_SUBJECT}: {subject}")
    elif not re.match(r"[^:]+: \S", subject):
        complain(commit, 0, f"its subject does not begin with a topic and a colon: {subject}")


def check_commits(root):
    """Of the current branch. Nothing where FIRST_COMMIT is not there: an archive, a shallow clone."""
    found = subprocess.run(["git", "-C", str(root), "log", "--no-merges", "--format=%h %s", FIRST_COMMIT + "..HEAD"],
                           capture_output=True, text=True, check=False)
    for line in found.stdout.splitlines() if found.returncode == 0 else []:
        check_subject(*line.split(" ", 1))


def check_exceptions(root):
    for name in EXCEPTIONS:
        path, _, function = name.partition(":")
        if not (root / path).exists() or (function and function not in (root / path).read_text(encoding="utf-8")):
            complain(name, 0, "is an exception in check_limits.py, but does not exist")


def check(root):
    """The number of files looked at; what is wrong is in `problems`."""
    files = [p for top in ("include", "src", "tests", "tools") if (root / top).exists()
             for p in sorted((root / top).rglob("*"))
             if p.suffix in (".c", ".h", ".cu") or (p.suffix == ".py" and top == "src")]
    for path in files:
        check_file(root, path)
    check_pages(root)
    check_exceptions(root)
    check_commits(root)
    return len(files)


def main():
    n_files = check(pathlib.Path(sys.argv[1]).resolve())
    print("\n".join(problems))
    print(f"{n_files} files, {len(problems)} problems")
    return 1 if problems or not n_files else 0


if __name__ == "__main__":
    sys.exit(main())
