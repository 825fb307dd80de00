"""Products of rows that belong to groups, such as tokens and their experts, in any order: one operation here.

PyTorch's grouped_mm wants rows sorted by group; rewriting/experts.py finds where they are sorted for it and put back."""

from __future__ import annotations

import torch

_library = torch.library.Library("multidispatch", "FRAGMENT")
_library.define("grouped_rows(Tensor x, Tensor weights, Tensor groups) -> Tensor")


def _compute(x: torch.Tensor, weights: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
    """[rows, n]: each row of x [rows, k] times the one of weights [groups, k, n] that its group is."""
    out = x.new_zeros(x.shape[0], weights.shape[2])
    for i, w in enumerate(weights):
        rows = (groups == i).nonzero()[:, 0]
        out[rows] = x[rows] @ w
    return out


_library.impl("grouped_rows", _compute, "CompositeExplicitAutograd")
torch.library.register_fake("multidispatch::grouped_rows",
                            lambda x, weights, groups: x.new_empty(x.shape[0], weights.shape[2]), lib=_library)
