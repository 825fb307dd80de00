"""Notes which lines of the package run, and in which case of unittest: tools/mutate --make-reach puts this folder into
PYTHONPATH. Modules of the package are compiled with a note in front of each statement of a function. The folder REACH_DIR
gets lines.<number of the process> at the process's end, and lines@<case> for each case, which has what the processes had
that ended in it, too, and so have the kernels that it compiled (tests/support/cc). Of C, see reach.c."""

import ast
import atexit
import builtins
import ctypes
import importlib.machinery
import os
import sys
import time

FOLDER = os.environ.get("REACH_DIR")
PART = os.sep + "multidispatch" + os.sep
seen = set()


class Notes(ast.NodeTransformer):
    """Puts `__reach__((file, line))` in front of each statement in functions."""

    def __init__(self, path):
        self.path, self.depth = path, 0

    def visit_FunctionDef(self, node):
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def generic_visit(self, node):
        super().generic_visit(node)
        for field in ("body", "orelse", "finalbody"):
            body = getattr(node, field, None)
            if self.depth and isinstance(body, list) and body and isinstance(body[0], ast.stmt) and not isinstance(node, ast.ClassDef):
                setattr(node, field, list(self.noted(body)))
        return node

    def noted(self, body):
        for statement in body:
            is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            if not is_text and not isinstance(statement, (ast.Global, ast.Nonlocal)):
                call = ast.Expr(ast.Call(ast.Name("__reach__", ast.Load()), [ast.Constant((self.path, statement.lineno))], []))
                yield ast.fix_missing_locations(ast.copy_location(call, statement))
            yield statement


class Loader(importlib.machinery.SourceFileLoader):
    def source_to_code(self, data, path, *, _optimize=-1):
        tree = Notes(path[path.rindex(PART) + 1:]).visit(ast.parse(data))
        return compile(tree, path, "exec", dont_inherit=True, optimize=_optimize)

    def get_code(self, fullname):  # from the source, whatever is cached
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        spec = importlib.machinery.PathFinder.find_spec(name, path, target) if name.split(".")[0] == "multidispatch" else None
        if spec and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = Loader(spec.loader.name, spec.loader.path)
        return spec


def write(name, head=""):
    found = {*seen}
    seen.clear()
    if "@" in name:
        for other in os.listdir(FOLDER):
            if other.startswith("lines."):
                with open(os.path.join(FOLDER, other), encoding="utf-8") as file:
                    found.update((line.split()[0], int(line.split()[1])) for line in file)
                os.unlink(os.path.join(FOLDER, other))
    with open(os.path.join(FOLDER, name), "a", encoding="utf-8") as file:
        file.write(head)
        file.writelines(f"{path} {line}\n" for path, line in sorted(found))


def watch_cases(core):
    import unittest
    run = unittest.TestCase.run

    def run_noted(self, result=None):
        started, name = time.monotonic(), self.id().removeprefix("__main__.")
        n_bad = len(result.failures) + len(result.errors)
        try:
            return run(self, result)
        finally:
            spent = time.monotonic() - started if len(result.failures) + len(result.errors) == n_bad else -1
            write("lines@" + name, f"seconds {spent:.3f}\n")
            for kernel in [f for f in os.listdir(FOLDER) if f.startswith("kernel-") and "@" not in f]:
                os.rename(os.path.join(FOLDER, kernel), os.path.join(FOLDER, f"{kernel}@{name}"))
            core.reach_case(name.encode())
    unittest.TestCase.run = run_noted


if FOLDER and os.path.isdir(FOLDER):
    builtins.__reach__ = seen.add
    sys.meta_path.insert(0, Finder)
    atexit.register(lambda: write(f"lines.{os.getpid()}"))
    if os.path.basename(sys.orig_argv[1] if len(sys.orig_argv) > 1 else "").startswith("test_"):
        watch_cases(ctypes.CDLL(None))
