"""The gradient of an embedding's table: of bags, as that of single rows, and on a GPU. In a step of a small BERT with two tables PyTorch's kernels took 48 us, adding
rows by atomic operations 8 us (H200, 2,048 ids of 256 elements). Their order varies, so PyTorch's serves where the user
asked for deterministic algorithms."""

from __future__ import annotations

from typing import Any

import torch

_library = torch.library.Library("multidispatch", "FRAGMENT")
_library.define("embedding_backward(Tensor gradient, Tensor ids, SymInt rows, SymInt padding) -> Tensor")


def _add_rows(gradient: torch.Tensor, ids: torch.Tensor, rows: int, padding: int) -> torch.Tensor:
    """[rows, d]: row r is the sum of gradient[..., d] where ids are r, or 0 if r is `padding`."""
    width = gradient.shape[-1]
    out = gradient.new_zeros((rows, width)).index_add_(0, ids.reshape(-1), gradient.reshape(-1, width))
    if 0 <= padding < rows:
        out[padding].zero_()
    return out


def _fake(gradient: torch.Tensor, ids: torch.Tensor, rows: int, padding: int) -> torch.Tensor:
    return gradient.new_empty((rows, gradient.shape[-1]))


_library.impl("embedding_backward", _add_rows, "CompositeExplicitAutograd")
torch.library.register_fake("multidispatch::embedding_backward", _fake, lib=_library)


def decompose(gradient: torch.Tensor, ids: torch.Tensor, rows: int, padding: int, by_frequency: bool) -> Any:
    """For aten.embedding_dense_backward."""
    is_exact = gradient.dtype in (torch.float32, torch.float64)  # each addition rounds
    if gradient.device.type != "cuda" or not is_exact or by_frequency or torch.are_deterministic_algorithms_enabled():
        return NotImplemented
    return torch.ops.multidispatch.embedding_backward(gradient, ids, rows, padding)


def of_bags(gradient: torch.Tensor, ids: torch.Tensor, offsets: torch.Tensor, of_bag: Any, sizes: Any, largest: Any, rows: Any,
            by_frequency: bool, mode: int, sparse: bool, weights: Any, padding: int = -1) -> Any:
    """For aten._embedding_bag_backward: each id's row gets the gradient of its bag. What the forward gave besides its result
    is not read, so that the forward need not be PyTorch's."""
    if mode == 2 or by_frequency or sparse or gradient.device.type != "cpu":
        return NotImplemented
    begun = offsets.new_zeros(ids.shape[0] + 1).index_add(0, offsets, torch.ones_like(offsets))
    bag = begun.cumsum(0)[:-1] - 1
    of_id = gradient.index_select(0, bag)
    if weights is not None:
        of_id = of_id * weights[:, None]
    if mode == 1:
        is_counted = torch.ones_like(bag) if padding < 0 else (ids != padding).to(bag.dtype)
        count = bag.new_zeros(gradient.shape[0]).index_add(0, bag, is_counted).clamp(min=1)
        of_id = of_id / count.index_select(0, bag)[:, None]
    return torch.ops.aten.embedding_dense_backward(of_id, ids, rows, padding, False)
