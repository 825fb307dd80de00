#!/usr/bin/env python3
"""What the cost model's picks lose on recorded times of products.

  replay.py PREDICT RESULTS...

PREDICT is the built tests/family/predict. RESULTS are files of data/results: product_answers, product_picks and regret.
A pick is made among the variants whose times a line says: the least by the model, for cuBLASLt the geometric mean with
the time by its answer where that is recorded. --graphs: times are from graphs of calls, in which a further launch takes
less (the default for product_answers and product_picks). Prints loss by file, operation and type: mean and worst, then
the worst picks.
"""
import argparse
import collections
import json
import math
import os
import re
import subprocess

# What calls take more than graphs: us of a launch that adds up slices, of one that copies, and the traffic of slices.
SUM, COPIES, PER_BYTE = 0.75, 0.85, (1 / 1600 - 1 / 2893) * 1e-3


UNEXPECTED = 1.5  # as in dispatch/select/model.c


def times_of(line):
    if isinstance(line.get("answers"), list):
        times = {line[k][0]: line[k][1] for k in ("own_best", "own_pick") if line.get(k)}
        answers = {}
        if line["answers"]:
            times["gemm_lib/rank0"] = line["answers"][0][5]
            answers["gemm_lib/rank0"] = line["answers"][0][1:5]
        return times, answers
    if "by_model" in line:
        return {line["by_model"]: line["us"], line["best"]: line["best_us"]}, {}
    times = dict(line.get("rivals") or {line["best"]: line["best_us"]})
    for mode in ("distance", "model", "measure", "hybrid"):
        if mode in line:
            times.setdefault(line[mode]["variant"], line["best_us"] * (1 + line[mode]["regret"]))
    answers = {v: [a["algorithm"], "{}x{}".format(*a["tile"]), a["slices"], a["waves"]]
               for v, a in line.get("answers", {}).items() if v in times}
    return times, answers


def cases_of(path):
    for text in open(path):
        line = json.loads(text)
        if not line.get("op", "").startswith(("linear", "matmul")):
            continue
        shape, op = line["shape"], line["op"]
        if isinstance(shape, str):
            size = dict(re.findall(r"(\w+)=(\d+)", shape))
            shape = [int(size[d]) for d in ("b", "n", "k")]
        elif "gelu" in op:
            op += "_tanh"  # tools/map_products.py compares with PyTorch's
        times, answers = times_of(line)
        yield op, "bf16" if line["dtype"].startswith("b") else "f32", shape, times, answers


def less_in_graphs(variant, shape):
    split = int((re.search(r"split(\d+)", variant) or [0, 1])[1])
    if variant.startswith(("gemm_simt", "gemm_fma")) and split > 1:
        return SUM + shape[0] * shape[1] * 8 * split * PER_BYTE
    return COPIES if variant.startswith("gemm_wgmma") and variant.endswith("pad1") else 0


def predict(program, cases, board, is_graph):
    lines = [(i, v) for i, c in enumerate(cases) for v in c[3]]
    text = ""
    for i, v in lines:
        op, dtype, shape, _, answers = cases[i]
        text += " ".join(map(str, [board, op, dtype, *shape, v, *answers.get(v, [])])) + "\n"
    out = subprocess.run([program], input=text, stdout=subprocess.PIPE, text=True, check=True).stdout
    us = [{} for _ in cases]
    for (i, v), line in zip(lines, out.splitlines()):
        shape_us, answer_us = map(float, line.split())
        shape_us -= less_in_graphs(v, cases[i][2]) if is_graph else 0
        is_fact = answer_us > UNEXPECTED * shape_us and cases[i][4][v][2] > 1  # slices
        us[i][v] = answer_us if is_fact else math.sqrt(shape_us * answer_us) if answer_us > 0 else shape_us
    return us


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("program")
    p.add_argument("results", nargs="+")
    p.add_argument("--graphs", choices=("yes", "no"), help="whether times are from graphs")
    p.add_argument("--worst", type=int, default=10, help="picks to print")
    a = p.parse_args()
    losses, picks = collections.defaultdict(list), []
    for path in a.results:
        cases = list(cases_of(path))
        is_graph = a.graphs == "yes" if a.graphs else "product_" in os.path.basename(path)
        for c, us in zip(cases, predict(a.program, cases, int("h100" in path), is_graph)):
            pick, best = min(us, key=us.get), min(c[3], key=c[3].get)
            loss = c[3][pick] / c[3][best] - 1
            losses[os.path.basename(path), c[0], c[1]].append(loss)
            picks.append((loss, "{} {} {}: {} {:.2f} us (model {:.2f}), best {} {:.2f} ({:.2f})".format(
                c[0], c[1], c[2], pick, c[3][pick], us[pick], best, c[3][best], us[best])))
    for (name, op, dtype), x in losses.items():
        print("{:28} {:22} {:4} {:4} shapes  mean {:5.2f}%  worst {:4.0f}%".format(
            name, op, dtype, len(x), 100 * sum(x) / len(x), 100 * max(x)))
    for loss, text in sorted(picks, reverse=True)[:a.worst]:
        print("{:4.0f}% {}".format(100 * loss, text))


if __name__ == "__main__":
    main()
