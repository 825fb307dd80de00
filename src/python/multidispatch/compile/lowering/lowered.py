"""What lowering gives: bufs, and the operations that PyTorch keeps; and which tensors a plan can hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from ..sizes import Unsupported
from .results import Output
from .tree import Buf, Leaf

DTYPES = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16",
          torch.int32: "i32", torch.int64: "i64", torch.uint8: "u8", torch.bool: "bool", torch.int8: "i8",
          torch.int16: "i16", torch.uint16: "u16", torch.uint32: "u32", torch.uint64: "u64",
          torch.float8_e4m3fn: "f8e4m3", torch.float8_e5m2: "f8e5m2"}


@dataclass
class Eager:
    """An operation that PyTorch computes: its arguments are Leafs, sizes and constants; it writes `outputs`."""

    node: Any
    args: Any
    kwargs: Any
    reads: list[tuple[Leaf, list[Any]]]  # tensors that it reads, each with its shape
    outputs: list[Buf | None]
    number: int
    reason: str


@dataclass
class Lowered:
    bufs: list[Buf] = field(default_factory=list)
    eager: list[Eager] = field(default_factory=list)
    inputs: list[tuple[int, Buf]] = field(default_factory=list)  # place among the arguments
    symbols: list[tuple[int, Any]] = field(default_factory=list)  # sizes among the arguments
    outputs: list[Output] = field(default_factory=list)
    n_hidden: int = 0  # outputs at the end that the caller does not get: memory of which several results are views
    n_args: int = 0


@dataclass(frozen=True)
class Held:
    """Stands for a tensor among the arguments of an eager operation: its place in `reads`."""

    number: int


@dataclass(frozen=True)
class Number:
    """Stands for a size among the arguments of an eager operation."""

    size: Any


@dataclass(frozen=True)
class Real:
    """Stands for a real made of sizes among the arguments of an eager operation."""

    real: Any


def dtype_of(value: Any) -> str:
    if value.dtype not in DTYPES:
        raise Unsupported(f"tensors of {value.dtype}")
    return DTYPES[value.dtype]


def check_tensor(value: Any, device: Any) -> None:
    """Refuses what a plan cannot hold."""
    if value.device != device:
        raise Unsupported(f"tensors on {value.device} and {device}")
    if value.layout != torch.strided or value.is_quantized or value.is_sparse:
        raise Unsupported("a tensor that is sparse or quantised")
    if value.is_neg() or value.is_conj():
        raise Unsupported("a tensor with PyTorch's negative or conjugate bit")
    if value.dim() > 8:
        raise Unsupported("more than 8 axes")
    dtype_of(value)
