"""Pieces of formulas: tensors of an ONNX node by name, broadcast subscripts, linear positions."""
import numpy as np

NAMES = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "int8": "i8", "int16": "i16", "int32": "i32",
         "int64": "i64", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "bool": "bool",
         "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2", "int4": "i4", "uint4": "u4"}


class Untranslatable(Exception):
    """The case cannot be said as a formula; the text is the reason."""


def refuse(why):
    raise Untranslatable(why)


def dtype_of(array):
    if array.dtype.name not in NAMES:
        refuse(f"dtype {array.dtype.name}")
    return NAMES[array.dtype.name]


def indices(n, letter="a"):
    return [f"{letter}{i}" for i in range(n)]


class Tensor:
    """A tensor of the formula: its name, its values, and how it is read."""

    def __init__(self, name, array):
        array = np.asarray(array)
        if array.ndim > 8:
            refuse("more than 8 axes")
        self.name, self.array, self.dtype = name, array, dtype_of(array)
        self.shape, self.rank = array.shape, array.ndim

    def at(self, subscripts):
        return f"{self.name}:{self.dtype}[{', '.join(map(str, subscripts))}]"

    def broadcast(self, ids):
        """Read at indices of the output, whose last axes are this tensor's."""
        own = ids[len(ids) - self.rank:]
        return self.at("0" if n == 1 else i for i, n in zip(own, self.shape))

    def linear(self, position):
        """Read at a row-major position."""
        subscripts, stride = [], 1
        for n in reversed(self.shape):
            subscripts.append("0" if n == 1 else f"({position}) // {stride} % {n}")
            stride *= n
        return self.at(reversed(subscripts))

    @property
    def is_real(self):
        return self.dtype[0] in "fb" and self.dtype != "bool"

    @property
    def is_unsigned(self):
        return self.dtype[0] == "u"


def position(ids, shape):
    """The row-major position of indices."""
    terms, stride = [], 1
    for i, n in reversed(list(zip(ids, shape))):
        terms.append(f"{i} * {stride}")
        stride *= n
    return " + ".join(terms) or "0"


def bind(name, ids, body):
    """A reduction, or the body itself where there is nothing to reduce over."""
    return f"{name}[{','.join(ids)}]({body})" if ids else f"({body})"


def number(x):
    """A literal."""
    x = float(x)
    return "nan" if x != x else "inf" if x == np.inf else "(-inf)" if x == -np.inf else f"({x!r})"
