"""Constant folding: tensors whose elements are all one number known now, and operations that such operands make trivial.

So masks of zeros are dropped, and masks of truths, scales of 1 and branches that are never taken."""

from __future__ import annotations

import math
from typing import Any, Callable

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ..sizes import Unsupported, expression, same
from .attention import drop_mask, given_mask

aten = torch.ops.aten
_MOST = 4096  # the most elements of a constant tensor that are compared

# Operations that give the elements of their first operand.
_MOVES = {aten.expand.default, aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.permute.default,
          aten.unsqueeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.slice.Tensor, aten.select.int,
          aten.clone.default, aten.alias.default, aten.detach.default, aten.transpose.int, aten.t.default,
          aten.lift_fresh_copy.default}
_FULL: dict[Any, Callable[..., Any]] = {
    aten.full.default: lambda size, value, **_: value, aten.full_like.default: lambda x, value, **_: value,
    aten.scalar_tensor.default: lambda value, **_: value, aten.zeros.default: lambda size, **_: 0,
    aten.ones.default: lambda size, **_: 1, aten.zeros_like.default: lambda x, **_: 0,
    aten.ones_like.default: lambda x, **_: 1, aten.new_zeros.default: lambda x, size, **_: 0,
    aten.new_ones.default: lambda x, size, **_: 1, aten.new_full.default: lambda x, size, value, **_: value}


def _tensor(node: Any) -> Any:
    value = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
    return value if isinstance(value, torch.Tensor) else None


class Values:
    """The numbers that are known: `node in values`, `values[node]`."""

    def __init__(self, module: Any) -> None:
        self.module, self.known = module, dict[Any, Any]()
        for node in module.graph.nodes:
            value = self._of(node)
            if isinstance(value, (bool, int, float)):
                self.known[node] = value

    def number(self, x: Any) -> bool | int | float | None:
        """The number that an operand is everywhere, if it is known."""
        known = self.known.get(x) if isinstance(x, torch.fx.Node) else x
        return known if isinstance(known, (bool, int, float)) else None

    def is_all(self, x: Any, value: Any) -> bool:
        """True if an operand is this number everywhere."""
        return self.number(x) == value

    def _of(self, node: Any) -> Any:
        if node.op == "get_attr":
            return self._of_constant(node)
        if node.op != "call_function" or _tensor(node) is None:
            return None
        if node.target in _FULL:
            value = _FULL[node.target](*node.args, **node.kwargs)
            return self._rounded(value, node) if isinstance(value, (bool, int, float)) else None
        if node.target in _MOVES:
            return self.known.get(node.args[0])
        return self._of_pointwise(node)

    def _of_constant(self, node: Any) -> Any:
        value: Any = self.module
        for part in node.target.split("."):
            value = getattr(value, part)
        if not isinstance(value, torch.Tensor) or isinstance(value, torch.nn.Parameter) or _tensor(node) is None:
            return None
        if value.device.type != "cpu" or not 0 < value.numel() <= _MOST or value.is_complex():
            return None
        with _disable_current_modes():
            first = value.reshape(-1)[0]
            return first.item() if bool((value == first).all()) else None

    @staticmethod
    def _rounded(value: Any, node: Any) -> Any:
        dtype = _tensor(node).dtype
        if dtype.is_complex:
            return None
        with _disable_current_modes():
            return torch.tensor(value).to(dtype).item()

    def _of_pointwise(self, node: Any) -> Any:
        """The operation's result, computed on operands of one element."""
        is_copy = node.target is aten._to_copy.default
        if not isinstance(node.target, torch._ops.OpOverload) or node.target._schema.is_mutable:
            return None
        if not is_copy and (torch.Tag.pointwise not in node.target.tags
                            or torch.Tag.nondeterministic_seeded in node.target.tags):
            return None
        if any(n not in self.known for n in node.all_input_nodes):
            return None
        if is_copy:  # copy_ takes a tensor, or a number where vmap wrote it
            value = self.number(node.args[0])
            return None if value is None else self._rounded(value, node)

        def small(n: Any) -> Any:
            value = _tensor(n)  # operands without axes promote in another way than those with axes
            return torch.full([1] * value.dim(), self.known[n], dtype=value.dtype)

        with _disable_current_modes():
            args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), small)
            try:
                return node.target(*args, **kwargs).item()
            except (RuntimeError, TypeError):
                return None


def _other(values: Values, node: Any, neutral: Any) -> Any:
    """The other operand, where one is the number that changes nothing: x in x + 0."""
    a, b = node.args[:2]
    return a if values.is_all(b, neutral) else b if values.is_all(a, neutral) else None


# They give the same for 0.0 and -0.0 (relu: another zero at most, as in PyTorch's own kernels).
_SIGN_BLIND = {aten._softmax.default, aten._log_softmax.default, aten.exp.default, aten.cos.default, aten.abs.default,
               aten.relu.default, aten.isnan.default, aten.isinf.default, aten.logical_not.default} | {
    getattr(getattr(aten, name), of) for name in ("eq", "ne", "lt", "le", "gt", "ge") for of in ("Scalar", "Tensor")}
# Of another zero they give another zero at most.
_CARRY_SIGN = _MOVES | {aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.mul.Scalar, aten.neg.default,
                        aten._to_copy.default}


def _is_sign_seen(node: Any) -> bool:
    """True if somebody may tell the node's 0.0 from -0.0."""
    if not _tensor(node).is_floating_point():
        return False
    seen, left = {node}, [node]
    while left:
        for user in left.pop().users:
            if user.target in _SIGN_BLIND or user in seen:
                continue
            if user.target not in _CARRY_SIGN:
                return True
            seen.add(user)
            left.append(user)
    return False


def _sum(values: Values, node: Any, _: Any) -> Any:
    """x in x + 0. -0.0 + 0.0 is 0.0, but x - 0.0 and x + -0.0 are x."""
    a, b = node.args[:2]
    is_less = node.target in (aten.sub.Tensor, aten.sub.Scalar)
    for x, zero in ((a, b),) if is_less else ((a, b), (b, a)):
        if values.is_all(zero, 0):
            is_exact = (math.copysign(1.0, values.number(zero)) > 0) == is_less
            return x if is_exact or not _is_sign_seen(node) else None
    return None


def _first(values: Values, node: Any, neutral: Any) -> Any:
    return node.args[0] if values.is_all(node.args[1], neutral) else None


def _where(values: Values, node: Any, _: Any) -> Any:
    condition, a, b = node.args
    return a if values.is_all(condition, True) else b if values.is_all(condition, False) else None


def _masked_fill(values: Values, node: Any, _: Any) -> Any:
    return node.args[0] if values.is_all(node.args[1], False) else None


# An operation, what finds the operand that it gives back, and the number that changes nothing.
_TRIVIAL: dict[Any, tuple[Callable[[Values, Any, Any], Any], Any]] = {
    aten.add.Tensor: (_sum, 0), aten.sub.Tensor: (_sum, 0), aten.mul.Tensor: (_other, 1),
    aten.div.Tensor: (_first, 1), aten.add.Scalar: (_sum, 0), aten.sub.Scalar: (_sum, 0),
    aten.mul.Scalar: (_first, 1), aten.div.Scalar: (_first, 1), aten.pow.Tensor_Scalar: (_first, 1),
    aten.where.self: (_where, None), aten.masked_fill.Scalar: (_masked_fill, None),
    aten.masked_fill.Tensor: (_masked_fill, None), aten.logical_and.default: (_other, True),
    aten.bitwise_and.Tensor: (_other, True), aten.logical_or.default: (_other, False),
    aten.bitwise_or.Tensor: (_other, False)}


def _is_alike(node: Any, other: Any) -> bool:
    """True if the nodes have equal shapes, strides and dtypes, whatever the sizes are."""
    a, b = _tensor(node), _tensor(other)
    if a is None or b is None or a.dtype != b.dtype or a.dim() != b.dim() or a.device != b.device:
        return False
    try:
        return all(same(expression(x), expression(y))
                   for x, y in ((*zip(a.shape, b.shape), *zip(a.stride(), b.stride()))))
    except Unsupported:
        return False


_ATTENTIONS = (aten._scaled_dot_product_flash_attention_for_cpu.default, torch.ops.multidispatch.attention.default)


def _drop_mask(values: Values, node: Any) -> bool:
    """A mask of attention that masks nothing."""
    mask = given_mask(node)
    if mask not in values.known or not values.is_all(mask, _tensor(mask).dtype == torch.bool):
        return False
    drop_mask(node)
    return True


def _device(node: Any) -> Any:
    """The device of what a node gives, if it is no CPU."""
    tensors = [x for x in torch.utils._pytree.tree_leaves(node.meta.get("val")) if isinstance(x, torch.Tensor)]
    return next((x.device for x in tensors if x.device.type != "cpu"), None)


def _bring_numbers(values: Values, graph: Any) -> int:
    """Known numbers in tensors on the CPU that operations on another device read, as DeBERTa's scales, are made there."""
    done = 0
    for node, number in list(values.known.items()):
        value = _tensor(node)
        elsewhere = {user: device for user in node.users if (device := _device(user)) is not None}
        if value.dim() > 0 or value.device.type != "cpu" or not hasattr(value, "fake_mode") or not elsewhere:
            continue
        device = next(iter(elsewhere.values()))
        with graph.inserting_after(node):
            made = graph.call_function(aten.full.default, ([], number), {"dtype": value.dtype, "device": device})
        with value.fake_mode:
            made.meta["val"] = torch.full([], number, dtype=value.dtype, device=device)
        for user in elsewhere:
            user.replace_input_with(node, made)
        values.known[made] = number
        done += 1
    return done


def fold(module: Any) -> int:
    """Folds what is constant. Gives the number of operations that went."""
    values = Values(module)
    done = _bring_numbers(values, module.graph)
    for node in list(module.graph.nodes):
        if node.target in _ATTENTIONS:
            done += _drop_mask(values, node)
        # a result of the graph must not be replaced by another result or by an argument: the caller would get one
        # tensor twice
        if node.target not in _TRIVIAL or any(user.op == "output" for user in node.users):
            continue
        is_bitwise = node.target in (aten.bitwise_and.Tensor, aten.bitwise_or.Tensor)
        if is_bitwise and _tensor(node).dtype != torch.bool or "alpha" in node.kwargs:
            continue
        find, neutral = _TRIVIAL[node.target]
        other = find(values, node, neutral)
        if isinstance(other, torch.fx.Node) and _is_alike(node, other):
            node.replace_all_uses_with(other)
            module.graph.erase_node(node)
            done += 1
    return done
