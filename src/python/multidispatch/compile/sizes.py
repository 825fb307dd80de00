"""Sizes as PyTorch writes them (SymPy), and as texts for the C side and for Python."""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Callable, Sequence

import sympy
from torch.utils._sympy.functions import FloorDiv, Max, Min, Mod

from .normal import QUOTIENTS, REMAINDERS, ROUNDED, normal

_PRIMES = (10007, 10037, 10067, 10091, 10111, 10133, 10151, 10169, 10193, 10223, 10247, 10259, 10267, 10271)


class Unsupported(Exception):
    """What a formula or a plan cannot say: PyTorch computes it. The text is the reason."""


def expression(size: Any) -> Any:
    """An int or SymInt as int or SymPy expression."""
    if isinstance(size, (int, sympy.Expr)):
        return size
    node = getattr(size, "node", None)
    if node is None:
        raise Unsupported(f"{size!r} is no size")
    value = _equal_of(node.shape_env)(normal(_as_known(node.expr, node.shape_env)))
    return int(value) if value.is_Integer else value


def first_size(size: Any) -> int | None:
    """The size in the first call; None: it depends on data."""
    if isinstance(size, int):
        return size
    known = size.node.hint
    return None if known is None else int(known)


class _Equal:
    """What PyTorch checks to be equal at each call of a graph, such as min(64, s) and s: the simpler one stands for both."""

    def __init__(self, guards: Sequence[Any]) -> None:
        self.n_guards = len(guards)
        self._by = dict(filter(None, (_replacement(g.expr) for g in guards)))
        self._known: dict[Any, Any] = {}

    def __call__(self, e: Any) -> Any:
        if not self._by:
            return e
        if e not in self._known:
            self._known[e] = normal(e.xreplace(self._by))
        return self._known[e]


def _bound_between(a: Any, b: Any) -> tuple[Any, Any] | None:
    """A minimum or maximum, and the number or size that it must be where a is b: min(1, s) is 1 where s + min(1, s) - 1
    is s."""
    d = sympy.expand(a - b)
    bounds = d.atoms(Min, Max)
    if len(bounds) != 1:
        return None
    bound, = bounds
    value = sympy.expand(bound - d / d.coeff(bound)) if d.coeff(bound) in (1, -1) else bound
    return (bound, value) if value.is_Integer or value.is_Symbol else None


def _one(guard: Any) -> tuple[Any, Any] | None:
    """min(1, s) and 1 for a guard such as 1 <= s + min(1, s), which does not hold where s is 0."""
    bounds, symbols = guard.atoms(Min), guard.free_symbols
    if len(bounds) != 1 or len(symbols) != 1:
        return None
    bound, size = *bounds, *symbols
    zero, one = sympy.Integer(0), sympy.Integer(1)
    holds_for_0 = guard.xreplace({bound: zero}).xreplace({size: zero}) != sympy.false
    return None if holds_for_0 or set(bound.args) != {one, size} else (bound, one)


def _replacement(guard: Any) -> tuple[Any, Any] | None:
    """(an expression, what is put in its place) for a guard that says that two are equal; or None."""
    if not isinstance(guard, sympy.Eq):
        return _one(guard)
    a, b = map(normal, guard.args)
    if found := _bound_between(a, b):
        return found
    if a.is_Symbol:
        a, b = b, a
    if b.is_Symbol and a.is_polynomial() and not a.has(b) and not a.is_Integer:
        return b, a  # parts of products are found in no other way
    if b.is_Symbol or b.is_Integer:
        return (a, b) if a != b and not a.is_Integer else None
    return (a, b) if a.count_ops() > b.count_ops() else (b, a) if b.count_ops() > a.count_ops() else None


def _equal_of(known: Any) -> Callable[[Any], Any]:
    guards = getattr(known, "guards", ())
    equal = getattr(known, "_multidispatch_equal", None)
    if equal is None or equal.n_guards != len(guards):
        equal = _Equal(guards)
        with contextlib.suppress(AttributeError):  # PyTorch has no guards here to keep it with
            known._multidispatch_equal = equal
    return equal


def _as_known(e: Any, known: Any) -> Any:
    """The expression made simpler by what PyTorch knows of the sizes: quotients without a remainder, and bounds."""
    if known is None:
        return e
    if e.has(Max, Min):
        e = known.simplify(e)
    if not known.divisible:
        return e
    exact = {q: q.args[0] / q.args[1] for q in e.atoms(FloorDiv) if known.replace(Mod(*q.args)) in known.divisible}
    return e.xreplace(exact)


def tidy(value: Any) -> Any:
    """The expression expanded; an int where it is a number."""
    if isinstance(value, sympy.Expr):
        value = sympy.expand(value)
        return int(value) if value.is_Integer else value
    return value


@functools.lru_cache(maxsize=65536)
def _difference_is_zero(a: Any, b: Any) -> bool:
    return sympy.expand(a - b) == 0


def same(a: Any, b: Any) -> bool:
    """True if the sizes are equal whatever the dims are."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return _difference_is_zero(sympy.sympify(a), sympy.sympify(b))


def product(sizes: Sequence[Any]) -> Any:
    out: Any = 1
    for size in sizes:
        out = tidy(out * size)
    return out


def contiguous(sizes: Sequence[Any]) -> list[Any]:
    """Row-major strides, as PyTorch's where a size is 0: no stride is."""
    out: list[Any] = []
    stride: Any = 1
    for size in reversed(sizes):
        out.append(stride)
        stride = tidy(stride * (1 if same(size, 0) else size))
    return out[::-1]


def is_dense(shape: Sequence[Any], stride: Sequence[Any]) -> bool:
    """True if the elements lie without gaps, in whatever order of the axes."""
    expected: Any = 1
    for a in sorted((a for a, n in enumerate(shape) if not same(n, 1)), key=lambda a: magnitude(stride[a])):
        if not same(stride[a], expected):
            return False
        expected = tidy(expected * shape[a])
    return True


def one_or_none(size: Any) -> Any:
    """min(1, size). Not as Min: SymPy is told that sizes are positive, and makes it 1."""
    return int(size > 0) if isinstance(size, int) else FloorDiv(size + (2 ** 40 - 1), 2 ** 40)


def magnitude(size: Any) -> float:
    """The size with a large prime for each symbol, so that sizes can be ordered by magnitude."""
    return size if isinstance(size, int) else _magnitude(size)


@functools.lru_cache(maxsize=65536)
def _magnitude(size: Any) -> float:
    """As texts have it: SymPy leaves a quotient that is known to be whole open where these numbers leave a remainder."""
    dims = Dims()
    symbols = sorted(size.free_symbols, key=str)
    given = {s: _PRIMES[i % len(_PRIMES)] + 40 * (i // len(_PRIMES)) for i, s in enumerate(symbols)}
    try:
        text = dims.text(size)
    except Unsupported:
        return float(size.subs(given))
    return float(eval(text, {f"d{n}": given[s] for s, n in dims.names.items()}))  # of whole numbers and operators only


# functions of reals made of sizes, in Python and in a formula
_REALS = {"FloatTrueDiv": "({0} / {1})", "IntTrueDiv": "({0} / {1})", "ToFloat": "{0}", "OpaqueUnaryFn_sqrt": "sqrt({0})",
          "FloatPow": "pow({0}, {1})"}


def real(e: Any, number: Callable[[Any], Any], join: Callable[[str, list[Any]], Any]) -> Any:
    """Walks a real made of sizes: `number` is called for a float and for a size, `join` for a text and its parts."""
    e = sympy.sympify(e)
    if e.is_number:
        return number(float(e))
    if type(e).__name__ in _REALS:
        return join(_REALS[type(e).__name__], [real(a, number, join) for a in e.args])
    if e.is_integer:
        return number(e)
    if e.is_Add or e.is_Mul:
        sign = " + " if e.is_Add else " * "
        parts = [real(a, number, join) for a in e.args]
        return join("(" + sign.join(f"{{{i}}}" for i in range(len(parts))) + ")", parts)
    raise Unsupported(f"the real {e} is not made of sizes")


_ADDED = 2 ** 40


class Dims:
    """The symbols of a graph, as dims d0, d1, .. of a plan, and the texts of the values that a plan computes from them.
    `signed`: numbers, which may be negative, and no sizes."""

    def __init__(self, signed: "frozenset[Any]" = frozenset()) -> None:
        self.names: dict[sympy.Symbol, int] = {}
        self._signed = signed
        self._values: dict[str, int] = {}
        self._known: dict[Any, str] = {}  # texts by size: each is asked for several times

    def name(self, symbol: sympy.Symbol) -> str:
        if symbol.name.startswith("z"):  # the symbols of reals: zf0 is an argument, zuf0 depends on data
            raise Unsupported(f"the real {symbol} is no size")
        d = f"d{self.names.setdefault(symbol, len(self.names))}"
        return f"({d} - {_ADDED})" if symbol in self._signed else d

    def added(self, symbol: sympy.Symbol) -> int:
        """What a call adds to the symbol's number, since a dim is not negative."""
        return _ADDED if symbol in self._signed else 0

    def text(self, size: Any) -> str:
        """As C and Python read it, over d0, d1, .."""
        if isinstance(size, sympy.logic.boolalg.Boolean) and not isinstance(size, sympy.Expr):
            return self.condition(size)
        return self._text(sympy.sympify(size))

    def condition(self, c: Any) -> str:
        """A relation of sizes, as Python reads it."""
        signs = {"GreaterThan": ">=", "StrictGreaterThan": ">", "LessThan": "<=", "StrictLessThan": "<",
                 "Equality": "==", "Unequality": "!="}
        kind = type(c).__name__
        if c in (sympy.true, sympy.false):
            return str(bool(c))
        if kind in signs:
            return f"({self.text(c.args[0])} {signs[kind]} {self.text(c.args[1])})"
        if kind in ("And", "Or", "Not"):
            parts = [self.condition(a) for a in c.args]
            return f"(not {parts[0]})" if kind == "Not" else "(" + f" {kind.lower()} ".join(parts) + ")"
        raise Unsupported(f"condition {c}")

    def real(self, e: Any) -> str:
        """A real made of sizes, as Python reads it."""
        return real(e, lambda x: repr(x) if isinstance(x, float) else self.text(x), lambda text, parts: text.format(*parts))

    def texts(self, sizes: Sequence[Any]) -> str:
        return ", ".join(self.text(s) for s in sizes)

    def value(self, size: Any) -> int:
        """The number of the value that a plan computes for this size."""
        return self._values.setdefault(self.text(size), len(self._values))

    def values(self, sizes: Sequence[Any]) -> tuple[int, ...]:
        return tuple(self.value(s) for s in sizes)

    @property
    def value_texts(self) -> list[str]:
        return list(self._values)

    def _text(self, e: Any) -> str:
        text = self._known.get(e)
        if text is None:
            text = self._known[e] = self._written(e)
        return text

    def _written(self, e: Any) -> str:
        if e.is_Integer:
            return str(e) if e >= 0 else f"(0 - {-e})"
        if e.is_Symbol:
            return self.name(e)
        kind = type(e).__name__
        above, below = e.as_numer_denom()
        if below != 1:  # known to have no remainder; parts of a sum may have one, as of s/2 + 1/2 where s is odd
            return f"({self._text(above)} // {self._text(below)})"
        if kind == "Add":
            return self._sum(e)
        if kind == "Mul":
            return "(" + " * ".join(map(self._text, e.args)) + ")"
        if kind == "Pow" and e.exp.is_Integer and 0 < e.exp < 9:
            return "(" + " * ".join([self._text(e.base)] * int(e.exp)) + ")"
        if kind in QUOTIENTS:
            return "({} // {})".format(*map(self._text, e.args))
        if kind in ROUNDED and type(e.args[0]).__name__ == "IntTrueDiv":  # sizes are not negative
            above, below = map(self._text, e.args[0].args)
            return f"(({above} + {below} - 1) // {below})" if ROUNDED[kind] else f"({above} // {below})"
        if kind in REMAINDERS:
            return "({} % {})".format(*map(self._text, e.args))
        if kind == "ModularIndexing":
            return "({} // {} % {})".format(*map(self._text, e.args))
        if kind in ("Max", "Min"):
            return f"{kind.lower()}({', '.join(map(self._text, e.args))})"
        raise Unsupported(f"size {e} has no expression of whole numbers")

    def _sum(self, e: sympy.Expr) -> str:
        """With negative terms subtracted at the end, so that no part of it is negative where the sum is not."""
        terms = sorted(e.args, key=lambda t: (bool(t.could_extract_minus_sign()), str(t)))
        out = self._text(terms[0])
        for term in terms[1:]:
            is_less = term.could_extract_minus_sign()
            out += f" - {self._text(-term)}" if is_less else f" + {self._text(term)}"
        return f"({out})"

