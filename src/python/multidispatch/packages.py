"""Packages: a model in one file, called without PyTorch's compiler, a C compiler and the model's Python code."""

from __future__ import annotations

import json
import os
from typing import Any, Iterator

from . import ArgumentError, _core


class Package:
    """What md.load_package returns. Called as the model was; thread-safe. Tensors are NumPy's or PyTorch's, as the first of
    the call is. Raises ArgumentError for what does not fit, and says what."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._core = _core.package_open(os.fspath(path))
        self.plan: dict[str, Any] = json.loads(_core.package_describe(self._core))
        self._arguments, self._results = self.plan["arguments"], self.plan["results"]
        self._inputs: list[int] = self.plan["inputs"]  # of each input, its place among the leaves
        self._constants = {int(i): value for i, value in self.plan["constants"].items()}
        self._plain = self._n_plain()

    def _n_plain(self) -> int:
        """How many arguments there are, all of them tensors by place; -1: others."""
        args, kwargs = self._arguments["tuple"]
        plain = [{"leaf": i} for i in range(len(args["tuple"]))]
        return len(plain) if not kwargs["dict"] and args["tuple"] == plain and not self._constants else -1

    def _leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        if not kwargs and len(args) == self._plain:
            return list(args)
        leaves = dict(_walk(self._arguments, (args, kwargs), "arguments"))
        for i, value in self._constants.items():
            if leaves[i] != value:
                raise ArgumentError(f"argument {i} is {leaves[i]!r}, but the example had {value!r}")
        return [leaves[i] for i in range(len(leaves))]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves = self._leaves(args, kwargs)
        inputs = [_plain(leaves[i]) for i in self._inputs]
        shapes = _core.package_outputs(self._core, inputs)
        like = inputs[0] if inputs else None
        outputs = [_new(*shape, like) for shape in shapes]
        _core.package_call(self._core, inputs, outputs)
        return _built(self._results, outputs, leaves)


def load_package(path: str | os.PathLike[str]) -> Package:
    """Opens what md.package wrote: on a machine with the device that it was made for, with the same version of this package.

    Needs no compiler and no code of the model. A package holds machine code: open only those that you trust."""
    return Package(path)


# ---- Arguments and results: {"leaf": i}, {"tuple": [..]}, {"list": [..]}, {"dict": {..}}

def _walk(template: dict[str, Any], given: Any, what: str) -> Iterator[tuple[int, Any]]:
    kind, inner = next(iter(template.items()))
    if kind == "leaf":
        yield inner, given
        return
    keys = list(inner) if kind == "dict" else range(len(inner))
    got = given.keys() if isinstance(given, dict) else range(len(given)) if isinstance(given, (tuple, list)) else None
    if got is None or isinstance(given, dict) != (kind == "dict") or set(got) != set(keys):
        raise ArgumentError(f"{what}: not as in the example: expected {_text(template)}")
    for key in keys:
        yield from _walk(inner[key], given[key], f"{what}[{key!r}]")


def _text(template: dict[str, Any]) -> str:
    kind, inner = next(iter(template.items()))
    if kind == "leaf":
        return "*"
    if kind == "dict":
        return "{" + ", ".join(f"{key!r}: {_text(x)}" for key, x in inner.items()) + "}"
    return f"{kind} of " + "(" + ", ".join(map(_text, inner)) + ")"


def _built(template: dict[str, Any], outputs: list[Any], leaves: list[Any]) -> Any:
    kind, inner = next(iter(template.items()))
    if kind == "dict":
        return {key: _built(x, outputs, leaves) for key, x in inner.items()}
    if kind in ("tuple", "list"):
        parts = [_built(x, outputs, leaves) for x in inner]
        return tuple(parts) if kind == "tuple" else parts
    return outputs[inner] if kind == "output" else leaves[inner] if kind == "argument" else inner


# ---- Tensors

def _plain(x: Any) -> Any:
    return x.detach() if getattr(x, "requires_grad", False) else x


def _new(dtype: str, size: tuple[int, ...], stride: tuple[int, ...], like: Any) -> Any:
    """A tensor of the kind and on the device of `like`."""
    if type(like).__module__.partition(".")[0] == "torch":
        import torch
        return torch.empty_strided(size, stride, dtype=_torch_dtypes(torch)[dtype], device=like.device)
    import numpy
    if dtype not in _NUMPY:
        import ml_dtypes
        kind = numpy.dtype(getattr(ml_dtypes, {"bf16": "bfloat16", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}[dtype]))
    else:
        kind = numpy.dtype(_NUMPY[dtype])
    n = 0 if 0 in size else 1 + sum((a - 1) * b for a, b in zip(size, stride))
    flat = numpy.empty(n, kind)
    return numpy.lib.stride_tricks.as_strided(flat, size, [b * kind.itemsize for b in stride])


_NUMPY = {"f32": "float32", "f64": "float64", "f16": "float16", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
          "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64", "bool": "bool"}


def _torch_dtypes(torch: Any) -> dict[str, Any]:
    names = _NUMPY | {"bf16": "bfloat16", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}
    return {name: getattr(torch, other) for name, other in names.items() if hasattr(torch, other)}
