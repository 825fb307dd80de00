#!/usr/bin/env python3
"""Builds and runs single tests: what tools/test NAME[::CASE]... does. Arguments: the build folder, then the tests.

NAME is a test of `meson test --list` (a program, mostly), CASE one of its CMocka cases, with * and ?. The last line says
how many passed, failed and were skipped; exit 1 if one failed, 2 if there is no such test or case."""

import difflib
import json
import os
import pathlib
import re
import subprocess
import sys

BUILD = pathlib.Path(sys.argv[1]).resolve()
EXIT_SKIPPED, EXIT_UNKNOWN = 77, 2


def introspect(what):
    return json.loads((BUILD / "meson-info" / f"intro-{what}.json").read_text(encoding="utf-8"))


def unknown(what, name, all_names):
    near = difflib.get_close_matches(name, all_names, 8, 0.5)
    near += [n for n in all_names if name in n and n not in near][:8]
    print(f"test: no {what} {name}" + (f"; near: {', '.join(near)}" if near else ""), file=sys.stderr)
    sys.exit(EXIT_UNKNOWN)


def cases_of(target):
    """The CMocka cases that stand in a program's sources."""
    files = [f for part in target["target_sources"] for f in part["sources"]]
    texts = [pathlib.Path(f).read_text(encoding="utf-8") for f in files if pathlib.Path(f).exists()]
    return sorted(set(re.findall(r"\bcmocka_unit_test\w*\(\s*(\w+)", "\n".join(texts))))


def run(test, case):
    """The exit status, and how many CMocka cases were run."""
    env = {**os.environ, **test["env"], **({"MD_TEST_CASE": case} if case else {})}
    n_cases = 0
    with subprocess.Popen(test["cmd"], env=env, cwd=test["workdir"] or BUILD, text=True, errors="replace",
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        for line in process.stdout:
            sys.stdout.write(line)
            match = re.search(r"Running (\d+) test\(s\)", line)
            n_cases += int(match.group(1)) if match else 0
    return process.returncode, n_cases


def main():
    wanted = [a.partition("::") for a in sys.argv[2:]]
    subprocess.run(["ninja", "-C", str(BUILD), "build.ninja"], check=True, stdout=subprocess.DEVNULL)  # as meson.build says now
    tests = {t["name"]: t for t in introspect("tests")}
    targets = {t["id"]: t for t in introspect("targets")}
    for name, _, _ in wanted:
        if name not in tests:
            unknown("test", name, sorted(tests))
    needed = {os.path.relpath(f, BUILD) for name, _, _ in wanted for d in tests[name]["depends"] for f in targets[d]["filename"]}
    made = subprocess.run(["ninja", "-C", str(BUILD), *sorted(needed)], capture_output=True, text=True) if needed else None
    if made and made.returncode != 0:
        print(made.stdout[-8000:] + made.stderr)
        print("0 passed, 1 failed, 0 skipped")
        return 1
    passed = failed = skipped = 0
    for name, _, case in wanted:
        status, n_cases = run(tests[name], case)
        if case and n_cases == 0:
            cases = [c for d in tests[name]["depends"] for c in cases_of(targets[d])]
            unknown(f"case of {name}" + ("" if cases else ", which has no cases:"), case, cases)
        passed += status == 0
        skipped += status == EXIT_SKIPPED
        failed += status not in (0, EXIT_SKIPPED)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
