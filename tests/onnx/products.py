"""Translations of products, convolutions, pools, losses, attention and quantisation."""
import ml_dtypes
import numpy as np

from formula import bind, indices, number, refuse


def matmul_text(a, b, ids, zeros=("", "")):
    """sum over k of a @ b at the indices of the output."""
    outer = ids[:len(ids) - (a.rank > 1) - (b.rank > 1)]
    row = ids[len(outer):len(outer) + (a.rank > 1)]
    column = ids[len(ids) - 1:] if b.rank > 1 else []

    def batch(t):
        own = outer[len(outer) - max(t.rank - 2, 0):] if t.rank > 2 else []
        return ["0" if s == 1 else i for i, s in zip(own, t.shape)]
    x, w = a.at(batch(a) + row + ["k"]), b.at(batch(b) + (["k"] + column))
    return f"sum[k]({f'({x}{zeros[0]})' if zeros[0] else x} * {f'({w}{zeros[1]})' if zeros[1] else w})"


def matmul(n):
    y, ids = n.y[0], indices(n.y[0].rank)
    return f"{y.at(ids)} = {matmul_text(n.x[0], n.x[1], ids)}"


def minus(t, ids, axis):
    """The zero point of a quantised tensor: of all of it, or along an axis."""
    if t is None:
        return ""
    return f" - i64({t.at([] if t.rank == 0 else ['0'] if t.shape == (1,) else [ids[axis]])})"


def matmul_integer(n):
    y, ids = n.y[0], indices(n.y[0].rank)
    zero = [n.x[k] if len(n.x) > k else None for k in (2, 3)]
    return f"{y.at(ids)} = {matmul_text(n.x[0], n.x[1], ids, (minus(zero[0], ids, -2), minus(zero[1], ids, -1)))}"


def gemm(n):
    a, b, y = n.x[0], n.x[1], n.y[0]
    x = a.at("ki" if n.attributes.get("transA") else "ik")
    w = b.at("jk" if n.attributes.get("transB") else "kj")
    text = f"{number(n.attributes.get('alpha', 1))} * sum[k]({x} * {w})"
    if len(n.x) > 2 and n.x[2]:
        text += f" + {number(n.attributes.get('beta', 1))} * {n.x[2].broadcast(['i', 'j'])}"
    return f"{y.at('ij')} = {text}"


def einsum(n):
    text = n.attributes["equation"].decode().replace(" ", "")
    left, _, right = text.partition("->")
    terms, rank = left.split(","), 0
    for t, x in zip(terms, n.x):
        rank = max(rank, x.rank - len(t.replace("...", "")) if "..." in t else 0)
    if "->" not in text:
        letters = left.replace(",", "").replace(".", "")
        right = ("..." if "..." in left else "") + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))

    def names(t, own):
        k = own - len(t.replace("...", "")) if "..." in t else 0
        dots = [f"e{rank - k + d}" for d in range(k)]
        head, _, tail = t.partition("...")
        return list(head) + dots + list(tail) if "..." in t else list(t)
    subs = [names(t, x.rank) for t, x in zip(terms, n.x)]
    out = names(right, n.y[0].rank)
    bound = sorted({i for s in subs for i in s} - set(out))
    return f"{n.y[0].at(out)} = {bind('sum', bound, ' * '.join(x.at(s) for x, s in zip(n.x, subs)))}"


# ---- windows

def geometry(n, x, y, kernel):
    """Strides, dilations, pads before, of each spatial axis."""
    a, d = n.attributes, len(kernel)
    strides, dilations = a.get("strides", [1] * d), a.get("dilations", [1] * d)
    auto = a.get("auto_pad", b"NOTSET").decode()
    pads = list(a.get("pads", [0] * 2 * d))
    if auto.startswith("SAME"):
        for k in range(d):
            total = max((y.shape[k + 2] - 1) * strides[k] + (kernel[k] - 1) * dilations[k] + 1 - x.shape[k + 2], 0)
            pads[k] = (total + 1) // 2 if auto == "SAME_LOWER" else total // 2
            pads[k + d] = total - pads[k]
    return strides, dilations, pads


def window(n, x, y, kernel, ids, prefix="w"):
    """Bound indices, subscripts and the condition that they lie inside."""
    strides, dilations, pads = geometry(n, x, y, kernel)
    bound = [f"{prefix}{k}" for k in range(len(kernel))]
    at = [f"{ids[k + 2]} * {strides[k]} + w{k} * {dilations[k]} - {pads[k]}" for k in range(len(kernel))]
    inside = []
    for k, p in enumerate(at):
        inside += [f"{p} >= 0", f"{p} < {x.shape[k + 2]}"]
    return bound, at, " and ".join(inside)


def convolution(n):
    """Conv, ConvInteger, QLinearConv."""
    q = n.op == "QLinearConv"
    x, w, y = n.x[0], n.x[3] if q else n.x[1], n.y[0]
    ids, groups = indices(y.rank), n.attributes.get("group", 1)
    kernel, per, inner = w.shape[2:], w.shape[0] // groups, w.shape[1]
    bound, at, inside = window(n, x, y, kernel, ids)
    channel = "c" if groups == 1 else f"{ids[1]} // {per} * {inner} + c"
    e, f = x.at([ids[0], channel] + at), w.at([ids[1], "c"] + bound)
    if n.op != "Conv":
        zero = (n.x[2], n.x[5]) if q else tuple(n.x[k] if len(n.x) > k else None for k in (2, 3))
        e, f = f"(i64({e}){minus(zero[0], ids, 1)})", f"(i64({f}){minus(zero[1], ids, 1)})"
    sizes = f"size c={inner}, " + ", ".join(f"{b}={k}" for b, k in zip(bound, kernel)) + "; "
    text = bind("sum", ["c"] + bound, f"where({inside}, {e}, 0) * {f}")
    if q:
        scale = [n.x[k].at([] if n.x[k].rank == 0 else ["0" if n.x[k].shape == (1,) else ids[1]]) for k in (1, 4, 6)]
        zero = n.x[7].at([] if n.x[7].rank == 0 else ["0"])
        low, high = ml_dtypes.iinfo(y.array.dtype).min, ml_dtypes.iinfo(y.array.dtype).max
        bias = f" + {n.x[8].at([ids[1]])}" if len(n.x) > 8 and n.x[8] else ""
        return f"{sizes}{y.at(ids)} = clamp(round(f32({text}{bias}) * {scale[0]} * {scale[1]} / {scale[2]}) + {zero}, {low}, {high})"
    if n.op == "Conv" and len(n.x) > 2 and n.x[2]:
        text += f" + {n.x[2].at([ids[1]])}"
    return f"{sizes}{y.at(ids)} = {text}"


def convolution_transposed(n):
    x, w, y, a = n.x[0], n.x[1], n.y[0], n.attributes
    ids, groups, d = indices(y.rank), a.get("group", 1), n.y[0].rank - 2
    kernel, per, inner = w.shape[2:], w.shape[1], x.shape[1] // groups
    strides, dilations = a.get("strides", [1] * d), a.get("dilations", [1] * d)
    pads = list(a.get("pads", [0] * 2 * d))
    auto = a.get("auto_pad", b"NOTSET").decode()
    extra = a.get("output_padding", [0] * d)
    for k in range(d):
        if auto.startswith("SAME") or "output_shape" in a:
            total = strides[k] * (x.shape[k + 2] - 1) + extra[k] + (kernel[k] - 1) * dilations[k] + 1 - y.shape[k + 2]
            pads[k] = total // 2 if auto == "SAME_UPPER" else total - total // 2
    bound = [f"w{k}" for k in range(d)]
    at, inside = [], []
    for k in range(d):
        p = f"({ids[k + 2]} + {pads[k]} - w{k} * {dilations[k]})"
        at.append(f"{p} // {strides[k]}")
        inside += [f"{p} % {strides[k]} == 0", f"{p} // {strides[k]} >= 0", f"{p} // {strides[k]} < {x.shape[k + 2]}"]
    g = f"{ids[1]} // {per} * {inner} + c" if groups > 1 else "c"
    e = x.at([ids[0], g] + at)
    f = w.at([g, f"{ids[1]} % {per}" if groups > 1 else ids[1]] + bound)
    sizes = f"size c={inner}, " + ", ".join(f"{b}={k}" for b, k in zip(bound, kernel)) + "; "
    bias = f" + {n.x[2].at([ids[1]])}" if len(n.x) > 2 and n.x[2] else ""
    text = f"where({' and '.join(inside)}, {e}, 0) * {f}"
    return f"{sizes}{y.at(ids)} = {bind('sum', ['c'] + bound, text)}{bias}"


def pool(n):
    x, y, a, ids = n.x[0], n.y[0], n.attributes, indices(n.y[0].rank)
    kernel = list(x.shape[2:]) if n.op.startswith("Global") else a["kernel_shape"]
    bound, at, inside = window(n, x, y, kernel, ids)
    e = x.at(ids[:2] + at)
    sizes = "size " + ", ".join(f"{b}={k}" for b, k in zip(bound, kernel)) + "; "
    if n.op in ("MaxPool", "GlobalMaxPool"):
        lowest = "-inf" if x.is_real else str(ml_dtypes.iinfo(x.array.dtype).min)
        read = f"where({inside}, {e}, {lowest})"
        text = f"{sizes}{y.at(ids)} = {bind('max', bound, read)}"
        for z in n.y[1:]:
            strides, dilations, pads = geometry(n, x, y, kernel)
            spatial, best, step, parts = x.shape[2:], bind("argmax", bound, read), 1, []
            for k in reversed(range(len(kernel))):
                parts.append((k, f"({ids[k + 2]} * {strides[k]} + p[{','.join(ids)}] // {step} % {kernel[k]} * {dilations[k]} - {pads[k]})"))
                step *= kernel[k]
            order, stride, terms = range(len(kernel)), 1, []
            for k, p in (reversed(parts) if a.get("storage_order") else parts):
                terms.append(f"{p} * {stride}")
                stride *= spatial[k]
            head = f"({ids[0]} * {x.shape[1]} + {ids[1]}) * {stride}"
            text += f"; let p[{','.join(ids)}] = {best}; {z.at(ids)} = {head} + {' + '.join(terms)}"
        return text
    if n.op == "LpPool":
        p = a.get("p", 2)
        return f"{sizes}{y.at(ids)} = pow({bind('sum', bound, f'where({inside}, pow(abs({e}), {p}), 0)')}, {1 / p})"
    total = bind("sum", bound, f"where({inside}, {e}, 0)")
    if a.get("count_include_pad"): # of a window that ceil_mode adds, only what lies in the padding counts
        strides, dilations, pads = geometry(n, x, y, kernel)
        d = len(kernel)
        inside = " and ".join(f"{p} < {x.shape[k + 2] + pads[k + d]}" for k, p in enumerate(at))
    return f"{sizes}{y.at(ids)} = {total} / {bind('sum', bound, f'where({inside}, 1, 0)')}"


# ---- losses

def loss(n):
    """NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss."""
    x, label = n.x[0], n.x[1]
    weight = n.x[2] if len(n.x) > 2 else None
    ids = indices(label.rank)
    ignore, how = n.attributes.get("ignore_index"), n.attributes.get("reduction", b"mean").decode()
    sub, text, t = [ids[0], "c"] + ids[1:], "", label.at(ids)
    o = ",".join(ids)
    head = f"size c={x.shape[1]}; " if n.op == "SoftmaxCrossEntropyLoss" else ""
    probability = lambda c: x.at([ids[0], c] + ids[1:])
    if n.op == "SoftmaxCrossEntropyLoss":
        text = f"let m[{o}] = max[c]({x.at(sub)}); let s[{o}] = log(sum[c](exp({x.at(sub)} - m[{o}]))); "
        probability = lambda c: f"({x.at([ids[0], c] + ids[1:])} - m[{o}] - s[{o}])"
        if len(n.y) > 1:
            z = indices(x.rank, "z")
            k = ",".join([z[0]] + z[2:])
            text += f"{n.y[1].at(z)} = {x.at(z)} - m[{k}] - s[{k}]; "
    ok = f"{t} != {ignore}" if ignore is not None else "true"
    w = f"where({ok}, {weight.at([t])}, 0)" if weight else f"where({ok}, 1.0, 0)"
    text += f"let w[{o}] = {w}; let l[{o}] = where({ok}, -{probability(t)}, 0) * w[{o}]; "
    y = n.y[0]
    if how == "none":
        return f"{head}{text}{y.at(ids)} = l[{o}]"
    total = bind("sum", [i.replace("a", "r") for i in ids], f"l[{o.replace('a', 'r')}]")
    if how == "mean":
        total += " / " + bind("sum", [i.replace("a", "r") for i in ids], f"w[{o.replace('a', 'r')}]")
    return f"{head}{text}{y.at([])} = {total}"


# ---- quantisation

def scale_at(t, ids, axis, block, rank):
    if t.rank == 0 or t.shape == (1,):
        return t.at(["0"] * t.rank)
    if t.rank == 1:
        return t.at([ids[axis % rank]])
    return t.at(f"{i} // {block}" if k == axis % rank and block else i for k, i in enumerate(ids))


def quantize(n):
    x, s, y = n.x[0], n.x[1], n.y[0]
    ids, axis, block = indices(y.rank), n.attributes.get("axis", 1), n.attributes.get("block_size", 0)
    zero = n.x[2] if len(n.x) > 2 else None
    scale = scale_at(s, ids, axis, block, x.rank)
    if n.op == "DequantizeLinear":
        z = f" - {'f32' if x.is_real else 'i64'}({scale_at(zero, ids, axis, block, x.rank)})" if zero else ""
        return f"{y.at(ids)} = ({x.at(ids)}{z}) * {scale}"
    z = f" + {scale_at(zero, ids, axis, block, x.rank)}" if zero else ""
    if y.is_real:
        return f"{y.at(ids)} = {x.at(ids)} / {scale}{z}"
    low, high = ml_dtypes.iinfo(y.array.dtype).min, ml_dtypes.iinfo(y.array.dtype).max
    return f"{y.at(ids)} = clamp(round({x.at(ids)} / {scale}){z}, {low}, {high})"


def dynamic_quantize(n):
    x, y, s, z = n.x[0], *n.y
    ids, r = indices(x.rank), indices(x.rank, "r")
    e = x.at(r)
    return f"let h[] = max({bind('max', r, e)}, 0); let l[] = min({bind('min', r, e)}, 0); let d:f32[] = (h[] - l[]) / 255; {s.at([])} = d[]; " \
           f"let z[] = clamp(round(-l[] / d[]), 0, 255); {z.at([])} = z[]; " \
           f"let q:f32[{','.join(ids)}] = {x.at(ids)} / d[]; {y.at(ids)} = clamp(round(q[{','.join(ids)}]) + z[], 0, 255)"


def qlinear_matmul(n):
    a, sa, za, b, sb, zb, sy, zy = n.x
    y, ids = n.y[0], indices(n.y[0].rank)
    one = lambda t: t.at(["0"] * t.rank)
    if any(t.array.size > 1 for t in (sa, za, sb, zb, sy, zy)):
        refuse("scales of rows and columns")
    low, high = ml_dtypes.iinfo(y.array.dtype).min, ml_dtypes.iinfo(y.array.dtype).max
    total = matmul_text(a, b, ids, (f" - {one(za)}", f" - {one(zb)}"))
    return f"{y.at(ids)} = clamp(round(f32({total}) * {one(sa)} * {one(sb)} / {one(sy)}) + {one(zy)}, {low}, {high})"


# ---- optimisers, attention's parts

def optimizer(n):
    a, k = n.attributes, (len(n.x) - 2) // {"Momentum": 3, "Adagrad": 3, "Adam": 4}[n.op]
    rate, step, text = n.x[0].at([]), n.x[1].at([]), []
    g0 = number(a.get("norm_coefficient", 0))
    for i in range(k):
        p, d = n.x[2 + i], n.x[2 + k + i]
        ids = indices(p.rank, f"p{i}_")
        x, g, h = p.at(ids), f"({g0} * {p.at(ids)} + {d.at(ids)})", n.x[2 + 2 * k + i].at(ids)
        if n.op == "Adagrad":
            r = f"({rate} / (1 + {step} * {number(a.get('decay_factor', 0))}))"
            new = f"({h} + {g} * {g})"
            text += [f"{n.y[i].at(ids)} = {x} - {r} * {g} / (sqrt{new} + {number(a.get('epsilon', 1e-6))})", f"{n.y[k + i].at(ids)} = {new}"]
        elif n.op == "Momentum":
            alpha, beta = number(a["alpha"]), number(a["beta"])
            v = f"({alpha} * {h} + where({step} > 0, {beta}, 1) * {g})"
            text += [f"{n.y[i].at(ids)} = {x} - {rate} * " + (f"({g} + {alpha} * {v})" if a["mode"] == b"nesterov" else v), f"{n.y[k + i].at(ids)} = {v}"]
        else:
            alpha, beta = number(a.get("alpha", 0.9)), number(a.get("beta", 0.999))
            u = n.x[2 + 3 * k + i].at(ids)
            v, w = f"({alpha} * {h} + (1 - {alpha}) * {g})", f"({beta} * {u} + (1 - {beta}) * {g} * {g})"
            r = f"where({step} > 0, {rate} * sqrt(1 - pow({beta}, {step})) / (1 - pow({alpha}, {step})), {rate})"
            post = number(a.get("norm_coefficient_post", 0))
            text += [f"{n.y[i].at(ids)} = (1 - {post}) * ({x} - {r} * {v} / (sqrt{w} + {number(a.get('epsilon', 1e-6))}))",
                     f"{n.y[k + i].at(ids)} = {v}", f"{n.y[2 * k + i].at(ids)} = {w}"]
    return "; ".join(text)


def attention(n):
    q, k, v = n.x[:3]
    mask, past_k, past_v = (n.x[i] if len(n.x) > i else None for i in (3, 4, 5))
    valid = n.x[6].at(["b"]) if len(n.x) > 6 and n.x[6] else None
    a, y = n.attributes, n.y[0]
    heads = a.get("q_num_heads", q.shape[1]) if q.rank == 3 else q.shape[1]
    kv = a.get("kv_num_heads", k.shape[1]) if k.rank == 3 else k.shape[1]
    width = q.shape[2] // heads if q.rank == 3 else q.shape[3]
    vwidth = v.shape[2] // kv if v.rank == 3 else v.shape[3]
    fresh, sq = k.shape[-2], q.shape[-2]
    old = past_k.shape[2] if past_k else 0
    total, scale = old + fresh, number(a.get("scale", 0) or 1 / np.sqrt(width))
    group = f"h // {heads // kv}"
    at4 = lambda t, b, h, s, d, w: t.at([b, s, f"({h}) * {w} + {d}"] if t.rank == 3 else [b, h, s, d])
    key = lambda s, h, d: at4(k, "b", h, s, d, width) if not past_k else \
        f"where({s} < {old}, {past_k.at(['b', h, s, d])}, {at4(k, 'b', h, f'{s} - {old}', d, width)})"
    value = lambda s, h, d: at4(v, "b", h, s, d, vwidth) if not past_v else \
        f"where({s} < {old}, {past_v.at(['b', h, s, d])}, {at4(v, 'b', h, f'{s} - {old}', d, vwidth)})"
    cap, mode = a.get("softcap", 0), a.get("qk_matmul_output_mode", 0)
    rounded = ":bf16" if q.dtype == "bf16" else ""
    sizes = f"size b={q.shape[0]}, h={heads}, i={sq}, j={total}, d={width}; "
    text = f"let s0{rounded}[b,h,i,j] = {scale} * sum[d]({at4(q, 'b', 'h', 'i', 'd', width)} * {key('j', group, 'd')}); "
    text += f"let s1[b,h,i,j] = {number(cap)} * tanh(s0[b,h,i,j] / {number(cap)}); " if cap else "let s1[b,h,i,j] = s0[b,h,i,j]; "
    hidden, bias = [], ""
    if mask:
        m = mask.broadcast(["b", "h", "i", "j"])
        if mask.shape[-1] != total:
            m = mask.broadcast(["b", "h", "i", f"min(j, {mask.shape[-1] - 1})"])
            m = f"where(j < {mask.shape[-1]}, {m}, {'false' if mask.dtype == 'bool' else '-inf'})"
        hidden, bias = ([f"not {m}"], "") if mask.dtype == "bool" else ([], f" + {m}")
    now = f"i + {valid} - {sq}" if valid else f"i + {old}"
    if valid:
        hidden.append(f"j >= {valid}")
    if a.get("is_causal"):
        hidden.append(f"j > {now}")
    if a.get("left_window_size", -1) >= 0:
        hidden.append(f"j < {now} - {a['left_window_size']}")
    if a.get("right_window_size", -1) >= 0:
        hidden.append(f"j > {now} + {a['right_window_size']}")
    scores = f"s1[b,h,i,j]{bias}"
    text += f"let s3[b,h,i,j] = where({' or '.join(hidden)}, -inf, {scores}); " if hidden else f"let s3[b,h,i,j] = {scores}; "
    text += "let m[b,h,i] = max[j](s3[b,h,i,j]); let e[b,h,i,j] = where(m[b,h,i] == -inf, 0, exp(s3[b,h,i,j] - m[b,h,i])); "
    text += f"let z[b,h,i] = sum[j](e[b,h,i,j]); let p{rounded}[b,h,i,j] = where(z[b,h,i] == 0, 0, e[b,h,i,j] / z[b,h,i]); "
    o = lambda b, h, i, d: f"sum[j](p[{b}, {h}, {i}, j] * {value('j', f'({h}) // {heads // kv}', d).replace('[b,', f'[{b},')})"
    out = [f"{y.at('bif')} = {o('b', f'f // {vwidth}', 'i', f'f % {vwidth}')}" if y.rank == 3 else f"{y.at('bhif')} = {o('b', 'h', 'i', 'f')}"]
    for t, old_t, new, w in ((n.y[1] if len(n.y) > 1 else None, past_k, k, width), (n.y[2] if len(n.y) > 2 else None, past_v, v, vwidth)):
        if t:
            last, g = ("vf", "vg") if new is v else ("kf", "kg")
            e = at4(new, "b", g, f"j - {old}" if old_t else "j", last, w)
            out.append(f"{t.at(['b', g, 'j', last])} = " + (f"where(j < {old}, {old_t.at(['b', g, 'j', last])}, {e})" if old_t else e))
    if len(n.y) > 3 and n.y[3]:
        out.append(f"{n.y[3].at('bhij')} = {['s0', 's1', 's3', 'p'][mode]}[b,h,i,j]")
    return sizes + text + "; ".join(out)


def rotary(n):
    x, cos, sin, y, a = n.x[0], n.x[1], n.x[2], n.y[0], n.attributes
    at = n.x[3] if len(n.x) > 3 else None
    heads = a.get("num_heads", 0)
    width = x.shape[3] if x.rank == 4 else x.shape[2] // heads
    turned = a.get("rotary_embedding_dim", 0) or width
    half = turned // 2
    d = "d" if x.rank == 4 else f"(f % {width})"
    ids = ["b", "h", "s", "d"] if x.rank == 4 else ["b", "s", "f"]
    even = a.get("interleaved", 0)
    k = f"{d} // 2" if even else f"{d} % {half}"
    angle = lambda t: t.at([at.at(["b", "s"]), k] if at else ["b", "s", k])
    last = ids[-1]
    read = lambda shift: x.at(ids[:-1] + [f"{last} + {shift}" if shift else last])
    step = 1 if even else half
    first = f"{d} % 2 == 0" if even else f"{d} < {half}"
    body = f"where({first}, {angle(cos)} * {read(0)} - {angle(sin)} * {read(step)}, {angle(sin)} * {read(-step)} + {angle(cos)} * {read(0)})"
    return f"{y.at(ids)} = " + (body if turned == width else f"where({d} < {turned}, {body}, {read(0)})")
