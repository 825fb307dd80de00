#!/usr/bin/env python3
"""PyTorch's own samples for its foreach functions, each through one md.foreach, beside PyTorch's result.

All functions run with f32, and each with one other type; TEST_EFFORT=2 takes all types, TEST_ONLY=exp,add these
functions. TEST_VERBOSE=1 lists what was skipped, and why."""

import collections
import os
import random
import unittest
import warnings

import torch

import multidispatch as md
from torch_device import DEVICE, EFFORT, database

methods = database("common_methods_invocations")
# The value of an element by those of the lists. {b}: the last argument, an element of a list, a tensor or a scalar.
UNARY = {name: f"{name}(A[i])" for name in (
    "exp", "acos", "asin", "atan", "cos", "cosh", "log", "log2", "tan", "tanh", "sin", "sinh", "sqrt", "rsqrt", "ceil",
    "erf", "erfc", "expm1", "floor", "log1p", "round", "sigmoid", "trunc", "abs", "sign")} | {
    "log10": "log(A[i]) * 0.43429448190325182", "neg": "-A[i]", "frac": "A[i] - trunc(A[i])", "reciprocal": "1 / A[i]",
    "zero": "0", "clone": "A[i]"}
BINARY = {"add": "A[i] + alpha * {b}", "sub": "A[i] - alpha * {b}", "mul": "A[i] * {b}", "div": "A[i] / {b}",
          "clamp_min": "max(A[i], {b})", "clamp_max": "min(A[i], {b})", "maximum": "max(A[i], {b})",
          "minimum": "min(A[i], {b})", "pow": "pow(A[i], {b})", "pow of a scalar": "pow({b}, A[i])", "copy": "{b}"}
TERNARY = {"addcmul": "A[i] + {v} * B[i] * C[i]", "addcdiv": "A[i] + {v} * B[i] / C[i]",
           "lerp": "A[i] + {b} * (B[i] - A[i])"}
NORMS = {0: "sum[i](where({a} == 0, 0, 1))", 1: "sum[i](abs({a}))", 2: "sqrt(sum[i]({a} * {a}))",
         -1: "1 / sum[i](1 / abs({a}))", -2: "1 / sqrt(sum[i](1 / ({a} * {a})))", float("inf"): "max[i](abs({a}))",
         float("-inf"): "min[i](abs({a}))"}
NAMES = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64",
         torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool"}
OTHERS = [t for t in NAMES if t is not torch.float32]
TOLERANCE = {torch.float32: (1e-5, 1e-5), torch.float64: (1e-12, 1e-12), torch.float16: (2e-3, 1e-3),
             torch.bfloat16: (1.6e-2, 1e-2)}


class Skip(Exception):
    """A sample that cannot be run, and why."""


def is_list(x):
    return isinstance(x, (list, tuple)) and len(x) > 0 and torch.is_tensor(x[0])


def copies(x):
    """Copies of tensors, with their strides; other values as they are."""
    if isinstance(x, (list, tuple)) and is_list(x):
        return [t.clone(memory_format=torch.preserve_format) if t.is_contiguous() else torch.empty_strided(
            t.shape, t.stride(), dtype=t.dtype, device=t.device).copy_(t) for t in x]
    return x


def wide(x):
    """The same with reals in f64."""
    if is_list(x):
        return [t.double() if t.is_floating_point() else t for t in x]
    return x.double() if torch.is_tensor(x) and x.is_floating_point() else x


class Call:
    """A sample as a formula and its arguments."""

    def __init__(self, name, sample, dtype):
        self.given, self.scalars, self.dtype = {"A": sample.input}, [], dtype
        options = dict(sample.kwargs)
        if name in UNARY:
            self.value = UNARY[name]
        elif name == "max":
            self.value = "max[i](A[i])"
        elif name == "norm":
            out = options.pop("dtype", None)
            self.value = NORMS[options.pop("ord")].format(a="f64(A[i])" if out is torch.float64 else "A[i]")
        elif name in BINARY:
            self.value = BINARY[name].format(b=self.argument("B", sample.args[0]))
            if "alpha *" in self.value:
                self.value = self.value.replace("alpha", self.argument("alpha", options.pop("alpha", 1)))
        elif name in TERNARY:
            self.given["B"] = sample.args[0]
            last = options.pop("scalars", options.pop("value", 1))
            if name == "lerp":
                self.value = TERNARY[name].format(b=self.argument("C", sample.args[1]))
            else:
                self.given["C"] = sample.args[1]
                self.value = TERNARY[name].format(v=self.argument("v", last))
        else:
            raise Skip("no formula")
        if options:
            raise Skip(f"option {next(iter(options))}")

    def argument(self, name, x):
        """What stands for it in the formula."""
        if is_list(x):
            self.given[name] = x
            return f"{name}[i]"
        if torch.is_tensor(x):
            self.given[name] = [x] * len(self.given["A"])
            return f"{name}[]"
        numbers = x if isinstance(x, (list, tuple)) else [x]
        if any(isinstance(v, complex) for v in numbers):
            raise Skip("a complex scalar")
        is_whole = not self.dtype.is_floating_point and all(isinstance(v, int) for v in numbers)
        self.scalars.append(f"scalar {name.lower()}{':i64' if is_whole else ''}; ")
        self.given[name.lower()] = list(x) if isinstance(x, (list, tuple)) else x
        return name.lower()

    def __call__(self, dtype, in_place=None):
        """The result, of a dtype: new, or in place of the first list."""
        is_reduced = "[i](" in self.value
        given = {k: v for k, v in self.given.items() if f"{k}[" in self.value or k.islower()}
        text = "".join(self.scalars) + f"Y:{NAMES[dtype]}{'[]' if is_reduced else '[i]'} = {self.value}"
        shapes = [x.shape for x in self.given["A"]]
        if all(t.is_contiguous() for v in self.given.values() if is_list(v) for t in v):
            view = lambda t: t.view(-1) if t.dim() else t
        else:
            text, view = text.replace("[i]", "[i,j]"), lambda t: t if t.numel() else t.view(0, 0)
        given = {k: [view(t) for t in v] if is_list(v) else v for k, v in given.items()}
        if in_place is not None:
            given = {k: [view(t) for t in in_place] if k == "A" else v for k, v in given.items()}
            return md.foreach(text, out=[view(t) for t in in_place], **given)
        if not given:
            made = [torch.empty(s, dtype=dtype, device=DEVICE) for s in shapes]
            md.foreach(text, out=[view(t) for t in made])
            return made
        made = md.foreach(text, **given)
        return made if is_reduced else [y.view(s) for y, s in zip(made, shapes)]


class Databases(unittest.TestCase):
    def setUp(self):
        warnings.simplefilter("ignore")
        torch.manual_seed(19)
        random.seed(19)
        self.ours, self.in_place, self.left, self.wrong = (collections.Counter() for _ in range(4))

    def compare(self, where, name, got, expected, exact):
        for i, (a, b) in enumerate(zip(got, expected, strict=True)):
            rtol, atol = TOLERANCE.get(b.dtype, (0, 0))
            try:
                torch.testing.assert_close(a, b, rtol=rtol, atol=atol, equal_nan=True)
            except AssertionError as error:
                near = exact()[i] if a.shape == b.shape and a.dtype == b.dtype and b.is_floating_point() else None
                if near is not None and bool((a.double() - near).abs().max() <= 2 * (b.double() - near).abs().max()):
                    continue  # PyTorch's own result is as far from f64's: rounding is magnified
                lines = str(error).strip().splitlines()
                self.wrong[f"{where}, item {i}: {lines[0]} {lines[-2:]}"] += 1
                return
        self.ours[name] += 1

    def sample(self, op, name, dtype, sample, where):
        args = [copies(x) for x in sample.args]
        function = op.inplace_variant if name in ("zero", "copy") else op.op
        if name == "pow of a scalar":
            function = lambda power, base: op.op(base, power)
        try:
            given = copies(sample.input)
            expected = function(given, *args, **sample.kwargs) or given
        except (RuntimeError, ValueError, TypeError, NotImplementedError, IndexError):
            raise Skip(f"PyTorch refuses it in {NAMES[dtype]}") from None
        if any(t.dtype not in NAMES for t in expected):
            raise Skip(f"a result of {expected[0].dtype}")
        call = Call(name, sample, dtype)

        def exact():
            given = wide(sample.input)
            return function(given, *[wide(x) for x in args], **sample.kwargs) or given

        self.compare(where, name, call(expected[0].dtype), expected, exact)
        if op.inplace_variant is None or name not in op.name or expected[0].dtype != dtype:
            return
        ours = copies(sample.input)
        call(dtype, in_place=ours)
        self.compare(where + " in place", name, ours, expected, exact)
        self.in_place[name] += 1

    def run_samples(self, op, dtype):
        name = op.name.removeprefix("_foreach_")
        samples = list(op.sample_inputs(DEVICE, dtype)) + list(op.sample_zero_size_inputs(DEVICE, dtype))
        if dtype is torch.float32:
            samples += op.sample_inputs(DEVICE, dtype, noncontiguous=True, num_input_tensors=[5])
        runs = [(name, sample) for sample in samples]
        if op.supports_scalar_self_arg:
            runs += [(name + " of a scalar", s) for s in samples if s.args and isinstance(s.args[0], (int, float))]
        for number, (name, sample) in enumerate(runs):
            sample.kwargs.pop("disable_fastpath", None)
            where = f"{name} {NAMES[dtype]} {number} {sample.kwargs}"
            try:
                self.sample(op, name, dtype, sample, where)
            except Skip as why:
                self.left[name, str(why)] += 1
            except md.MdError as error:
                self.wrong[f"{where}: {error}"] += 1

    def run_database(self, db, functions, samples, in_place):
        """All functions. At least as many must be ours, with as many samples, and as many updates in place."""
        only = os.environ.get("TEST_ONLY")
        for number, op in enumerate(db):
            if only and op.name.removeprefix("_foreach_") not in only.split(","):
                continue
            for dtype in (torch.float32, *(OTHERS if EFFORT > 1 else OTHERS[number % len(OTHERS)::len(OTHERS)])):
                if op.supports_dtype(dtype, torch.device(DEVICE).type):
                    self.run_samples(op, dtype)
        if os.environ.get("TEST_VERBOSE"):
            for (name, why), n in sorted(self.left.items()):
                print(f"skipped: {n:4} x {name}: {why}")
        print(f"{len(db)} functions, {len(self.ours)} are ours, {self.ours.total()} results ({self.in_place.total()} in "
              f"place), {self.left.total()} skipped, {self.wrong.total()} wrong", flush=True)
        self.assertFalse(self.wrong, "\n" + "\n".join(list(self.wrong)[:60]))
        if not only:
            self.assertGreaterEqual(len(self.ours), functions)
            self.assertGreaterEqual(self.ours.total(), samples)
            self.assertGreaterEqual(self.in_place.total(), in_place)

    def test_unary(self):
        self.run_database(methods.foreach_unary_op_db, 30, 240, 100)

    def test_binary(self):
        self.run_database(methods.foreach_binary_op_db, 11, 450, 220)

    def test_pointwise(self):
        self.run_database(methods.foreach_pointwise_op_db + methods.foreach_other_op_db, 3, 270, 130)

    def test_reductions(self):
        self.run_database(methods.foreach_reduce_op_db, 2, 65, 0)


if __name__ == "__main__":
    unittest.main()
