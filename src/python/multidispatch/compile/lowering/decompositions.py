"""Which operations PyTorch takes apart before the table sees them."""

from __future__ import annotations

import functools
from typing import Any

import torch

from .. import randoms
from . import embedding

# Operations that the table has a row for, and that must not be taken apart.
_KEPT = ("gelu", "silu", "_softmax", "_log_softmax", "native_layer_norm", "embedding", "relu", "sigmoid", "addmm",
         "baddbmm", "var_mean", "split_with_sizes", "index_select", "hardtanh", "rsub", "masked_fill",
         # taken apart it is an index_put that adds, ten times slower on a CPU; on a GPU see embedding.py
         "embedding_dense_backward",
         # taken apart index_add and index_copy take negative indices, which are errors, and index_fill refuses them
         "index_add", "index_copy", "index_fill",
         # on a CPU; general.py keeps the others there
         "upsample_linear1d", "upsample_trilinear3d",
         # its decomposition gives no logsumexp, which the backward reads
         "_scaled_dot_product_flash_attention_for_cpu")


def _rms_norm(x: Any, shape: Any, weight: Any = None, eps: Any = None) -> Any:
    """On GPUs PyTorch makes one operation of rms_norm, which torch.export never takes apart."""
    from torch._decomp import decomposition_table

    return decomposition_table[torch.ops.aten._fused_rms_norm.default](x, shape, weight, eps)[0]


def _encoder_layer(src: Any, width: int, n_heads: int, in_weight: Any, in_bias: Any, out_weight: Any, out_bias: Any, is_gelu: bool,
                   is_norm_first: bool, eps: float, *rest: Any) -> Any:
    """torch.nn.TransformerEncoderLayer, which PyTorch makes one operation of where there are no gradients. With a mask it
    stays one."""
    (scale1, shift1, scale2, shift2, up, up_bias, down, down_bias), mask = rest[:8], rest[8:]
    if src.is_nested or any(x is not None for x in mask):
        return NotImplemented
    functional = torch.nn.functional

    def norm(x: Any, scale: Any, shift: Any) -> Any:
        return functional.layer_norm(x, (width,), scale, shift, eps)

    def attention(x: Any) -> Any:
        parts = functional.linear(x, in_weight, in_bias).unflatten(-1, (3, n_heads, width // n_heads))
        q, k, v = (part.transpose(1, 2) for part in parts.unbind(2))
        y = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return functional.linear(y, out_weight, out_bias)

    def forward(x: Any) -> Any:
        y = functional.linear(x, up, up_bias)
        return functional.linear(functional.gelu(y) if is_gelu else torch.relu(y), down, down_bias)

    if is_norm_first:
        x = src + attention(norm(src, scale1, shift1))
        return x + forward(norm(x, scale2, shift2))
    x = norm(src + attention(src), scale1, shift1)
    return norm(x + forward(x), scale2, shift2)


@functools.cache
def table(eager_random: bool = False) -> dict[Any, Any]:
    """Operations and what takes them apart. `eager_random`: what draws stays PyTorch's."""
    from torch._decomp import core_aten_decompositions, get_decompositions

    aten = torch.ops.aten
    out = dict(core_aten_decompositions())
    out |= get_decompositions([aten.native_layer_norm_backward, aten.gelu_backward,
                               aten.tanh_backward, aten.sigmoid_backward, aten.silu_backward,
                               aten._softmax_backward_data, aten._log_softmax_backward_data, aten.nll_loss_forward,
                               aten.nll_loss_backward, aten.threshold_backward, aten.select_backward,
                               aten.slice_backward, aten.t, aten.transpose.int, aten.native_group_norm,
                               aten._native_batch_norm_legit, aten._native_batch_norm_legit_functional,
                               aten._native_batch_norm_legit_no_training, aten._batch_norm_with_update,
                               aten._batch_norm_with_update_functional, aten._batch_norm_no_update,
                               aten.batch_norm_backward, aten.native_batch_norm, aten.nll_loss2d_forward,
                               aten.nll_loss2d_backward, aten.tril_indices, aten.triu_indices, aten.addmv,
                               aten.ldexp, aten.dist, aten.view_copy, aten.permute_copy,
                               aten.narrow_copy, aten.unbind_copy, aten.linalg_vector_norm])
    for op in list(out):
        if str(op).split(".")[1] in _KEPT:
            del out[op]
    out[aten.embedding_dense_backward.default] = embedding.decompose
    out[aten._embedding_bag_backward.default] = embedding.of_bags
    if eager_random:
        out = {op: f for op, f in out.items() if op not in randoms.decompositions()}
    else:
        out |= randoms.decompositions()
    out[aten._transformer_encoder_layer_fwd.default] = _encoder_layer
    if hasattr(aten, "_fused_rms_norm"):
        out[aten.rms_norm.default] = _rms_norm
    return out
