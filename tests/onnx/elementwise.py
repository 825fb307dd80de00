"""Translations of nodes that work on each element, and of reductions and norms."""
import numpy as np

from formula import bind, indices, number, refuse

UNARY = {
    "Abs": "abs({0})", "Acos": "acos({0})", "Acosh": "acosh({0})", "Asin": "asin({0})", "Asinh": "asinh({0})", "Atan": "atan({0})",
    "Atanh": "atanh({0})", "Ceil": "ceil({0})", "Cos": "cos({0})", "Cosh": "cosh({0})", "Erf": "erf({0})", "Exp": "exp({0})",
    "Floor": "floor({0})", "Identity": "{0}", "Log": "log({0})", "Neg": "-{0}", "Not": "not {0}", "Reciprocal": "1 / {0}",
    "Relu": "relu({0})", "Round": "round({0})", "Sigmoid": "sigmoid({0})", "Sign": "sign({0})", "Sin": "sin({0})", "Sinh": "sinh({0})",
    "Softplus": "softplus({0})", "Softsign": "{0} / (1 + abs({0}))", "Sqrt": "sqrt({0})", "Tan": "tan({0})", "Tanh": "tanh({0})",
    "Mish": "{0} * tanh(softplus({0}))", "HardSwish": "{0} * clamp({0} / 6 + 0.5, 0, 1)", "IsNaN": "isnan({0})", "BitwiseNot": "~{0}",
    "Cast": "{0}", "CastLike": "{0}", "Elu": "where({0} < 0, {alpha} * expm1({0}), {0})",
    "Celu": "max({0}, 0) + min(0, {alpha} * expm1({0} / {alpha}))", "HardSigmoid": "clamp({alpha} * {0} + {beta}, 0, 1)",
    "LeakyRelu": "where({0} < 0, {alpha} * {0}, {0})", "Selu": "where({0} > 0, {gamma} * {0}, {gamma} * {alpha} * expm1({0}))",
    "Shrink": "where({0} < -{lambd}, {0} + {bias}, where({0} > {lambd}, {0} - {bias}, 0))",
    "ThresholdedRelu": "where({0} > {alpha}, {0}, 0)", "Swish": "{0} * sigmoid({alpha} * {0})", "Binarizer": "where({0} > {threshold}, 1, 0)",
}
DEFAULTS = {"Elu": {"alpha": 1.0}, "Celu": {"alpha": 1.0}, "HardSigmoid": {"alpha": 0.2, "beta": 0.5}, "LeakyRelu": {"alpha": 0.01},
            "Selu": {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}, "Shrink": {"bias": 0.0, "lambd": 0.5},
            "ThresholdedRelu": {"alpha": 1.0}, "Swish": {"alpha": 1.0}, "Binarizer": {"threshold": 0.0}}
BINARY = {"Add": "{0} + {1}", "Sub": "{0} - {1}", "Mul": "{0} * {1}", "Pow": "pow({0}, {1})", "And": "{0} and {1}", "Or": "{0} or {1}",
          "Xor": "{0} ^ {1}", "Equal": "{0} == {1}", "Greater": "{0} > {1}", "Less": "{0} < {1}", "GreaterOrEqual": "{0} >= {1}",
          "LessOrEqual": "{0} <= {1}", "BitwiseAnd": "{0} & {1}", "BitwiseOr": "{0} | {1}", "BitwiseXor": "{0} ^ {1}",
          "PRelu": "where({0} < 0, {1} * {0}, {0})", "Where": "where({0}, {1}, {2})"}


def elementwise(n):
    y, ids = n.y[0], indices(n.y[0].rank)
    x = [t.broadcast(ids) for t in n.x if t is not None]
    op, a = n.op, {**DEFAULTS.get(n.op, {}), **n.attributes}
    if op in UNARY:
        if op in ("Cast", "CastLike") and a.get("saturate", 1) == 0:
            refuse("a cast that does not saturate")
        if y.dtype in ("i4", "u4") and n.x[0].is_real: # ONNX's cast truncates and wraps; a store of a real saturates
            x[0] = f"i64({x[0]})"
        numbers = {k: number(v) for k, v in a.items() if isinstance(v, (int, float))}
        text = UNARY[op].format(*x, **numbers)
    elif op in BINARY:
        text = BINARY[op].format(*x)
    else:
        text = special(n, x)
    return f"{y.at(ids)} = {text}"


def special(n, x):
    op, t = n.op, n.x
    if op in ("Max", "Min"):
        text = x[0]
        for other in x[1:]:
            text = f"{op.lower()}({text}, {other})"
        return text
    if op in ("Sum", "Mean"):
        return " + ".join(x) if op == "Sum" else f"({' + '.join(x)}) / {len(x)}"
    if op == "Div":
        q = f"(abs({x[0]}) // abs({x[1]}))"
        return f"{x[0]} / {x[1]}" if t[0].is_real else f"{x[0]} // {x[1]}" if t[0].is_unsigned else \
            f"where(({x[0]} < 0) != ({x[1]} < 0), -{q}, {q})"
    if op == "Mod":
        return f"fmod({x[0]}, {x[1]})" if n.attributes.get("fmod") else f"{x[0]} % {x[1]}"
    if op == "BitShift":
        return f"{x[0]} {'<<' if n.attributes['direction'] == b'LEFT' else '>>'} {x[1]}"
    if op == "IsInf":
        signs = [s for s, key in (("> 0", "detect_positive"), ("< 0", "detect_negative")) if n.attributes.get(key, 1)]
        return "isinf({0}) and ({1})".format(x[0], " or ".join(f"{x[0]} {s}" for s in signs) or "false")
    if op == "Gelu":
        return f"gelu_tanh({x[0]})" if n.attributes.get("approximate") == b"tanh" else f"gelu({x[0]})"
    if op == "Clip":
        low, high = (t[i] if len(t) > i else None for i in (1, 2))
        text = f"max({x[0]}, {low.at([])})" if low else x[0]
        return f"min({text}, {high.at([])})" if high else text
    return refuse(f"{op} has no translation")


# ---- reductions

REDUCE = {"ReduceSum": "sum", "ReduceMean": "mean", "ReduceMax": "max", "ReduceMin": "min", "ReduceProd": "prod"}
REDUCED = {"ReduceL1": "{s}", "ReduceL2": "sqrt(f64({s}))", "ReduceSumSquare": "{s}", "ReduceLogSum": "log({s})"}


def axes_of(n, k=1, default=None):
    axes = n.attributes.get("axes")
    if axes is None and len(n.x) > k and n.x[k] is not None:
        axes = n.x[k].array.tolist()
        n.drop(k)
    rank = n.x[0].rank
    if not axes:
        axes = [] if n.attributes.get("noop_with_empty_axes") else list(range(rank)) if default is None else default
    return sorted(a % rank for a in axes)


def reduction(n):
    x, y, axes = n.x[0], n.y[0], axes_of(n)
    if not x.array.size and n.op in ("ReduceMax", "ReduceMin"):
        refuse("a maximum or minimum of nothing, which is an error here")
    keep = n.attributes.get("keepdims", 1)
    ids = indices(y.rank)
    inner = [f"r{i}" if i in axes else None for i in range(x.rank)]
    outer = iter(ids)
    for i in range(x.rank):
        if inner[i] is None:
            inner[i] = next(outer)
        elif keep:
            next(outer)
    bound, e = [f"r{i}" for i in axes], x.at(inner)
    if n.op == "ReduceLogSumExp":
        if not x.array.size:
            return f"{y.at(ids)} = log({bind('sum', bound, f'exp({e})')})"
        m = bind("max", bound, e)
        return f"let m[{','.join(ids)}] = {m}; {y.at(ids)} = log({bind('sum', bound, f'exp({e} - m[{chr(44).join(ids)}])')}) + m[{','.join(ids)}]"
    if n.op in REDUCE:
        return f"{y.at(ids)} = {bind(REDUCE[n.op], bound, e)}"
    body = {"ReduceL1": f"abs({e})", "ReduceLogSum": e}.get(n.op, f"{e} * {e}")
    return f"{y.at(ids)} = " + REDUCED[n.op].format(s=bind("sum", bound, body))


def arg_reduction(n):
    x, y = n.x[0], n.y[0]
    axis, keep = n.attributes.get("axis", 0) % x.rank, n.attributes.get("keepdims", 1)
    ids = indices(y.rank)
    inner = ids[:axis] + ["r"] + ids[axis + (1 if keep else 0):]
    name = n.op.lower()
    if n.attributes.get("select_last_index"):
        inner[axis] = f"{x.shape[axis] - 1} - r"
        return f"size r={x.shape[axis]}; {y.at(ids)} = {x.shape[axis] - 1} - {name}[r]({x.at(inner)})"
    return f"{y.at(ids)} = {name}[r]({x.at(inner)})"


def softmax(n):
    x, y = n.x[0], n.y[0]
    axis, ids = n.attributes.get("axis", -1) % x.rank, indices(n.y[0].rank)
    other, rest = list(ids), ids[:axis] + ids[axis + 1:]
    other[axis] = "r"
    if n.op == "Hardmax":
        return f"{y.at(ids)} = where(argmax[r]({x.at(other)}) == {ids[axis]}, 1, 0)"
    r = ",".join(rest)
    head = f"let m[{r}] = max[r]({x.at(other)}); let s[{r}] = sum[r](exp({x.at(other)} - m[{r}])); {y.at(ids)} = "
    if n.op == "LogSoftmax":
        return head + f"{x.at(ids)} - m[{r}] - log(s[{r}])"
    return head + f"exp({x.at(ids)} - m[{r}]) / s[{r}]"


def scan(n):
    x, y = n.x[0], n.y[0]
    axis = int(n.x[1].array) % x.rank
    n.drop(1)
    ids = indices(x.rank)
    options = "".join(f", {o}" for o in ("exclusive", "reverse") if n.attributes.get(o))
    return f"{y.at(ids)} = {n.op.lower()}[{ids[axis]}]({x.at(ids)}{options})"


# ---- norms

def layer_norm(n):
    """LayerNormalization and RMSNormalization: over the axes from `axis` on."""
    x, y, ids = n.x[0], n.y[0], indices(n.x[0].rank)
    axis, eps = n.attributes.get("axis", -1) % x.rank, number(n.attributes.get("epsilon", 1e-5))
    bound, outer = [f"r{i}" for i in range(axis, x.rank)], ids[:axis]
    o, e = ",".join(outer), x.at(outer + bound)
    scale = n.x[1].broadcast(ids)
    if n.op == "RMSNormalization":
        return f"{y.at(ids)} = {x.at(ids)} * rsqrt({bind('mean', bound, f'{e} * {e}')} + {eps}) * {scale}"
    shift = f" + {n.x[2].broadcast(ids)}" if len(n.x) > 2 and n.x[2] else ""
    text = f"let m[{o}] = {bind('mean', bound, e)}; let v[{o}] = rsqrt({bind('var', bound, e)} + {eps}); "
    text += f"{y.at(ids)} = ({x.at(ids)} - m[{o}]) * v[{o}] * {scale}{shift}"
    for out, name in zip(n.y[1:], "mv"):
        z = indices(out.rank, "zu"["mv".index(name)])
        text += f"; {out.at(z)} = {name}[{','.join(z[:axis])}]"
    return text


def channel_norm(n):
    """BatchNormalization, InstanceNormalization, GroupNormalization, MeanVarianceNormalization, LpNormalization, LRN."""
    x, y, ids, op = n.x[0], n.y[0], indices(n.x[0].rank), n.op
    eps = number(n.attributes.get("epsilon", 1e-5))
    if op == "BatchNormalization":
        scale, shift = n.x[1].at([ids[1]]), n.x[2].at([ids[1]])
        if not n.attributes.get("training_mode"):
            return f"{y.at(ids)} = ({x.at(ids)} - {n.x[3].at([ids[1]])}) * rsqrt({n.x[4].at([ids[1]])} + {eps}) * {scale} + {shift}"
        bound = [i.replace("a", "r") for i in ids]
        e, rest = x.at([bound[0], "c"] + bound[2:]), [bound[0]] + bound[2:]
        keep = number(n.attributes.get("momentum", 0.9))
        text = f"let m[c] = {bind('mean', rest, e)}; let v[c] = {bind('var', rest, e)}; "
        text += f"{y.at(ids)} = ({x.at(ids)} - m[{ids[1]}]) * rsqrt(v[{ids[1]}] + {eps}) * {scale} + {shift}"
        for out, old, new in zip(n.y[1:], n.x[3:], "mv"):
            text += f"; {out.at(['c'])} = {old.at(['c'])} * {keep} + {new}[c] * (1 - {keep})"
        return text
    if op == "MeanVarianceNormalization":
        axes = n.attributes.get("axes", [0, 2, 3])
        e = x.at(f"r{i}" if i in axes else ids[i] for i in range(x.rank))
        bound, o = [f"r{i}" for i in axes], ",".join(i for k, i in enumerate(ids) if k not in axes)
        return f"let m[{o}] = {bind('mean', bound, e)}; let v[{o}] = {bind('var', bound, e)}; {y.at(ids)} = ({x.at(ids)} - m[{o}]) / (sqrt(v[{o}]) + 1e-9)"
    if op == "InstanceNormalization":
        bound, o = [f"r{i}" for i in range(2, x.rank)], ",".join(ids[:2])
        e = x.at(ids[:2] + bound)
        return f"let m[{o}] = {bind('mean', bound, e)}; let v[{o}] = {bind('var', bound, e)}; {y.at(ids)} = ({x.at(ids)} - m[{o}]) * rsqrt(v[{o}] + {eps}) " \
               f"* {n.x[1].at([ids[1]])} + {n.x[2].at([ids[1]])}"
    if op == "GroupNormalization":
        groups = n.attributes["num_groups"]
        per = x.shape[1] // groups
        bound = ["c"] + [f"r{i}" for i in range(2, x.rank)]
        e, g = x.at([ids[0], f"g * {per} + c"] + bound[1:]), f"{ids[1]} // {per}"
        return f"size c={per}, g={groups}; let m[{ids[0]},g] = {bind('mean', bound, e)}; let v[{ids[0]},g] = {bind('var', bound, e)}; {y.at(ids)} = " \
               f"({x.at(ids)} - m[{ids[0]}, {g}]) * rsqrt(v[{ids[0]}, {g}] + {eps}) * {n.x[1].at([ids[1]])} + {n.x[2].at([ids[1]])}"
    if op == "LpNormalization":
        axis, p = n.attributes.get("axis", -1) % x.rank, n.attributes.get("p", 2)
        other = list(ids)
        other[axis] = "r"
        s = f"sum[r](abs({x.at(other)}))" if p == 1 else f"sqrt(sum[r]({x.at(other)} * {x.at(other)}))"
        o = ",".join(ids[:axis] + ids[axis + 1:])
        return f"let s[{o}] = {s}; {y.at(ids)} = where(s[{o}] == 0, 0, {x.at(ids)} / s[{o}])"
    a, size = n.attributes, n.attributes["size"]
    c = f"{ids[1]} + r - {(size - 1) // 2}"
    e = x.at([ids[0], c] + ids[2:])
    alpha, beta, bias = (number(a.get(k, d)) for k, d in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0)))
    inside = f"{c} >= 0 and {c} < {x.shape[1]}"
    return f"size r={size}; {y.at(ids)} = {x.at(ids)} / pow({bias} + {alpha} / {size} * sum[r](where({inside}, {e} * {e}, 0)), {beta})"
