#!/usr/bin/env python3
"""Instructions of a warm call, counted by callgrind and held to a ceiling: check_instructions.py WARM_COUNT CASE...

WARM_COUNT CASE CALLS... makes that many warm calls with the device's launch stubbed, each number in a call of its
function warm_calls. Only that function and what it calls is counted: opening the device measures rates by the clock,
which takes another number of instructions each time. The difference between two numbers of calls leaves out what only
the first calls do.
Skips itself, and says so, without valgrind.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

# Measured (gcc 12, -O2), the loop around the calls included: 330, 336 and 978. The ceilings are 1% above. The count is
# the same in every run, but for what the clock brings on a busy machine (990 was seen), so a second run may do.
CEILING = {"same": 337, "many": 339, "all": 984}
FEW, MANY, RUNS = 2560, 10240, 3


def function_in(program):
    """The name that the compiler gave warm_calls: --dump-after knows no patterns."""
    return re.search(r" [tT] (warm_calls\S*)", subprocess.run(["nm", program], capture_output=True, text=True).stdout)[1]


def counts(folder, program, case):
    # One store for all runs: measuring rates takes valgrind longer than everything else.
    env = {**os.environ, "MD_THREADS": "1", "MD_CPU": "x86-64", "MD_CACHE_DIR": f"{folder}/store"}
    name = function_in(program)
    command = ["valgrind", "--tool=callgrind", f"--toggle-collect={name}", f"--dump-after={name}",
               f"--callgrind-out-file={folder}/{case}"]
    done = subprocess.run([*command, program, case, str(FEW), str(MANY)], capture_output=True, text=True, env=env)
    texts = [open(path).read() for path in (f"{folder}/{case}.1", f"{folder}/{case}.2") if os.path.exists(path)]
    if done.returncode or len(texts) != 2:
        sys.exit(f"valgrind or {program} failed:\n{done.stderr}")
    return [int(re.search(r"^(?:summary|totals): (\d+)", text, re.MULTILINE)[1]) for text in texts]


def main():
    if not shutil.which("valgrind"):
        print("INSTRUCTIONS NOT COUNTED: there is no valgrind here")
        sys.exit(77)
    bad, program = [], sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        if shutil.which("strip"):  # valgrind may not know the compiler's debug information
            subprocess.run(["strip", "-g", "-o", f"{folder}/stripped", program], check=True)
            program = f"{folder}/stripped"
        for case in sys.argv[2:]:
            for _ in range(RUNS):
                few, many = counts(folder, program, case)
                each = (many - few) / (MANY - FEW)
                if each <= CEILING[case]:
                    break
            print(f"{case}: {each:.0f} instructions a call, at most {CEILING[case]}")
            if not 50 < each <= CEILING[case]:
                bad.append(case)
    sys.exit(1 if bad else 0)


main()
