#!/usr/bin/env python3
"""Finds copies in src: runs of at least MIN_LINES lines whose text is equal, or equal but for names, numbers and texts.
Argument: the source root; --all prints those of EXCEPTIONS as well.

Statements are compared, without comments, blanks and includes: a copy renames names of the original one to one, and lines
may break elsewhere. EXCEPTIONS argues for what stays; an exception that matches no copy is an error."""

import collections
import pathlib
import re
import sys

MIN_LINES = 12
SUFFIXES = {".c", ".h", ".cu", ".py"}

# (file, file): why their common lines stay. A folder stands for all of its files.
EXCEPTIONS = {
    ("family/cuda/row/scan_persistent.c", "family/cuda/row/scan_split.c"): "tables: a family's fields and callbacks",
    ("family/host/row/row_looped.c", "family/host/row/row_persistent.c"): "tables: the fields of a config, in the kind's spec",
    ("kernels/cuda/math.h", "kernels/host/arithmetic.h"):
        "the same function in CUDA C++ and in C: no text is valid in both, and each is compiled without the other",
    ("python/op/op.c", "python/plan/plan.c"): "tables of CPython: the slots of a type",
}

TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|\w+|[^\w\s]|\n')
COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|^[ \t]*#[ \t]*(?:include|ifndef|define \w+_H$|endif)[^\n]*|("(?:\\.|[^"\\\n])*"|'
                     r'\'(?:\\.|[^\'\\\n])+\')', re.S | re.M)
PYTHON_COMMENT = re.compile(r'""".*?"""|#[^\n]*|^(?:from|import) [^\n]*|("(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')', re.S | re.M)
WORDS = set("if else for while do switch case default return break continue struct enum union typedef static const void int "
            "char float double bool int32_t int64_t uint32_t uint64_t size_t sizeof inline true false NULL def class in not "
            "and or None self".split())
SEED = 4  # statements that must be alike before a run is looked at; a run with fewer forms of statements is a table


class Statement:
    """Tokens up to a semicolon or brace (in Python to the end of the line), and the lines that they stand in."""
    def __init__(self, tokens, first, last):
        self.tokens, self.first, self.last = tuple(tokens), first, last
        self.shape = tuple("x" if is_free(t) else t for t in tokens)


def is_free(token):
    """Names, numbers and texts, which may differ between copies; the words of the language may not."""
    return re.match(r"[A-Za-z_0-9\"']", token) and token not in WORDS


def statements_of(path):
    text = path.read_text(encoding="utf-8")
    is_python = path.suffix == ".py"
    pattern = PYTHON_COMMENT if is_python else COMMENT
    text = pattern.sub(lambda m: m.group(1) or re.sub(r"[^\n]", " ", m.group(0)), text)
    found, tokens, line, first = [], [], 1, 1
    for token in TOKEN.findall(text):
        if token == "\n":
            line += 1
        else:
            first = line if not tokens else first
            tokens.append(token)
        if tokens and token in ("\n" if is_python else ";{}"):
            if len(tokens) > 1:
                found.append(Statement(tokens, first, line - (token == "\n")))
            tokens = []
    return found


def matches(a, b, names):
    """True if statement b is statement a with names renamed one to one, as in `names` so far; adds to it."""
    if len(a) != len(b):
        return False
    new = {}
    for x, y in zip(a, b):
        if not is_free(x) or not is_free(y):
            if x != y:
                return False
            continue
        for key, value in (("a", x), y), (("b", y), x):
            if names.get(key, new.get(key, value)) != value:
                return False
            new[key] = value
    names.update(new)
    return True


def grow(a, b, i, j):
    """How many statements from i of a and j of b on are copies."""
    names, n = {}, 0
    while i + n < len(a) and j + n < len(b) and matches(a[i + n].tokens, b[j + n].tokens, names):
        n += 1
    return n


def n_lines(statements):
    return len({line for s in statements for line in range(s.first, s.last + 1)})


def find(files):
    """(file, first line, last line, file, first line, last line, lines) of all copies."""
    places = collections.defaultdict(list)
    for name, statements in files.items():
        for i in range(len(statements) - SEED + 1):
            places[tuple(s.shape for s in statements[i:i + SEED])].append((name, i))
    seen, found = set(), []
    for group in places.values():
        for k, (a, i) in enumerate(group):
            for b, j in group[k + 1:]:
                if (a, i, b, j) in seen:
                    continue
                n = grow(files[a], files[b], i, j)
                if a == b:
                    n = min(n, j - i)
                is_table = len({s.shape for s in files[a][i:i + n]}) < SEED
                if is_table or min(n_lines(files[a][i:i + n]), n_lines(files[b][j:j + n])) < MIN_LINES:
                    continue
                seen.update((a, i + x, b, j + x) for x in range(n))
                found.append((a, files[a][i].first, files[a][i + n - 1].last, b, files[b][j].first,
                              files[b][j + n - 1].last, n_lines(files[a][i:i + n])))
    return found


def exception_of(a, b):
    for pair in EXCEPTIONS:
        for x, y in (pair, pair[::-1]):
            if (a == x or a.startswith(x + "/")) and (b == y or b.startswith(y + "/")):
                return pair
    return None


def main():
    src = pathlib.Path(sys.argv[1]).resolve() / "src"
    files = {str(p.relative_to(src)): statements_of(p) for p in sorted(src.rglob("*")) if p.suffix in SUFFIXES}
    problems, used = [], set()
    for a, first, last, b, from_, to, n in sorted(find(files)):
        pair = exception_of(a, b)
        used.add(pair)
        if pair is None or "--all" in sys.argv:
            problems.append(f"src/{a}:{first}-{last} and src/{b}:{from_}-{to}: {n} lines are copies")
    problems += [f"check_copies.py has an exception that matches no copy: {pair}" for pair in EXCEPTIONS if pair not in used]
    print("\n".join(problems))
    print(f"{len(files)} files, {len(problems)} problems")
    return 1 if problems or not files else 0


if __name__ == "__main__":
    sys.exit(main())
