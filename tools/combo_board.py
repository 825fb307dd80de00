#!/usr/bin/env python3
"""Combos beside calls of their items one by one, on lists that are drawn with a seed. JSON lines, then a summary.

    combo_board.py MDCTL [--device host] [--tuples 60] [--seed 1]

Each tuple is a formula with items of random sizes; `mdctl combo` times one run and one call an item, in turns. A combo
counts as slower if it takes more than 1.03 times its calls in two measurements."""
import argparse
import json
import math
import random
import subprocess
import sys

FORMULAS = (
    ("add", "P[i] = O[i] + G[i]", 1),
    ("adam", "scalar lr; let m[i] = 0.9 * M[i] + 0.1 * G[i]; N[i] = m[i]; P[i] = O[i] - lr * m[i] / (sqrt(abs(m[i])) + 0.001)", 1),
    ("gelu", "Y[i] = 0.5 * X[i] * (1 + erf(X[i] * 0.70710678))", 1),
    ("softmax", "let m[i] = max[k](X[i,k]); let e[i,k] = exp(X[i,k] - m[i]); Y[i,k] = e[i,k] / sum[k](e[i,k])", 2),
    ("sum of squares", "Y[i] = sum[k](X[i,k] * X[i,k])", 2),
    ("transpose", "Y[k,i] = X[i,k]", 2),
)


def draw(rng):
    """A formula and the sizes of its items: 2 to 200 items of 1 to 2^21 elements, at most 2^23 in all."""
    name, formula, rank = rng.choice(FORMULAS)
    n = round(2 ** rng.uniform(1, math.log2(200)))
    most = 2 ** rng.uniform(3, min(21, 23 - math.log2(n)))
    sizes = []
    for _ in range(n):
        elements = max(1, most * 2 ** -rng.uniform(0, 4))
        rows = max(1, round(elements ** rng.uniform(0.2, 0.8)))
        sizes.append(f"i={rows};k={max(1, round(elements / rows))}" if rank == 2 else f"i={max(1, round(elements))}")
    return name, formula, [s.replace(";", ", ") for s in sizes]


def measure(mdctl, device, formula, sizes):
    command = [mdctl, "combo", formula, "--sizes", "; ".join(sizes), "--device", device, "--json"]
    got = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if got.returncode != 0:
        sys.exit(f"{formula}: {got.stderr.strip()}")
    return json.loads(got.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mdctl")
    parser.add_argument("--device", default="host")
    parser.add_argument("--tuples", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    rng = random.Random(given.seed)
    ratios, slower = [], 0
    for number in range(given.tuples):
        name, formula, sizes = draw(rng)
        t = measure(given.mdctl, given.device, formula, sizes)
        if t["combo_us"] > 1.03 * t["calls_us"]:
            t = measure(given.mdctl, given.device, formula, sizes)
        is_slower = t["combo_us"] > 1.03 * t["calls_us"]
        slower += is_slower
        ratios.append(t["calls_us"] / t["combo_us"])
        print(json.dumps({"tuple": number, "op": name, "items": len(sizes), "largest": max(sizes, key=len), **t,
                          "ratio": round(ratios[-1], 2), "slower": is_slower}), flush=True)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(json.dumps({"seed": given.seed, "device": given.device, "tuples": len(ratios), "slower": slower,
                      "geomean": round(mean, 2), "least": round(min(ratios), 2)}))


if __name__ == "__main__":
    main()
