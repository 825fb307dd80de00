"""Lowering: from operations of ATen to trees of formulas (`tree`), by a table (`table`, `reductions`) that `lower` walks.
Nothing here knows of kernels. What PyTorch takes apart before is in `decompositions`."""
