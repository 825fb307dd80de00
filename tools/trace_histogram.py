#!/usr/bin/env python3
"""Token counts per step of a language-model server under a trace of requests, for boards of `mdctl regret`.

  trace_histogram.py AzureLLMInferenceTrace_conv.csv > data/boards/trace_conv.txt

A step takes 50 ms: each running request decodes one token (at most 256 run), and waiting prompts are read in order of arrival, up to 2048 tokens a
step. Of all steps with work, sorted by their tokens, every n-th is taken, so that about 120 remain; equal ones are one line: "tokens steps".
"""
import collections
import csv
import datetime
import sys

STEP, CHUNK, RUNNING, SAMPLES = 0.05, 2048, 256, 120


def requests(path):
    with open(path) as f:
        for row in csv.DictReader(f):
            at = datetime.datetime.fromisoformat(row["TIMESTAMP"][:26])
            yield at.timestamp(), int(row["ContextTokens"]), int(row["GeneratedTokens"])


def steps(list_of_requests):
    waiting, running, tokens = collections.deque(sorted(list_of_requests)), [], []
    now = waiting[0][0]
    while waiting or running:
        if not running and waiting[0][0] > now:
            now = waiting[0][0]
        while waiting and waiting[0][0] <= now and len(running) < RUNNING:
            _, prompt, output = waiting.popleft()
            running.append([prompt, max(output, 1)])
        left, n = CHUNK, 0
        for r in running:
            part = min(r[0], left) if r[0] else 1
            left -= part if r[0] else 0
            n += part
            if r[0]:
                r[0] -= part
            else:
                r[1] -= 1
        running = [r for r in running if r[1] > 0]
        tokens.append(n)
        now += STEP
    return sorted(t for t in tokens if t > 0)


def main():
    tokens = steps(requests(sys.argv[1]))
    every = max(len(tokens) // SAMPLES, 1)
    counts = collections.Counter(tokens[every // 2::every])
    print(f"# Tokens a step of {sys.argv[1].rsplit('/', 1)[-1]} (Azure Public Dataset, 2023, CC-BY 4.0), by tools/trace_histogram.py: \"tokens steps\".")
    for t, n in sorted(counts.items()):
        print(t, n)


if __name__ == "__main__":
    main()
