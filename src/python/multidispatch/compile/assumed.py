"""What torch.export assumed of a program's arguments: conditions on their sizes, which a call is checked for."""

from __future__ import annotations

import re
from typing import Any, Callable

import sympy
import torch
from torch._guards import detect_fake_mode
from torch.export.graph_signature import InputKind
from torch.fx.experimental import symbolic_shapes
from torch.utils import _pytree as pytree
from torch.utils._sympy.functions import Max

from .. import Unsupported
from .sizes import Dims, Unsupported as NoText, expression, first_size

_FUNCTIONS = getattr(symbolic_shapes, "SYMPY_INTERP", {})  # of the texts of conditions in a file


def _inputs_of(program: Any) -> list[Any]:
    """The user's arguments as PyTorch describes them."""
    specs = [s.kind for s in program.graph_signature.input_specs]
    placeholders = [n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"]
    return [v for v, kind in zip(placeholders, specs) if kind == InputKind.USER_INPUT]


def guards_of(program: Any) -> list[Any]:
    """What torch.export assumed of the sizes, in the symbols of the arguments."""
    mode = detect_fake_mode([v for v in _inputs_of(program) if isinstance(v, torch.Tensor)])
    if mode is None or mode.shape_env is None:
        return []
    guards = [g.expr for g in mode.shape_env.guards] or _guards_of_file(program)
    guards = [mode.shape_env.replace(g) for g in guards]
    return [g for g in guards if g is not sympy.true and not _depends_on_data(g) and not _is_of_strides(g)
            and not (isinstance(g, sympy.Ge) and g.args[0].is_Symbol and g.args[1] == 0)]


def dims_of(program: Any) -> dict[Any, Any]:
    """The symbols of the arguments' sizes, and what a plan has in the place of each."""
    sizes = (n for v in _inputs_of(program) if isinstance(v, torch.Tensor) for n in v.shape)
    return {n.node.expr: expression(n) for n in sizes if isinstance(n, torch.SymInt) and n.node.expr.is_Symbol}


def _is_of_strides(condition: Any) -> bool:
    """`8 * s != 8`: whether an axis has one element, asked by its stride. It only decides whether memory is copied, and the
    graph copies, which is right for one element, too."""
    if not isinstance(condition, sympy.Ne) or 1 in condition.args:
        return False
    a, b = (x / y for x, y in (condition.args, condition.args[::-1]))
    return any(x.is_Symbol or isinstance(x, (sympy.Max, Max)) and 1 in x.args for x in (a, b))


def _depends_on_data(condition: Any) -> bool:
    """The graph itself checks such a one."""
    return any(s.name.startswith(("u", "zuf")) for s in condition.free_symbols)


def _guards_of_file(program: Any) -> list[Any]:
    """Those of a program that was loaded: PyTorch keeps their texts, and bounds of symbols."""
    names = _by_name(program)
    out = [_bound(symbol, bounds) for symbol, bounds in program.range_constraints.items()]
    for text in getattr(program, "_guards_code", ()):
        try:
            condition = eval(text, {**_FUNCTIONS, "L": names})  # PyTorch runs these texts, too
        except Exception as error:
            raise Unsupported(f"the program's condition {text}: {error}") from None
        if isinstance(condition, torch.SymBool):
            out.append(condition.node.expr)
    return out


def _by_name(program: Any) -> dict[str, Any]:
    """The arguments as the texts name them: those of *args are L['args'][0] and so on."""
    args, kwargs = pytree.tree_unflatten(_inputs_of(program), program.call_spec.in_spec)
    values = [*args, *kwargs.values()]
    signature = program.module_call_graph[0].signature
    known = getattr(signature, "forward_arg_names", None) or [f"args_{i}" for i in range(len(args))] + list(kwargs)
    names: dict[str, Any] = {"kwargs": kwargs}
    for name, value in zip(known, values):
        if one_of_several := re.fullmatch(r"(.+)_(\d+)", name):
            names.setdefault(one_of_several[1], {})[int(one_of_several[2])] = value
        names[name] = value
    return names


def _bound(symbol: Any, bounds: Any) -> Any:
    low, high = bounds.lower, bounds.upper
    at_least = sympy.Ge(symbol, low) if low.is_Integer else sympy.true
    return sympy.And(at_least, sympy.Le(symbol, high)) if high.is_Integer else at_least


def conditions(program: Any, is_whole: bool) -> Callable[[list[Any]], bool] | None:
    """Tells from the arguments whether what torch.export assumed of them holds; None: it assumed nothing. `is_whole`: one plan
    holds the graph, and looks itself at dtypes, devices, and sizes that are fixed or equal."""
    inputs = _inputs_of(program)
    dims, places = Dims(), _places(inputs)
    texts = [_text(g, dims, places) for g in guards_of(program)]
    if None in texts:
        texts = _as_in_the_example(inputs)
    if not is_whole:
        texts += _of_sizes(inputs, dims)
    sizes = _function(texts, dims, places) if texts else None
    if is_whole:
        return sizes
    kinds = [(i, (v.dtype, v.device, v.dim())) for i, v in enumerate(inputs) if isinstance(v, torch.Tensor)]

    def fits(leaves: list[Any]) -> bool:
        return all((leaves[i].dtype, leaves[i].device, leaves[i].dim()) == kind for i, kind in kinds) \
            and (sizes is None or sizes(leaves))

    return fits


def _places(inputs: list[Any]) -> dict[Any, str]:
    """Where each symbol is read."""
    out: dict[Any, str] = {}
    for i, v in enumerate(inputs):
        for axis, size in enumerate(v.shape if isinstance(v, torch.Tensor) else ()):
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                out.setdefault(size.node.expr, f"x[{i}].shape[{axis}]")
    return out


def _text(condition: Any, dims: Dims, places: dict[Any, str]) -> str | None:
    """None: no call can be checked for it."""
    if not condition.free_symbols <= places.keys():
        return None
    try:
        return dims.condition(condition)
    except NoText:
        return None


def _as_in_the_example(inputs: list[Any]) -> list[str]:
    """Conditions that all sizes are the example's: for what holds for these, and nobody knows for which others."""
    sizes = [(f"x[{i}].shape[{axis}]", first_size(size)) for i, v in enumerate(inputs) if isinstance(v, torch.Tensor)
             for axis, size in enumerate(v.shape)]
    if any(size is None for _, size in sizes):
        raise Unsupported("torch.export assumed of the sizes what no call can be checked for")
    return [f"{place} == {size}" for place, size in sizes]


def _of_sizes(inputs: list[Any], dims: Dims) -> list[str]:
    """Conditions that each axis has the size that it is described with."""
    return [f"x[{i}].shape[{axis}] == {dims.text(size.node.expr if isinstance(size, torch.SymInt) else size)}"
            for i, v in enumerate(inputs) if isinstance(v, torch.Tensor) for axis, size in enumerate(v.shape)]


def _function(texts: list[str], dims: Dims, places: dict[Any, str]) -> Callable[[list[Any]], bool]:
    names = ", ".join(f"d{i}" for i in dims.names.values())
    given = ", ".join(places[symbol] for symbol in dims.names)
    return eval(f"lambda x: (lambda {names}: {' and '.join(texts)})({given})")
