#!/usr/bin/env python3
"""Reads definitions of FlashInfer-Bench (JSON: axes, inputs, outputs, a reference) and says them as formulas.

    flashinfer_formula.py DEFINITION.json...            the formula and what is fixed, a JSON line each
    flashinfer_formula.py DEFINITION.json --run [N]     also runs N shapes (5), variable axes drawn at random, beside the reference

Constant axes are fixed sizes, variable ones dims. Kinds: gemm, rmsnorm, fused_add_rmsnorm. Of any other kind --run compiles
the reference, a program of PyTorch's, by torch.compile(backend="multidispatch"). A reference is run as it is: take only
definitions that you trust. Exit 1: a definition cannot be read, or a result is wrong.
"""
import argparse
import json
import pathlib
import random
import re
import sys

TYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2",
         "int8": "i8", "int32": "i32", "int64": "i64", "bool": "bool"}

# Words of the language, which cannot name a tensor or an index: such a name gets a '_' (calls are by place).
WORDS = {"sum", "prod", "max", "min", "mean", "var", "argmax", "argmin", "any", "all", "where", "exp", "log", "sqrt", "size", "let", "scalar", "and", "or", "not",
         "inf", "nan", "pi", "data", *TYPES.values()}


class Unreadable(ValueError):
    """What is wrong with a definition."""


class NoFormula(KeyError):
    """A kind of which only the reference, a program, is known."""


def named(name):
    return name + "_" * (name in WORDS)


def free(name, taken):
    """The name, with as many '_' behind it as make it one that is not taken."""
    while name in taken:
        name += "_"
    return name


def field(definition, name, kind):
    if not isinstance(definition.get(name), kind):
        raise Unreadable(f"no field '{name}', or of another kind")
    return definition[name]


def tensors_of(definition, which):
    """[(name, index names, type)] of inputs or outputs; a scalar has no shape."""
    out = []
    for name, spec in field(definition, which, dict).items():
        if spec.get("dtype") not in TYPES:
            raise Unreadable(f"{name}: dtype {spec.get('dtype')!r}: expected one of {', '.join(TYPES)}")
        if not isinstance(spec.get("shape"), (list, type(None))):
            raise Unreadable(f"{name}: shape {spec['shape']!r}: expected a list of axes, or null")
        for axis in spec.get("shape") or []:
            if axis not in definition["axes"]:
                raise Unreadable(f"{name}: axis {axis!r} is not among the axes")
        out.append((named(name), None if spec.get("shape") is None else [named(axis.lower()) for axis in spec["shape"]], TYPES[spec["dtype"]]))
    return out


def fixed_sizes(definition):
    """{index name: size} of constant axes."""
    sizes = {}
    for name, axis in field(definition, "axes", dict).items():
        if axis.get("type") == "const":
            sizes[named(name.lower())] = int(axis["value"])
        elif axis.get("type") != "var":
            raise Unreadable(f"axis {name}: type {axis.get('type')!r}: expected const or var")
    return sizes


def text_of(tensor):
    name, indices, dtype = tensor
    return f"{name}{f':{dtype}' if dtype else ''}[{','.join(indices)}]"


def row_of(tensor, place):
    """A row's element at an index of its own, declared as the tensor is."""
    name, indices, dtype = tensor
    return text_of((name, [*indices[:-1], place], dtype))


def gemm(inputs, outputs, _):
    summed = [i for i in inputs[0][1] if i in inputs[1][1] and i not in outputs[0][1]] if (len(inputs), len(outputs)) == (2, 1) else []
    if not summed:
        raise Unreadable("gemm: expected two inputs that share an axis, and one output")
    a, b = inputs
    return f"{text_of(outputs[0])} = sum[{','.join(summed)}]({text_of(a)} * {text_of(b)})"


def epsilon(reference):
    """The number by its name, or where it is added below the root."""
    number = r"([0-9.]+(?:e-?\d+)?)"
    found = re.search(rf"(?i)\beps\w*\s*=\s*{number}", reference) or re.search(rf"rsqrt\([^\n]*\+\s*{number}\s*\)", reference)
    if not found:
        raise Unreadable("a norm whose reference names no epsilon")
    return found[1]


def norm(row, weight, definition):
    """The expression for a row that is a tensor (name, index names, type). Gemma's weights are added to 1."""
    i, q, reference = row[1][-1], free("q", row[1]), definition.get("reference", "")
    scale = text_of(weight)
    if re.search(rf"\b1(\.0*)?\s*\+\s*{re.escape(weight[0])}\b", reference):
        scale = f"(1.0 + {scale})"
    return f"{row_of(row, i)} * rsqrt(mean[{q}]({row_of(row, q)} * {row_of(row, q)}) + {epsilon(reference)}) * {scale}"


def check_norm(inputs, outputs, n, kind):
    """n - 1 inputs of rows, and a weight; others, such as scales of narrow types, are another operation."""
    ranks = [len(indices or []) for _, indices, _ in inputs]
    if ranks != [*[ranks[0]] * (n - 1), 1] or not 1 <= len(outputs) < n:
        raise NoFormula(kind)


def rmsnorm(inputs, outputs, definition):
    check_norm(inputs, outputs, 2, "rmsnorm")
    x, weight = inputs
    return f"{text_of(outputs[0])} = {norm(x, weight, definition)}"


def fused_add_rmsnorm(inputs, outputs, definition):
    check_norm(inputs, outputs, 3, "fused_add_rmsnorm")
    x, residual, weight = inputs
    total = free("total", [name for name, _, _ in inputs + outputs]), x[1], None
    statements = [f"let {text_of(total)} = {text_of(x)} + {text_of(residual)}", f"{text_of(outputs[0])} = {norm(total, weight, definition)}"]
    return "; ".join(statements + [f"{text_of(out)} = {text_of(total)}" for out in outputs[1:]])


KINDS = {"gemm": gemm, "rmsnorm": rmsnorm, "fused_add_rmsnorm": fused_add_rmsnorm}


def read(definition):
    """(formula, {name: size} that is fixed, names of the dims that vary). Raises Unreadable or NoFormula."""
    kind = field(definition, "op_type", str)
    sizes, inputs, outputs = fixed_sizes(definition), tensors_of(definition, "inputs"), tensors_of(definition, "outputs")
    if "residual" in " ".join(name for name, _, _ in inputs) and kind == "rmsnorm":
        kind = "fused_add_rmsnorm"
    if kind not in KINDS:
        raise NoFormula(kind)
    used = {i for _, indices, _ in inputs + outputs for i in indices or []}
    sizes = {name: size for name, size in sizes.items() if name in used}  # others are in no tensor
    vary = [name for name in map(named, map(str.lower, definition["axes"])) if name in used - set(sizes)]
    return KINDS[kind](inputs, outputs, definition), sizes, vary


def reference_of(torch, definition):
    room = {"torch": torch}
    exec(definition["reference"], room)
    return room["run"]


def draw_inputs(torch, definition, draw):
    """Tensors of the definition's inputs, with variable axes drawn."""
    size = {name: axis["value"] if axis["type"] == "const" else draw.choice([1, 2, 3, 17, 64, draw.randint(1, 500)]) for name, axis in definition["axes"].items()}
    types = {name: getattr(torch, name) for name in TYPES if hasattr(torch, name)}
    made = []
    for spec in definition["inputs"].values():
        dtype = types[spec["dtype"]]
        shape = [size[axis] for axis in spec.get("shape") or []]
        made.append(torch.randn(shape).to(dtype) if dtype.is_floating_point else torch.randint(0, 4, shape, dtype=dtype))
    return size, made


def run(definition, shapes, seed=1):
    """A line for each shape: the largest difference to the reference over the output's largest value, and what is allowed."""
    import torch
    import multidispatch as md
    reference, draw = reference_of(torch, definition), random.Random(seed)
    try:
        formula, sizes, _ = read(definition)
        call = md.op(formula, static=sizes)
    except NoFormula:
        call = torch.compile(reference, backend="multidispatch", dynamic=True)
    for _ in range(shapes):
        size, inputs = draw_inputs(torch, definition, draw)
        got, wanted = call(*inputs), reference(*inputs)
        got, wanted = (x if isinstance(x, tuple) else (x,) for x in (got, wanted))
        worst = max(((a.float() - b.float()).abs().max() / b.float().abs().max().clamp(min=1e-30)).item() for a, b in zip(got, wanted, strict=True))
        allowed = max(4 * torch.finfo(x.dtype).eps if x.is_floating_point() else 0.0 for x in wanted)
        yield {"name": definition.get("name"), "sizes": size, "error": worst, "allowed": allowed}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("definition", nargs="+")
    p.add_argument("--run", type=int, nargs="?", const=5, default=0)
    given = p.parse_args()
    status = 0
    for path in given.definition:
        try:
            definition = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
            formula, sizes, vary = read(definition)
            print(json.dumps({"name": definition.get("name"), "formula": formula, "static": sizes, "dims": vary}))
        except NoFormula as kind:
            print(f"{path}: op_type {kind} has no formula: its reference is a program", file=sys.stderr)
        except (OSError, ValueError, TypeError) as wrong:
            print(f"{path}: {wrong}", file=sys.stderr)
            status = 1
            continue
        for line in run(definition, given.run) if given.run else []:
            print(json.dumps(line))
            status |= not line["error"] <= line["allowed"]
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
