"""Random formulas of the whole grammar with what NumPy makes of them.

Text and value grow together. A load's tensor is as long as its subscript reaches where the conditions around it hold, and a subscript that would be
negative there is clamped. So every formula is valid, and what an arm that is not taken would read lies outside of the tensor as often as not."""
import re

import numpy as np

from values import (DTYPES, FUNCTIONS, UNIT, Value, as_real, by_integer, common, compare, floor_divide, kind_of, measured, modulo, perturbed, shift, to_int,
                    truncated)

SIZES = [1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33]
LONGEST = 70 # of an axis that a subscript reaches
MOST_TENSORS = 9


class Retry(Exception):
    """This branch leads nowhere; the caller takes another."""


class Formula:
    def __init__(self, rng):
        self.rng = rng
        self.arrays, self.dtypes, self.statements, self.expected = {}, {}, [], {}
        self.scalars, self.known, self.n_names, self.sizes = {}, {}, 0, {}
        self.temps = {}

    # ---- names, indices, tensors

    def pick(self, items):
        items = list(items)
        return items[self.rng.randrange(len(items))]

    def chance(self, p):
        return self.rng.random() < p

    def index(self, most=40):
        name = "ijklmnpqrstuvw"[len(self.sizes)] if len(self.sizes) < 14 else None
        if not name:
            raise Retry
        self.sizes[name] = self.pick([s for s in SIZES if s <= most])
        return name

    def data(self, dtype, shape):
        r = np.random.default_rng(self.rng.randrange(1 << 32))
        if dtype == "bool":
            return r.integers(0, 2, shape).astype(np.bool_)
        if kind_of(dtype) == "real":
            return (r.integers(-24, 25, shape) / 8).astype(DTYPES[dtype])
        info = np.iinfo(DTYPES[dtype])
        small = r.integers(max(info.min, -5), 10, shape)
        if not self.chance(0.25):
            return small.astype(DTYPES[dtype])
        edges = np.array([info.min, info.max, info.max - 1, info.max // 2 + 1], dtype=DTYPES[dtype])
        return np.where(r.random(shape) < 0.5, small.astype(DTYPES[dtype]), edges[r.integers(0, 4, shape)])

    def tensor(self, dtype, shape):
        if len(self.arrays) >= MOST_TENSORS:
            raise Retry
        name = f"{self.pick('ABCDPX')}{len(self.arrays)}"
        self.arrays[name], self.dtypes[name] = self.data(dtype, shape), dtype
        return name

    def declared(self, name):
        """A tensor's name with its dtype, which every appearance may repeat."""
        return f"{name}:{self.dtypes[name]}"

    # ---- scope: a list of index names; arrays have one axis for each

    def grid(self, scope, name):
        shape = [1] * len(scope)
        shape[scope.index(name)] = self.sizes[name]
        return np.arange(self.sizes[name], dtype=np.int64).reshape(shape)

    def full(self, scope, array):
        return np.broadcast_to(array, [self.sizes[n] for n in scope])

    def of_array(self, text, dtype, array):
        kind = kind_of(dtype)
        if kind == "real":
            return Value(text, kind, array.astype(np.float64), 0.0, 2, 3)
        return Value(text, kind, array.astype(np.bool_) if kind == "bool" else to_int(array, kind))

    def load(self, scope, mask, depth, kind):
        """A new tensor with a plain index or an expression on each axis."""
        rank = self.pick([1, 1, 2, 2, 3])
        dtype = self.pick({"real": ["f32", "f32", "f16"], "bool": ["bool"], "i64": ["i64", "i32", "i8", "i16", "u8", "u16", "u32"], "u64": ["u64"]}[kind])
        texts, at, shape, used = [], [], [], set()
        for _ in range(rank):
            free = [n for n in scope if n not in used]
            if free and (depth <= 0 or self.chance(0.7)):
                name = self.pick(free)
                used.add(name)
                texts.append(name)
                at.append(self.grid(scope, name))
                shape.append(self.sizes[name])
            else:
                text, where = self.subscript(scope, mask, min(depth - 1, 2))
                reached = self.full(scope, where)[self.full(scope, mask)]
                texts.append(text)
                at.append(where)
                plain = re.sub(r"^(?:i64\()+(\w+)\)+$", r"\1", text)  # a conversion to its own type leaves an index plain
                is_plain = plain in scope
                used.update([plain] if is_plain else [])
                shape.append(self.sizes[plain] if is_plain else int(reached.max(initial=0)) + 1 + self.rng.randrange(3))
        name = self.tensor(dtype, shape)
        array = self.arrays[name][tuple(np.clip(a, 0, n - 1) for a, n in zip(at, shape))]
        return self.of_array(f"{self.declared(name)}[{','.join(texts)}]", dtype, array)

    def subscript(self, scope, mask, depth):
        """An integer that is not negative, and not large, wherever the mask holds."""
        if depth < -1:
            k = self.rng.randrange(4)
            return str(k), np.full([1] * len(scope), k, dtype=np.int64)
        v = self.integer(scope, mask, depth, kind="i64")
        if re.search(r"\b(any|all)\[", v.text):  # refused: a reduction in a subscript needs a let
            return self.subscript(scope, mask, -2)
        reached = self.full(scope, v.array)[self.full(scope, mask)]
        if reached.size == 0 or (reached.min() >= 0 and reached.max() < LONGEST):
            return v.text, v.array
        high = self.pick([0, 1, 3, 8])
        return f"clamp({v.text}, 0, {high})", np.clip(v.array, 0, high)

    # ---- leaves

    def leaf(self, scope, mask, depth, kind):
        choices = ["load"] * 5 + ["number", "temp"] + (["index", "size", "scalar"] if kind == "i64" else ["scalar"] if kind == "real" else [])
        choice = self.pick(choices)
        temps = [t for t in self.temps if self.temps[t].kind == kind and all(n in scope for n in self.known[t])]
        if choice == "temp" and temps:
            t = self.pick(temps)
            order = [scope.index(n) for n in self.known[t]]
            value, shape = self.temps[t], [1] * len(scope)
            for n, axis in zip(self.known[t], order):
                shape[axis] = self.sizes[n]
            moved = np.argsort(order)
            place = lambda a: np.transpose(np.broadcast_to(a, value.array.shape), moved).reshape(shape)
            return Value(f"{t}[{','.join(self.known[t])}]", kind, place(value.array), place(value.error), value.bits, value.fraction)
        if choice == "index" and scope:
            name = self.pick(scope)
            return Value(name, "i64", self.grid(scope, name))
        if choice == "size" and scope:
            name = self.pick(scope)
            return Value(f"size({name})", "i64", np.int64(self.sizes[name]).reshape([1] * len(scope)))
        if choice == "scalar" and len(self.scalars) < 3:
            name = f"s{len(self.scalars)}"
            self.scalars[name] = self.rng.randrange(-3, 6) if kind == "i64" else self.rng.randrange(-16, 17) / 8
            one = np.array(self.scalars[name]).reshape([1] * len(scope))
            return Value(name, "i64", one.astype(np.int64)) if kind == "i64" else Value(name, "real", one.astype(np.float64), 0.0, 2, 3)
        if choice == "number" and depth <= 1 and kind != "bool":
            return self.number(scope, kind)
        return self.load(scope, mask, depth, kind)

    def number(self, scope, kind):
        if kind == "real":
            n = self.rng.randrange(-16, 17) / 8
            return Value(f"f32({n})", "real", np.full([1] * len(scope), n), 0.0, 2, 3)
        n = self.rng.randrange(-3 if kind == "i64" else 0, 9)
        return Value(f"{kind}({n})", kind, np.full([1] * len(scope), n).astype(np.int64 if kind == "i64" else np.uint64))

    # ---- expressions

    def integer(self, scope, mask, depth, kind=None):
        kind = kind or self.pick(["i64", "i64", "i64", "u64"])
        if depth <= 0 or self.chance(0.15):
            return self.leaf(scope, mask, depth, kind)
        op = self.pick(["+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>", "min", "max", "clamp", "where", "-x", "~x", "abs", "sign", "cast", "fmod"])
        a = self.integer(scope, mask, depth - 1, kind)
        if op in ("-x", "~x", "abs", "sign", "cast"):
            return self.unary(op, a, kind)
        if op == "where":
            return self.where(scope, mask, depth, kind)
        b = self.leaf(scope, mask, depth - 1, kind) if self.chance(0.5) else self.number(scope, kind)
        if op in ("//", "%") and b.text == f"{kind}(0)":  # refused where it is seen when the formula is read
            b = Value(f"{kind}(1)", kind, np.ones_like(b.array))
        x, y = a.array, b.array
        text = f"{op}({a.text}, {b.text})" if op in ("min", "max", "fmod") else f"(({a.text}) {op} ({b.text}))"
        if op == "clamp":
            return Value(f"clamp({a.text}, 1, 6)", kind, np.clip(x, x.dtype.type(1), x.dtype.type(6)))
        made = {"+": lambda: x + y, "-": lambda: x - y, "*": lambda: x * y, "//": lambda: floor_divide(x, y, kind), "%": lambda: modulo(x, y, kind),
                "&": lambda: x & y, "|": lambda: x | y, "^": lambda: x ^ y, "<<": lambda: shift(x, y, True), ">>": lambda: shift(x, y, False),
                "min": lambda: np.minimum(x, y), "max": lambda: np.maximum(x, y),
                "fmod": lambda: by_integer(np.fmod, x, y)}[op]()
        return Value(text, kind, made)

    def unary(self, op, a, kind):
        x = a.array
        if op == "cast":
            to = self.pick(["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"])
            inner = x.astype(DTYPES[to])
            return Value(f"{kind}({to}({a.text}))", kind, to_int(to_int(inner, kind_of(to)), kind))
        if op == "abs":
            return Value(f"abs({a.text})", kind, np.abs(x) if kind == "i64" else x)
        if op == "sign":
            return Value(f"sign({a.text})", kind, np.sign(x))
        return Value(f"({op[0]}({a.text}))", kind, (np.zeros_like(x) - x) if op == "-x" else ~x)

    def boolean(self, scope, mask, depth):
        op = self.pick(["<", "<=", ">", ">=", "==", "!=", "%", "and", "or", "not", "load", "isnan", "any"])
        if depth <= 0 or op == "load":
            return self.load(scope, mask, 0, "bool") if self.chance(0.3) or not scope else self.simple_test(scope)
        if op == "%":
            return self.simple_test(scope) if scope else self.load(scope, mask, 0, "bool")
        if op in ("and", "or"):
            a, b = self.boolean(scope, mask, depth - 1), self.boolean(scope, mask, depth - 1)
            return Value(f"(({a.text}) {op} ({b.text}))", "bool", a.array & b.array if op == "and" else a.array | b.array)
        if op == "not":
            a = self.boolean(scope, mask, depth - 1)
            return Value(f"(not ({a.text}))", "bool", ~a.array)
        if op == "any":
            return self.reduced(scope, mask, depth, "bool")
        if op == "isnan" or self.chance(0.4):
            a = self.exact(scope, mask, depth - 1)
            if op == "isnan":
                return Value(f"isnan({a.text})", "bool", np.isnan(a.array))
            b = self.exact(scope, mask, 0)
        else:
            a, b = self.integer(scope, mask, depth - 1), self.integer(scope, mask, 0)
        return Value(f"(({a.text}) {op} ({b.text}))", "bool", compare(op, a.array, b.array))

    def simple_test(self, scope):
        """What guards of formulas look like."""
        name = self.pick(scope)
        n, at = self.sizes[name], self.grid(scope, name)
        k = self.rng.randrange(0, n + 1)
        text, array = self.pick([
            (f"{name} < {k}", at < k), (f"{name} >= {k}", at >= k), (f"{name} != {k}", at != k), (f"{name} == size({name}) - 1", at == n - 1),
            (f"{name} % 2 == 0", at % 2 == 0), (f"{name} // 2 > {k // 2}", at // 2 > k // 2), (f"{name} % 4 < 3", at % 4 < 3),
            (f"not ({name} == {k})", at != k), (f"abs({name} - {k}) < 2", abs(at - k) < 2), (f"min({name}, {k}) > 1", np.minimum(at, k) > 1)])
        return Value(f"({text})", "bool", array)

    def exact(self, scope, mask, depth):
        """A real that a test may look at."""
        for _ in range(8):
            v = self.real(scope, mask, depth)
            if v.is_exact:
                return v
            depth = max(depth - 1, 0)
        return self.number(scope, "real")

    def where(self, scope, mask, depth, kind):
        c = self.boolean(scope, mask, min(depth - 1, 2))
        make = self.real if kind == "real" else lambda s, m, d: self.integer(s, m, d, kind)
        a, b = make(scope, mask & c.array, depth - 1), make(scope, mask & ~c.array, depth - 1)
        text = f"where({c.text}, {a.text}, {b.text})"
        if kind != "real":
            return Value(text, kind, np.where(c.array, a.array, b.array))
        return Value(text, kind, np.where(c.array, a.array, b.array), np.where(c.array, a.error, b.error), max(a.bits, b.bits),
                     max(a.fraction, b.fraction))

    def real(self, scope, mask, depth):
        if depth <= 0:
            return self.leaf(scope, mask, depth, "real")
        op = self.pick(["+", "-", "*", "/", "min", "max", "abs", "-x", "where", "where", "f", "f", "f", "round", "//", "fold", "fold", "fold", "int", "fma",
                        "pow", "atan2"])
        if op == "where":
            return self.where(scope, mask, depth, "real")
        if op == "fold":
            return self.reduced(scope, mask, depth, "real")
        if op == "int":
            v = self.integer(scope, mask, depth - 1)
            r = as_real(v)
            return Value(f"f32({v.text})", r.kind, r.array, r.error, r.bits, r.fraction)
        if op in ("round", "//"):
            return self.rounded(scope, mask, depth, op)
        a = self.real(scope, mask, depth - 1)
        if op == "f":
            return self.function(a)
        if op in ("abs", "-x"):
            return Value(f"abs({a.text})" if op == "abs" else f"(-({a.text}))", "real", np.abs(a.array) if op == "abs" else -a.array, a.error, a.bits,
                         a.fraction)
        b = self.real(scope, mask, min(depth - 1, 1))
        return self.binary(op, a, b)

    def binary(self, op, a, b):
        x, y, wide = a.array, b.array, max(a.fraction, b.fraction)
        if op in ("min", "max"):
            f = np.minimum if op == "min" else np.maximum
            return Value(f"{op}({a.text}, {b.text})", "real", f(x, y), np.maximum(a.error, b.error), max(a.bits, b.bits), wide)
        if op in ("+", "-", "*"):
            exact = (a.bits + b.bits, a.fraction + b.fraction) if op == "*" else (max(a.bits, b.bits) + 1, wide)
            array = x * y if op == "*" else x + y if op == "+" else x - y
            error = np.abs(x) * b.error + np.abs(y) * a.error + a.error * b.error if op == "*" else a.error + b.error
            return measured(f"(({a.text}) {op} ({b.text}))", array, error, exact)
        if op == "fma":
            return self.binary("+", self.binary("*", a, b), a)
        if op == "atan2":
            if not (a.is_exact and b.is_exact):
                return self.binary("+", a, b)
            b = Value(f"(abs({b.text}) + 1)", "real", np.abs(y) + 1, 0.0, b.bits + 1, b.fraction)
            return measured(f"atan2({a.text}, {b.text})", np.arctan2(x, b.array), 6 * UNIT * np.abs(np.arctan2(x, b.array)), None)
        b = Value(f"(abs({b.text}) + 0.5)", "real", np.abs(y) + 0.5, b.error + UNIT * (np.abs(y) + 0.5), 99)
        if op == "pow":
            a = Value(f"min(abs({a.text}), 4)", "real", np.minimum(np.abs(x), 4), a.error, 99)
            b = Value(f"min({b.text}, 3)", "real", np.minimum(b.array, 3), b.error, 99)
            base, error = perturbed(lambda p, q: np.power(np.maximum(p, 0), q), a, b)
            return measured(f"pow({a.text}, {b.text})", base, error + 8 * UNIT * np.abs(base), None)
        base, error = perturbed(lambda p, q: p / np.maximum(q, 0.25), a, b)
        return measured(f"(({a.text}) / ({b.text}))", base, error, None)

    def rounded(self, scope, mask, depth, op):
        a = self.exact(scope, mask, depth - 1)
        if op == "round":
            name = self.pick(["floor", "ceil", "round", "trunc", "sign"])
            f = {"floor": np.floor, "ceil": np.ceil, "round": np.rint, "trunc": np.trunc, "sign": np.sign}[name]
            return Value(f"{name}({a.text})", "real", f(a.array), 0.0, a.bits + 1, 0)
        b = self.rng.choice([-3, -1.5, -0.5, 0.25, 0.5, 1, 2, 2.5])
        sign = self.pick(["//", "%"])
        array = floor_divide(a.array, b, "real") if sign == "//" else modulo(a.array, b, "real")
        return Value(f"(({a.text}) {sign} f32({b}))", "real", array, 0.0, a.bits + 3, 4)

    def function(self, a):
        name = self.pick(FUNCTIONS)
        f, domain, ulps = FUNCTIONS[name]
        operand = {"{}": lambda x: x, "abs({})": np.abs, "abs({}) + 0.5": lambda x: np.abs(x) + 0.5, "abs({}) + 0.25": lambda x: np.abs(x) + 0.25,
                   "abs({}) + 1.25": lambda x: np.abs(x) + 1.25, "clamp({}, -0.75, 0.75)": lambda x: np.clip(x, -0.75, 0.75),
                   "clamp({}, -3, 3)": lambda x: np.clip(x, -3, 3), "{} * {} + 0.125": lambda x: x * x + 0.125, "min({}, 2)": lambda x: np.minimum(x, 2),
                   "min({}, 3)": lambda x: np.minimum(x, 3), "min({}, 4)": lambda x: np.minimum(x, 4)}[domain]
        wide = Value(a.text, "real", a.array, a.error + (0 if a.is_exact and domain == "{}" else 2 * UNIT * (np.abs(operand(a.array)) + np.abs(a.array))), 99)
        base, error = perturbed(lambda x: f(operand(x)), wide)
        if name in ("sin", "cos"):
            error = np.maximum(error, wide.error) + 2 * UNIT # the slope is 1 at most
        return measured(f"{name}({domain.replace('{}', '(' + a.text + ')')})", base, error + ulps * UNIT * np.abs(base) + 2.0 ** -118, None)

    # ---- reductions and scans

    def reduced(self, scope, mask, depth, kind):
        if self.temps is not None and scope and self.chance(0.2) and kind == "real" and self.can_scan:
            return self.scanned(scope, mask, depth)
        n = self.pick([1, 1, 1, 2, 2, 3])
        names = [self.index(9 if n > 1 else 33) for _ in range(n)]
        inner = scope + names
        deep = mask[(...,) + (None,) * n] if isinstance(mask, np.ndarray) and mask.ndim else mask
        deep = np.broadcast_to(deep, [self.sizes[m] for m in inner]) if inner else deep
        axes = tuple(range(len(scope), len(inner)))
        keep, self.can_scan = self.can_scan, False
        try:
            if kind == "bool":
                v, name = self.boolean(inner, deep, depth - 1), self.pick(["any", "all"])
                full = self.full(inner, v.array)
                return Value(f"{name}[{','.join(names)}]({v.text})", "bool", (np.any if name == "any" else np.all)(full, axis=axes))
            return self.folded(scope, inner, names, deep, depth)
        finally:
            self.can_scan = keep

    def folded(self, scope, inner, names, mask, depth):
        axes, b = tuple(range(len(scope), len(inner))), ",".join(names)
        name = self.pick(["sum", "sum", "sum", "mean", "max", "min", "prod", "var", "argmax", "argmin", "isum", "imax"])
        count = int(np.prod([self.sizes[m] for m in names]))
        if name in ("isum", "imax"):
            v = self.integer(inner, mask, depth - 1)
            full = self.full(inner, v.array)
            word = self.pick(["sum", "prod"]) if name == "isum" else self.pick(["max", "min"])
            f = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}[word]
            r = as_real(Value("", v.kind, f(full, axis=axes, **({"dtype": full.dtype} if name == "isum" else {}))))
            return Value(f"f32({word}[{b}]({v.text}))", "real", r.array, r.error, r.bits, r.fraction)
        if name in ("argmax", "argmin"):
            v = self.exact(inner, mask, depth - 1)
            full = self.full(inner, v.array).reshape([self.sizes[m] for m in scope] + [count])
            return Value(f"f32({name}[{b}]({v.text}))", "real", (np.argmax if name == "argmax" else np.argmin)(full, axis=-1).astype(np.float64), 0.0, 11)
        v = self.real(inner, mask, depth - 1)
        full, error = self.full(inner, v.array), self.full(inner, np.asarray(v.error, dtype=np.float64))
        if name in ("max", "min"):
            f = np.max if name == "max" else np.min
            return Value(f"{name}[{b}]({v.text})", "real", f(full, axis=axes), error.max(axis=axes), v.bits, v.fraction)
        absolute = np.abs(full).sum(axis=axes)
        drift = error.sum(axis=axes) + 4 * UNIT * absolute
        if name == "sum":
            return measured(f"sum[{b}]({v.text})", full.sum(axis=axes), drift, (v.bits + count.bit_length(), v.fraction))
        if name in ("mean", "var") and np.any(np.maximum(absolute, count * full.var(axis=axes)) > 1e38):
            raise Retry  # the sum overflows f32, though what it is divided to does not
        if name == "mean":
            return measured(f"mean[{b}]({v.text})", full.mean(axis=axes), drift / count, None)
        if name == "var":
            center = full.mean(axis=axes, keepdims=True)
            moved = (2 * np.abs(full - center) * (error + drift.reshape(center.shape) / count)).mean(axis=axes)
            spread = full.var(axis=axes)
            noise = (error ** 2).mean(axis=axes) + 16 * UNIT * (spread + UNIT * absolute ** 2 / count)
            return measured(f"var[{b}]({v.text})", spread, moved + noise, None)
        if count > 12:
            raise Retry
        relative = np.divide(error, np.abs(full), out=np.full(full.shape, np.inf), where=full != 0)
        relative = np.where(error == 0, 0, relative).sum(axis=axes) + 2 * count * UNIT
        if not np.all(np.isfinite(relative)) or np.any(relative > 0.1):
            raise Retry
        made = full.prod(axis=axes)
        return measured(f"prod[{b}]({v.text})", made, 1.5 * relative * np.abs(made), None)

    def scanned(self, scope, mask, depth):
        keep, self.can_scan = self.can_scan, False
        name, axis = self.pick(["cumsum", "cumsum", "cummax", "cummin"]), self.rng.randrange(len(scope))
        v = self.real(scope, np.ones_like(self.full(scope, mask)), depth - 1)
        self.can_scan = keep
        reverse, exclusive = self.chance(0.3), name == "cumsum" and self.chance(0.3)
        full, error = self.full(scope, v.array), self.full(scope, np.asarray(v.error, dtype=np.float64))
        f = {"cumsum": np.add, "cummax": np.maximum, "cummin": np.minimum}[name]

        def run(g, a):
            a = np.flip(a, axis) if reverse else a
            r = g.accumulate(a, axis=axis)
            if exclusive:
                r = np.concatenate([np.zeros_like(np.take(r, [0], axis)), np.delete(r, -1, axis)], axis)
            return np.flip(r, axis) if reverse else r
        text = f"{name}[{scope[axis]}]({v.text}{', exclusive' if exclusive else ''}{', reverse' if reverse else ''})"
        if name != "cumsum":
            return Value(text, "real", run(f, full), run(np.maximum, error), v.bits, v.fraction)
        return measured(text, run(f, full), run(np.add, error) + 4 * UNIT * run(np.add, np.abs(full)), (v.bits + self.sizes[scope[axis]].bit_length(), v.fraction))
