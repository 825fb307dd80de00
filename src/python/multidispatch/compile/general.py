"""One graph for all sizes: graphs first met at sizes from 2 on serve sizes 0 and 1 too. For the whole process."""

from __future__ import annotations

import contextlib
import functools
import threading
from typing import Any, Callable, Iterator

import torch
from torch._decomp.decompositions import upsample_compute_output_size
from torch._dynamo.source import TensorProperty, TensorPropertySource
from torch._dynamo.variables.builder import VariableBuilder
from torch._subclasses import fake_impls
from torch.fx.experimental import symbolic_shapes
from torch.fx.experimental.symbolic_shapes import ShapeEnv, free_unbacked_symbols, guard_or_false

from . import attention, recurrent, scans

_local = threading.local()


def _ones_stay_ones() -> None:
    """PyTorch's option also makes a size that is 1 when the graph is traced dynamic, and then refuses to broadcast it.

    So such a size stays 1, except under torch.export, where the user says which sizes are dynamic."""
    create = ShapeEnv.create_symbol

    @functools.wraps(create)
    def create_symbol(self: Any, val: int, source: Any, *args: Any, **options: Any) -> Any:
        is_axis = isinstance(source, TensorPropertySource) and source.prop is TensorProperty.SIZE
        if val in (0, 1) and is_axis and not torch.compiler.is_exporting():
            options["do_not_specialize_zero_one"] = False
        if is_axis and getattr(_local, "are_sizes_0", False) and len(args) < 3:
            options["positive"] = None
        return create(self, val, source, *args, **options)

    ShapeEnv.create_symbol = create_symbol  # type: ignore[method-assign]


@contextlib.contextmanager
def sizes_may_be_0() -> Iterator[None]:
    """SymPy is not told that sizes are positive, and so does not take max(size, 1) for the size."""
    _local.are_sizes_0 = True
    try:
        yield
    finally:
        _local.are_sizes_0 = False


def _is_one(condition: Any) -> bool:
    """True for `size == 1` and `size != 1` of a size that is not 1 in the example."""
    return getattr(condition, "rel_op", "") in ("==", "!=") and condition.lhs.is_Symbol and condition.rhs == 1


def _ignore_conditions(op: Any, is_ignored: Callable[[Any], bool], instead: Callable[..., Any] | None = None) -> None:
    """Conditions on sizes that PyTorch asks for while it takes the operation apart become no guards of the graph where
    `is_ignored` holds. `instead` may give a result without that, or NotImplemented."""
    key = torch._C.DispatchKey.CompositeImplicitAutograd

    def taken_apart(*args: Any, **options: Any) -> Any:
        if instead is not None and (result := instead(*args, **options)) is not NotImplemented:
            return result
        before, _local.is_ignored = getattr(_local, "is_ignored", None), is_ignored
        try:
            return op._op_dk(key, *args, **options)
        finally:
            _local.is_ignored = before

    if key not in op.py_kernels:
        op.py_impl(key)(taken_apart)


def _max_pool1d(x: Any, size: Any, step: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> Any:
    """As one of images. PyTorch's own makes a plain number of the length."""
    def along(n: Any, other: int) -> list[Any]:
        return [other, *n] if isinstance(n, (list, tuple)) else [other, n]

    pool = torch.ops.aten.max_pool2d.default
    return pool(x.unsqueeze(-2), along(size, 1), along(step or size, 1), along(padding, 0), along(dilation, 1), ceil_mode).squeeze(-2)


def _conditions_of_composites() -> None:
    evaluate, aten = ShapeEnv.evaluate_expr, torch.ops.aten

    @functools.wraps(evaluate)
    def evaluate_expr(self: Any, condition: Any, *args: Any, **options: Any) -> Any:
        is_ignored = getattr(_local, "is_ignored", None)
        with self.suppress_guards() if is_ignored and is_ignored(condition) else contextlib.nullcontext():
            return evaluate(self, condition, *args, **options)

    ShapeEnv.evaluate_expr = evaluate_expr  # type: ignore[method-assign]
    # PyTorch asks whether a mask's batch is 1, and then whether it equals the queries'. If it does, the first answer
    # does not matter.
    _ignore_conditions(aten.scaled_dot_product_attention.default, _is_one, attention.instead)
    # These conditions only choose the order in memory of a result whose last axes have size 1.
    _ignore_conditions(aten.adaptive_avg_pool2d.default, lambda condition: True)
    _ignore_conditions(aten.max_pool1d.default, lambda condition: False, _max_pool1d)


def _conditions_of_convolution() -> None:
    """PyTorch picks a library for a convolution by the example's batch, only to know the order of the result in memory.
    A plan copies the result into an order of its own, so the pick is no condition of the graph."""
    for op in (torch.ops.aten.convolution.default, torch.ops.aten.convolution_backward.default):
        known = fake_impls.op_implementations_dict.get(op)
        if known is not None:
            fake_impls.op_implementations_dict[op] = _without_conditions(known)


def _without_conditions(known: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(known)
    def convolution(mode: Any, *args: Any, **options: Any) -> Any:
        with mode.shape_env.suppress_guards() if mode.shape_env is not None else contextlib.nullcontext():
            return known(mode, *args, **options)

    return convolution


def _interpolations_of_cpus() -> None:
    """Bilinear ones and their like stay whole on a CPU, in graphs of this backend without gradients. Taken apart they read
    each element at places that are computed: 18 times PyTorch's time for an image of 64 x 64."""
    keys, aten = torch._C.DispatchKey, torch.ops.aten
    for op in (aten.upsample_linear1d, aten.upsample_bilinear2d, aten.upsample_trilinear3d, aten.upsample_bicubic2d):
        for form in (op.default, op.vec):
            for key in [k for k in (keys.Autograd, keys.CompositeImplicitAutograd) if k in form.py_kernels]:
                form.py_kernels[key] = _whole_on_cpu(form, form is op.vec, form.py_kernels[key])


def _whole_on_cpu(op: Any, is_composite: bool, apart: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(apart)
    def interpolated(x: Any, *args: Any, **options: Any) -> Any:
        has_gradient = x.requires_grad and torch.is_grad_enabled()
        if not attention.is_ours() or x.device.type != "cpu" or has_gradient:
            return apart(x, *args, **options)
        if is_composite:
            return _of_known_size(op, x, *args, **options)
        with torch._C._AutoDispatchBelowAutograd():
            return op(x, *args, **options)

    return interpolated


def _of_known_size(op: Any, x: Any, size: Any, align_corners: bool, scales: Any = None) -> Any:
    """By the default overload: the other one makes plain numbers of all sizes, so that each would be a graph of its own."""
    sizes = upsample_compute_output_size(x.size(), size, scales)
    return op.overloadpacket.default(x, sizes, align_corners, *(scales or [None] * len(sizes)))


_TO_THE_END = 2**62  # an end from here on is the axis's


def _place(index: Any, size: Any) -> Any:
    """Where an end of a slice lies along an axis; None: its sign depends on data.

    Whether it counts from the end of the axis, and lies inside then, are conditions of the graph: only so is `x[-1:]` of
    one element, which broadcasts."""
    if index is None or isinstance(index, int) and index >= _TO_THE_END:
        return size
    is_argument = isinstance(index, torch.SymInt) and index.node.expr.is_Symbol  # or an item: of any sign in one graph
    depends_on_data = free_unbacked_symbols((index, size))
    if guard_or_false(index < 0) if depends_on_data or is_argument else index < 0:
        from_start = size + index
        if depends_on_data:
            return from_start if guard_or_false(from_start >= 0) else torch.sym_max(from_start, 0)
        return from_start if from_start >= 0 else 0
    if (depends_on_data or is_argument) and not guard_or_false(index >= 0):
        return None
    return index if guard_or_false(index <= size) else torch.sym_min(index, size)


def _lengths_of_slices() -> None:
    """Some versions of PyTorch call the length of `x[1:3]` unknown, as if it depended on data, where the size of `x` may be
    below 3. Here it is an expression of that size."""
    op = torch.ops.aten.slice.Tensor
    known = fake_impls.op_implementations_dict[op]

    @functools.wraps(known)
    def sliced(mode: Any, func: Any, x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
        size = x.size(dim) if x.dim() else 0
        first = _place(0 if start is None else start, size)
        last = _place(end, size)
        if isinstance(size, int) or first is None or last is None or step < 1:
            return known(mode, func, x, dim, start, end, step)
        length = last - first if guard_or_false(last >= first) else torch.sym_max(last - first, 0)
        sizes, strides = list(x.size()), list(x.stride())
        sizes[dim], strides[dim] = (length + step - 1) // step, strides[dim] * step
        return x.as_strided(sizes, strides, x.storage_offset() + first * x.stride(dim))

    fake_impls.op_implementations_dict[op] = sliced


def _reals_of_modules() -> None:
    """With `dynamic=True` PyTorch makes reals arguments of the graph, those of modules too, such as an epsilon: tensors
    that it makes anew at each call, and a second tracing of the graph. Where the source is a module they are constants,
    as whole numbers are, until one has changed."""
    wrap = VariableBuilder.wrap_symfloat

    @functools.wraps(wrap)
    def wrap_symfloat(self: Any, value: float) -> Any:
        source = self.source.guard_source
        is_module = (source() if callable(source) else source).is_unspecialized_nn_module()  # 2.10: a method
        static = {"assume_static_by_default": True} if is_module else {}
        with torch._dynamo.config.patch(**static) if static else contextlib.nullcontext():
            return wrap(self, value)

    VariableBuilder.wrap_symfloat = wrap_symfloat  # type: ignore[method-assign]


def _examples_disprove() -> None:
    """`guard_or_false` asks SymPy whether a condition holds for all sizes. It does not where it fails for the example, which
    PyTorch computes with each condition: half the seconds of tracing Swin's windows. Not for examples of 0 and 1, of which
    a graph of all sizes supposes that they are more."""
    known = getattr(symbolic_shapes, "_guard_or", None)
    if known is None:
        return

    def guard_or(condition: Any, default: bool) -> bool:
        if isinstance(condition, torch.SymBool) and condition.node.hint is default \
                and _are_above_1(condition.node.shape_env):
            return default
        return known(condition, default)

    symbolic_shapes._guard_or = guard_or


def _reals_refine_no_sizes() -> None:
    """A condition may bound a size by a real, as where an image is enlarged by 1.5 and cut: then PyTorch fails an assertion
    as it narrows what it knows of the size, which it need not do."""
    refine = getattr(ShapeEnv, "_refine_ranges", None)
    if refine is None:
        return

    @functools.wraps(refine)
    def refine_ranges(self: Any, condition: Any) -> None:
        with contextlib.suppress(AssertionError):
            refine(self, condition)

    ShapeEnv._refine_ranges = refine_ranges  # type: ignore[method-assign]


def _are_above_1(env: Any) -> bool:
    values = getattr(env, "backed_var_to_val", None) or getattr(env, "var_to_val", {})
    return all(n > 1 for n in values.values())


def one_graph_for_all_sizes() -> None:
    config = torch.fx.experimental._config  # type: ignore[attr-defined]
    if config.backed_size_oblivious:
        return
    config.backed_size_oblivious = True
    _ones_stay_ones()
    _conditions_of_composites()
    _conditions_of_convolution()
    _lengths_of_slices()
    _interpolations_of_cpus()
    _reals_of_modules()
    _examples_disprove()
    _reals_refine_no_sizes()
    scans.one_operation()
    recurrent.one_operation()
