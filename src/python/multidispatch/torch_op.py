"""Ops inside PyTorch: one operator, ``torch.ops.multidispatch.call``, for torch.compile, torch.export and fake tensors,
and gradients that the user gives as formulas. ``md.op`` makes these ops once PyTorch is imported."""

import json

import torch
from torch.compiler import is_dynamo_compiling

from . import _REAL, ArgumentError, Op, _core

_DTYPE = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16, "i32": torch.int32,
          "i64": torch.int64, "u8": torch.uint8, "bool": torch.bool, "i8": torch.int8, "f8e4m3": torch.float8_e4m3fn,
          "f8e5m2": torch.float8_e5m2, "i16": torch.int16, "u16": torch.uint16, "u32": torch.uint32,
          "u64": torch.uint64}
_NAME = {dtype: name for name, dtype in _DTYPE.items()}
_eager = _core.Op.__call__
_eager_inputs = _core.Op._run  # the same without keywords, which Python calls faster


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
        if is_dynamo_compiling():  # the exporter's fake tensors come to the end
            return _called(self, inputs, named)
        try:
            return _eager(self, *inputs, **named) if named else _eager_inputs(self, *inputs)
        except ArgumentError:
            if any(isinstance(x, torch.Tensor) and type(x) not in (torch.Tensor, torch.nn.Parameter) for x in inputs):
                return _called(self, inputs, named)  # FakeTensor, FunctionalTensor, ...: PyTorch says what they become
            raise


class _GradOp(TorchOp):
    """One with gradients."""

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
    named.pop("sizes", None)  # only a hint
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
    outputs = tuple(_Function.apply(op, *given)) if op._grad is not None and torch.is_grad_enabled() else tuple(
        _call(op, given))
    if out is not None:
        targets = tuple(out) if isinstance(out, (tuple, list)) else (out,)
        if len(targets) != len(outputs):
            raise ArgumentError(f"out: the op has {len(outputs)} outputs")
        outputs = tuple(y if t is None else t.copy_(y) for t, y in zip(targets, outputs))
    return outputs[0] if len(outputs) == 1 else outputs


# ---- Gradients

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
        out.append((places[name], one, [known.index(n) for n, _, _ in one._inputs]))
    return out


class _Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx, op, *given):
        outputs = _call(op, given)
        ctx.op = op
        ctx.place = [i for i, (_, kind, _) in enumerate(op._inputs) if kind == "tensor"]
        ctx.scalars = [None if i in ctx.place else x for i, x in enumerate(given)]
        ctx.save_for_backward(*[given[i] for i in ctx.place], *outputs)
        return tuple(outputs)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, *d_outputs):
        op, n = ctx.op, len(ctx.place)
        values = list(ctx.scalars)
        for place, x in zip(ctx.place, ctx.saved_tensors):
            values[place] = x
        outputs = ctx.saved_tensors[n:]
        values += list(outputs) + [torch.zeros_like(y) if d is None else d for d, y in zip(d_outputs, outputs)]
        result = [None] * len(op._inputs)
        for i, one, places in op._grad:
            if ctx.needs_input_grad[1 + i]:
                result[i] = _call(one, [values[p] for p in places])[0]
        for i in ctx.place:
            if ctx.needs_input_grad[1 + i] and result[i] is None:
                raise ArgumentError(f"argument '{op._inputs[i][0]}' requires a gradient, and grad= has none for it")
        return None, *result
