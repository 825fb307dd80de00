"""Ops inside PyTorch: one operator, ``torch.ops.multidispatch.call``, for torch.compile, torch.export and fake tensors,
and gradients that the user gives as formulas. ``md.op`` makes these ops once PyTorch is imported."""

import json

import torch
from torch.autograd import forward_ad
from torch.compiler import is_dynamo_compiling

from . import _REAL, ArgumentError, Op, Unsupported, _core

_DTYPE = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16, "i32": torch.int32,
          "i64": torch.int64, "u8": torch.uint8, "bool": torch.bool, "i8": torch.int8, "f8e4m3": torch.float8_e4m3fn,
          "f8e5m2": torch.float8_e5m2, "i16": torch.int16, "u16": torch.uint16, "u32": torch.uint32,
          "u64": torch.uint64}
_NAME = {dtype: name for name, dtype in _DTYPE.items()}
_eager = _core.Op.__call__
_eager_inputs = _core.Op._run  # Op.__call__ without keywords: Python calls it faster


class TorchOp(Op):
    """An Op that torch.compile and torch.export trace as one operator, and that may have gradients (``grad``)."""

    def __new__(cls, formula, *, grad=None, **options):
        self = super().__new__(_GradOp if grad and cls is TorchOp else cls, formula, **options)
        self._key = json.dumps([formula, options])
        self._inputs = []  # name, kind ("tensor", "real", "integer"), dims
        self._outputs = []  # name, dtype, dims, is the dtype declared
        for name, dtype, is_scalar, is_output, dims in self.arguments:
            if is_output:
                self._outputs.append((name, dtype, dims, self._is_declared(name)))
            else:
                kind = "tensor" if not is_scalar else "real" if dtype in _REAL else "integer"
                self._inputs.append((name, kind, dims))
        self._undeclared = [kind == "tensor" and not self._is_declared(name) for name, kind, _ in self._inputs]
        self._grad = _gradients(self, grad) if grad else None
        if grad:
            self._options = {**options, "grad": grad}
        _made.setdefault(self._key, self)
        return self

    def __init__(self, formula, *, grad=None, **options):
        pass

    def __call__(self, *inputs, **named):
        if is_dynamo_compiling():  # torch.export's fake tensors are handled at the end of this function
            return _called(self, inputs, named)
        if forward_ad._current_level >= 0:
            _refuse_transforms(self, (*inputs, *named.values()))
        try:
            return _eager(self, *inputs, **named) if named else _eager_inputs(self, *inputs)
        except ArgumentError:
            _refuse_transforms(self, (*inputs, *named.values()))
            if any(isinstance(x, torch.Tensor) and type(x) not in (torch.Tensor, torch.nn.Parameter) for x in inputs):
                return _called(self, inputs, named)  # FakeTensor, FunctionalTensor, ...: PyTorch says what they become
            raise


class _GradOp(TorchOp):
    """A traced Op with gradients."""

    def __call__(self, *inputs, **named):
        return _called(self, inputs, named)


_made = {}  # text of an op -> an op: torch.export's files and other processes have the text only


def _op(key):
    if key not in _made:
        formula, options = json.loads(key)
        TorchOp(formula, **{name: tuple(v) if isinstance(v, list) else v for name, v in options.items()})
    return _made[key]


# ---- The operator

_library = torch.library.Library("multidispatch", "DEF")
_library.define("call(str op, Tensor[] inputs, float[] reals, SymInt[] integers, SymInt[] sizes) -> Tensor[]",
                tags=(torch.Tag.pt2_compliant_tag,))


def _run(key, inputs, reals, integers, sizes):
    op = _op(key)
    given = {"tensor": iter(inputs), "real": iter(reals), "integer": iter(integers)}
    outputs = _eager(op, *[next(given[kind]) for _, kind, _ in op._inputs])
    return list(outputs) if isinstance(outputs, tuple) else [outputs]


def _base(op, inputs):
    """The dtype of outputs without a type: that of the first real input without one."""
    tensors = iter(inputs)
    for (_, kind, _), is_free in zip(op._inputs, op._undeclared):
        if kind == "tensor":
            dtype = next(tensors).dtype
            if is_free and _NAME.get(dtype) in _REAL:
                return dtype
    return torch.float32


def _fake(key, inputs, reals, integers, sizes):
    op, made, at = _op(key), [], 0
    for _, dtype, dims, is_declared in op._outputs:
        dtype = _base(op, inputs) if dtype == "f32" and not is_declared else _DTYPE[dtype]
        made.append(inputs[0].new_empty(sizes[at:at + len(dims)], dtype=dtype))
        at += len(dims)
    return made


_library.impl("call", _run, "CompositeExplicitAutograd")
def _no_gradient(ctx, *d_outputs):
    raise ArgumentError("a gradient is needed of an op that has none: give grad= to md.op, or call it under torch.no_grad()")


torch.library.register_fake("multidispatch::call", _fake, lib=_library)
torch.library.register_autograd("multidispatch::call", _no_gradient, lib=_library)  # eager calls do not come here


# ---- Calls

def _sizes(op, given):
    """Sizes of all outputs, one after the other."""
    size = {}
    for (_, kind, dims), x in zip(op._inputs, given):
        if kind == "tensor":
            if x.dim() != len(dims):
                raise ArgumentError(f"an argument of rank {x.dim()}, expected {len(dims)}")
            for axis, dim in enumerate(dims):
                if isinstance(dim, str) and dim and dim not in size:
                    size[dim] = x.shape[axis]
    sizes = []
    for name, _, dims, _ in op._outputs:
        for dim in dims:
            if isinstance(dim, str) and dim not in size:
                raise ArgumentError(f"output '{name}': no input gives dim '{dim}' its size; give out= in eager code")
            sizes.append(size[dim] if isinstance(dim, str) else dim)
    return sizes


def _named(op, inputs, named):
    """The inputs in their order; out, stream and sizes are PyTorch's here."""
    given, named = list(inputs), dict(named)
    for name, _, _ in op._inputs[len(given):]:
        if name not in named:
            raise ArgumentError(f"argument '{name}' is missing")
        given.append(named.pop(name))
    out, stream = named.pop("out", None), named.pop("stream", None)
    named.pop("sizes", None)  # `sizes` only guides the choice of a kernel
    if named or len(given) != len(op._inputs) or stream is not None:
        raise ArgumentError(f"{len(given)} inputs and {sorted(named)} given, but the op has {len(op._inputs)} inputs"
                            if stream is None else "stream= cannot be given in compiled code or with gradients")
    return given, out


def _of_kind(op, given, wanted):
    return [x for (_, kind, _), x in zip(op._inputs, given) if kind == wanted]


def _call(op, given):
    return torch.ops.multidispatch.call(op._key, _of_kind(op, given, "tensor"), _of_kind(op, given, "real"),
                                        _of_kind(op, given, "integer"), _sizes(op, given))


def _called(op, inputs, named):
    given, out = _named(op, inputs, named)
    if not is_dynamo_compiling():
        _refuse_transforms(op, given)
    _refuse_scalars(op, given)
    outputs = tuple(_Function.apply(op, *given)) if op._grad is not None and torch.is_grad_enabled() else tuple(
        _call(op, given))
    if out is not None:
        targets = tuple(out) if isinstance(out, (tuple, list)) else (out,)
        if len(targets) != len(outputs):
            raise ArgumentError(f"out: the op has {len(outputs)} outputs")
        outputs = tuple(y if t is None else t.copy_(y) for t, y in zip(targets, outputs))
    return outputs[0] if len(outputs) == 1 else outputs


# ---- Transforms of torch.func and forward mode, which an op cannot follow

_functorch = torch._C._functorch


def _refuse_transforms(op, given):
    """Says what an op lacks for vmap, grad and jvp, instead of a missing memory or a derivative that is dropped."""
    for x in given:
        if not isinstance(x, torch.Tensor):
            continue
        if _functorch.is_batchedtensor(x):
            raise Unsupported("torch.vmap of an op: it has no batching rule. Make the batch an index of its formula, "
                              "or call it for each item")
        if forward_ad._current_level >= 0 and forward_ad.unpack_dual(x).tangent is not None:
            raise Unsupported("forward-mode derivatives (jvp) of an op: grad= gives reverse mode only")
        if op._grad is None and _functorch.is_gradtrackingtensor(x):
            raise Unsupported("torch.func's grad, vjp or jvp of an op without gradients: give grad= to md.op")


def _refuse_scalars(op, given):
    """A gradient does not flow into scalars."""
    for (name, kind, _), x in zip(op._inputs, given):
        if kind != "tensor" and isinstance(x, torch.Tensor) and x.requires_grad and torch.is_grad_enabled():
            raise ArgumentError(f"argument '{name}' is a scalar, into which no gradient flows, and this tensor requires "
                                "one: pass its number, x.item(), or make it a tensor of the formula, x[]")


# ---- Gradients

def _forward_dims(op, one):
    """{dim of the gradient's formula: dim of the op}, by the tensors that both have."""
    own = {name: dims for name, _, dims in op._inputs} | {name: dims for name, _, dims, _ in op._outputs}
    own |= {"d" + name: dims for name, _, dims, _ in op._outputs}
    known = {}
    for name, kind, dims in one._inputs:
        for dim, other in zip(dims, own[name]):
            if kind == "tensor" and isinstance(dim, str) and dim:
                known.setdefault(dim, other)
    return known


def _check_axes(op, one, name, dims):
    """Refuses a gradient with other axes than its input: PyTorch would sum over those that are too many."""
    _, _, made, _ = one._outputs[0]
    known = _forward_dims(op, one)
    axes = [known.get(dim, dim) for dim in made]
    differs = any(a != b for dim, a, b in zip(made, axes, dims) if b and (dim in known or isinstance(dim, int)))
    if len(made) != len(dims) or differs:
        raise ArgumentError(f"grad of '{name}': its formula gives the axes [{', '.join(map(str, made))}], and {name} has "
                            f"[{', '.join(map(str, dims))}]")


def _gradients(op, grad):
    """{"X": formula} -> [(place of X, op, names of its inputs)]. A formula may read the op's inputs, its outputs, and
    ``d`` + an output's name."""
    known = [name for name, _, _ in op._inputs] + [o[0] for o in op._outputs] + ["d" + o[0] for o in op._outputs]
    places, out = {name: i for i, (name, kind, _) in enumerate(op._inputs) if kind == "tensor"}, []
    for name, formula in grad.items():
        one = TorchOp(formula)
        unknown = [n for n, _, _ in one._inputs if n not in known]
        if name not in places or unknown or len(one._outputs) != 1:
            raise ArgumentError(f"grad of '{name}': " + (f"'{unknown[0]}' is none of {', '.join(known)}" if unknown
                                                         else "expected an input tensor, and a formula of one output"))
        _check_axes(op, one, name, op._inputs[places[name]][2])
        out.append((places[name], one, [known.index(n) for n, _, _ in one._inputs]))
    return out


def _gradient_of(op, needs, values):
    """A gradient for each input that needs one, else None. `values`: inputs, outputs, gradients of the outputs."""
    result = [None] * len(op._inputs)
    for i, one, places in op._grad:
        if not needs[i]:
            continue
        result[i] = _call(one, [values[p] for p in places])[0]
        if result[i].shape != values[i].shape:
            raise ArgumentError(f"grad of '{op._inputs[i][0]}' has the shape {tuple(result[i].shape)}, and the input "
                                f"{tuple(values[i].shape)}")
    for i, (name, kind, _) in enumerate(op._inputs):
        if kind == "tensor" and needs[i] and result[i] is None:
            raise ArgumentError(f"argument '{name}' requires a gradient, and grad= has none for it")
    return tuple(result)


class _Reverse(torch.autograd.Function):
    """Reverse mode only. Dynamo traces no function with a method jvp; the call looks for tangents."""

    @staticmethod
    def vmap(info, in_dims, *inputs):
        raise Unsupported("torch.vmap of an op: it has no batching rule. Make the batch an index of its formula, or call "
                          "it for each item")


class _Gradient(_Reverse):
    """The gradients with create_graph=True: they depend on the inputs, and have no derivative."""

    @staticmethod
    def forward(op, needs, *values):
        return _gradient_of(op, needs, values)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, *d_outputs):
        raise Unsupported("a second derivative of an op: grad= gives the first one only. Write what create_graph=True "
                          "differentiates with PyTorch's operations")


class _Function(_Reverse):
    @staticmethod
    def forward(op, *given):
        return tuple(_call(op, given))

    @staticmethod
    def setup_context(ctx, inputs, output):
        op, *given = inputs
        ctx.op = op
        ctx.place = [i for i, (_, kind, _) in enumerate(op._inputs) if kind == "tensor"]
        ctx.scalars = [None if i in ctx.place else x for i, x in enumerate(given)]
        ctx.save_for_backward(*[given[i] for i in ctx.place], *output)

    @staticmethod
    def backward(ctx, *d_outputs):
        saved, values = ctx.saved_tensors, list(ctx.scalars)  # read once: checkpoints compute them for it
        for place, x in zip(ctx.place, saved):
            values[place] = x
        outputs = saved[len(ctx.place):]
        values += [*outputs, *(torch.zeros_like(y) if d is None else d for d, y in zip(d_outputs, outputs))]
        needs = tuple(ctx.needs_input_grad[1:])
        is_differentiable = torch.is_grad_enabled() and not torch.compiler.is_compiling()
        return None, *(_Gradient.apply(ctx.op, needs, *values) if is_differentiable
                       else _gradient_of(ctx.op, needs, values))
