"""The table: what an operation of ATen is as a tree. What is not here, PyTorch computes."""

from __future__ import annotations

import math
from typing import Any, Callable

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv

from ..sizes import Unsupported, expression, same
from . import tree as T
from .tree import Apply, Const, Iota, Value

TABLE: dict[str, Callable[..., Any]] = {}
REAL = ("f16", "bf16", "f32", "f64")
NARROW = ("i8", "i16", "i32", "u8")


def entry(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(f: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            TABLE[name] = f
        return f

    return add


def kind(dtype: str) -> str:
    return "real" if dtype in REAL else "bool" if dtype == "bool" else "whole"


def as_stored(v: Value, number: Any = None) -> Value:
    """Before tests, steps and conversions to whole numbers, which show the rounding that other operations leave to a
    store: 16-bit reals as memory has them. Rounding does not take a value across 0, the number of a comparison."""
    is_exact = not isinstance(v.tree, Apply) or v.tree.text == v.dtype + "({0})"
    return v if v.dtype not in ("f16", "bf16") or is_exact or number == 0 else cast(Value(v.shape, "f32", v.tree), v.dtype)


def cast(v: Value, dtype: str) -> Value:
    """The value converted to a dtype, as .to() does."""
    if v.dtype == dtype:
        return v
    if kind(dtype) != "real":
        v = as_stored(v)
    if kind(dtype) == "bool":
        text = "({0} != 0)"
    elif dtype not in (*REAL, *NARROW, "i64"):
        raise Unsupported(f"a conversion to {dtype}")
    elif dtype in ("f32",) and v.dtype in ("f16", "bf16"):
        return Value(v.shape, dtype, v.tree)
    elif dtype in ("i8", "i16", "u8") and kind(v.dtype) == "real":
        text = dtype + "(i64({0}))"  # as PyTorch: -1 is 255. The formula language takes the nearest
    else:
        text = dtype + "({0})"
    if isinstance(v.tree, Const) and isinstance(v.tree.value, (bool, int, float)) and dtype in ("f32", "f64", "i64"):
        if dtype != "i64" or math.isfinite(v.tree.value):
            return Value(v.shape, dtype, Const(int(v.tree.value) if dtype == "i64" else float(v.tree.value)))
    return Value(v.shape, dtype, Apply(text, (v.tree,), 0))


def operand(v: Value, dtype: str) -> Value:
    """The value as an operand of arithmetic with results of this dtype: converted to its kind (real, integer), not
    rounded."""
    if kind(v.dtype) == kind(dtype) and not (dtype == "f64" and v.dtype != "f64"):
        return v
    if kind(v.dtype) == "real" and kind(dtype) != "real":
        raise Unsupported(f"an operand of {v.dtype}, a real, for a result of {dtype}")
    return cast(v, "f32" if dtype in ("f16", "bf16") else dtype)


def apply(g: Any, text: str, args: list[Value], dtype: str, cost: int = 1) -> Value:
    """A pointwise operation on operands that are broadcast."""
    shape = g.broadcast([a.shape for a in args])
    args = [_once(g, a, shape) for a in args]
    tree = Apply(text, tuple(T.expanded(a, shape).tree for a in args), cost)
    if dtype in NARROW and kind(dtype) == "whole":
        tree = Apply(dtype + "({0})", (tree,), 0)
    return Value(shape, dtype, tree)


_MOST_AGAIN = 8  # the highest cost of an operand with reads by index that is computed for each element of a larger result


def _once(g: Any, v: Value, shape: list[Any]) -> Value:
    """A value that is repeated, such as a mask of positions for all heads: computed once if that is much work."""
    new = len(shape) - len(v.shape)
    is_repeated = any(same(a, 1) and not same(b, 1) for a, b in zip([1] * new + v.shape, shape))
    if not is_repeated or T.cost(v.tree) <= _MOST_AGAIN or not any(isinstance(t, T.Gather) for t in T.leaves(v.tree)):
        return v
    return Value(v.shape, v.dtype, g.leaf(v))


OF_TRUTHS = {"maximum": "({0} or {1})", "minimum": "({0} and {1})", "mul.Tensor": "({0} and {1})"}


_STEPS = ("floor", "ceil", "trunc", "round", "remainder.Tensor", "remainder.Scalar", "fmod.Tensor", "fmod.Scalar")
_DIVISIONS = ("div.Tensor", "div.Scalar", "true_divide.Tensor")  # on a GPU, by numbers, as PyTorch's: by the inverse


def _arithmetic(name: str, text: str, cost: int = 1, reals: bool = False) -> None:
    def f(g: Any, *args: Any) -> Value:
        if name in _STEPS:
            args = tuple(as_stored(g.value(a)) for a in args)
        if name.startswith(("remainder", "fmod")):
            _check_divisor(g, args[1])
        if g.dtype == "bool" and name in OF_TRUTHS:
            return apply(g, OF_TRUTHS[name], [g.value(a) for a in args], "bool")
        if g.dtype == "bool" or reals and g.dtype not in REAL:
            raise Unsupported(f"{name} of {g.dtype}")
        operands = [operand(g.value(a), g.dtype) for a in args]
        is_by_number = name in _DIVISIONS and g.device.type == "cuda" and not T.leaves(operands[1].tree)
        return apply(g, "({0} * (1.0 / {1}))" if is_by_number else text, operands, g.dtype, cost)

    entry(name)(f)


def _check_divisor(g: Any, v: Value) -> None:
    """Whole numbers divided by 0 are an error in PyTorch on a CPU. A plan refuses a call with a size that is 0."""
    if kind(g.dtype) == "real" or g.device.type != "cpu":
        return
    number = v.tree.value if isinstance(v.tree, Const) else 0
    if isinstance(number, (int, float)) and number == 0:
        raise Unsupported("division by whole numbers that may be 0")
    if not isinstance(number, (int, float)):
        g.dims.value(FloorDiv(sympy.Integer(1), number))


for _name in ("neg:(-{0})", "abs:abs({0})", "relu:relu({0})",
              "maximum:max({0}, {1})", "minimum:min({0}, {1})", "mul.Tensor:({0} * {1})", "mul.Scalar:({0} * {1})",
              "remainder.Tensor:({0} % {1})", "remainder.Scalar:({0} % {1})", "fmod.Tensor:fmod({0}, {1})",
              "fmod.Scalar:fmod({0}, {1})"):
    _arithmetic(*_name.split(":"))  # type: ignore[arg-type]
for _name in ("floor", "ceil", "trunc", "round"):
    _arithmetic(_name, _name + "({0})")
for _name in ("exp exp2 expm1 log log1p log2 sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc "
              "sigmoid silu sqrt rsqrt cbrt").split():
    _arithmetic(_name, _name + "({0})", 3 if "sqrt" in _name else 8, True)
_arithmetic("reciprocal", "(1.0 / {0})", 3, True)
_arithmetic("div.Tensor", "({0} / {1})", 3, True)
_arithmetic("div.Scalar", "({0} / {1})", 3, True)
_arithmetic("true_divide.Tensor", "({0} / {1})", 3, True)
_arithmetic("copysign.Tensor", "where({1} < 0.0 or 1.0 / {1} < 0.0, -abs({0}), abs({0}))", 4, True)
_arithmetic("atan2", "atan2({0}, {1})", 8, True)


def _number_as(number: Any, other: Value) -> Any:
    """A number that is compared with a tensor of 16-bit reals is rounded to their dtype: bf16(0.1) == 0.1."""
    if other.dtype not in ("f16", "bf16") or not isinstance(number, (int, float)) or isinstance(number, bool):
        return number
    return torch.tensor(number, dtype=torch.float16 if other.dtype == "f16" else torch.bfloat16).item()


def _comparison(name: str, sign: str) -> None:
    def f(g: Any, a: Any, b: Any) -> Value:
        x = g.value(a)
        y = as_stored(g.value(_number_as(b, x)))
        x = as_stored(x, b if isinstance(b, (int, float)) else None)
        kinds = {kind(x.dtype), kind(y.dtype)}
        common = "f64" if "f64" in (x.dtype, y.dtype) and not isinstance(y.tree, Const) else "f32"
        to = common if "real" in kinds else "i64" if "whole" in kinds else "bool"
        # n > j, never j < n, of which a formula makes a length: one above the size of j is no mistake here
        sides = (1, 0) if sign.startswith("<") else (0, 1)
        text = f"({{{sides[0]}}} {sign.replace('<', '>')} {{{sides[1]}}})"
        return apply(g, text, [operand(x, to), operand(y, to)], "bool")

    entry(f"{name}.Tensor", f"{name}.Scalar")(f)


for _name, _sign in {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}.items():
    _comparison(_name, _sign)


def _logic(name: str, text: str, whole: str | None) -> None:
    def f(g: Any, *args: Any) -> Value:
        values = [g.value(a) for a in args]
        if text and (not name.startswith("bitwise") or g.dtype == "bool"):
            return apply(g, text, [cast(v, "bool") for v in values], "bool")
        if whole is None or g.dtype not in (*NARROW, "i64"):
            raise Unsupported(f"{name} of {g.dtype}")
        return apply(g, whole, values, g.dtype)

    entry(name, f"{name}.Tensor", f"{name}.Scalar")(f)


_logic("logical_not", "(not {0})", None)
_logic("logical_and", "({0} and {1})", None)
_logic("logical_or", "({0} or {1})", None)
_logic("logical_xor", "({0} != {1})", None)
_logic("bitwise_not", "(not {0})", "(~{0})")
_logic("bitwise_and", "({0} and {1})", "({0} & {1})")
_logic("bitwise_or", "({0} or {1})", "({0} | {1})")
_logic("bitwise_xor", "({0} != {1})", "({0} ^ {1})")
for _name, _sign in {"__lshift__": "<<", "bitwise_left_shift": "<<", "__rshift__": ">>", "bitwise_right_shift": ">>"}.items():
    for _of in ("", ".Tensor_Scalar"):
        _logic(_name + _of, "", f"({{0}} {_sign} {{1}})")


@entry("add.Tensor", "add.Scalar", "sub.Tensor", "sub.Scalar", "rsub.Tensor", "rsub.Scalar")
def _add(g: Any, a: Any, b: Any, alpha: Any = 1) -> Value:
    if g.dtype == "bool":
        if g.name != "add.Tensor" or alpha != 1:
            raise Unsupported("arithmetic of truth values")
        return apply(g, "({0} or {1})", [g.value(a), g.value(b)], "bool")
    x, y = operand(g.value(a), g.dtype), operand(g.value(b), g.dtype)
    if "rsub" in g.name:
        x, y = y, x
    sign = "+" if "add" in g.name else "-"
    if isinstance(alpha, (int, float)) and alpha == 1:
        return apply(g, f"({{0}} {sign} {{1}})", [x, y], g.dtype)
    if "rsub" in g.name:
        raise Unsupported("rsub with alpha")
    return apply(g, f"({{0}} {sign} {{2}} * {{1}})", [x, y, operand(g.value(alpha), g.dtype)], g.dtype, 2)


@entry("div.Tensor_mode", "div.Scalar_mode", "floor_divide")
def _div(g: Any, a: Any, b: Any, rounding_mode: str | None = "floor") -> Value:
    x, y = g.value(a), g.value(b)
    if rounding_mode == "floor" and kind(g.dtype) == "whole":
        _check_divisor(g, y)
        return apply(g, "({0} // {1})", [x, y], g.dtype, 8)
    if kind(g.dtype) != "real":
        raise Unsupported(f"division of {g.dtype} rounded by {rounding_mode}")
    if rounding_mode == "floor":
        return _floored(g, *(g.shared(operand(as_stored(v), g.dtype)) for v in (x, y)))
    # the quotient is rounded to the dtype before its fraction is dropped
    quotient = "({0} / {1})" if g.dtype in ("f32", "f64") else g.dtype + "({0} / {1})"
    text = "({0} / {1})" if rounding_mode is None else f"trunc({quotient})"
    return apply(g, text, [operand(x, g.dtype), operand(y, g.dtype)], g.dtype, 3)


def _floored(g: Any, x: Value, y: Value) -> Value:
    """The quotient of reals rounded down, as PyTorch has it: (x - remainder) / y is near a whole number."""
    left = g.shared(apply(g, "fmod({0}, {1})", [x, y], "f64" if g.dtype == "f64" else "f32", 8))
    near = "(({0} - {2}) / {1} - where({2} != 0.0 and (({1} < 0.0) != ({2} < 0.0)), 1.0, 0.0))"
    q = g.shared(apply(g, near, [x, y, left], left.dtype, 6))
    whole = "(floor({2}) + where({2} - floor({2}) > 0.5, 1.0, 0.0))"
    text = f"where({{1}} == 0.0, {{0}} / {{1}}, where({{2}} == 0.0, {{0}} / {{1}} * 0.0, {whole}))"
    out = apply(g, text, [x, y, q], left.dtype, 6)
    return Value(out.shape, g.dtype, out.tree)


@entry("sign", "sgn")
def _sign(g: Any, a: Any) -> Value:
    """0 for nan, as PyTorch has it; sign(nan) of the formula language is nan."""
    if g.dtype == "bool":
        raise Unsupported("the sign of truth values")
    v = g.shared(as_stored(g.value(a), 0))
    one, zero = ("1.0", "0.0") if g.dtype in REAL else ("1", "0")
    return apply(g, f"where({{0}} > 0, {one}, where({{0}} < 0, -{one}, {zero}))", [v], g.dtype, 2)


@entry("leaky_relu")
def _leaky_relu(g: Any, a: Any, slope: Any = 0.01) -> Value:
    v = g.shared(g.value(a))
    return apply(g, "where({0} > 0.0, {0}, {0} * {1})", [v, g.value(slope)], g.dtype, 2)


@entry("elu")
def _elu(g: Any, a: Any, alpha: Any = 1.0, scale: Any = 1.0, input_scale: Any = 1.0) -> Value:
    """Of selu and celu, too."""
    v = g.shared(operand(g.value(a), g.dtype))
    text = "where({0} > 0.0, {0} * {2}, expm1({0} * {3}) * {1} * {2})"
    return apply(g, text, [v, *(operand(g.value(x), g.dtype) for x in (alpha, scale, input_scale))], g.dtype, 9)


@entry("fmax", "fmin")
def _without_nan(g: Any, a: Any, b: Any) -> Value:
    """The greater or less of two, of which one may be nan."""
    name = "max" if g.name == "fmax" else "min"
    if g.dtype not in REAL:
        raise Unsupported(f"{g.name} of {g.dtype}")
    x, y = (g.shared(operand(g.value(v), g.dtype)) for v in (a, b))
    return apply(g, f"where(isnan({{0}}), {{1}}, where(isnan({{1}}), {{0}}, {name}({{0}}, {{1}})))", [x, y], g.dtype, 3)


@entry("hypot")
def _hypot(g: Any, a: Any, b: Any) -> Value:
    """The greater times sqrt(1 + quotient ^ 2): squares may overflow. Infinite where one is, whatever the other."""
    if g.dtype not in REAL:
        raise Unsupported(f"hypot of {g.dtype}")
    sides = [apply(g, "abs({0})", [operand(g.value(v), g.dtype)], g.dtype) for v in (a, b)]
    long = g.shared(apply(g, "max({0}, {1})", sides, g.dtype))
    part = g.shared(apply(g, "(min({0}, {1}) / {2})", [*sides, long], g.dtype, 4))
    text = "where(isinf({0}) or isinf({1}), inf, where({2} == 0.0, 0.0, {2} * sqrt(1.0 + {3} * {3})))"
    return apply(g, text, [*sides, long, part], g.dtype, 6)


@entry("pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar")
def _pow(g: Any, a: Any, b: Any) -> Value:
    power = float(b) if isinstance(b, (int, float)) else None
    x = operand(g.value(a), g.dtype)
    if g.dtype in (*NARROW, "i64") and power in range(9):
        return apply(g, " * ".join(["{0}"] * int(power)).join("()") if power else "1", [g.shared(x)], g.dtype, int(power))
    if g.dtype not in REAL:
        raise Unsupported(f"a power of {g.dtype}")
    if power in (2.0, 3.0):
        x = g.shared(x)
        return apply(g, "({0} * {0})" if power == 2.0 else "({0} * {0} * {0})", [x], g.dtype)
    known = {1.0: "{0}", 0.5: "sqrt({0})", -0.5: "rsqrt({0})", -1.0: "(1.0 / {0})"}.get(power or 0.0)
    if known:
        return apply(g, known, [x], g.dtype, 3)
    return apply(g, "pow({0}, {1})", [x, operand(g.value(b), g.dtype)], g.dtype, 12)


@entry("where.self", "where.ScalarOther", "where.Scalar", "where.ScalarSelf")
def _where(g: Any, condition: Any, a: Any, b: Any) -> Value:
    arms = [g.value(a), g.value(b)]
    if g.dtype != "bool":
        arms = [operand(v, g.dtype) for v in arms]
    return apply(g, "where({0}, {1}, {2})", [cast(g.value(condition), "bool"), *arms], g.dtype)


@entry("masked_fill.Scalar", "masked_fill.Tensor")
def _masked_fill(g: Any, a: Any, mask: Any, value: Any) -> Value:
    return _where(g, mask, value, a)


@entry("clamp", "clamp_min", "clamp_max", "clamp.Tensor", "clamp_min.Tensor", "clamp_max.Tensor", "hardtanh")
def _clamp(g: Any, a: Any, low: Any = None, high: Any = None) -> Value:
    if "clamp_max" in g.name:
        low, high = None, low
    if "hardtanh" in g.name:
        low, high = -1.0 if low is None else low, 1.0 if high is None else high
    out = operand(g.value(a), g.dtype)
    for bound, text in ((low, "max({0}, {1})"), (high, "min({0}, {1})")):
        if bound is not None:
            out = apply(g, text, [out, operand(g.value(bound), g.dtype)], g.dtype)
    return out


@entry("gelu")
def _gelu(g: Any, a: Any, approximate: str = "none") -> Value:
    return apply(g, "gelu({0})" if approximate == "none" else "gelu_tanh({0})", [g.value(a)], g.dtype, 10)


@entry("_to_copy", "convert_element_type", "to.dtype")
def _to_copy(g: Any, a: Any, *_: Any, **options: Any) -> Value:
    g.same_device(options.get("device"))
    if options.get("layout") is not None and "strided" not in str(options["layout"]):
        raise Unsupported(f"layout {options['layout']}")
    return cast(g.value(a), g.dtype)


@entry("clone", "alias", "detach", "lift_fresh_copy", "lift_fresh", "contiguous", "lift")
def _clone(g: Any, a: Any, **_: Any) -> Value:
    return g.value(a)


@entry("isnan", "isinf")
def _is(g: Any, a: Any) -> Value:
    v = as_stored(g.value(a))
    if kind(v.dtype) != "real":
        return Value(v.shape, "bool", Const(False))
    return apply(g, g.name + "({0})", [v], "bool")


# ---- New values


@entry("full", "full_like", "zeros", "zeros_like", "ones", "ones_like", "scalar_tensor", "empty.memory_format",
       "new_zeros", "new_ones", "new_full", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted")
def _full(g: Any, *args: Any, **options: Any) -> Value:
    g.same_device(options.get("device"))
    value = {"f": lambda: args[-1], "s": lambda: args[0], "z": lambda: 0, "o": lambda: 1, "e": lambda: 0}[
        g.name.replace("new_", "")[0]]()
    value = options.get("fill_value", value)
    if isinstance(value, Value):
        return T.expanded(cast(value, g.dtype), g.shape)
    if not isinstance(value, (bool, int, float)):
        value = expression(value)
    if kind(g.dtype) == "bool":
        value = bool(value)
    elif isinstance(value, (bool, int, float)):
        value = float(value) if kind(g.dtype) == "real" else int(value)
    elif kind(g.dtype) == "real":
        return Value(list(g.shape), g.dtype, Apply("f32({0})", (Const(value),), 0))
    return Value(list(g.shape), g.dtype, Const(value))


@entry("arange.start_step", "arange.start", "arange.default", "arange", "iota")
def _arange(g: Any, *args: Any, **options: Any) -> Value:
    g.same_device(options.get("device"))
    start = 0 if len(args) == 1 else args[0]
    step = args[2] if len(args) > 2 else 1
    if g.name == "iota":
        start, step = options["start"], options["step"]
    start, step = (int(x) if isinstance(x, float) and x == int(x) else x for x in (start, step))
    if all(isinstance(x, (int, torch.SymInt)) for x in (start, step)):
        return cast(Value(list(g.shape), "i64", Iota((expression(step),), expression(start))), g.dtype)
    if g.dtype not in REAL:
        raise Unsupported("whole numbers from an arange of reals")
    place = cast(Value(list(g.shape), "i64", Iota((1,))), "f64")  # PyTorch computes them in f64, too
    return cast(apply(g, "({0} + {1} * {2})", [_real_of(g, start), place, _real_of(g, step)], "f64", 2), g.dtype)


def _real_of(g: Any, x: Any) -> Value:
    """A number in f64."""
    return cast(g.value(x), "f64")
