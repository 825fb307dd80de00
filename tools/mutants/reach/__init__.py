"""Which tests run which lines of src: a file that tools/mutate --make-reach makes once, and --reach reads.

It is JSON: "tests" the names (of Python's files, each case: FILE::CASE), "times" their seconds, "sets" lists of numbers of
tests, "lines" for each file and line the number of its set, "sites" the lines at which blocks begin, and "texts" a
checksum of each line, so that the file serves a tree that was edited since."""

import ast
import bisect
import collections
import difflib
import json
import pathlib
import re
import subprocess
import threading
import zlib

HERE = pathlib.Path(__file__).resolve().parent
FLAGS = "-g1 -fsanitize-coverage=trace-pc -Wl,--build-id"
KERNEL_FLAGS = "-g1"  # of kernels the lines that they have code of count, not those that ran
CALL = "__sanitizer_cov_trace_pc"


def sums_of(text):
    return [zlib.crc32(line.strip().encode()) for line in text.splitlines()]


def build_id(path):
    notes = subprocess.run(["readelf", "-n", str(path)], capture_output=True, text=True, check=False).stdout
    found = re.search(r"Build ID: (\w+)", notes)
    return found.group(1) if found else None


def is_elf(path):
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def line_numbers(path, addresses):
    """(file, line) of each address of an object with line numbers."""
    said = subprocess.run(["addr2line", "-e", str(path)], input="\n".join(f"{a:x}" for a in addresses), capture_output=True,
                          text=True, check=True).stdout.splitlines()
    for line in said:
        name, _, number = line.split(" ")[0].rpartition(":")
        yield name, int(number) if number.isdigit() else 0


def python_lines(text):
    """The lines at which statements of functions begin."""
    functions = [n for n in ast.walk(ast.parse(text)) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return {n.lineno for f in functions for s in f.body for n in ast.walk(s) if isinstance(n, ast.stmt)}


class Objects:
    """The programs, libraries and stored kernels of a build, by their build id."""

    def __init__(self, tree, build, kept):
        self.tree, self.build, self.kept = tree, build, kept
        self.paths, self.numbers, self.lock = {}, collections.defaultdict(dict), threading.Lock()
        self.of_kernels, self.found_sites = {}, None
        for path in build.rglob("*"):
            if path.is_file() and not path.is_symlink() and path.suffix not in (".o", ".a", ".ninja", ".json", ".c", ".h") and is_elf(path):
                self.paths[build_id(path)] = path
        self.headers = {str(p.relative_to(tree)): p.read_text(encoding="utf-8")
                        for p in (tree / "src/kernels/host").rglob("*") if p.suffix in (".c", ".h")}
        self.known_lines = collections.defaultdict(list)  # places of a line of a kernel, by its text
        for name, header in self.headers.items():
            for i, line in enumerate(header.splitlines()):
                if len(line.strip()) > 8:
                    self.known_lines[line.strip()].append((name, 1 + i))

    def place_of(self, name, number):
        """A file of src and a line, for what the compiler calls so; None for others. Kernels: where the text is from."""
        return (str(name.relative_to(self.tree)), number) if name.is_relative_to(self.tree / "src") else None

    def lines_of_kernel(self, key):
        if key not in self.of_kernels:
            self.of_kernels[key] = self.kernel_lines(self.kept / key) if (self.kept / f"{key}.c").exists() else set()
        return self.of_kernels[key]

    def kernel_lines(self, path):
        """Lines of src that a stored kernel has code of. Most of its blocks are inlined, and say nothing by their addresses."""
        text, places = (self.kept / f"{path.name}.c").read_text(encoding="utf-8"), {}
        for name, header in self.headers.items():
            at = text.find(header)
            if at >= 0:
                first = text.count("\n", 0, at) + 1
                places |= {first + i: [(name, 1 + i)] for i in range(header.count("\n"))}
        rows = text.splitlines()
        said = subprocess.run(["objdump", "--dwarf=decodedline", str(path)], capture_output=True, text=True, check=True).stdout
        numbers = {int(n) for n in re.findall(r"^\S+\s+(\d+)\s+0x", said, re.M)}
        return {p for n in numbers if n <= len(rows) for p in places.get(n) or self.known_lines.get(rows[n - 1].strip(), [])}

    def lines(self, name, start, offsets):
        """Files of src and lines, for what ran of an object."""
        with self.lock:
            path, known = self.paths.get(name), self.numbers[name]
        if not path or not offsets:
            return set()
        new = [o for o in offsets if o not in known]
        for offset, (file, number) in zip(new, line_numbers(path, [start + o - 1 for o in new]) if new else ()):
            known[offset] = self.place_of(pathlib.Path(self.build, file).resolve(), number)
        return {known[o] for o in offsets} - {None}

    def sites(self):
        """The lines at which blocks begin, by file."""
        if self.found_sites:
            return self.found_sites
        self.found_sites = found = collections.defaultdict(set)
        built = list(self.paths.values())
        for path in [p for p in built if p.name.startswith(("libmultidispatch.so.", "_core."))] or built:
            code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", str(path)], capture_output=True, text=True, check=True).stdout
            calls = [int(m, 16) for m in re.findall(rf"^ *(\w+):\s+call.*<{CALL}", code, re.M)]
            for file, number in line_numbers(path, calls):
                place = self.place_of(pathlib.Path(self.build, file).resolve(), number)
                if place:
                    found[place[0]].add(place[1])
        return found


class Making:
    """What the tests reach, while they run."""

    def __init__(self, objects):
        self.objects, self.lock = objects, threading.Lock()
        self.of, self.times = collections.defaultdict(set), {}
        self.old_of, self.old_times = collections.defaultdict(set), {}

    def add(self, name, folder, seconds):
        """Takes what a test left in its folder."""
        found, times = collections.defaultdict(set), {name: seconds}
        for path in sorted(folder.iterdir()):
            what, _, case = path.name.partition("@")
            key = f"{name}::{case}" if case.count(".") == 1 else name  # others are no cases that can be asked for
            if what.startswith("lines"):
                for line in path.read_text(encoding="utf-8").splitlines():
                    file, number = line.rsplit(" ", 1)
                    if file == "seconds" and key != name:
                        times[key] = float(number) if float(number) >= 0 else None
                    elif file != "seconds":
                        found[key].add((f"src/python/{file}", int(number)))
                continue
            if what.startswith("kernel-"):
                found[key] |= self.objects.lines_of_kernel(what.split("-")[1])
                continue
            data, (build, start) = path.read_bytes(), what.split("-")
            offsets = [int.from_bytes(data[i:i + 4], "little") for i in range(0, len(data), 4)] if case else \
                [m.start() for m in re.finditer(b"\x01", data)]
            found[key] |= self.objects.lines(build, int(start, 16), offsets)
        with self.lock:
            self.of |= found
            self.times |= times

    def keep(self, reach, tree):
        """Takes what an earlier file knows; of tests that are run now, `add` replaces it."""
        self.old_times = reach.times
        for name in reach.kept["lines"]:
            if (tree / name).exists():
                for line, number in reach.file(name, (tree / name).read_text(encoding="utf-8"))[1].items():
                    for test in reach.sets[number]:
                        self.old_of[reach.tests[test]].add((name, line))

    def write(self, path, tree):
        with self.lock:
            run = {t.split("::")[0] for t in self.times}
            times = {**{t: s for t, s in self.old_times.items() if t.split("::")[0] not in run}, **self.times}
            reached = {t: {*self.of.get(t, ()), *(self.old_of.get(t, ()) if t.split("::")[0] not in run else ())} for t in times}
        tests = sorted(t for t in times if reached[t] and times[t] is not None)
        lines, sets, numbers = collections.defaultdict(lambda: collections.defaultdict(list)), {}, {}
        for i, test in enumerate(tests):
            for file, number in reached[test]:
                lines[file][number].append(i)
        for file, rows in lines.items():
            numbers[file] = {str(k): sets.setdefault(tuple(v), len(sets)) for k, v in sorted(rows.items())}
        texts = {str(p.relative_to(tree)): sums_of(p.read_text(encoding="utf-8")) for p in (tree / "src").rglob("*")
                 if p.suffix in (".c", ".h", ".py")}
        path.write_text(json.dumps({"tests": tests, "times": {t: s and round(s, 2) for t, s in times.items()}, "lines": numbers,
                                    "sets": list(sets), "sites": {f: sorted(n) for f, n in self.objects.sites().items()},
                                    "texts": texts}, separators=(",", ":")), encoding="utf-8")


class Reach:
    """What --reach reads."""

    def __init__(self, path):
        kept = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        self.tests, self.sets = kept["tests"], kept["sets"]
        self.times = {t: s for t, s in kept["times"].items() if s is not None}  # others were skipped, or ended too late
        self.kept, self.files = kept, {}
        self.known = {t.split("::")[0] for t in self.times}

    def file(self, name, text):
        """Of a file with that text: the lines where blocks begin, sorted, and the number of a set for each that is reached."""
        if name not in self.files:
            old, reached = self.kept["texts"].get(name, []), self.kept["lines"].get(name, {})
            new = sums_of(text)
            moved = {}
            for a, b, n in difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks():
                moved |= {a + i + 1: b + i + 1 for i in range(n)}
            sets = {moved[int(k)]: v for k, v in reached.items() if int(k) in moved}
            begun = python_lines(text) if name.endswith(".py") else {moved[s] for s in self.kept["sites"].get(name, []) if s in moved}
            sites = sorted(begun | set(sets))
            self.files[name] = sites, sets
        return self.files[name]

    def tests_of(self, name, text, first, last):
        """Tests that reach the lines first to last: those of blocks that begin there, else of the block that leads to them. Of a
        new file: all."""
        if name not in self.kept["texts"]:
            return set(self.tests)
        sites, sets = self.file(name, text)
        at = [s for s in sites if first <= s <= last]
        if not at and name.startswith("src/kernels/"):  # the compiler gives few lines of inlined code
            at = [s for s in sites if first - 20 <= s <= last + 20]
        at = at or sites[max(bisect.bisect_left(sites, first) - 1, 0):][:1]
        return {self.tests[t] for s in at if s in sets for t in self.sets[sets[s]]}
