"""Sizes in one form, so that sizes that are equal for all dims are equal expressions.

PyTorch writes s rounded up to a multiple of 4 as `s + Mod(4 - Mod(s, 4), 4)`, and a size left open in a view as
`s**2 // s`. Here remainders become quotients, unless they are of long expressions; what a divisor divides leaves its
quotient, and common factors go. Divisors are sizes: they are taken as positive."""

from __future__ import annotations

import functools
import math
from typing import Any

import sympy
from torch.utils._sympy.functions import FloorDiv, PythonMod

# functions that make a quotient whole: does it round up?
ROUNDED = {"CeilToInt": True, "FloorToInt": False, "TruncToInt": False}
QUOTIENTS = ("FloorDiv", "CleanDiv")
REMAINDERS = ("Mod", "PythonMod")
_NO_SIZE = 2 ** 62  # no size is as large
_MOST_TWICE = 64  # operations of an expression that stands twice where a remainder becomes a quotient: nested, it doubles


@functools.lru_cache(maxsize=65536)
def normal(e: Any) -> Any:
    """The expression in that form. What is not made of whole numbers stays as it is."""
    if not isinstance(e, sympy.Expr) or not e.args:
        return e
    kind = type(e).__name__
    if kind in QUOTIENTS:
        return quotient(normal(e.args[0]), normal(e.args[1]))
    if kind in REMAINDERS:
        return _remainder(*map(normal, e.args))
    if kind in ("Max", "Min"):
        return _extreme(e.func, list(map(normal, e.args)), kind == "Min")
    if kind == "ModularIndexing":
        number, divisor, modulus = map(normal, e.args)
        return _remainder(quotient(number, divisor), modulus)
    if kind in ROUNDED and (exact := _ratio(e.args[0])) is not None:
        above, below = sympy.together(exact).as_numer_denom()
        return -quotient(-above, below) if ROUNDED[kind] else quotient(above, below)
    if e.is_Add or e.is_Mul or e.is_Pow and e.exp.is_Integer:
        return sympy.expand(e.func(*map(normal, e.args)))
    return e


_FINEST = 1024  # the largest denominator of a number whose quotients are taken for exact


def _ratio(e: Any) -> Any:
    """What a real made of sizes is in exact arithmetic, as of arange(n, -n, -0.5); None: PyTorch rounds it."""
    kind = type(e).__name__
    if e.is_Float:
        exact = sympy.Rational(float(e))
        return exact if exact.q <= _FINEST else None
    if e.is_integer:
        return normal(e)
    parts = list(map(_ratio, e.args)) if kind in ("ToFloat", "IntTrueDiv", "FloatTrueDiv", "Add", "Mul") else [None]
    if None in parts:
        return None
    return parts[0] / parts[1] if kind.endswith("Div") else e.func(*parts) if kind != "ToFloat" else parts[0]


def _extreme(function: Any, parts: list[Any], is_least: bool) -> Any:
    """The largest or least of sizes. torch.export writes the end of a slice as the least of it and 2^63 - 1."""
    if is_least:
        parts = [p for p in parts if not (p.is_Integer and p >= _NO_SIZE)] or parts
    return function(*dict.fromkeys(parts))


def _remainder(a: Any, b: Any) -> Any:
    if a.count_ops() > _MOST_TWICE:
        return PythonMod(a, b)
    return sympy.expand(a - b * quotient(a, b))


def quotient(a: Any, b: Any) -> Any:
    """a // b, rounded down."""
    whole, rest = sympy.Integer(0), sympy.Integer(0)
    for term in sympy.Add.make_args(sympy.expand(a)):
        exact = _exact(term, b)
        if exact is not None:
            whole += exact
        elif term.is_Integer and b.is_Integer:
            whole += term // b
            rest += term % b
        else:
            rest += term
    return sympy.expand(whole + _rounded_down(rest, b))


def _exact(a: Any, b: Any) -> Any:
    """a / b, where b divides a whatever the dims are; else None."""
    ratio = a / b
    if b.is_Add and not a.is_Integer:
        ratio = sympy.cancel(ratio)
    return ratio if ratio.as_numer_denom()[1] == 1 else None


def _rounded_down(a: Any, b: Any) -> Any:
    """a // b, where b divides no term of a."""
    if a.is_Integer and b.is_Integer:
        return a // b
    above, below = sympy.together(a).as_numer_denom()
    if below != 1:  # a has quotients that are known to leave no remainder
        return quotient(above, sympy.expand(b * below))
    if a.could_extract_minus_sign():  # floor(-x / b) = -ceil(x / b)
        turned = sympy.expand(b - 1 - a)
        return -(FloorDiv(turned, b) if turned.could_extract_minus_sign() else quotient(turned, b))
    a, b = _without_common_factors(a, b)
    constant, term = a.as_coeff_Add()
    if type(term).__name__ == "FloorDiv":  # (x // c + k) // b = (x + k * c) // (c * b)
        return quotient(term.args[0] + constant * term.args[1], sympy.expand(term.args[1] * b))
    return a if b == 1 else FloorDiv(a, b)


def _without_common_factors(a: Any, b: Any) -> tuple[Any, Any]:
    if not a.is_Add:
        return (a / b).as_numer_denom()
    if not b.is_Integer:
        return a, b
    common = math.gcd(int(b), *(int(t.as_coeff_Mul()[0]) for t in a.args))
    return sympy.expand(a / common), b / common
