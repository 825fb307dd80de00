#!/usr/bin/env python3
"""Python objects that the extension makes are given back: each function is called many times, also with arguments that it
refuses, and the interpreter has as many blocks of memory afterwards as before."""

import gc
import json
import os
import sys
import tempfile
import unittest

FOLDER = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
os.environ["MD_CACHE_DIR"] = FOLDER.name + "/store"

import multidispatch as md  # noqa: E402
import numpy as np  # noqa: E402
from multidispatch import _core  # noqa: E402

ROUNDS = 300


def ignore_errors(fn, *args):
    try:
        fn(*args)
    except Exception:  # any: it must have given back what it held
        pass


class GivenBack(unittest.TestCase):
    def grows(self, name, fn):
        """Blocks that stay after each of many calls; the first ones may fill caches."""
        for _ in range(20):
            fn()
        gc.collect()
        before = sys.getallocatedblocks()
        for _ in range(ROUNDS):
            fn()
        gc.collect()
        left = (sys.getallocatedblocks() - before) / ROUNDS
        self.assertLess(left, 0.5, name)

    def test_ops(self):
        op = md.op("Y[i] = X[i] * 2 + sum[j](X[j])", hints="16")
        x, y, wrong = np.ones(9, np.float32), np.empty(9, np.float32), np.ones((3, 3))
        for name, fn in {
            "call": lambda: op(x),
            "out": lambda: op(x, out=y),
            "wrong rank": lambda: ignore_errors(op, wrong),
            "no array": lambda: ignore_errors(op, "text"),
            "too many": lambda: ignore_errors(op, x, x, x),
            "formula": lambda: op.formula,
            "arguments": lambda: op.arguments,
            "explain": lambda: op.explain("i=9"),
            "choice": lambda: op.choice(x, out=y),
            "explain wrong": lambda: ignore_errors(op.explain, "k=9"),
            "variants": op.variants,
            "no source": lambda: ignore_errors(op.source, "none"),
            "prepare": lambda: op.prepare(i=7),
            "no size": lambda: ignore_errors(lambda: op.prepare(k=7)),
            "wait": op.wait,
            "again": lambda: md.op("Y[i] = X[i] * 2 + sum[j](X[j])", hints="16"),
            "refused": lambda: ignore_errors(md.op, "Y[i] = X[i] +"),
            "bad option": lambda: ignore_errors(lambda: md.op("Y[i] = X[i]", hints="?")),
        }.items():
            self.grows(name, fn)

    def test_functions(self):
        text = _core.choices_export("host")
        for name, fn in {
            "info": lambda: _core.info("host"),
            "stats": lambda: _core.stats("host", "json"),
            "digest": lambda: _core.digest("host"),
            "export": lambda: _core.choices_export("host"),
            "import": lambda: _core.choices_import("host", text),
            "bad import": lambda: ignore_errors(_core.choices_import, "host", "{}"),
            "wisdom": lambda: _core.wisdom_export("host"),
            "bad wisdom": lambda: ignore_errors(_core.wisdom_import, "host", "{}\n{"),
            "catalogue": _core.catalogue,
            "lists": _core.lists,
            "list_read": lambda: _core.list_read("Y@t[i] = X@t[i] * 2"),
            "bad list": lambda: ignore_errors(_core.list_read, "Y@t[i] = "),
            "check": lambda: _core.check("host"),
            "device": lambda: ignore_errors(_core.info, "tpu"),
            "package": lambda: ignore_errors(_core.package_open, "/nonexistent"),
            "piece": lambda: ignore_errors(_core.tune_piece, "host", "{}"),
        }.items():
            self.grows(name, fn)

    def test_plans(self):
        sizes, formula = "256 * d0, 2", "scalar k; Z:f32[i] = X:f32[i] + k"

        def build(*arguments):
            plan = _core.Plan("host", "given back")
            plan.dim("d0", 0, 0)
            plan.tensor("x", 1, "f32", "d0", None, 0, None, 0, 0)
            plan.tensor("y", 2, "f32", "d0", None, 0, None, 0, 0)
            for one in arguments:
                ignore_errors(plan.call, formula, "", "add", one)
            ignore_errors(plan.explain)
            ignore_errors(plan.count)
        for name, arguments in {
            "texts": [[f"{sizes[:8]} + 1", 2, 1]],
            "several texts": [["d0 + 1000", 2, 1], ["d0 * 77", 2, 1]],
            "too few": [["d0 + 1000", 2]],
            "no text": [[None, 2, 1]],
            "no expression": [["d0 +", 2, 1]],
            "no list": [7],
            "too many": [["d0 + 1000"] * 65],
        }.items():
            self.grows(name, lambda a=arguments: build(*[json.loads(json.dumps(one)) for one in a]))


if __name__ == "__main__":
    unittest.main()
