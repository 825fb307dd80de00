#!/usr/bin/env python3
"""Does what tools/man/md-tutorial.7.scd tells: every "$ command" of its blocks, in one folder and with an empty store. What stands below a command is
what it prints, line by line: a line "..." stands for any lines, "..." in a line for any text.
Arguments: source root, build root, mdctl."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile


def steps(page):
    """(line, command, lines that it prints) of each command. A command that ends in <<'END' goes on to the line END."""
    for block in re.finditer(r"^```\n(.*?)^```", page, flags=re.S | re.M):
        line, rows = page.count("\n", 0, block.start()) + 2, block.group(1).splitlines()
        while rows:
            if not rows[0].startswith("$ "):
                raise SystemExit(f"line {line}: no command in front of '{rows[0]}'")
            n = rows.index("END") + 1 if rows[0].endswith("<<'END'") else 1
            end = next((i for i, row in enumerate(rows) if i >= n and row.startswith("$ ")), len(rows))
            yield line, "\n".join([rows[0][2:], *rows[1:n]]), rows[n:end]
            line, rows = line + end, rows[end:]


def pattern(expected):
    """A pattern of whole lines."""
    parts = ["(?:.*\n)*?" if row == "..." else ".*?".join(re.escape(p) for p in row.split("...")) + "\n" for row in expected]
    return re.compile("".join(parts))


def main():
    root, build, mdctl = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
    n_steps = n_bad = 0
    with tempfile.TemporaryDirectory() as folder:
        tools = pathlib.Path(folder) / "bin"
        tools.mkdir()
        (tools / "mdctl").symlink_to(mdctl)
        env = dict(os.environ, PATH=f"{tools}:{os.environ['PATH']}", MD_CACHE_DIR=folder + "/store", MD_DEVICE="host", LD_LIBRARY_PATH=str(build / "src"),
                   PKG_CONFIG_PATH=folder)
        (pathlib.Path(folder) / "multidispatch.pc").write_text(  # as if it were installed; "consumer pkg-config" tests the real one
            f"Name: multidispatch\nDescription: from the build\nVersion: 0\nCflags: -I{root}/include\nLibs: -L{build}/src -lmultidispatch\n",
            encoding="utf-8")
        page = (root / "tools/man/md-tutorial.7.scd").read_text(encoding="utf-8")
        for line, command, expected in steps(page):
            done = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  stdin=subprocess.DEVNULL, cwd=folder, env=env, timeout=300, check=False)
            n_steps += 1
            if done.returncode or not pattern(expected).fullmatch(done.stdout):
                n_bad += 1
                print(f"md-tutorial.7.scd:{line}: {command.splitlines()[0]}: exit status {done.returncode}, printed\n{done.stdout}\nexpected\n" + "\n".join(expected))
        parts = re.findall(r"^# (\d)\. ", page, flags=re.M)
        print(f"{len(parts)} steps, {n_steps} commands, {n_bad} bad")
    return bool(n_bad) or parts != [str(i + 1) for i in range(7)]


if __name__ == "__main__":
    sys.exit(main())
