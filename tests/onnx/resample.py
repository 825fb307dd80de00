"""Translations of nodes that read between elements, and of Fourier transforms."""
import numpy as np

from formula import bind, indices, number, refuse


def coordinate(mode, o, scale, size, out, roi):
    """Where output position o lies on an axis of the input, as a text of f64."""
    o = f"f64({o})"
    if mode == "align_corners":
        return f"{o} * {number((size - 1) / (scale * size - 1))}" if out > 1 else "f64(0)"
    if mode == "asymmetric":
        return f"{o} / {number(scale)}"
    if mode == "tf_crop_and_resize":
        if out == 1:
            return f"f64({number(0.5 * (roi[0] + roi[1]) * (size - 1))})"
        return f"{number(roi[0] * (size - 1))} + {o} * {number((roi[1] - roi[0]) * (size - 1) / (out - 1))}"
    if mode == "pytorch_half_pixel" and out == 1:
        return "f64(0)"
    shift = size / 2 * (1 - out / (scale * size)) if mode == "half_pixel_symmetric" else 0.0
    return f"{number(shift - 0.5)} + ({o} + 0.5) / {number(scale)}"


NEAREST = {"round_prefer_floor": "ceil({0} - 0.5)", "round_prefer_ceil": "floor({0} + 0.5)", "floor": "floor({0})", "ceil": "ceil({0})"}


def cubic(d, a):
    d = f"abs({d})"
    return f"where({d} <= 1, (({a} + 2) * {d} - ({a} + 3)) * {d} * {d} + 1, where({d} < 2, (({a} * {d} - 5 * {a}) * {d} + 8 * {a}) * {d} - 4 * {a}, 0))"


def resize(n):
    x, y, a = n.x[0], n.y[0], n.attributes
    ids = indices(y.rank)
    if a.get("antialias"):
        refuse("not translated: resizing with antialiasing")
    axes = [k % x.rank for k in a.get("axes", range(x.rank))]
    value = lambda k: n.x[k].array.tolist() if len(n.x) > k and n.x[k] is not None and n.x[k].array.size else None
    roi, scales, sizes = (value(1), value(2), value(3)) if n.op == "Resize" else (None, value(1), None)
    if scales is None:
        scales = [s / x.shape[k] for k, s in zip(axes, sizes)]
        policy = a.get("keep_aspect_ratio_policy", b"stretch")
        if policy != b"stretch":
            scales = [(min if policy == b"not_larger" else max)(scales)] * len(axes)
    mode, how = a.get("mode", b"nearest").decode(), a.get("coordinate_transformation_mode", b"half_pixel").decode()
    if n.op == "Upsample":
        how, a = "asymmetric", {**a, "nearest_mode": b"floor"}
    sub, taps, weights, outside = list(ids), [], [], []
    for j, k in enumerate(axes):
        size, out = x.shape[k], y.shape[k]
        ends = (roi[j], roi[j + len(axes)]) if roi else (0, 1)
        at = coordinate(how, ids[k], scales[j], size, out, ends)
        if how == "tf_crop_and_resize":
            outside += [f"{at} < 0", f"{at} > {size - 1}"]
        if mode == "nearest":
            sub[k] = f"clamp(i64({NEAREST[a.get('nearest_mode', b'round_prefer_floor').decode()].format('(' + at + ')')}), 0, {size - 1})"
            continue
        if scales[j] == 1 and how != "tf_crop_and_resize":
            continue
        t, floor = f"t{k}", f"floor({at})"
        first = 0 if mode == "linear" else -1
        taps.append((t, 2 if mode == "linear" else 4))
        place = f"i64({floor}) + {t} + ({first})"
        sub[k] = f"clamp({place}, 0, {size - 1})"
        distance = f"({at} - {floor} - f64({t} + ({first})))"
        if mode == "linear":
            weights.append(f"(1 - abs({distance}))")
            continue
        w = cubic(distance, number(a.get("cubic_coeff_a", -0.75)))
        if a.get("exclude_outside"):
            w = f"where({place} >= 0 and {place} < {size}, {w}, 0)"
            w = f"({w} / sum[u{k}]({w.replace(t, 'u' + str(k))}))"
            taps.append((f"u{k}", 4))
        weights.append(w)
    head = "size " + ", ".join(f"{t}={s}" for t, s in taps) + "; " if taps else ""
    text = bind("sum", [t for t, _ in taps if t[0] == "t"], " * ".join([*weights, x.at(sub)]))
    if outside:
        text = f"where({' or '.join(outside)}, {number(a.get('extrapolation_value', 0))}, {text})"
    return f"{head}{y.at(ids)} = {text}"


def fourier(n):
    x, y, a = n.x[0], n.y[0], n.attributes
    axis = a.get("axis", int(n.x[2].array) if len(n.x) > 2 and n.x[2] else (1 if "axis" in a else -2)) % x.rank
    if len(n.x) < 3 and "axis" not in a:
        axis = 1 if n.opset < 20 else x.rank - 2
    inverse, real_out = a.get("inverse", 0), y.shape[-1] == 1
    ids = indices(y.rank)
    sub = ids[:axis] + ["r"] + ids[axis + 1:-1]
    length = int(n.x[1].array) if len(n.x) > 1 and n.x[1] else y.shape[axis] if real_out else x.shape[axis]
    have = x.shape[axis]
    if length > have and not real_out:
        refuse("not translated: a transform of padded data")
    turn = f"f64(r * {ids[axis]} % {length}) * {number((1 if inverse else -1) * 2 * np.pi / length)}"
    half = lambda part: x.at(sub + [part])
    mirrored = have < length # of a real signal's spectrum
    if mirrored:
        sub[axis] = f"where(r < {have}, r, {length} - r)"
    re = half("0")
    im = half("1") if x.shape[-1] == 2 else "0"
    im = f"where(r < {have}, {im}, -{im})" if mirrored else im
    real, imaginary = f"({re} * cos({turn}) - {im} * sin({turn}))", f"({re} * sin({turn}) + {im} * cos({turn}))"
    body = real if real_out else f"where({ids[-1]} == 0, {real}, {imaginary})"
    return f"size r={length}; {y.at(ids)} = sum[r]({body})" + (f" / {length}" if inverse else "")


def grid_sample(n):
    x, grid, y, a = n.x[0], n.x[1], n.y[0], n.attributes
    ids, d = indices(y.rank), n.y[0].rank - 2
    mode, padding, corners = a.get("mode", b"linear").decode(), a.get("padding_mode", b"zeros").decode(), a.get("align_corners", 0)
    is_cubic = mode in ("cubic", "bicubic")
    if is_cubic and padding == "reflection":
        refuse("not translated: reflected cubic samples")
    sub, taps, weights, inside = ids[:2], [], [], []
    for k in range(d):
        size, t = x.shape[k + 2], f"t{k}"
        g = f"f64({grid.at([ids[0]] + ids[2:] + [str(d - 1 - k)])})"
        at = f"(({g} + 1) * {number((size - 1) / 2)})" if corners else f"((({g} + 1) * {size} - 1) / 2)"
        if padding == "border" and not is_cubic:
            at = f"clamp({at}, 0, {size - 1})"
        if padding == "reflection":
            low, length = (0.0, size - 1) if corners else (-0.5, size)
            at = f"(({at} - {number(low)}) - floor(({at} - {number(low)}) / {2 * length}) * {2 * length})"
            at = f"(min({at}, {2 * length} - {at}) + {number(low)})"
        if mode == "nearest":
            place = f"i64(round({at}))"
        elif is_cubic:
            place = f"i64(floor({at})) + {t} - 1"
            weights.append(cubic(f"({at} - floor({at}) - f64({t} - 1))", -0.75))
        else:
            place = f"i64(floor({at})) + {t}"
            weights.append(f"(1 - abs({at} - floor({at}) - f64({t})))")
        taps += [t] if mode != "nearest" else []
        inside += [f"{place} >= 0", f"{place} < {size}"]
        sub = sub + [place if padding == "zeros" else f"clamp({place}, 0, {size - 1})"]
    value = f"where({' and '.join(inside)}, {x.at(sub)}, 0)" if padding == "zeros" else x.at(sub)
    head = "size " + ", ".join(f"{t}={4 if is_cubic else 2}" for t in taps) + "; " if taps else ""
    return f"{head}{y.at(ids)} = {bind('sum', taps, ' * '.join([*weights, value]))}"


def tensor_scatter(n):
    x, new, y = n.x[0], n.x[1], n.y[0]
    at = n.x[2].at(["a0"]) if len(n.x) > 2 and n.x[2] else refuse("no indices")
    axis, ids = n.attributes.get("axis", -2) % x.rank, indices(x.rank)
    n.start(y, x)
    sub = list(ids)
    sub[axis] = f"({at} + {ids[axis]}) % {x.shape[axis]}"
    return f"{y.at(sub)} = {new.at(ids)}"


def swiglu(n):
    ids = indices(n.y[0].rank)
    a, b = n.x[0].at(ids), n.x[1].at(ids)
    return f"{n.y[0].at(ids)} = {a} * sigmoid({number(n.attributes.get('alpha', 1))} * {a}) * {b}"


def bit_cast(n):
    x, y, ids = n.x[0], n.y[0], indices(n.y[0].rank)
    if x.dtype[0] not in "iu" or y.dtype[0] not in "iu" or x.array.itemsize != y.array.itemsize:
        refuse("bits read as another type")
    return f"{y.at(ids)} = {x.at(ids)}"


def causal_convolution(n):
    x, w, y = n.x[0], n.x[1], n.y[0]
    bias, past = (n.x[k] if len(n.x) > k else None for k in (2, 3))
    length, k = x.shape[2], w.shape[2]

    def read(at): # positions before the input's start are the past, or nothing
        before = past.at(["b", "c", f"{at} + {k - 1}"]) if past and past.array.size else "0"
        return f"where({at} >= 0, {x.at(['b', 'c', at])}, {before})"
    at = f"i + r - {k - 1}"
    text = f"sum[r]({w.at(['c', '0', 'r'])} * {read(at)})" + (f" + {bias.at(['c'])}" if bias else "")
    text = f"silu({text})" if n.attributes.get("activation", b"none") in (b"silu", b"swish") else text
    state = n.y[1] if len(n.y) > 1 else None
    later = f"; {state.at('bcs')} = {read(f's + {length - k + 1}') if state.array.size else 0}" if state else ""
    return f"{y.at('bci')} = {text}{later}"


def col2im(n):
    x, y, a = n.x[0], n.y[0], n.attributes
    kernel, out = n.x[2].array.tolist(), y.shape[2:]
    d, ids = len(kernel), indices(y.rank)
    strides, dilations, pads = a.get("strides", [1] * d), a.get("dilations", [1] * d), a.get("pads", [0] * 2 * d)
    blocks = [(out[k] + pads[k] + pads[k + d] - dilations[k] * (kernel[k] - 1) - 1) // strides[k] + 1 for k in range(d)]
    inside, row, block, bound = [], ids[1], "0", [f"w{k}" for k in range(d)]
    for k in range(d):
        p = f"({ids[k + 2]} + {pads[k]} - w{k} * {dilations[k]})"
        inside += [f"{p} % {strides[k]} == 0", f"{p} // {strides[k]} >= 0", f"{p} // {strides[k]} < {blocks[k]}"]
        row, block = f"({row}) * {kernel[k]} + w{k}", f"({block}) * {blocks[k]} + {p} // {strides[k]}"
    head = "size " + ", ".join(f"{b}={k}" for b, k in zip(bound, kernel)) + "; "
    text = f"where({' and '.join(inside)}, {x.at([ids[0], row, block])}, 0)"
    return f"{head}{y.at(ids)} = {bind('sum', bound, text)}"


def affine_grid(n):
    t, y, ids = n.x[0], n.y[0], indices(n.y[0].rank)
    terms, last = [], ids[-1]
    for k, (i, size) in enumerate(zip(reversed(ids[1:-1]), reversed(y.shape[1:-1]))):
        place = f"(-1 + {i} * {number(2 / (size - 1))})" if n.attributes.get("align_corners") else f"((2 * {i} + 1) / {size} - 1)"
        terms.append(f"{t.at([ids[0], last, str(k)])} * {place}")
    return f"{y.at(ids)} = {' + '.join(terms)} + {t.at([ids[0], last, str(len(terms))])}"


def max_unpool(n):
    """Updates an output of zeros. Positions count over the tensor that was pooled."""
    x, at, y = n.x[0], n.x[1], n.y[0]
    ids, shape = indices(x.rank), y.shape
    if len(n.x) > 2: # they count over the tensor without what output_shape adds
        k, s = n.attributes["kernel_shape"], n.attributes.get("strides", [1] * (x.rank - 2))
        shape = x.shape[:2] + tuple((x.shape[i + 2] - 1) * s[i] + k[i] for i in range(x.rank - 2))
    sub, stride = [], 1
    for size in reversed(shape):
        sub.insert(0, f"{at.at(ids)} // {stride} % {size}")
        stride *= size
    return f"{y.at(sub)} = {x.at(ids)}"


def determinant(n):
    x, y = n.x[0], n.y[0]
    if x.shape[-1] != 2:
        refuse("a determinant of more than two rows")
    ids = indices(y.rank)
    e = lambda i, j: x.at(ids + [i, j])
    return f"{y.at(ids)} = {e('0', '0')} * {e('1', '1')} - {e('0', '1')} * {e('1', '0')}"


def short_fourier(n):
    x, step, y = n.x[0], int(n.x[1].array), n.y[0]
    window = n.x[2] if len(n.x) > 2 else None
    size = window.shape[0] if window else int(n.x[3].array)
    if x.shape[-1] != 1:
        refuse("not translated: a complex signal")
    ids = indices(4)
    turn = f"f64(r * {ids[2]} % {size}) * {number(-2 * np.pi / size)}"
    value = x.at([ids[0], f"{ids[1]} * {step} + r", "0"]) + (f" * {window.at(['r'])}" if window else "")
    return f"size r={size}; {y.at(ids)} = sum[r]({value} * where({ids[3]} == 0, cos({turn}), sin({turn})))"


def linear_attention(n):
    """A state of keys by values that each step decays and adds to: a recurrence. What the delta rules add depends on the state before it, which a
    formula has where there is one step."""
    rule = n.attributes.get("update_rule", b"gated_delta").decode()
    q, k, v, past, decay, beta = (n.x + [None] * 6)[:6]
    steps = k.shape[1]
    if "delta" in rule and steps > 1:
        refuse("steps that depend on each other")
    heads, kv_heads = n.attributes["q_num_heads"], n.attributes["kv_num_heads"]
    keys, values = k.shape[2] // kv_heads, v.shape[2] // kv_heads
    scale = n.attributes.get("scale", 0.0) or keys ** -0.5
    kept, value, lets = "f32(1)", v.at(["b", "t", f"h * {values} + j"]), ""
    key = k.at(["b", "t", f"h * {keys} + i"])
    if decay:
        kept = f"exp({decay.at(['b', 't', 'h' if decay.shape[2] == kv_heads else f'h * {keys} + i'])})"
    before = f"where(t == 0, {kept} * {past.at('bhij')}, 0)" if past else "0"
    if "delta" in rule:
        lets = f"let R:f32[b,t,h,j] = sum[i]({before} * {key}); "
        value = f"{beta.at(['b', 't', 'h' if beta.shape[2] == kv_heads else '0'])} * ({value} - R[b,t,h,j])"
    y, state = n.y
    head = f"o // {values}"
    read = q.at(["b", "t", f"{head} * {keys} + i"])
    return (f"{lets}let S:f32[b,t,h,i,j] = {kept} * S[b,t-1,h,i,j] + {key} * {value} + {before}; "
            f"{y.at('bto')} = {number(scale)} * sum[i]({read} * S[b,t,{head} // {heads // kv_heads},i,o % {values}]); "
            f"{state.at('bhij')} = S[b,{steps - 1},h,i,j]")


def roi_align(n):
    """Means or maxima of samples between pixels, of regions given by their corners."""
    x, rois, batch, y, a = n.x[0], n.x[1], n.x[2], n.y[0], n.attributes
    samples, scale = a.get("sampling_ratio", 0), number(a.get("spatial_scale", 1.0))
    if samples <= 0:
        refuse("the number of samples depends on the values")
    half = a.get("coordinate_transformation_mode", b"half_pixel") == b"half_pixel"
    sub, weights, inside = [batch.at(["r"]), "c"], [], []
    for k, (out, sample, tap) in enumerate((("p", "u", "s"), ("q", "v", "t"))):
        size = x.shape[k + 2]
        start, end = (f"(f64({rois.at(['r', str(corner)])}) * {scale} - {0.5 if half else 0.0})" for corner in (1 - k, 3 - k))
        length = f"({end} - {start})" if half else f"max({end} - {start}, 1)"
        at = f"({start} + ({out} + ({sample} + 0.5) / {samples}) * {length} / {y.shape[k + 2]})"
        place = f"clamp({at}, 0, {size - 1})"
        inside.append(f"{at} >= -1 and {at} <= {size}")
        weights.append(f"(1 - abs({place} - floor({place}) - f64({tap})))")
        sub.append(f"min(i64(floor({place})) + {tap}, {size - 1})")
    value = f"where({' and '.join(inside)}, {' * '.join(weights)} * {x.at(sub)}, 0)"
    head, ids = f"size u={samples}, v={samples}, s=2, t=2; {y.at('rcpq')} = ", ["u", "v", "s", "t"]
    return head + (bind("max", ids, value) if a.get("mode", b"avg") == b"max" else f"{bind('sum', ids, value)} / {samples * samples}")


def deform_conv(n):
    """A convolution that reads between pixels, each tap at an offset of its own."""
    x, w, offset, bias, mask = (n.x + [None] * 5)[:5]
    y, a = n.y[0], n.attributes
    groups, sets, kernel = a.get("group", 1), a.get("offset_group", 1), w.shape[2:]
    strides, dilations, pads = a.get("strides", [1, 1]), a.get("dilations", [1, 1]), a.get("pads", [0] * 4)
    channel = f"(o // {w.shape[0] // groups} * {w.shape[1]} + c)"
    tap = f"(({channel} // {x.shape[1] // sets}) * {kernel[0] * kernel[1]} + i * {kernel[1]} + j)"
    sub, factors, inside = ["n", channel], [w.at("ocij")], []
    for k, (out, at_kernel, t) in enumerate((("p", "i", "s"), ("q", "j", "t"))):
        moved = offset.at(["n", f"{tap} * 2 + {k}", "p", "q"])
        at = f"(f64({out} * {strides[k]} - {pads[k]} + {at_kernel} * {dilations[k]}) + {moved})"
        place = f"i64(floor({at})) + {t}"
        factors.append(f"(1 - abs({at} - floor({at}) - f64({t})))")
        inside += [f"{place} >= 0", f"{place} < {x.shape[k + 2]}"]
        sub.append(place)
    factors += [mask.at(["n", tap, "p", "q"])] if mask else []
    factors.append(f"where({' and '.join(inside)}, {x.at(sub)}, 0)")
    return (f"size s=2, t=2; {y.at('nopq')} = {bind('sum', ['c', 'i', 'j', 's', 't'], ' * '.join(factors))}"
            + (f" + {bias.at('o')}" if bias else ""))
