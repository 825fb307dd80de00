#!/usr/bin/env python3
"""What the machine code of the families of chains must look like, for nothing but the time would tell.

    chain_sass.py TEST_CUDA_CHAIN [--full]

TEST_CUDA_CHAIN compiles them, and fails where one spills. In every kernel no local memory is used. chain_wgmma: both
products of a step stand before its two waits, and its powers behind the first. chain_mma and chain_split: each loop over keys has just the products
that it needs, and powers between them; in chain_mma the next block's copies stand before all of its products.
chain_dot: no tensor cores, two loads of 16 bytes a key, and the next keys are under way before the powers. pairs_mma:
each loop has its copies before its products. No loop rounds values one by one (F2F), which takes turns of the unit that
computes powers.

A sample of configs, or with --full all of them, of every formula (MD_TEST_FORMULA: of one). Skipped, loudly, where there is no NVRTC; where there is no disassembler
(cuobjdump or nvdisasm, also of Triton's package) they are compiled only.
"""
import collections
import concurrent.futures
import glob
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile

FAMILIES = ("chain_wgmma", "chain_mma", "chain_split", "chain_dot", "pairs_joint", "pairs_wgmma", "pairs_mma")
CAPABILITIES = ("90", "80", "100")
ABSENT = (("chain_wgmma", "80"), ("chain_wgmma", "100"), ("chain_mma", "90"),
          ("pairs_joint", "80"), ("pairs_joint", "100"), ("pairs_wgmma", "80"), ("pairs_wgmma", "100"))  # where the other one is


def disassemblers():
    for name in ("cuobjdump", "nvdisasm"):
        places = [shutil.which(name), os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin", name)]
        for pattern in ("~/.cache/multidispatch-tests/venv/lib/python*/site-packages", *sys.path):
            places += glob.glob(os.path.join(os.path.expanduser(pattern), "triton/backends/nvidia/bin", name))
        yield from ((name, p) for p in places if p and os.access(p, os.X_OK))


def instructions(tool, path):
    arguments = ["--dump-sass"] if tool[0] == "cuobjdump" else []
    text = subprocess.run([tool[1], *arguments, path], capture_output=True, text=True, check=True).stdout
    for line in text.splitlines():
        m = re.search(r"/\*([0-9a-f]{4,5})\*/\s+(?:@!?U?P\w+\s+)?(.*?);", line)
        if m:
            yield int(m.group(1), 16), m.group(2)


def loops(code):
    """The bodies of loops, by backward branches."""
    for at, text in code:
        m = re.match(r"BRA\b.*0x([0-9a-f]+)", text)
        if m and int(m.group(1), 16) < at:
            yield [t for a, t in code if int(m.group(1), 16) <= a <= at]


def count(body, what):
    return sum(t.startswith(what) for t in body)


def places(body, what):
    return [i for i, t in enumerate(body) if t.startswith(what)]


def stores(body):
    return any(re.match(r"(STG|ST\.E|EXIT)", t) for t in body)


def wgmma(code, config):
    """Both products of a step are issued before it waits for the first, and its powers are computed while those of the
    other warpgroups run."""
    found = [b for b in loops(code) if count(b, "HGMMA") > 2 and not stores(b)]
    for body in found:
        waits, products, powers = (places(body, t) for t in ("WARPGROUP.DEPBAR", "HGMMA", "MUFU.EX2"))
        if len(waits) != 2 or products[-1] > waits[0] or sum(i > waits[0] for i in powers) < config["keys"] // 2:
            yield f"waits {waits}, products to {products[-1]}, powers {powers[:1]} to {powers[-1:]}"
    if not found:
        yield "no loop with products"


def innermost(code):
    """The shortest loop with products."""
    found = [b for b in loops(code) if count(b, "HMMA") >= 2 and not stores(b)]
    return min(found, key=len) if found else []


def powers_between(body, n):
    """A complaint unless n powers at least stand between the first product and the last."""
    products = places(body, "HMMA")
    between = [i for i in places(body, "MUFU.EX2") if products[0] < i < products[-1]]
    if len(between) < n:
        yield f"{len(between)} powers between products, not {n}"


def mma(code, config):
    body = innermost(code)
    tiles, keys = config["row_tiles"], config["keys"]
    scores = tiles * keys // 8 * config["depth"] // 16
    values = tiles * keys // 16 * config["width"] // 8
    n = count(body, "HMMA")
    # a block of keys is there twice, with a mask and without; weights may be two halves
    if n not in (2 * (scores + values), 2 * (scores + 2 * values), scores + values, scores + 2 * values):
        yield f"{n} products"
        return
    yield from powers_between(body, tiles * keys // 2)
    copies = places(body, "LDGSTS")
    if not copies or copies[0] > places(body, "HMMA")[0]:
        yield "no copy before the products"


def split(code, config):
    body = innermost(code)
    scores, values = config["row_tiles"] * config["depth"] // 16, config["row_tiles"] * config["width"] // 16
    if count(body, "HMMA") not in (scores + values, scores + 2 * values):
        yield f"{count(body, 'HMMA')} products, not {scores} and {values} or twice that"
        return
    yield from powers_between(body, 4 * config["row_tiles"])
    if not places(body, "LDGSTS"):
        yield "no copies"


def dot(code, config):
    if any(t.startswith("HMMA") for _, t in code):
        yield "tensor cores"
    found = [b for b in loops(code) if count(b, "LDG.E.128") + count(b, "LDG.E.NA.128") >= 2 * config["keys"] and
             not stores(b)]
    if not found:
        yield "no loop with the loads of keys and values"
        return
    body = min(found, key=len)
    if places(body, "LDG")[0] > places(body, "MUFU.EX2")[0]:
        yield "no keys under way before the powers"


def pairs(code, config):
    """Each loop over other lines that has products has a copy before them, and two products for each weight at least."""
    found = [b for b in loops(code) if count(b, "HMMA") >= 2 and not stores(b)]
    if not found:
        yield "no loop with products"
    for body in found:
        least = config["row_tiles"] * config["block"] // 8 * config["depth"] // 16 * 2
        if count(body, "HMMA") < least:
            yield f"{count(body, 'HMMA')} products in a loop, not {least} at least"
        copies = places(body, "LDGSTS")
        if not copies or copies[0] > places(body, "HMMA")[0]:
            yield "no copy before the products"


def pairs_wgmma(code, config):
    """Weights of a block are computed beside the products of those before them."""
    found = [b for b in loops(code) if count(b, "HGMMA") > 2 and not stores(b)]
    for body in found:
        products, powers = places(body, "HGMMA"), places(body, "MUFU.EX2")
        if powers and not any(products[0] < i < products[-1] for i in powers):
            yield "no power between products"
    if not found:
        yield "no loop with products"


def pairs_joint(code, config):
    """In the launch that computes, a loop has the products of a step (two, the sums of three), early weights before the
    first wait alone, and what it adds to rows leaves between the last two waits: to memory, or to shared memory."""
    if not any(t.startswith("HGMMA") for _, t in code):
        return
    products = (config["depth"] + config["width"]) // 16 + 2 * 64 // 16 + 128 // 16
    found = [b for b in loops(code) if count(b, "HGMMA") == products]
    for body in found:
        waits, powers, adds = (places(body, t) for t in ("WARPGROUP.DEPBAR", "MUFU.EX2",
                                                             "STS.128" if config["order"] else "RED"))
        if len(waits) != 4 or (powers and powers[-1] > waits[0]):
            yield f"{len(waits)} waits, powers behind the first of them: {sum(i > waits[0] for i in powers)}"
        elif not adds or not waits[2] < adds[0] < adds[-1] < waits[3]:
            yield "what is added to rows does not leave between the last waits"
    if not found:
        yield f"no loop with {products} products"


CHECKS = dict(chain_wgmma=wgmma, chain_mma=mma, chain_split=split, chain_dot=dot, pairs_mma=pairs,
              pairs_joint=pairs_joint, pairs_wgmma=pairs_wgmma)


def complaints(tool, path):
    name = os.path.basename(path)
    family = family_of(path)
    config = {k: int(v) for k, v in re.findall(r"([a-z_]+?)(\d+)", name.split(family + "-")[1].replace("-", "_"))}
    config = {k.strip("_"): v for k, v in config.items()}
    code = list(instructions(tool, path))
    if any(re.match(r"(LDL|STL)\b", t) for _, t in code):
        yield f"{name}: local memory"
    rounded = max((count(body, "F2F.BF16") + count(body, "F2F.F16") for body in loops(code) if not stores(body)), default=0)
    if rounded:
        yield f"{name}: a loop rounds {rounded} values one by one"
    for text in CHECKS[family](code, config):
        yield f"{name}: {text}"


def family_of(path):
    return re.search(r"(chain|pairs)_[a-z]+", os.path.basename(path)).group(0)


def check(tool, program, capability, formula):
    """Kernels of each family, and what is wrong; None where nothing can be compiled. formula: all configs of it, by its
    number; None: a sample of all."""
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, MD_TEST_CUBINS=folder, **({} if formula is None else {"MD_TEST_FORMULA": formula}))
        run = subprocess.run([program, capability] + ["--full"] * (formula is not None), env=env, capture_output=True,
                             text=True)
        if run.returncode == 77:
            return None
        paths = sorted(glob.glob(folder + "/*.cubin"))
        wrong = [text for path in paths for text in complaints(tool, path)] if tool else []
        return collections.Counter(map(family_of, paths)), [run.stdout] * (run.returncode != 0) + wrong


def jobs(program, is_full):
    """Capabilities, and numbers of formulas."""
    formulas = [None]
    if is_full:
        n = int(subprocess.run([program, "--formulas"], capture_output=True, text=True, check=True).stdout)
        formulas = [os.environ["MD_TEST_FORMULA"]] if "MD_TEST_FORMULA" in os.environ else map(str, range(n))
    return list(itertools.product(CAPABILITIES, formulas))


def main():
    tool = next(disassemblers(), None)
    todo = jobs(sys.argv[1], "--full" in sys.argv)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() if "--full" in sys.argv else 2) as pool:
        results = list(pool.map(lambda job: check(tool, sys.argv[1], *job), todo))
    if None in results:
        print("NOT RUN: no NVRTC")
        return 77
    wrong = [text for _, texts in results for text in texts]
    for capability in CAPABILITIES:
        counts = sum((r[0] for r, job in zip(results, todo) if job[0] == capability), collections.Counter())
        print(f"sm_{capability}:", ", ".join(f"{counts[f]} {f}" for f in FAMILIES))
        wrong += [f"sm_{capability}: no kernel of {f}" for f in FAMILIES if not counts[f] and (f, capability) not in ABSENT]
    print("\n".join(wrong))
    if not tool and not wrong:
        print("COMPILED, MACHINE CODE NOT READ: no cuobjdump or nvdisasm")
        return 77
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
