"""Translations of nodes that move elements."""
import numpy as np

from formula import indices, number, position, refuse


def reshape(n):
    x, y, ids = n.x[0], n.y[0], indices(n.y[0].rank)
    n.keep(0)
    if not x.array.size:
        return f"{y.at(ids)} = 0" if not y.array.size else refuse("an empty tensor")
    return f"{y.at(ids)} = {x.linear(position(ids, y.shape))}"


def transpose(n):
    x, y, ids = n.x[0], n.y[0], indices(n.y[0].rank)
    perm = n.attributes.get("perm", list(range(x.rank))[::-1])
    return f"{y.at(ids)} = {x.at(ids[perm.index(k)] for k in range(x.rank))}"


def concat(n):
    y, ids = n.y[0], indices(n.y[0].rank)
    axis, start, text = n.attributes["axis"] % y.rank, 0, ""
    for k, x in enumerate(n.x):
        e = x.at(f"{i} - {start}" if a == axis and start else i for a, i in enumerate(ids))
        start += x.shape[axis]
        text += e if k == len(n.x) - 1 else f"where({ids[axis]} < {start}, {e}, "
    return f"{y.at(ids)} = {text}{')' * (len(n.x) - 1)}"


def split(n):
    x = n.x[0]
    n.keep(0)
    axis, start, text = n.attributes.get("axis", 0) % x.rank, 0, []
    for k, y in enumerate(n.y):
        ids = indices(y.rank, f"s{k}_")
        text.append(f"{y.at(ids)} = {x.at(f'{i} + {start}' if a == axis and start else i for a, i in enumerate(ids))}")
        start += y.shape[axis]
    return "; ".join(text)


def slice_(n):
    x, y, ids = n.x[0], n.y[0], indices(n.y[0].rank)
    values = [t.array.tolist() if t is not None else None for t in n.x[1:]] + [None] * 4
    starts, _, axes, steps = values[:4]
    n.keep(0)
    sub = list(ids)
    for k, s in enumerate(starts):
        axis, step = (axes[k] if axes else k) % x.rank, steps[k] if steps else 1
        size = x.shape[axis]
        s = min(max(s + size if s < 0 else s, 0), size - 1 if step < 0 else size)
        sub[axis] = f"{s} + {ids[axis]} * {step}"
    return f"{y.at(ids)} = {x.at(sub) if y.array.size else 0}"


def pad(n):
    x, y, ids, mode = n.x[0], n.y[0], indices(n.y[0].rank), n.attributes.get("mode", b"constant").decode()
    pads = n.x[1].array.tolist()
    axes = [int(a) % x.rank for a in n.x[3].array] if len(n.x) > 3 and n.x[3] else list(range(x.rank))
    fill = n.x[2].at([]) if len(n.x) > 2 and n.x[2] and n.x[2].rank == 0 else "0"
    n.keep(0, 2) if fill != "0" else n.keep(0)
    sub, inside = list(ids), []
    for k, a in enumerate(axes):
        i, size = f"{ids[a]} - {pads[k]}", x.shape[a]
        sub[a] = {"constant": i, "edge": f"clamp({i}, 0, {size - 1})", "wrap": f"({i}) % {size}",
                  "reflect": f"abs(({i} + {size - 1}) % {max(2 * size - 2, 1)} - {size - 1})"}[mode]
        inside += [f"{i} >= 0", f"{i} < {size}"]
    e = x.at(sub)
    return f"{y.at(ids)} = " + (f"where({' and '.join(inside)}, {e}, {fill})" if mode == "constant" and inside else e)


def wrapped(text, size):
    """An index that may count from the end."""
    return f"where({text} < 0, {text} + {size}, {text})"


def gather(n):
    x, at, y = n.x[0], n.x[1], n.y[0]
    ids, axis = indices(y.rank), n.attributes.get("axis", 0) % n.x[0].rank
    inner = ids[axis:axis + at.rank]
    e = wrapped(at.at(inner), x.shape[axis])
    return f"{y.at(ids)} = {x.at(ids[:axis] + [e] + ids[axis + at.rank:])}"


def array_feature_extractor(n):
    ids = indices(n.y[0].rank)
    return f"{n.y[0].at(ids)} = {n.x[0].at(ids[:-1] + [n.x[1].linear(ids[-1])])}"


def gather_elements(n):
    x, at, y, ids = n.x[0], n.x[1], n.y[0], indices(n.y[0].rank)
    axis = n.attributes.get("axis", 0) % x.rank
    sub = list(ids)
    sub[axis] = wrapped(at.at(ids), x.shape[axis])
    return f"{y.at(ids)} = {x.at(sub)}"


def gather_nd(n):
    x, at, y, ids = n.x[0], n.x[1], n.y[0], indices(n.y[0].rank)
    batch, depth = n.attributes.get("batch_dims", 0), n.x[1].shape[-1]
    outer = ids[:at.rank - 1]
    sub = ids[:batch] + [wrapped(at.at(outer + [str(k)]), x.shape[batch + k]) for k in range(depth)] + ids[at.rank - 1:]
    return f"{y.at(ids)} = {x.at(sub)}"


ASSIGN = {"none": "=", "add": "+=", "max": "max=", "min": "min="}


def scatter(n):
    """Updates the output, which holds the data before the call."""
    x, at, new, y = n.x[0], n.x[1], n.x[2], n.y[0]
    how = n.attributes.get("reduction", b"none").decode()
    if how not in ASSIGN:
        refuse("a scatter that multiplies")
    if len({tuple(r) for r in at.array.reshape(-1, at.shape[-1] if n.op == "ScatterND" else 1)}) < 0:
        refuse("")
    n.start(y, x)
    ids = indices(new.rank)
    if n.op == "ScatterND":
        outer, depth = ids[:at.rank - 1], at.shape[-1]
        sub = [wrapped(at.at(outer + [str(k)]), x.shape[k]) for k in range(depth)] + ids[at.rank - 1:]
    else:
        axis = n.attributes.get("axis", 0) % x.rank
        sub = list(ids)
        sub[axis] = wrapped(at.at(ids), x.shape[axis])
        sizes = ", ".join(f"{i}={k}" for i, k in zip(ids, at.shape))
        return f"size {sizes}; {y.at(sub)} {ASSIGN[how]} {new.at(ids)}"
    return f"{y.at(sub)} {ASSIGN[how]} {new.at(ids)}"


def one_hot(n):
    at, depth, values, y = n.x[0], n.x[1], n.x[2], n.y[0]
    n.drop(1)
    ids, axis = indices(y.rank), n.attributes.get("axis", -1) % n.y[0].rank
    size = int(depth.array.ravel()[0])
    e = at.at(ids[:axis] + ids[axis + 1:])
    return f"{y.at(ids)} = where(i64({e}) == {ids[axis]} or i64({e}) + {size} == {ids[axis]}, {values.at(['1'])}, {values.at(['0'])})"


def generated(n):
    y, ids, op = n.y[0], indices(n.y[0].rank), n.op
    if op == "Range":
        return f"{y.at(ids)} = {n.x[0].at([])} + a0 * {n.x[2].at([])}" if n.drop(1) is None else ""
    if op == "EyeLike":
        n.keep()
        return f"{y.at(ids)} = where(a1 == a0 + {n.attributes.get('k', 0)}, 1, 0)"
    if op == "ConstantOfShape":
        n.keep()
        value = n.attributes.get("value")
        return f"{y.at(ids)} = {number(value.ravel()[0]) if value is not None else 0}"
    if op in ("Shape", "Size"):
        x = n.x[0]
        if not x.array.size:
            refuse("the shape of an empty tensor")
        touch = x.at("0" * x.rank)
        sizes = [f"size({x.name}.{k})" for k in range(x.rank)]
        nothing = f"where(false, i64({touch}), 0)"
        if op == "Size":
            return f"{y.at([])} = {' * '.join(sizes) or 1} + {nothing}"
        start = n.attributes.get("start", 0)
        start = max(start + x.rank, 0) if start < 0 else start
        text = "0"
        for k in reversed(range(x.rank)):
            text = f"where(a0 == {k - start}, {sizes[k]}, {text})"
        return f"{y.at(ids)} = {text} + {nothing}"
    window = {"HannWindow": (0.5, 0.5, 0.0), "HammingWindow": (25 / 46, 1 - 25 / 46, 0.0), "BlackmanWindow": (0.42, 0.5, 0.08)}[op]
    size = f"f32({n.x[0].at([])})" + ("" if n.attributes.get("periodic", 1) else " - 1")
    a, b, c = window
    return f"{y.at(ids)} = {a} - {b} * cos(2 * pi * a0 / ({size})) + {c} * cos(4 * pi * a0 / ({size}))"


def positional(n):
    """Nodes that keep or move elements by their position."""
    x, y, op, a = n.x[0], n.y[0], n.op, n.attributes
    ids = indices(y.rank)
    if op == "Trilu":
        k = int(n.x[1].array) if len(n.x) > 1 and n.x[1] else 0
        n.keep(0)
        sign = ">=" if a.get("upper", 1) else "<="
        return f"{y.at(ids)} = where({ids[-1]} {sign} {ids[-2]} + {k}, {x.at(ids)}, 0)"
    if op == "Tile":
        n.keep(0)
        return f"{y.at(ids)} = {x.at(f'{i} % {s}' for i, s in zip(ids, x.shape))}"
    if op == "Expand":
        n.keep(0)
        return f"{y.at(ids)} = {x.broadcast(ids)}"
    if op == "ReverseSequence":
        t, b = a.get("time_axis", 0), a.get("batch_axis", 1)
        length = n.x[1].at([ids[b]])
        sub = list(ids)
        sub[t] = f"where({ids[t]} < {length}, {length} - 1 - {ids[t]}, {ids[t]})"
        return f"{y.at(ids)} = {x.at(sub)}"
    if op in ("DepthToSpace", "SpaceToDepth"):
        s, (b, c, h, w) = a["blocksize"], ids
        if op == "SpaceToDepth":
            block, channel = (f"{c} % {s * s}", f"{c} // {s * s}") if a.get("mode") == b"CRD" else (f"{c} // {x.shape[1]}", f"{c} % {x.shape[1]}")
            return f"{y.at(ids)} = {x.at([b, channel, f'{h} * {s} + {block} // {s}', f'{w} * {s} + {block} % {s}'])}"
        deep, block = y.shape[1], f"({h} % {s} * {s} + {w} % {s})"
        channel = f"{c} * {s * s} + {block}" if a.get("mode") == b"CRD" else f"{block} * {deep} + {c}"
        return f"{y.at(ids)} = {x.at([b, channel, f'{h} // {s}', f'{w} // {s}'])}"
    if op == "CenterCropPad":
        n.keep(0)
        sub, inside = list(ids), []
        for k in range(x.rank):
            d = y.shape[k] - x.shape[k]
            shift = -(d // 2) if d > 0 else (-d) // 2
            sub[k] = f"{ids[k]} + ({shift})" if d else ids[k]
            inside += [f"{sub[k]} >= 0", f"{sub[k]} < {x.shape[k]}"] if d > 0 else []
        return f"{y.at(ids)} = " + (f"where({' and '.join(inside)}, {x.at(sub)}, 0)" if inside else x.at(sub))
    if op == "Dropout":
        n.keep(0)
        ratio = float(n.x[1].array) if len(n.x) > 1 and n.x[1] else 0.5
        if len(n.x) > 2 and n.x[2] and bool(n.x[2].array) and ratio:
            refuse("random numbers")
        return "; ".join([f"{y.at(ids)} = {x.at(ids)}"] + [f"{m.at(ids)} = true" for m in n.y[1:]])
    if op == "Compress":
        c, axis = n.x[1], a.get("axis")
        if axis is None:
            e, size = x.linear("r"), x.array.size
        else:
            sub = list(ids)
            sub[axis % x.rank] = "r"
            e, size = x.at(sub), x.shape[axis % x.rank]
        size = min(size, c.shape[0])
        k = ids[axis % x.rank if axis is not None else 0]
        return f"size q={size}, r={size}; let p[q] = cumsum[q](i64({c.at(['q'])}), exclusive); " \
               f"{y.at(ids)} = sum[r](where({c.at(['r'])} and p[r] == {k}, {e}, 0))"
    return refuse(f"{op} has no translation")


def top_k(n):
    x, values, at = n.x[0], n.y[0], n.y[1]
    n.keep(0)
    axis, ids = n.attributes.get("axis", -1) % x.rank, indices(n.x[0].rank)
    sign = ">" if n.attributes.get("largest", 1) else "<"
    other, q = list(ids), list(ids)
    other[axis], q[axis] = "r", "q"
    rank, size = ",".join(q), x.shape[axis]
    first = f"let p[{rank}] = sum[r](where({x.at(other)} {sign} {x.at(q)} or ({x.at(other)} == {x.at(q)} and r < q), 1, 0))"
    o = ",".join(other)
    return f"size q={size}, r={size}; {first}; {values.at(ids)} = sum[r](where(p[{o}] == {ids[axis]}, {x.at(other)}, 0)); " \
           f"{at.at(ids)} = sum[r](where(p[{o}] == {ids[axis]}, r, 0))"
