#!/usr/bin/env python3
"""Checks the layers of src. Arguments: the source root, and a build folder (without one, calls are not checked).

- A folder may use folders of lower rank (RANKS).
- Inside a folder, a room (a folder in it) or a top file (NAME.c and NAME.h together) may use rooms and top files of
  lower floors (FLOORS), never others of its own floor. A folder without rooms has no floors.
- "Uses" means: includes a header of it, or has an object file that refers to a symbol which it defines.
- So do the rooms and modules of the Python package that compiles graphs, by their imports (PACKAGE_FLOORS).
- No circle of files: headers that include each other, or .c files that use each other's symbols, directly or through
  others. CIRCLES lists the exceptions.
- RESERVED: some calls have one home."""

import ast
import collections
import json
import pathlib
import re
import subprocess
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
    "sequence": 9,
    "combo": 10,
    "api": 11,
    "list": 12, "package": 12,
    "python": 13,
}

# The floors of each folder with rooms, lowest first.
FLOORS = {
    "base": [["cpu_quota", "plain"], ["clock", "grow", "hash", "number", "sort", "status", "strbuf", "writing"], ["cancel", "dtype", "env", "json", "table", "log", "arena", "embed"],
             ["cpu", "file", "temp"], ["task"], ["trace"]],
    "expr": [["catalogue", "diag", "digits", "memo", "ops"], ["formula", "scalar"], ["node", "order", "whole"], ["walk"], ["print"], ["equal", "eval"],
             ["merge_dims", "range"], ["front", "needed"], ["bind", "list"]],
    "device": [["map_address"], ["device"], ["host_memory", "temporary"], ["nvrtc"], ["host", "cuda"], ["blas", "dnn", "facts"], ["open"]],
    "codegen": [["codegen"], ["narrow"], ["assemble", "byte_lanes", "params", "tabled", "text"], ["expression"], ["product", "row"], ["chain"]],
    "family": [["family"], ["additions", "applies", "cost", "custom", "emit", "fit", "kernel_name", "numeric"], ["chain", "point", "product"], ["host"], ["cuda"], ["families"],
               ["names"]],
    "tune": [["tune", "wisdom"], ["model", "shape"], ["stored"], ["bench"], ["job"], ["verify"], ["search"], ["calibrate"]],
    "dispatch": [["args", "pin", "policy", "runtime", "space", "types"], ["compile", "numeric"], ["pool"], ["op"], ["bind", "merged", "packed_operand", "registry", "select"], ["cache"], ["run"],
                 ["hybrid"], ["call"], ["create", "open"]],
    "sequence": [["sequence", "values"], ["build", "shape"], ["graph", "memory"], ["lifetime", "segments"],
                 ["create", "launches"], ["bind", "finish", "report"], ["find"], ["run"]],
    "combo": [["axis", "combo", "far", "text"], ["merge"], ["args", "choice", "count", "loops", "stored", "table"], ["find", "overlaps", "params"], ["launch"], ["schedule"], ["decide"],
              ["create", "run"], ["explain", "tuning"]],
    "python": [["arrays"], ["state"], ["op"], ["agree", "list", "package", "plan", "tune"], ["module"]],
}
MAX_FLOORS = 10

# The floors of a package of Python: its rooms and modules. A module imports lower floors only, and no circle arises.
PACKAGE = "python/multidispatch/compile"
PACKAGE_FLOORS = [["attention", "experts", "normal", "options", "original", "randoms", "report", "scans"], ["exported", "recurrent", "sizes"], ["assumed", "described", "general", "ties"], ["rewriting", "lowering"], ["pieces"], ["running"], ["backend"], ["capture"], ["packing"], ["__init__"]]

# Circles that stay: exactly these files, each with its reason.
CIRCLES = [
    ("expressions nest: printing an operation prints its operands, and those may be loads or reductions of expressions",
     {"codegen/expression/access.c", "codegen/expression/place.c", "codegen/expression/bounds.c",
      "codegen/expression/expression.c", "codegen/expression/loops.c", "codegen/expression/group.c",
      "codegen/expression/run.c"}),
]

# Pattern, why, and the files that may use it.
RESERVED = [
    (r"\b(secure_)?getenv\s*\(", "the environment is read in one file", {"base/env.c"}),
    (r"#\s*include\s*<ut(hash|list|array|string)\.h>", "uthash has one user", {"base/table.c"}),
    (r"\b(abort|exit|_exit|quick_exit)\s*\(", "the library never ends the program", set()),
    (r"\b(printf|puts|putchar|perror)\s*\(", "the library never prints", set()),
    (r"\bstderr\b", "the library prints only where it was asked to", {"base/log.c"}),
    (r"\bpthread_(mutex|cond)_(init|destroy)\s*\(", "a fork must know all locks but those of GPUs",
     {"base/task/fork.c", "device/cuda/open.c", "device/cuda/library.c", "device/blas/answer.c", "device/blas/library.c",
      "device/dnn/library.c", "dispatch/runtime.c"}),
    (r"\bstatic\s+(?!const\b|inline\b|_Thread_local\b|_Noreturn\b|__attribute__)[^;(=]*\s\w+(\[[^\]]*\])?\s*(=[^=]|;)",
     "no mutable globals", {"base/task/fork.c", "base/task/exit.c", "base/task/jobs.c", "device/host/measured.c", "family/fit.h",
      "tune/model/trees.c", "python/module.c", "python/op/op.c", "python/plan/plan.c"}),  # fork, exit(), signals and the processor are of the process; what fits constants sets them; trees are found once by family; CPython wants writable tables
]

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.M)

OBJECTS = re.compile(r"/(libmd_|_core\.abi3\.so\.p/)")

problems = []


def complain(path, line, text):
    problems.append(f"{path}:{line}: {text}")


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def without_comments(text):
    """Comments and texts are blanked, lines stay."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group(0)) if match.group(0).startswith("/") else '""' if (
            match.group(0).startswith('"')) else "' '"
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', blank, text, flags=re.S)


# ---- Ranks and floors

def place_of(name):
    """"dispatch/pool/pool.c" -> ("dispatch", "pool"): the folder, and the room or top file in it."""
    parts = name.split("/")
    return parts[0], parts[1] if len(parts) > 2 else parts[1].rsplit(".", 1)[0]


def floor_of(folder, entry):
    for i, floor in enumerate(FLOORS[folder]):
        if entry in floor:
            return i
    return None


def refuse_use(user, used):
    """Why the file `user` must not use the file `used`, or None."""
    (folder, entry), (other, target) = place_of(user), place_of(used)
    if folder != other:
        return None if RANKS[other] < RANKS[folder] else (
            f"{folder} (rank {RANKS[folder]}) must not use {other} (rank {RANKS[other]})")
    if folder not in FLOORS or entry == target:
        return None
    here, there = floor_of(folder, entry), floor_of(folder, target)
    if here is None or there is None or there < here:
        return None  # an entry on no floor is named once, by check_floors
    return f"{folder}/{entry} (floor {here}) must not use {folder}/{target} (floor {there})"


def check_floors(src, folder, names):
    entries = {place_of(n)[1] for n in names}
    has_rooms = any(p.is_dir() and any(p.rglob("*.[ch]")) for p in (src / folder).iterdir())
    if folder not in FLOORS:
        if has_rooms:
            complain(src / folder, 0, "has rooms, but no floors in check_layers.py")
        return
    listed = [e for floor in FLOORS[folder] for e in floor]
    for entry in sorted(entries - set(listed)):
        complain(src / folder / entry, 0, "is on no floor in check_layers.py")
    for entry in sorted(set(listed) - entries):
        complain(src / folder, 0, f"check_layers.py gives {entry} a floor, which does not exist")
    if len(listed) != len(set(listed)):
        complain(src / folder, 0, "check_layers.py names an entry on two floors")
    if len(FLOORS[folder]) > MAX_FLOORS:
        complain(src / folder, 0, f"has {len(FLOORS[folder])} floors, more than {MAX_FLOORS}")


# ---- What uses what

def check_include(src, path, name, line):
    """The file of src that is included, where ranks and circles matter."""
    if name in ("md_build_config.h", "md_families.h"):  # made by the build
        return None
    here = str(path.relative_to(src))
    # A header that kernels and the code that prints them share: both must count alike.
    if name.startswith("kernels/") and RANKS[here.split("/")[0]] >= RANKS["codegen"] and (src / name).exists():
        return None
    if "/" not in name:
        complain(path, line, f'"{name}" is written without its folder')
    elif name.split("/")[0] not in RANKS:
        complain(path, line, f'"{name}" is in no layer')
    elif not (src / name).exists():
        complain(path, line, f'"{name}" does not exist')
    else:
        why = refuse_use(here, name)
        if why:
            complain(path, line, f'"{name}": {why}')
        return name
    return None


def objects_of(src, build):
    """Object file -> source file, of the library's static parts and the Python extension."""
    database = build / "compile_commands.json"
    if not database.exists():
        complain(database, 0, "does not exist: is this a build folder?")
        return {}
    found = {}
    for entry in json.loads(database.read_text(encoding="utf-8")):
        path = (pathlib.Path(entry["directory"]) / entry["file"]).resolve()
        if not path.is_relative_to(src) or not OBJECTS.search(entry["output"]):
            continue
        output = build / entry["output"]
        if not output.exists() or output.stat().st_mtime < path.stat().st_mtime:
            complain(output, 0, f"is missing or older than {path}: build first")
        else:
            found[entry["output"]] = str(path.relative_to(src))
    return found


def uses_of(src, build, nm):
    """(.c file, .c file) -> symbols that the first uses and the second defines."""
    objects = objects_of(src, build)
    if not objects:
        return {}
    out = subprocess.run([nm, "-A", *objects], cwd=build, capture_output=True, text=True, check=True).stdout
    home, wanted = {}, []
    for line in out.splitlines():
        match = re.match(r"(\S+\.o):\s*[0-9a-f]*\s+(\S) (\S+)$", line)
        if match and match.group(2) == "U":
            wanted.append((objects[match.group(1)], match.group(3)))
        elif match and match.group(2) in "TWDRBVC":
            home[match.group(3)] = objects[match.group(1)]
    uses = collections.defaultdict(list)
    for user, symbol in wanted:
        if home.get(symbol, user) != user:
            uses[user, home[symbol]].append(symbol)
    return uses


def check_uses(src, uses):
    for (user, used), symbols in sorted(uses.items()):
        why = refuse_use(user, used)
        if why:
            complain(src / user, 0, f"{why}: {', '.join(sorted(symbols)[:3])} of {used}")


# ---- Circles

def circles_of(edges):
    """The strongly connected components of more than one node (Tarjan, without recursion)."""
    index, low, stack, on_stack, found = {}, {}, [], set(), []
    for root in sorted(edges):
        work = [] if root in index else [(root, iter(sorted(edges[root])))]
        while work:
            node, rest = work[-1]
            if node not in index:
                index[node] = low[node] = len(index)
                stack.append(node)
                on_stack.add(node)
            for other in rest:
                if other not in index:
                    work.append((other, iter(sorted(edges.get(other, ())))))
                    break
                if other in on_stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    members = set()
                    while node not in members:
                        members.add(stack.pop())
                    on_stack -= members
                    found += [members] if len(members) > 1 else []
    return found


def check_circles(src, edges, words):
    found = circles_of(edges)
    for members in found:
        if any(members == listed for _, listed in CIRCLES):
            continue
        links = [f"\n    {a} -> {b}: {words(a, b)}" for a in sorted(members) for b in sorted(edges[a]) if b in members]
        complain(src, 0, f"a circle of {len(members)} files:{''.join(links)}")
    return found


# ---- The rest

def check_reserved(src, path, text):
    code = without_comments(text)
    for pattern, why, allowed in RESERVED:
        if str(path.relative_to(src)) in allowed:
            continue
        for match in re.finditer(pattern, code):
            complain(path, line_of(code, match.start()), f"{match.group(0).strip()}: {why}")


def check_guard(src, path, text):
    wanted = "MD_" + re.sub(r"[^A-Z0-9]", "_", str(path.relative_to(src)).upper())
    match = re.search(r"#ifndef\s+(\w+)\s*\n#define\s+(\w+)", text)
    if not match or {match.group(1), match.group(2)} != {wanted}:
        complain(path, 1, f"the include guard is not {wanted}")


def check_folder(src, folder, includes):
    names = []
    for path in sorted((src / folder).rglob("*.[ch]")):
        text = path.read_text(encoding="utf-8")
        names.append(str(path.relative_to(src)))
        for match in INCLUDE.finditer(text):
            included = check_include(src, path, match.group(1), line_of(text, match.start()))
            if included:
                includes[names[-1]].add(included)
        check_reserved(src, path, text)
        if path.suffix == ".h":
            check_guard(src, path, text)
    check_floors(src, folder, names)
    return len(names)


def check_tools(root):
    for path in sorted((root / "tools").rglob("*.[ch]")):
        if path.parent.name == "man":  # prints what the library's own tables say
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = re.match(r'\s*#\s*include\s*["<]([^">]+)[">]', line)
            if match and match.group(1).split("/")[0] in RANKS and not (path.parent / match.group(1)).exists():
                complain(path, number, f"tools use public headers only, not {match.group(1)}")


def check_embedded(src):
    """What lies beside the kernels but is not in the list would be missing where the library runs."""
    if not (src / "kernels").exists():
        return
    listed = set(re.findall(r"'(host/[^']+)'", (src / "kernels" / "meson.build").read_text(encoding="utf-8")))
    there = {str(p.relative_to(src / "kernels")) for p in (src / "kernels" / "host").glob("*.[ch]")}
    for name in sorted(there - listed):
        complain(src / "kernels" / name, 0, "is not embedded: src/kernels/meson.build does not list it")


def imports_of(package, path):
    """The modules of the package that a module imports, as parts of their names, with the lines."""
    here = path.relative_to(package).with_suffix("").parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or not 0 < node.level <= len(here):
            continue
        base = here[:len(here) - node.level] + tuple(node.module.split(".") if node.module else ())
        for one in node.names:
            module = base + (one.name,)
            yield module if package.joinpath(*module).with_suffix(".py").exists() else base, node.lineno


def check_package(src):
    package, edges, floors = src / PACKAGE, collections.defaultdict(set), {e: i for i, f in enumerate(PACKAGE_FLOORS) for e in f}
    for path in sorted(package.rglob("*.py")):
        here = path.relative_to(package).with_suffix("").parts
        if here[0] not in floors:
            complain(path, 0, f"{here[0]} is on no floor of {PACKAGE} in check_layers.py")
            continue
        for module, line in imports_of(package, path):
            edges["/".join(here)].add("/".join(module))
            if module[0] != here[0] and floors.get(module[0], 0) >= floors[here[0]]:
                complain(path, line, f"{here[0]} (floor {floors[here[0]]}) must not import {module[0]} (floor {floors[module[0]]})")
    check_circles(package, edges, lambda a, b: "imports it")


def check(root, build=None, nm="nm"):
    """The number of files looked at; what is wrong is in `problems`."""
    src = root / "src"
    n_files, includes = 0, collections.defaultdict(set)
    for folder in sorted(p.name for p in src.iterdir() if p.is_dir() and p.name != "kernels"):
        if folder not in RANKS:
            complain(src / folder, 0, "this folder is in no layer")
            continue
        n_files += check_folder(src, folder, includes)
    check_circles(src, {a: b for a, b in includes.items() if a.endswith(".h")}, lambda a, b: "includes it")
    if build:
        uses = uses_of(src, build, nm)
        check_uses(src, uses)
        edges = collections.defaultdict(set)
        for user, used in uses:
            edges[user].add(used)
        found = check_circles(src, edges, lambda a, b: ", ".join(sorted(uses[a, b])[:4]))
        for _, listed in CIRCLES:
            if listed not in found:
                complain(src, 0, f"check_layers.py allows a circle that does not exist: {', '.join(sorted(listed))}")
    check_package(src)
    check_tools(root)
    check_embedded(src)
    return n_files


def main():
    root, build = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2] if len(sys.argv) > 2 else None
    n_files = check(root, pathlib.Path(build).resolve() if build else None, *sys.argv[3:4])
    print("\n".join(problems))
    print(f"{n_files} files, {len(problems)} problems")
    return 1 if problems or not n_files else 0


if __name__ == "__main__":
    sys.exit(main())
