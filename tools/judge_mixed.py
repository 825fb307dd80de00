#!/usr/bin/env python3
"""Attention over sequences of mixed lengths beside PyTorch's, JSON lines.

    judge_mixed.py decode|prefill LENGTH,LENGTH,... [--rounds 5] [--megabytes 300] [--heads 32x8] [--depth 128] [--pin VARIANT]...

decode: one query a sequence over the first LENGTH keys of a cache whose rows are as long as the longest. prefill: causal
attention of each sequence to itself. Ours takes the sequences padded to the longest ("padded", as a cache has them) or one
behind the other ("packed"). The peers: flash and cuDNN over padded ones with a mask, flash over packed ones
("flash_varlen"), and a call for each sequence, all in one graph ("cudnn_each", "flash_each"). Errors are against a call
of PyTorch in f64 for each sequence. The clock is judge_attention.py's."""
import argparse
import json

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import judge_attention as judge

FORMULA = ("let S[{r},j] = where({guard}, sum[d](Q:bf16[{q},d] * K:bf16[{k},d]) * rsqrt(f32(size(d))), -inf);"
           "let m[{r}] = max[j](S[{r},j]); let E[{r},j] = exp(S[{r},j] - m[{r}]); let P:bf16[{r},j] = E[{r},j];"
           "let s[{r}] = sum[j](E[{r},j]); Y:bf16[{q},e] = sum[j](P[{r},j] * V:bf16[{k},e]) / s[{r}]")
FORMS = {  # axes of rows, of queries, of keys, and which keys a row sees
    "decode": dict(r="b,g,r", q="b,g,r", k="b,j,g", guard="j < n:i32[b]"),
    "padded": dict(r="b,g,r,i", q="b,i,g,r", k="b,j,g", guard="j <= i and i < n:i32[b]"),
    "packed": dict(r="g,r,i", q="i,g,r", k="j,g", guard="j >= start:i32[i] and j <= i"),
}
PEERS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}


class Batch:
    """A set of inputs: padded q, k, v [b, rows, heads, d], the same packed, lengths, starts of packed rows."""

    def __init__(self, what, lengths, options):
        kind, (hq, hk), d = dict(device="cuda", dtype=torch.bfloat16), options.heads, options.depth
        n, most, self.lengths, self.groups = len(lengths), max(lengths), lengths, hq // hk
        self.q = torch.randn(n, 1 if what == "decode" else most, hk, self.groups, d, **kind)
        self.k, self.v = (torch.randn(n, most, hk, d, **kind) for _ in range(2))
        self.n = torch.tensor(lengths, dtype=torch.int32, device="cuda")
        own = [1] * n if what == "decode" else lengths
        pack = lambda x, rows: torch.cat([x[i, :rows[i]] for i in range(n)]).contiguous()
        self.rows = own
        self.packed = pack(self.q, own), pack(self.k, lengths), pack(self.v, lengths)
        ends = lambda x: torch.tensor([0, *x], dtype=torch.int32, device="cuda").cumsum(0, dtype=torch.int32)
        self.ends = ends(own), ends(lengths)
        self.start = torch.repeat_interleave(self.ends[0][:-1], torch.tensor(own, device="cuda")).contiguous()
        self.y = {"packed": torch.empty_like(self.packed[0]), "padded": torch.empty_like(self.q)}

    def exact(self, i, is_causal):
        """[rows, heads, d] of sequence i, in f64."""
        q, k, v = self.q[i, :self.rows[i]].flatten(1, 2), self.k[i, :self.lengths[i]], self.v[i, :self.lengths[i]]
        k, v = (x.repeat_interleave(self.groups, 1) for x in (k, v))
        with sdpa_kernel(SDPBackend.MATH):
            y = F.scaled_dot_product_attention(*(x.transpose(0, 1)[None].double() for x in (q, k, v)), is_causal=is_causal)
        return y[0].transpose(0, 1)


def own(what, form, batches, options, pin):
    """Tensors in the formula's order: guards come first."""
    def arguments(x):
        q, k, v = x.packed if form == "packed" else (x.q, x.k, x.v)
        y = x.y["packed" if form == "packed" else "padded"]
        if form == "decode":
            q, y = q[:, 0], y[:, 0]
        return [x.start if form == "packed" else x.n, q, k, y, v]

    sets = [arguments(x) for x in batches]
    f = FORMS[form]
    names = dict(zip(f["r"].split(","), (sets[0][1].shape[f["q"].split(",").index(a)] for a in f["r"].split(","))))
    c = dict(d=options.depth, sizes=names | dict(j=sets[0][2].shape[f["k"].split(",").index("j")]))
    return judge.ready(FORMULA.format(**f), c, 3, pin, sets, [*sets[0][:3], sets[0][4]], sets[0][3])


def peers(what, batches):
    wide = lambda x: x.transpose(1, 2)
    ready = []
    for x in batches:
        keys = torch.arange(x.k.shape[1], device="cuda")
        mask = (keys < x.n[:, None])[:, None, None] if what == "decode" else None
        each = [[t[None].transpose(1, 2) for t in (x.q[i, :x.rows[i]].flatten(1, 2), x.k[i, :n], x.v[i, :n])]
                for i, n in enumerate(x.lengths)]
        ready.append(([wide(x.q.flatten(2, 3)), wide(x.k), wide(x.v)], mask, each, x))
    is_causal = what == "prefill"

    def padded(backend):
        def call(i):
            (q, k, v), mask, _, _ = ready[i % len(ready)]
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q, k, v, mask, is_causal=is_causal, enable_gqa=True)
        return call

    def each(backend):
        def call(i):
            with sdpa_kernel(backend):
                return [F.scaled_dot_product_attention(*t, is_causal=is_causal, enable_gqa=True) for t in ready[i % len(ready)][2]]
        return call

    def varlen(i):
        x = ready[i % len(ready)][3]
        q, k, v = x.packed
        return torch.ops.aten._flash_attention_forward(q.flatten(1, 2), k, v, *x.ends, max(x.rows), max(x.lengths), 0.0,
                                                       is_causal, False)[0]

    out = {name: padded(b) for name, b in PEERS.items()} | {name + "_each": each(b) for name, b in PEERS.items()}
    return out | {"flash_varlen": varlen}


def error_of(what, form, x):
    worst = 0.0
    for i in sorted({0, len(x.lengths) // 2, x.lengths.index(max(x.lengths)), x.lengths.index(min(x.lengths))}):
        if x.lengths[i] > 3000 and what == "prefill":
            continue
        rows = x.rows[i]
        got = x.y["packed"][x.ends[0][i]:x.ends[0][i] + rows] if form == "packed" else x.y["padded"][i, :rows]
        error = (got.flatten(1, 2).double() - x.exact(i, what == "prefill")).abs().max().item()
        worst = max(worst, 9.0 if error != error else error)
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("decode", "prefill"))
    parser.add_argument("lengths", type=lambda s: [int(n) for n in s.split(",")])
    parser.add_argument("--pin", action="append")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--heads", type=lambda s: [int(n) for n in s.split("x")], default=[32, 8])
    parser.add_argument("--depth", type=int, default=128)
    options = parser.parse_args()
    options.device, options.keep = "cuda", ""
    what, forms = options.what, ["decode"] if options.what == "decode" else ["padded", "packed"]
    size = 4 * len(options.lengths) * max(options.lengths) * options.heads[1] * options.depth
    batches = [Batch(what, options.lengths, options)
               for _ in range(max(1, min(20, -(-options.megabytes * 1000000 // size))))]
    calls = {}
    for form in forms:
        for pin in judge.pins_of(options):
            call, x = own(what, form, batches, options, pin), batches[0]
            line = dict(what=what, variant=f"{form} {pin or 'pick'}")
            if isinstance(call, str):
                print(json.dumps(line | dict(refused=call)), flush=True)
                continue
            for y in x.y.values():
                y.fill_(float("nan"))
            call(0)
            line["error"] = round(error_of(what, form, x), 5)
            print(json.dumps(line | (dict(wrong=True) if line["error"] > 0.02 else {})), flush=True)
            if line["error"] <= 0.02:
                calls[line["variant"]] = call
    for name, call in peers(what, batches).items():
        try:
            call(0)
            calls[name] = call
        except RuntimeError as error:
            print(json.dumps(dict(what=what, variant=name, refused=str(error)[:150])), flush=True)
    for name, us in sorted(judge.times(calls, options).items(), key=lambda item: item[1]):
        print(json.dumps(dict(what=what, variant=name, us=round(us, 1))), flush=True)


if __name__ == "__main__":
    with torch.no_grad():
        main()
