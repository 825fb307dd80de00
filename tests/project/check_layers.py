#!/usr/bin/env python3
"""Checks what the layers promise: who may include whom, and which calls stay in which file. Argument: the source root."""

import pathlib
import re
import sys

RANKS = {
    "base": 0,
    "expr": 1, "store": 1, "kernel": 1,
    "stage": 2, "device": 2,
    "codegen": 3,
    "family": 4,
    "build": 5,
    "tune": 6,
    "dispatch": 7,
    "stats": 8,
    "api": 9,
}

# Pattern, why, and the files that may use it.
RESERVED = [
    (r"\b(secure_)?getenv\s*\(", "the environment is read in one file", {"base/env.c"}),
    (r"#\s*include\s*<ut(hash|list|array|string)\.h>", "uthash has one user", {"base/table.c"}),
    (r"\b(abort|exit|_exit|quick_exit)\s*\(", "the library never ends the program", set()),
    (r"\b(printf|puts|putchar|perror)\s*\(", "the library never prints", set()),
    (r"\bstderr\b", "the library prints only where it was asked to", {"base/log.c"}),
    (r"\bpthread_(mutex|cond)_(init|destroy)\s*\(", "a fork must know all locks but those of GPUs",
     {"base/task/fork.c", "device/cuda/open.c", "device/cuda/blas.c", "dispatch/runtime.c"}),
    (r"\bstatic\s+(?!const\b|inline\b|_Thread_local\b|_Noreturn\b|__attribute__)[^;(=]*\s\w+(\[[^\]]*\])?\s*(=[^=]|;)",
     "no mutable globals", {"base/task/fork.c"}),  # fork is of the process
]

MANY_LINES, TOO_MANY_LINES = 450, 600

problems = []


def without_comments(text):
    """Comments and texts are blanked, lines stay."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group(0)) if match.group(0).startswith("/") else '""' if (
            match.group(0).startswith('"')) else "' '"
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', blank, text, flags=re.S)


def complain(path, line, text):
    problems.append(f"{path}:{line}: {text}")


def check_includes(src, path, folder, text):
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
        if not match:
            continue
        name = match.group(1)
        if name == "md_build_config.h":
            continue
        # A header that kernels and the code that prints them share: both must count alike.
        if name.startswith("kernels/") and RANKS[folder] >= RANKS["codegen"] and (src / name).exists():
            continue
        if "/" not in name:
            complain(path, number, f'"{name}" is written without its folder')
            continue
        other = name.split("/")[0]
        if other not in RANKS:
            complain(path, number, f'"{name}" is in no layer')
        elif other != folder and RANKS[other] >= RANKS[folder]:
            complain(path, number, f"{folder} (rank {RANKS[folder]}) must not include {other} (rank {RANKS[other]})")
        elif not (src / name).exists():
            complain(path, number, f'"{name}" does not exist')


def check_reserved(src, path, text):
    code = without_comments(text)
    for pattern, why, allowed in RESERVED:
        if str(path.relative_to(src)) in allowed:
            continue
        for match in re.finditer(pattern, code):
            complain(path, code.count("\n", 0, match.start()) + 1, f"{match.group(0).strip()}: {why}")


def check_guard(src, path, text):
    wanted = "MD_" + re.sub(r"[^A-Z0-9]", "_", str(path.relative_to(src)).upper())
    match = re.search(r"#ifndef\s+(\w+)\s*\n#define\s+(\w+)", text)
    if not match or {match.group(1), match.group(2)} != {wanted}:
        complain(path, 1, f"the include guard is not {wanted}")


def check_folder(src, folder, seen):
    n_files = 0
    for path in sorted((src / folder).rglob("*.[ch]")):
        n_files += 1
        text = path.read_text(encoding="utf-8")
        check_includes(src, path, folder, text)
        check_reserved(src, path, text)
        if path.suffix == ".h":
            check_guard(src, path, text)
        if path.name in seen:
            print(f"warning: {path}: there is another {path.name}: {seen[path.name]}")
        seen.setdefault(path.name, path)
        n_lines = text.count("\n")
        if n_lines > TOO_MANY_LINES:
            complain(path, n_lines, f"more than {TOO_MANY_LINES} lines")
        elif n_lines > MANY_LINES:
            print(f"warning: {path}: {n_lines} lines")
    return n_files


def check_tools(root):
    for path in sorted((root / "tools").rglob("*.[ch]")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = re.match(r'\s*#\s*include\s*["<]([^">]+)[">]', line)
            if match and match.group(1).split("/")[0] in RANKS and not (path.parent / match.group(1)).exists():
                complain(path, number, f"tools use public headers only, not {match.group(1)}")


def check_embedded(src):
    """What lies beside the kernels but is not in the list would be missing where the library runs."""
    listed = set(re.findall(r"'(host/[^']+)'", (src / "kernels" / "meson.build").read_text(encoding="utf-8")))
    there = {str(p.relative_to(src / "kernels")) for p in (src / "kernels" / "host").glob("*.[ch]")}
    for name in sorted(there - listed):
        complain(src / "kernels" / name, 0, "is not embedded: src/kernels/meson.build does not list it")


def main():
    root = pathlib.Path(sys.argv[1])
    src = root / "src"
    seen, n_files = {}, 0
    for folder in sorted(p.name for p in src.iterdir() if p.is_dir() and p.name != "kernels"):
        if folder not in RANKS:
            complain(src / folder, 0, "this folder is in no layer")
            continue
        n_files += check_folder(src, folder, seen)
    check_tools(root)
    check_embedded(src)
    print("\n".join(problems))
    print(f"{n_files} files, {len(problems)} problems")
    return 1 if problems or not n_files else 0


if __name__ == "__main__":
    sys.exit(main())
