"""Notes which lines of the package run, and in which case of unittest: tools/mutate --make-reach puts this folder into
PYTHONPATH. The folder REACH_DIR gets lines.<number of the process> at the process's end, and lines@<case> for each case, which
has what the processes had that ended in it, too. Of C, see reach.c."""

import atexit
import ctypes
import os
import sys
import threading
import time

FOLDER = os.environ.get("REACH_DIR")
PART = os.sep + "multidispatch" + os.sep
seen, is_ours = set(), {}


def trace(frame, event, arg):
    code = frame.f_code
    ours = is_ours.get(code)
    if ours is None:
        name = code.co_filename
        ours = is_ours[code] = name[name.rindex(PART) + 1:] if PART in name and code.co_name != "<module>" else ""
    if not ours:
        return None
    seen.add((ours, frame.f_lineno))

    def lines(frame, event, arg):
        if event == "line":
            seen.add((ours, frame.f_lineno))
        return lines
    return lines


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
        sys.settrace(trace)
        started, name = time.monotonic(), self.id().removeprefix("__main__.")
        n_bad = len(result.failures) + len(result.errors)
        try:
            return run(self, result)
        finally:
            spent = time.monotonic() - started if len(result.failures) + len(result.errors) == n_bad else -1
            write("lines@" + name, f"seconds {spent:.3f}\n")
            core.reach_case(name.encode())
    unittest.TestCase.run = run_noted


if FOLDER and os.path.isdir(FOLDER):
    sys.settrace(trace)
    threading.settrace(trace)
    atexit.register(lambda: write(f"lines.{os.getpid()}"))
    if os.path.basename(sys.orig_argv[1] if len(sys.orig_argv) > 1 else "").startswith("test_"):
        watch_cases(ctypes.CDLL(None))
