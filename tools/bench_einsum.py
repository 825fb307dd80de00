#!/usr/bin/env python3
"""Networks of tensors, such as einsum-benchmark has, step by step: each pairwise step as a formula, beside NumPy and PyTorch.

    bench_einsum.py [--package] [--kinds chain,tree,...] [--count N] [--tensors N] [--seed N] [--sizes LO-HI] [--repeat N] [--device host|cuda]

--package: networks are drawn by the generators of einsum-benchmark itself (`pip install einsum_benchmark networkx`), else by
those below. A step of a path is `Z[..] = sum[..](A[..] * B[..])` with index orders that nobody here chose. The path is opt_einsum's where
that is installed, else the cheapest step first. Steps whose result or operands have more than 8 axes, or that multiply
more than 2e8 pairs, are left out, which is said. Each result is compared with NumPy's in f64; JSON lines as of `mdctl bench`. Exit 1: a result is wrong.
"""
import argparse
import json
import math
import random
import statistics
import string
import sys
import time

MOST_RANK, MOST_PRODUCTS = 8, 2e8
LETTERS = [c for c in string.ascii_lowercase if c != "e"] + [a + b for a in "abcdfgh" for b in string.ascii_lowercase[:9]]  # index names


def chain(draw, n):
    """A product of matrices."""
    return [(i, i + 1) for i in range(n - 1)], {0: 1, n - 1: 1}


def tree(draw, n):
    """Each tensor hangs on an earlier one."""
    return [(draw.randrange(i), i) for i in range(1, n)], {}


def lattice(draw, n):
    """A rectangle of tensors, each tied to its neighbours."""
    width = max(2, math.isqrt(n))
    height = max(2, n // width)
    return ([(y * width + x, y * width + x + 1) for y in range(height) for x in range(width - 1)] +
            [(y * width + x, (y + 1) * width + x) for y in range(height - 1) for x in range(width)]), {}


def regular(draw, n, degree=3):
    """Each tensor has three neighbours, drawn at random."""
    while True:
        ends = [i for i in range(n + n % 2) for _ in range(degree)]
        draw.shuffle(ends)
        edges = list(zip(ends[::2], ends[1::2]))
        if all(a != b for a, b in edges) and is_connected(edges):
            return edges, {}


def connected(draw, n):
    """A random tree with further edges, some of them twice, and open indices."""
    edges, _ = tree(draw, n)
    edges += [tuple(draw.sample(range(n), 2)) for _ in range(n // 2)]
    return edges, {draw.randrange(n): 1, draw.randrange(n): 2}


KINDS = {"chain": chain, "tree": tree, "lattice": lattice, "regular": regular, "random": connected}


def is_connected(edges):
    seen, todo = set(), [edges[0][0]]
    while todo:
        at = todo.pop()
        if at not in seen:
            seen.add(at)
            todo += [b if a == at else a for a, b in edges if at in (a, b)]
    return len(seen) == len({i for edge in edges for i in edge})


def network(kind, n, seed, sizes=(2, 9)):
    """Index lists of the tensors, indices of the result, and the size of each index."""
    draw = random.Random(f"{kind} {n} {seed}")
    edges, open_ = KINDS[kind](draw, n)
    tensors = {i: [] for edge in edges for i in edge}
    names = iter(LETTERS)
    for a, b in edges:
        name = next(names)
        tensors[a].append(name)
        tensors[b].append(name)
    result = []
    for i, count in open_.items():
        for _ in range(count):
            result.append(next(names))
            tensors[i].append(result[-1])
    for indices in tensors.values():
        draw.shuffle(indices)
    draw.shuffle(result)
    return list(tensors.values()), result, {name: draw.randint(*sizes) for indices in tensors.values() for name in indices}


# ---- Networks of the package

def _language(g, n, low, high, seed):
    return g.language_model.sliding_likelihood(mera_depth=2, axis_size_hidden=high, axis_size_observable=low, batch_size=2 + seed % 7)


# The text of an einsum and the shapes of its operands, of n tensors or about as many.
PACKAGE = {
    "chain": lambda g, n, low, high, seed: g.structured.matrix_chain(n, low, high, True, seed),
    "tree": lambda g, n, low, high, seed: g.structured.tree(n, low, high, 2, seed),
    "lattice": lambda g, n, low, high, seed: g.structured.lattice((2, max(2, n // 2)), d_min=low, d_max=high, seed=seed),
    "regular": lambda g, n, low, high, seed: g.random.regular(n + n % 2, 3, low, high, seed),
    "random": lambda g, n, low, high, seed: g.random.connected_network(n, 2.5, 2, low, high, seed),
    "hyper": lambda g, n, low, high, seed: g.random.connected_hypernetwork(n, 2.0, 5, 4, number_of_output_indices=2, min_axis_size=low, max_axis_size=high, seed=seed),
    "states": lambda g, n, low, high, seed: g.quantum_computing.matrix_product_state(n, low, high, high, seed),
    "language": _language,
}


def drawn(kind, n, seed, sizes):
    """As network(), by einsum-benchmark."""
    from einsum_benchmark import generators
    text, operands = PACKAGE[kind](generators, n, *sizes, seed)[:2]
    names = {}
    for symbol in text:
        if symbol not in ",->":
            names.setdefault(symbol, LETTERS[len(names)])
    given, _, result = text.partition("->")
    tensors = [[names[x] for x in term] for term in given.split(",")]
    shapes = [getattr(x, "shape", x) for x in operands]
    return tensors, [names[x] for x in result], {name: int(length) for t, shape in zip(tensors, shapes) for name, length in zip(t, shape)}


def greedy(tensors, result, size):
    """Pairs to contract, the one with the least operations first; indices are of the list that is left."""
    left, path = [set(t) for t in tensors], []
    while len(left) > 1:
        pairs = [(math.prod(size[x] for x in a | b) + (0 if a & b else 10**12), i, k) for i, a in enumerate(left) for k, b in enumerate(left) if i < k]
        _, i, k = min(pairs)
        path.append((i, k))
        merged = (left[i] | left[k]) & set(result).union(*(x for m, x in enumerate(left) if m not in (i, k)))
        left = [x for m, x in enumerate(left) if m not in (i, k)] + [merged]
    return path


def path_of(tensors, result, size):
    try:
        import opt_einsum
    except ImportError:
        return greedy(tensors, result, size)
    names = {name: opt_einsum.get_symbol(i) for i, name in enumerate(size)}
    text = ",".join("".join(names[x] for x in t) for t in tensors) + "->" + "".join(names[x] for x in result)
    return [pair for pair in opt_einsum.contract_path(text, *([size[x] for x in t] for t in tensors), shapes=True, optimize="greedy")[0] if len(pair) == 2]


def steps(tensors, result, size, draw):
    """(indices of A, of B, of the result) of each step; the order of a result's axes is drawn."""
    left = [list(t) for t in tensors]
    for i, k in path_of(tensors, result, size):
        a, b = left[i], left[k]
        left = [t for m, t in enumerate(left) if m not in (i, k)]
        kept = list((set(a) | set(b)) & set(result).union(*left))
        kept = sorted(kept)
        draw.shuffle(kept)
        left.append(kept)
        yield a, b, kept


def formula(a, b, kept):
    """The step as a formula; an index that only one side has is summed, too."""
    summed = sorted((set(a) | set(b)) - set(kept))
    product = f"A[{','.join(a)}] * B[{','.join(b)}]"
    return f"Z[{','.join(kept)}] = " + (f"sum[{','.join(summed)}]({product})" if summed else product)


def einsum_text(a, b, kept):
    names = {name: string.ascii_letters[i] for i, name in enumerate(dict.fromkeys(a + b))}
    return ",".join("".join(names[x] for x in t) for t in (a, b)) + "->" + "".join(names[x] for x in kept)


def bound(count):
    """What a sum of so many products of f32 may be off by, over the largest value."""
    return 4e-7 * (4 + math.log2(count + 1)) * math.sqrt(count + 1)


def check(np, got, x, y, text, count):
    """The error over what is allowed."""
    exact = np.einsum(text, x.astype(np.float64), y.astype(np.float64))
    scale = max(float(np.abs(exact).max()), 1e-30) if exact.size else 1.0
    return float(np.abs(got.astype(np.float64) - exact).max() / scale / bound(count)) if exact.size else 0.0


def least_us(call, repeat):
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e6)
    return min(times), statistics.median(times)


def run_step(np, md, torch, step, size, given):
    a, b, kept = step
    x, y = (np.random.default_rng(1).standard_normal([size[i] for i in t]).astype(np.float32) for t in (a, b))
    op, text = md.op(formula(*step)), einsum_text(*step)
    count = math.prod(size[i] for i in (set(a) | set(b)) - set(kept))
    ways = {"md": lambda: op(x, y), "numpy": lambda: np.einsum(text, x, y, optimize=True)}
    if torch:
        tx, ty = torch.from_numpy(x), torch.from_numpy(y)
        ways["eager"] = lambda: torch.einsum(text, tx, ty)
    if given.device == "cuda":
        gx, gy = tx.cuda(), ty.cuda()
        ways = {"md": lambda: (op(gx, gy), torch.cuda.synchronize())[0], "eager": lambda: (torch.einsum(text, gx, gy), torch.cuda.synchronize())[0]}
    got = ways["md"]()
    error = check(np, got.cpu().numpy() if given.device == "cuda" else got, x, y, text, count)
    for peer, call in ways.items():
        us, median = least_us(call, given.repeat)
        yield {"peer": peer, "op": op.formula, "shape": [size[i] for i in dict.fromkeys(a + b)], "dtype": "f32", "device": "cuda:0" if given.device == "cuda" else "host",
               "us": us, "median_us": median, "bytes": 4 * (x.size + y.size + math.prod(size[i] for i in kept)), **({"error": error} if peer == "md" else {})}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--kinds", type=lambda text: text.split(","))
    p.add_argument("--package", action="store_true")
    p.add_argument("--count", type=int, default=2)
    p.add_argument("--tensors", type=int, default=8)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--sizes", type=lambda text: tuple(map(int, text.split("-"))), default=(2, 24))
    p.add_argument("--repeat", type=int, default=7)
    p.add_argument("--device", choices=("host", "cuda"), default="host")
    given = p.parse_args()
    import numpy as np
    try:
        import torch
    except ImportError:
        torch = None
    import multidispatch as md
    wrong = n = left_out = 0
    for kind in given.kinds or (PACKAGE if given.package else KINDS):
        for seed in range(given.seed, given.seed + given.count):
            try:
                tensors, result, size = (drawn if given.package else network)(kind, given.tensors, seed, given.sizes)
            except ImportError as missing:
                print(f"bench_einsum: {missing}", file=sys.stderr)
                return 77
            except (AssertionError, IndexError, ValueError) as refused:  # some draws of the package end so
                print(f"bench_einsum: {kind} {seed}: not drawn: {refused}", file=sys.stderr)
                continue
            for step in steps(tensors, result, size, random.Random(seed)):
                if max(map(len, step)) > MOST_RANK or math.prod(size[i] for i in set(step[0] + step[1])) > MOST_PRODUCTS:
                    left_out += 1
                    continue
                for line in run_step(np, md, torch, step, size, given):
                    print(json.dumps(line | {"network": f"{kind} {seed}"}), flush=True)
                    wrong += line.get("error", 0.0) > 1.0
                n += 1
    print(f"bench_einsum: {n} steps, {wrong} wrong, {left_out} left out (more than {MOST_RANK} axes or {MOST_PRODUCTS:g} products)", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
