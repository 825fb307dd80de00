#!/usr/bin/env python3
"""What a machine that nobody fitted to loses by its cost model, before and after it calibrates itself (src/tune/calibrate).

    judge_calibration.py REGRET.jsonl CALIBRATION [--seed 1] [--draws 200]

REGRET.jsonl: of `mdctl regret BOARD --modes model --rivals --json` on the machine. CALIBRATION: what
build/tests/tune/calibrate_here prints there. Constants that are as good as none: each family's times are multiplied by a
random factor of 0.5 to 2. Calibrating would have measured what it measured, over those factors. Loss: of the model's pick to
the fastest that was timed, at most 100%, mean over shapes; median, mean and worst over the draws."""

import argparse
import json
import math
import random
import re
import statistics

STEPS = 8  # src/tune/calibrate/factors.c


def family_of(variant):
    return variant.split("/")[0]


def shapes_of(path):
    """[{variant: (modelled, measured)}] of shapes where there is a choice."""
    found = []
    for line in open(path):
        j = json.loads(line) if line.startswith("{") else {}
        times = {v: (j["predicted"][v], us) for v, us in j.get("rivals", {}).items() if v in j.get("predicted", {})}
        if len(times) > 1:
            found.append(times)
    return found


def calibration_of(path):
    """{family: (n, mean, spread)}"""
    lines = (re.fullmatch(r"([a-z_0-9]+) (\d+) (\S+) (\S+)", line.strip()) for line in open(path))
    return {m[1]: (int(m[2]), float(m[3]), float(m[4])) for m in lines if m and int(m[2]) < 1000}


def factors_of(known):
    """As md_tn_calibration_factors."""
    middle = statistics.median(mean for _, mean, _ in known.values())
    return {f: 2 ** (round((mean - middle) / math.log(2) * STEPS) / STEPS) for f, (n, mean, _) in known.items() if n > 1}


def loss(shapes, factors):
    losses = []
    for times in shapes:
        pick = min(times, key=lambda v: times[v][0] * factors.get(family_of(v), 1))
        losses.append(min(times[pick][1] / min(us for _, us in times.values()) - 1, 1))  # a disturbed time must not make more
    return 100 * statistics.mean(losses)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("regret")
    parser.add_argument("calibration")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--draws", type=int, default=200)
    args = parser.parse_args()
    shapes, known = shapes_of(args.regret), calibration_of(args.calibration)
    families = sorted({family_of(v) for times in shapes for v in times} | set(known))
    random_ = random.Random(args.seed)
    off, mended = [], []
    for _ in range(args.draws):
        wrong = {f: math.exp(random_.uniform(-math.log(2), math.log(2))) for f in families}
        said = factors_of({f: (n, mean - math.log(wrong[f]), spread) for f, (n, mean, spread) in known.items()})
        off.append(loss(shapes, wrong))
        mended.append(loss(shapes, {f: wrong[f] * said.get(f, 1) for f in families}))
    here = factors_of(known)
    print(f"{len(shapes)} shapes; factors here: " + (", ".join(f"{f} {k:.2f}" for f, k in here.items()) or "none"))
    print(f"as fitted        {loss(shapes, {}):6.2f}%, calibrated {loss(shapes, here):.2f}%")
    for name, x in (("off by 0.5 to 2", off), ("calibrated", mended)):
        print(f"{name:16} {statistics.median(x):6.2f}% median, {statistics.mean(x):6.2f}% mean, {max(x):6.2f}% worst of {args.draws} draws")


if __name__ == "__main__":
    main()
