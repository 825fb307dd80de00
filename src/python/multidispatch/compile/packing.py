"""md.package: a model as one file, for md.load_package and for md/package.h."""

from __future__ import annotations

import json
import os
from typing import Any, Callable

import sympy
import torch
from torch.utils import _pytree as pytree

from .. import ArgumentError, Unsupported, __version__, _core
from .assumed import dims_of, guards_of
from .backend import device_of
from .capture import Captured, program_of, split, taken_apart
from .lowering.lowered import DTYPES
from .normal import normal
from .options import options_of
from .pieces import cut
from .report import Rows
from .rewriting.rewrite import rewrite
from .running.plan import Builder
from .sizes import Unsupported as NoText

_OUTPUT, _CONSTANT = 2, 3


class _Recorder:
    """Takes the steps of a plan in the place of a _core.Plan, and writes them down."""

    def __init__(self) -> None:
        self.tensors: list[dict[str, Any]] = []
        self.calls: list[dict[str, Any]] = []
        self.dims: list[tuple[int, int]] = []
        self.results: list[Any] = []

    def dim(self, name: str, low: int, high: int) -> None:
        pass

    def tensor(self, name: str, role: int, dtype: str, size: str, stride: str | None, base: int, offset: str | None,
               number: int, data: int) -> int:
        t = {"name": name, "role": role, "dtype": dtype, "size": size, "stride": stride, "base": base, "offset": offset}
        self.tensors.append({k: v for k, v in t.items() if v is not None})
        return len(self.tensors)

    def make(self, formula: str, sizes: str, name: str, constants: Any = ()) -> None:
        pass

    def call(self, formula: str, sizes: str, name: str, arguments: list[Any], constants: Any = ()) -> None:
        self.calls.append({"formula": formula, "sizes": sizes, "name": name, "args": arguments})

    def finish(self, n_args: int, n_slots: int, checks: bool, dims: Any, ports: Any, rows: Any, *_: Any) -> None:
        self.dims, self.ports, self.results = [(at, axis) for at, axis, _ in dims], ports, rows


def _template(x: Any, leaf: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    """A structure as JSON (../packages.py reads it)."""
    if isinstance(x, dict):
        if not all(isinstance(key, str) for key in x):
            raise Unsupported("md.package: a dict with keys that are no texts")
        return {"dict": {key: _template(y, leaf) for key, y in x.items()}}
    if isinstance(x, (tuple, list)):
        return {"list" if isinstance(x, list) else "tuple": [_template(y, leaf) for y in x]}
    return leaf(x)


def _bytes_of(x: torch.Tensor) -> Any:
    """The memory from the first element of a constant to its last."""
    n = 0 if x.numel() == 0 else 1 + sum((a - 1) * b for a, b in zip(x.shape, x.stride()))
    flat = torch.as_strided(x.detach(), (n,), (1,), x.storage_offset()).contiguous()
    return flat.view(torch.uint8).cpu().numpy() if n else b""


class _Packer:
    def __init__(self, program: Any, module: Any, chosen: Any, name: str) -> None:
        self.program, self.places = program, split(program)
        self.leaves, bound = self.places
        self.device = device_of(module)
        self._check_pieces(module)
        rewrite(module)
        self.builder = Builder(module, self.device, name, Rows(), bound, None, chosen)
        self._check_steps()
        self.builder.begin()
        self.builder.core = self.core = _Recorder()
        self.builder.finish(lambda *_: None, None, True)
        self.chosen, self.name = chosen, name

    def _refuse(self, what: list[str]) -> None:
        raise Unsupported(f"md.package: only PyTorch can run {'; '.join(dict.fromkeys(what))}")

    def _check_pieces(self, module: Any) -> None:
        pieces, _ = cut(module, self.device, None)
        if pieces:
            self._refuse([f"{n.target} ({why})" for p in pieces for n, why in p.reasons.items()])

    def _check_steps(self) -> None:
        if self.builder.lowered.eager:
            self._refuse([f"{e.node.target} ({e.reason})" for e in self.builder.lowered.eager])

    def weights(self) -> list[Any]:
        """Bytes of the constants, which the plan then names; equal memory once."""
        known: dict[tuple[int, int], int] = {}
        out: list[Any] = []
        constants = [t for t in self.core.tensors if t["role"] == _CONSTANT and not t["base"]]
        for t, x in zip(constants, self.builder.kept, strict=True):
            data = _bytes_of(x)
            t["weight"] = known.setdefault((x.data_ptr(), len(data)), len(out))
            if t["weight"] == len(out):
                out.append(data)
        return out

    def _result(self, i: int) -> dict[str, Any]:
        """Of the graph: an output, an argument, or a value."""
        kind, number, thing, slot, _, size, stride = self.core.results[i]
        if kind == 0:
            place = slot - len(self.core.ports)
            seen = {"seen_size": self._text(size), "seen_stride": self._text(stride)}
            output = [t for t in self.core.tensors if t["role"] == _OUTPUT and not t["base"]][place]
            if (output["size"], output.get("stride")) != tuple(seen.values()):
                output |= seen
            return {"output": place}
        if kind == 1:
            at = next(at for at, place in self.builder.place.items() if place == number)
            return {"argument": self.leaves.index(at)}
        if kind == 3 and isinstance(thing, (int, float, str, bool, type(None))):
            return {"value": thing}
        raise Unsupported("md.package: a result that is a size, a weight, or a view of one")

    def _text(self, values: tuple[int, ...]) -> str:
        return ", ".join(self.builder.dims.value_texts[i] for i in values)

    def _conditions(self) -> list[str]:
        """What torch.export assumed of the sizes. Not that there are elements: without any there is nothing to compute."""
        known, symbols, out = set(self.builder.dims.names), dims_of(self.program), []
        for g in (_settled(g.xreplace(symbols)) for g in guards_of(self.program)):
            if isinstance(g, sympy.Ne) and 0 in g.args:
                continue
            try:
                if not g.free_symbols <= known:
                    raise NoText("a size that the plan does not read")
                out.append(self.builder.dims.condition(g))
            except NoText:
                raise Unsupported(f"md.package: torch.export assumed {g}, which no package can check") from None
        return [text for text in out if text not in ("True", "(True)")]

    def sizes(self, leaves: list[Any]) -> list[int]:
        return [int(leaves[i].shape[axis]) for i, axis in self._dims()]

    def _dims(self) -> list[tuple[int, int]]:
        """Of each dim: the leaf, and its axis."""
        if any(axis < 0 for _, axis in self.core.dims):
            raise Unsupported("md.package: a size that is an argument")
        return [(self.inputs()[at], axis) for at, axis in self.core.dims]

    def inputs(self) -> list[int]:
        return [self.leaves.index(at) for at, _ in self.builder._tensors()]

    def plan(self, examples: list[Any]) -> tuple[str, list[Any]]:
        """The plan as JSON, and the weights."""
        weights = self.weights()
        spec = self.program.call_spec
        args, kwargs = pytree.tree_unflatten(list(range(spec.in_spec.num_leaves)), spec.in_spec)
        results = pytree.tree_unflatten(list(range(spec.out_spec.num_leaves)), spec.out_spec)
        select, numeric = self.chosen.numbers()
        constants = Captured.constant_arguments(self.program)
        if not all(isinstance(x, (int, float, str, bool, type(None))) for x in constants.values()):
            raise Unsupported("md.package: an argument that is neither a tensor nor a number, a text or None")
        plan = {"version": 1, "library": __version__, "name": self.name, "select": select, "numeric": numeric,
                "device": "host" if self.device.type == "cpu" else self.device.type, "hints": os.environ.get("MD_HINTS", ""),
                "dims": self.core.dims, "tensors": self.core.tensors, "calls": self.core.calls,
                "weights": [len(w) for w in weights], "conditions": self._conditions(),
                "examples": [self.sizes(x) for x in examples], "pytorch": [],
                "arguments": _template((args, dict(kwargs)), lambda i: {"leaf": i}), "inputs": self.inputs(),
                "results": _template(results, self._result), "constants": constants}
        return json.dumps(plan), weights


def _settled(g: Any) -> Any:
    """A condition with its sizes in one form: what always holds is then known to."""
    if isinstance(g, sympy.core.relational.Relational):
        return g.func(*map(normal, g.args))
    return g.func(*map(_settled, g.args)) if g.args else g


def _leaves_of(program: Any, example: Any, kwargs: Any) -> list[Any]:
    leaves, spec = pytree.tree_flatten((tuple(example), kwargs))
    if spec != program.call_spec.in_spec:
        raise ArgumentError("md.package: an example has other arguments than the first")
    return leaves


def package(f: Any, examples: Any, path: str | os.PathLike[str], *, kwargs: dict[str, Any] | None = None, dynamic: Any = None,
            name: str | None = None, options: dict[str, Any] | None = None) -> None:
    """Writes a function, a torch.nn.Module or a torch.export.ExportedProgram to one file: its plan, its weights as they are
    now, and its kernels. md.load_package and md/package.h run it without a compiler and without the model's code.

    - ``examples``: a tuple of arguments, or a list of such tuples. The first is traced; sizes of dynamic axes must be 2 or more.
      The best kernels for the sizes of all of them are in the file, and kernels for any other size
    - ``kwargs``, ``dynamic``, ``options``: as of md.capture

    A file belongs to this version, and to devices of the kind of the model's. Raises Unsupported where a step is PyTorch's, and
    names it, and what md.capture raises."""
    several = examples if isinstance(examples, list) else [examples]
    chosen = options_of(options)
    with torch.no_grad():
        program, module = taken_apart(program_of(f, several[0], kwargs or {}, dynamic), chosen)
        try:
            packer = _Packer(program, module, chosen, name or "package")
            plan, weights = packer.plan([_leaves_of(program, x, kwargs or {}) for x in several])
        except NoText as why:
            raise Unsupported(f"md.package: {why}") from None
    _core.package_write(os.fspath(path), plan, weights)
