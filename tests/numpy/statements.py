"""Statements of random formulas: outputs, lets, scatters and updates of what a statement before has written."""
import numpy as np

from grammar import Formula, Retry
from values import DTYPES, UNIT, as_real, kind_of, to_int, truncated

ROUNDOFF = {"f16": (2.0 ** -11, 2.0 ** -25), "f32": (UNIT, 2.0 ** -149), "f64": (UNIT, 0.0)} # relative, absolute


def stored(value, dtype):
    """What a store of the value gives, and how far a kernel's result may be from it."""
    if kind_of(dtype) == "real":
        v = as_real(value)
        relative, absolute = ROUNDOFF[dtype]
        with np.errstate(over="ignore"):
            return v.array.astype(DTYPES[dtype]), v.error * 2 + 2 * relative * np.abs(v.array) * (np.asarray(v.error) > 0) + absolute * 2
    if value.kind == "real":
        return truncated(value.array, DTYPES[dtype]), 0.0
    return value.array.astype(DTYPES[dtype]), 0.0


class Program(Formula):
    """`arrays` are the inputs and, of outputs, what they hold before the call; `expected` is output -> (array, tolerance)."""

    def __init__(self, rng):
        super().__init__(rng)
        self.can_scan = True

    def left(self):
        """The indices of a left side, some of them known from statements before."""
        scope = []
        for _ in range(self.pick([0, 1, 1, 2, 2, 2, 3])):
            known = [n for n in self.free if n not in scope]
            name = self.pick(known) if known and self.chance(0.6) else self.index(33)
            if name not in self.free:
                self.free.append(name)
            scope.append(name)
        size = int(np.prod([self.sizes[n] for n in scope]))
        if size > 4000:
            raise Retry
        return scope

    def value(self, scope, depth):
        kind = self.pick(["real", "real", "real", "i64", "u64", "bool"])
        mask = np.ones([self.sizes[n] for n in scope], dtype=np.bool_)
        if kind == "real":
            return self.real(scope, mask, depth)
        return self.boolean(scope, mask, depth) if kind == "bool" else self.integer(scope, mask, depth, kind)

    def dtype_for(self, value):
        if value.kind == "bool":
            return "bool"
        if value.kind == "real":
            narrow = value.is_exact and self.chance(0.3)
            return self.pick(["i8", "u8", "i32", "u32", "i64", "u64"]) if narrow else self.pick(["f32", "f32", "f16"])
        return self.pick(["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f32"])

    def shaped(self, scope, value):
        return [np.broadcast_to(a, [self.sizes[n] for n in scope]).copy() for a in (value.array, np.asarray(value.error, dtype=np.float64))]

    def output(self, depth):
        scope = self.left()
        value = self.value(scope, depth)
        value.array, value.error = self.shaped(scope, value)
        name, dtype = f"Y{len(self.expected)}", self.dtype_for(value)
        array, error = stored(value, dtype)
        self.arrays[name], self.dtypes[name] = np.zeros(array.shape, DTYPES[dtype]), dtype
        self.expected[name] = [array, error]
        self.statements.append(f"{name}:{dtype}[{','.join(scope)}] = {value.text}")
        if dtype in ("f32", "i64", "u64", "i32") and value.is_exact and self.chance(0.25):
            self.update(name, dtype, scope, depth)

    def update(self, name, dtype, scope, depth):
        """A statement that goes on with what was written."""
        value = self.exact_of(scope, kind_of(dtype), max(depth - 1, 1))
        v = to_int(self.shaped(scope, value)[0], "i64") if kind_of(dtype) != "real" else self.shaped(scope, value)[0]
        array = self.expected[name][0]
        made = array.astype(np.float64) + v if dtype == "f32" else (array.astype(np.int64) + v).astype(DTYPES[dtype])
        self.expected[name] = [made.astype(DTYPES[dtype]), 2 * UNIT * np.abs(made).astype(np.float64) if dtype == "f32" else 0.0]
        self.statements.append(f"{name}[{','.join(scope)}] += {value.text}")

    def exact_of(self, scope, kind, depth):
        mask = np.ones([self.sizes[n] for n in scope], dtype=np.bool_)
        return self.exact(scope, mask, depth) if kind == "real" else self.integer(scope, mask, depth, kind)

    def let(self, depth):
        scope = self.left()
        value = self.value(scope, depth)
        value.array, value.error = self.shaped(scope, value)
        name = f"t{len(self.temps)}"
        self.statements.append(f"let {name}[{','.join(scope)}] = {value.text}")
        value.text = name
        self.temps[name], self.known[name] = value, scope

    def scatter(self, depth):
        """Several points may meet one element."""
        scope = self.left()
        if not scope:
            raise Retry
        dtype = self.pick(["f32", "i32", "i64", "u64", "u32"])
        kind = "real" if dtype == "f32" else "u64" if dtype == "u64" else "i64"
        value = self.exact_of(scope, kind, depth)
        v = self.shaped(scope, value)[0]
        sign = self.pick(["+=", "max=", "min="] + (["*="] if kind != "real" else []))
        length = self.rng.randrange(1, 12)
        ids = self.tensor("i64", [self.sizes[scope[0]]])
        self.arrays[ids] = np.random.default_rng(self.rng.randrange(1 << 32)).integers(0, length, self.arrays[ids].shape)
        name = f"Y{len(self.expected)}"
        before = self.data(dtype, [length] + [self.sizes[n] for n in scope[1:]])
        self.arrays[name], self.dtypes[name] = before, dtype
        f = {"+=": np.add, "*=": np.multiply, "max=": np.maximum, "min=": np.minimum}[sign]
        wide = before.astype(np.float64) if kind == "real" else to_int(before, kind)
        tolerance = 0.0
        if kind == "real":
            tolerance = np.abs(wide)
            np.add.at(tolerance, self.arrays[ids], np.abs(v))
            tolerance = 2 * len(v) * UNIT * tolerance
        f.at(wide, self.arrays[ids], to_int(v.astype(DTYPES[dtype]), kind) if kind != "real" else v) # wraps before it is compared
        self.expected[name] = [wide.astype(DTYPES[dtype]), tolerance]
        self.statements.append(f"{name}:{dtype}[{self.declared(ids)}[{scope[0]}]{''.join(',' + n for n in scope[1:])}] {sign} {value.text}")

    @property
    def text(self):
        scalars = [f"scalar {n}:{'i64' if isinstance(v, int) else 'f32'}" for n, v in self.scalars.items()]
        return "; ".join(scalars + self.statements)


def program(rng):
    """A program of one to four statements, the last one with an output."""
    while True:
        p = Program(rng)
        p.free = []
        try:
            with np.errstate(all="ignore"):
                for _ in range(rng.choice([0, 0, 1, 1, 2])):
                    p.pick([p.let, p.let, p.output, p.scatter])(rng.choice([1, 2, 2, 3]))
                p.pick([p.output, p.output, p.output, p.scatter])(rng.choice([1, 2, 3, 3, 4]))
        except Retry:
            continue
        if len(p.text) < 6000:
            return p
