"""What the named ops mean, in NumPy: written from what NumPy, SciPy and PyTorch compute, not from the catalogue's formulas.

Each op is a row: its inputs (axes by letters as named_ops.py reads them, and what kind of values), the outputs' dtypes where they are not f32, its
scalars, and a function of the inputs in the real type that they have. `needs` names the axis of which an element is needed: its result of nothing is an
error of the call. An index into nothing is one, too."""
import math
from dataclasses import dataclass, field

import numpy as np

SCALARS = {"lr": 0.125, "beta1": 0.875, "beta2": 0.75, "eps": 1e-6, "decay": 0.0625, "correction1": 0.5, "correction2": 0.25, "momentum": 0.875,
           "alpha": 0.75, "limit": 2.0, "window": 5}
OPS = {}
ELSEWHERE = {"attention_paged": "tests/api/test_paged.c"} # needs tables and lengths that fit each other, and a size of the call


@dataclass
class Op:
    compute: object
    inputs: dict
    result: str
    scalars: list = field(default_factory=list)
    dtypes: dict = field(default_factory=dict)
    needs_element: str = None
    has_rows: bool = False # long rows, and every variant
    may_lose_infinities: bool = False # to NaN: in a recurrence (man md-formula), or times a tail of gelu that f32 rounds to 0
    overflows: tuple = () # edges at which it depends on the order whether a value leaves the range on the way
    floor: float = 0.0 # an absolute error: of the tail of gelu
    also: object = None # what is right, too
    spread: float = 0.0 # results that cancel are near in relation to the largest


def op(name, inputs, result="Y", needs=None, rows=False, scalars=(), dtypes=None, spread=0.0, recurs=False, overflows=(), floor=0.0, also=None):
    """`inputs`: "X:ij ids:i=v": a real, or with '=' an index into that axis; '=v!' each once."""
    parsed = {}
    for text in inputs.split():
        who, axes = text.split(":")
        axes, _, kind = axes.partition("=")
        parsed[who] = (axes, kind or "real")

    def put(f):
        OPS[name] = Op(f, parsed, result, list(scalars), dtypes or {}, needs, rows, recurs, overflows, floor, also, spread)
        return f
    return put


def elementwise(f):
    """A function of f64 without a NumPy equal; the result in the operand's type."""
    wide = np.vectorize(f, otypes=[np.float64])
    return lambda x: (wide(x.astype(np.float64)) if x.size else x).astype(x.dtype)


erf_gelu = elementwise(lambda x: 0.5 * x * math.erfc(-x * math.sqrt(0.5)))


def silu(x): # torch: x / (1 + exp(-x)), NaN at -inf
    return x / (1 + np.exp(-x))


def relu(x):
    return np.maximum(x, 0)


def row_max(x):
    """Of nothing -inf, for what needs no element."""
    return np.max(x, axis=-1, keepdims=True, initial=-np.inf) if x.shape[-1] == 0 else np.max(x, axis=-1, keepdims=True)


def torch_softmax(x):
    e = np.exp(x - row_max(x))
    return e / e.sum(-1, keepdims=True)


def scipy_logsumexp(x):
    m = row_max(x)
    m = np.where(np.isfinite(m), m, 0)
    return (np.log(np.exp(x - m).sum(-1, keepdims=True)) + m)[..., 0]


op("copy", "X:ij")(lambda X: X)
op("transpose", "X:ji")(lambda X: X.T)
op("add", "A:ij B:ij")(lambda A, B: A + B)
op("mul", "A:ij B:ij")(lambda A, B: A * B)
op("add_bias", "X:ij B:j")(lambda X, B: X + B)
op("relu", "X:ij")(relu)
op("gelu", "X:ij")(erf_gelu)
op("silu", "X:ij")(silu)
op("bias_gelu", "X:ij B:j", floor=4e-6, spread=1)(lambda X, B: erf_gelu(X + B))
op("silu_mul", "G:ij U:ij")(lambda G, U: silu(G) * U)
op("gelu_mul", "G:ij U:ij", floor=4e-6, recurs=True)(lambda G, U: erf_gelu(G) * U)

ADAM = ("lr", "beta1", "beta2", "eps", "decay", "correction1", "correction2")


def moments(M, V, G, beta1, beta2):
    return beta1 * M + (1 - beta1) * G, beta2 * V + (1 - beta2) * G * G


@op("adamw", "M:i G:i V:i=positive P:i", scalars=ADAM, spread=1)
def adamw(M, G, V, P, lr, beta1, beta2, eps, decay, correction1, correction2):
    m, v = moments(M, V, G, beta1, beta2)
    return {"M1": m, "V1": v, "P1": P * (1 - lr * decay) - lr * (m / correction1) / (np.sqrt(v / correction2) + eps)}


@op("adamw_amsgrad", "M:i G:i V:i=positive X:i=positive P:i", scalars=ADAM, spread=1)
def adamw_amsgrad(M, G, V, X, P, lr, beta1, beta2, eps, decay, correction1, correction2):
    m, v = moments(M, V, G, beta1, beta2)
    x = np.maximum(X, v)
    return {"M1": m, "V1": v, "X1": x, "P1": P * (1 - lr * decay) - lr * (m / correction1) / (np.sqrt(x / correction2) + eps)}


@op("adamw_captured", "G:i scale: M:i V:i=positive found_inf: P:i lr: t:", scalars=ADAM[1:5], spread=1)
def adamw_captured(G, scale, M, V, found_inf, P, lr, t, beta1, beta2, eps, decay):
    m, v = moments(M, V, G / scale, beta1, beta2)
    left1, left2 = (-np.expm1(np.log(beta) * t) for beta in (beta1, beta2))  # 1 - beta ** t
    p = P * (1 - lr * decay) - lr * (m / left1) / (np.sqrt(v / left2) + eps)
    return {n: np.where(found_inf > 0, old, new) for n, old, new in (("M1", M, m), ("V1", V, v), ("P1", P, p))}


@op("adamw_master", "G:i=bf16 M:i V:i=positive W:i", scalars=ADAM, dtypes={"P1": "bf16"}, spread=1)
def adamw_master(G, M, V, W, **scalars):
    new = adamw(M, G, V, W, **scalars)
    return {"M1": new["M1"], "V1": new["V1"], "W1": new["P1"], "P1": new["P1"]}


@op("adam", "G:i P:i M:i V:i=positive", scalars=ADAM, spread=1)
def adam(G, P, M, V, lr, beta1, beta2, eps, decay, correction1, correction2):
    m, v = moments(M, V, G + decay * P, beta1, beta2)
    return {"M1": m, "V1": v, "P1": P - lr * (m / correction1) / (np.sqrt(v / correction2) + eps)}


@op("sgd_momentum", "V:i G:i P:i", scalars=("lr", "momentum"), spread=1)
def sgd_momentum(V, G, P, lr, momentum):
    v = momentum * V + G
    return {"V1": v, "P1": P - lr * v}


@op("sgd_nesterov", "G:i P:i V:i", scalars=("lr", "momentum", "decay"), spread=1)
def sgd_nesterov(G, P, V, lr, momentum, decay):
    g = G + decay * P
    v = momentum * V + g
    return {"V1": v, "P1": P - lr * (g + momentum * v)}


@op("lion", "P:i M:i G:i", scalars=("lr", "beta1", "beta2", "decay"), spread=1)
def lion(P, M, G, lr, beta1, beta2, decay):
    return {"P1": P * (1 - lr * decay) - lr * np.sign(beta1 * M + (1 - beta1) * G), "M1": beta2 * M + (1 - beta2) * G}


@op("adagrad", "S:i=positive G:i P:i", scalars=("lr", "eps"), spread=1)
def adagrad(S, G, P, lr, eps):
    s = S + G * G
    return {"S1": s, "P1": P - lr * G / (np.sqrt(s) + eps)}


@op("rmsprop", "V:i=positive G:i P:i", scalars=("lr", "alpha", "eps"), spread=1)
def rmsprop(V, G, P, lr, alpha, eps):
    v = alpha * V + (1 - alpha) * G * G
    return {"V1": v, "P1": P - lr * G / (np.sqrt(v) + eps)}


op("ema_update", "E:i P:i", "E1", scalars=("decay",), spread=1)(lambda E, P, decay: decay * E + (1 - decay) * P)
op("norm_squared", "G:i", "N", rows=True)(lambda G: np.sum(G * G))
op("clip_by_norm", "G:i N:=positive", "G1", scalars=("limit",))(
    lambda G, N, limit: G * np.minimum(1, limit / (np.sqrt(N) + 1e-6)).astype(G.dtype))

op("sum", "X:ij", rows=True, spread=1)(lambda X: X.sum(-1))
op("mean", "X:ij", rows=True, spread=1)(lambda X: X.mean(-1))
op("var", "X:ij", rows=True, spread=1)(lambda X: X.var(-1))
op("max", "X:ij", rows=True, needs="j")(lambda X: row_max(X)[:, 0])
op("min", "X:ij", rows=True, needs="j")(lambda X: -row_max(-X)[:, 0])
op("argmax", "X:ij", rows=True, needs="j", dtypes={"Y": np.int64})(lambda X: X.argmax(-1) if X.shape[-1] else X.sum(-1))
op("argmin", "X:ij", rows=True, needs="j", dtypes={"Y": np.int64})(lambda X: X.argmin(-1) if X.shape[-1] else X.sum(-1))
op("column_sum", "X:ij", rows=True, spread=1)(lambda X: X.sum(0))
op("sum_all", "X:ij", rows=True, spread=1)(lambda X: X.sum())

op("softmax", "X:ij", rows=True)(torch_softmax)
op("log_softmax", "X:ij", rows=True, spread=1)(lambda X: X - row_max(X) - np.log(np.exp(X - row_max(X)).sum(-1, keepdims=True)))
op("logsumexp", "X:ij", rows=True)(scipy_logsumexp)


@op("causal_softmax", "X:bii")
def causal_softmax(X):
    seen = np.tril(np.ones(X.shape[-2:], dtype=np.bool_))
    return torch_softmax(np.where(seen, X, -np.inf)) if X.shape[-1] else X


op("masked_softmax", "M:ij=bool X:ij", rows=True)(lambda M, X: torch_softmax(np.where(M, X, -np.inf)))


def normalised(x, axis, eps):
    m = x.mean(axis, keepdims=True)
    v = ((x - m) ** 2).mean(axis, keepdims=True)
    return (x - m) / np.sqrt(v + x.dtype.type(eps))


op("layer_norm", "X:ij G:j B:j", rows=True, spread=1)(lambda X, G, B: normalised(X, -1, 1e-5) * G + B)
op("group_norm", "X:bgci G:gc B:gc", spread=1)(lambda X, G, B: normalised(X, (2, 3), 1e-5) * G[None, :, :, None] + B[None, :, :, None])


def rms(x, eps):
    return 1 / np.sqrt((x * x).mean(-1, keepdims=True) + x.dtype.type(eps))


op("rms_norm", "X:ij G:j", rows=True)(lambda X, G: X * rms(X, 1e-6) * G)
op("residual_add_rms_norm", "X:ij D:ij G:j", rows=True)(lambda X, D, G: {"R": X + D, "Y": (X + D) * rms(X + D, 1e-6) * G})
op("l2_norm", "X:ij", rows=True)(lambda X: X * (1 / np.sqrt((X * X).sum(-1, keepdims=True) + X.dtype.type(1e-12))))


@op("cross_entropy", "X:iv t:i=v", "L", needs="v", spread=1)
def cross_entropy(X, t):
    """SciPy's logsumexp less x[t], relative to the maximum where that is finite."""
    m = row_max(X)[:, 0]
    at = np.take_along_axis(X, t[:, None], 1)[:, 0] if X.shape[1] else m
    finite = np.isfinite(m)
    safe = np.where(finite, m, 0)
    return np.where(finite, np.log(np.exp(X - safe[:, None]).sum(-1)) + (safe - at), scipy_logsumexp(X) - at)


op("cumsum", "X:ij", rows=True, spread=1)(lambda X: X.cumsum(-1))
op("cumprod", "X:ij", overflows=("huge", "largest"))(lambda X: X.cumprod(-1))


@op("linear_recurrence", "A:btc B:btc", "H", recurs=True, spread=1)
def linear_recurrence(A, B):
    H, h = np.zeros_like(B), 0
    for t in range(B.shape[1]):
        h = H[:, t] = A[:, t] * h + B[:, t]
    return H


@op("ema", "X:ij", scalars=("alpha",), recurs=True, spread=1)
def ema(X, alpha):
    Y = X.copy()
    for j in range(1, X.shape[1]):
        Y[:, j] = (1 - alpha) * Y[:, j - 1] + alpha * X[:, j]
    return Y


op("cummax", "X:ij", rows=True)(lambda X: np.maximum.accumulate(X, -1))


def einsum(text):
    return lambda *args: np.einsum(text, *args)


def linear(X, W):
    return np.einsum("bk,nk->bn", X, W)


SUMS = {"spread": 1, "overflows": ("largest",)}
op("matmul", "A:mk B:kn", "C", **SUMS)(einsum("mk,kn->mn"))
op("batched_matmul", "A:bmk B:bkn", "C", **SUMS)(einsum("bmk,bkn->bmn"))
op("linear", "X:bk W:nk", **SUMS)(linear)
op("linear_bias", "X:bk W:nk bias:n", **SUMS)(lambda X, W, bias: linear(X, W) + bias)
op("linear_bias_gelu", "X:bk W:nk bias:n", floor=4e-6, **SUMS)(lambda X, W, bias: erf_gelu(linear(X, W) + bias))
op("linear_bias_relu", "X:bk W:nk bias:n", **SUMS)(lambda X, W, bias: relu(linear(X, W) + bias))
op("linear_residual", "X:bk W:nk R:bn", **SUMS)(lambda X, W, R: linear(X, W) + R)
op("swiglu", "X:bk G:nk U:nk", **SUMS)(lambda X, G, U: silu(linear(X, G)) * linear(X, U))
op("geglu", "X:bk G:nk U:nk", floor=4e-6, recurs=True, **SUMS)(lambda X, G, U: erf_gelu(linear(X, G)) * linear(X, U))
op("dequant_linear", "X:bk Wq:nk=u8 S:n", **SUMS)(lambda X, Wq, S: linear(X, Wq.astype(X.dtype) - 128) * S)
@op("linear_int8", "X:bk=i8 W:nk=i8 sx:b sw:n", spread=1, overflows=("largest",))
def linear_int8(X, W, sx, sw):
    return (X.astype(np.int64) @ W.astype(np.int64).T).astype(sx.dtype) * sx[:, None] * sw


def from_f8e4m3(bits):
    """Finite values: the formulas' bits 0 to 2, exponent 3 to 6, sign 7."""
    exponent, mantissa = bits >> 3 & 15, bits & 7
    size = np.where(exponent == 0, mantissa * 2.0 ** -9, (8 + mantissa) * 2.0 ** (exponent.astype(np.float64) - 10))
    return np.where(bits >> 7, -size, size)


@op("linear_f8", "X:bk=f8 W:nk=f8 sx:b sw:n", recurs=True, **SUMS)
def linear_f8(X, W, sx, sw):
    return linear(from_f8e4m3(X).astype(sx.dtype), from_f8e4m3(W).astype(sx.dtype)) * sx[:, None] * sw


# z and s have more columns than they need
@op("linear_int4", "X:bk Wq:nk=i4 z:nk s:nk", recurs=True, **SUMS)
def linear_int4(X, Wq, z, s):
    group = np.arange(Wq.shape[1]) // 32
    return linear(X, (Wq.astype(np.int64).astype(X.dtype) - z[:, group]) * s[:, group])


def chosen(X, W, e):
    """Of token t and choice s: X[t] or X[t,s], times the matrix that e[t,s] names."""
    rows = X if X.ndim == 3 else np.repeat(X[:, None], e.shape[1], 1)
    if not len(W):
        return np.zeros((*e.shape, W.shape[1]), X.dtype)
    return np.einsum("tsk,tsnk->tsn", rows, W[e])


op("moe_up", "X:tk e:ts=v G:vnk U:vnk", recurs=True, **SUMS)(lambda X, e, G, U: silu(chosen(X, G, e)) * chosen(X, U, e))
op("moe_down", "H:tsk e:ts=v W:vnk p:ts", recurs=True, **SUMS)(lambda H, e, W, p: np.einsum("ts,tsn->tn", p, chosen(H, W, e)))
@op("moe_gradient", "off:e+=i64 G:tn X:tk", "D", recurs=True, **SUMS)
def moe_gradient(off, G, X):
    begin = np.clip(off[:-1], 0, len(X))
    spans = [(b, max(b, min(end, len(X)))) for b, end in zip(begin, off[1:])]
    return np.array([G[b:end].T @ X[b:end] for b, end in spans], X.dtype).reshape(len(spans), G.shape[1], X.shape[1])


op("attention_scores", "Q:bhid K:bhjd", "S", **SUMS)(
    lambda Q, K: np.einsum("bhid,bhjd->bhij", Q, K) * (1 / np.sqrt(Q.dtype.type(Q.shape[-1]))))


def attended(scores, values, seen=None, reads=False):
    """PyTorch's attention of scores [..., i, j] and values [..., j, e]. `reads`: a masked value, which has no weight, is
    multiplied nevertheless, as the formula says and kernels that skip it do not: inf and NaN show."""
    seen = np.ones(scores.shape, dtype=np.bool_) if seen is None else np.broadcast_to(seen, scores.shape)
    scores = np.where(seen, scores, -np.inf)
    e = np.exp(scores - row_max(scores))
    terms = e[..., None] * values[..., None, :, :]
    if not reads:
        terms = np.where(seen[..., None] | np.isnan(e)[..., None], terms, 0)
    return terms.sum(-2) / e.sum(-1, keepdims=True)


def scores_of(Q, K):
    return np.einsum("...id,...jd->...ij", Q, K) * (1 / np.sqrt(Q.dtype.type(Q.shape[-1])))


def distances(Q, K):
    """How far key j lies behind the key of query i, the last query being at the last key."""
    return np.arange(Q.shape[-2])[:, None] + K.shape[-2] - Q.shape[-2] - np.arange(K.shape[-2])[None, :]


def attention(name, inputs, f, **more):
    """`f` gives what `attended` takes."""
    op(name, inputs, needs="j", also=lambda *args, **scalars: attended(*f(*args, **scalars), reads=True), **SUMS, **more)(
        lambda *args, **scalars: attended(*f(*args, **scalars)))


attention("attention", "Q:bhid K:bhjd V:bhje", lambda Q, K, V: (scores_of(Q, K), V))
op("attention_lse", "Q:bhid K:bhjd V:bhje", needs="j", recurs=True, **SUMS)( # NaN where the maximum is infinite
    lambda Q, K, V: {"Y": attended(scores_of(Q, K), V), "L": scipy_logsumexp(scores_of(Q, K))})


def attention_gradients(Q, K, L, dY, Y, V):
    """By the rule of the quotient, as PyTorch's flash attention has them."""
    scale = 1 / np.sqrt(Q.dtype.type(Q.shape[-1]))
    P = np.exp(scores_of(Q, K) - L[..., None])
    dS = P * (np.einsum("...ie,...je->...ij", dY, V) - (dY * Y).sum(-1)[..., None]) * scale
    return {"dQ": np.einsum("...ij,...jd->...id", dS, K), "dK": np.einsum("...ij,...id->...jd", dS, Q),
            "dV": np.einsum("...ij,...ie->...je", P, dY)}


op("attention_backward", "Q:bhid K:bhjd L:bhi dY:bhie Y:bhie V:bhje", recurs=True, **SUMS)(attention_gradients)
attention("attention_causal", "Q:bhid K:bhjd V:bhje", lambda Q, K, V: (scores_of(Q, K), V, distances(Q, K) >= 0))
attention("attention_gqa", "Q:bgrid K:bgjd V:bgje", lambda Q, K, V: (scores_of(Q, K[:, :, None]), V[:, :, None]))
attention("attention_window", "Q:bhid K:bhjd V:bhje", lambda Q, K, V, window: (
    scores_of(Q, K), V, (distances(Q, K) >= 0) & (distances(Q, K) < window)), scalars=("window",))
attention("attention_alibi", "Q:bhid K:bhjd slope:h V:bhje", lambda Q, K, slope, V: (
    scores_of(Q, K) - slope[:, None, None] * distances(Q, K).astype(Q.dtype), V, distances(Q, K) >= 0))
attention("attention_varlen", "n:b=j Q:bhid K:bhjd V:bhje", lambda n, Q, K, V: (
    scores_of(Q, K), V, np.arange(K.shape[-2]) < n[:, None, None, None]))
attention("attention_decode", "n:b=j Q:bgrd K:bjgd V:bjge", lambda n, Q, K, V: (
    scores_of(Q, K.swapaxes(1, 2)), V.swapaxes(1, 2), np.arange(K.shape[1]) < n[:, None, None, None]))

op("matvec", "W:nk X:k", **SUMS)(einsum("nk,k->n"))
op("dot", "A:k B:k", **SUMS)(einsum("k,k->"))
op("outer", "A:i B:j", "C")(np.outer)

op("embedding", "E:vj ids:i=v")(lambda E, ids: E[ids] if len(E) else np.zeros((0, E.shape[1])))
op("gather_rows", "X:vj rows:i=v")(lambda X, rows: X[rows] if len(X) else np.zeros((0, X.shape[1])))


def scattered(f, into, ids, values):
    into = into.copy() # of no rows: the call is refused
    ids = ids if len(into) else ids[:0]
    values = values if np.ndim(values) == 0 else values[:len(ids)]
    f.at(into, ids, values)
    return into


op("embedding_grad", "G:vj ids:i=v D:ij", "G", spread=1)(lambda G, ids, D: {"G": scattered(np.add, G, ids, D)})
op("scatter_max", "H:vj ids:i=v X:ij", "H")(lambda H, ids, X: {"H": scattered(np.maximum, H, ids, X)})
op("histogram", "H:v=i64 bin:i=v", dtypes={"H": np.int64})(lambda H, places: {"H": scattered(np.add, H, places, 1)})


@op("kv_cache_write", "KC:vhd slot:t=v! K:thd VC:vhd V:thd")
def kv_cache_write(KC, slot, K, VC, V):
    KC, VC = KC.copy(), VC.copy()
    if len(KC):
        KC[slot], VC[slot] = K, V
    return {"KC": KC, "VC": VC}


@op("rope", "X:thd C:td S:td", spread=1)
def rope(X, C, S):
    half = X.shape[-1] // 2
    turned = np.concatenate([-X[..., half:], X[..., :half]], axis=-1)
    return X * C[:, None, :] + turned * S[:, None, :]


@op("conv1d", "X:bct+ W:ocr", **SUMS)
def conv1d(X, W):
    n = max(X.shape[-1] - W.shape[-1] + 1, 0)
    return sum(np.einsum("bct,oc->bot", X[:, :, r:r + n], W[:, :, r]) for r in range(W.shape[-1])) if n else np.zeros((X.shape[0], W.shape[0], 0))


op("max_pool1d", "X:bct*")(lambda X: np.maximum(X[:, :, 0::2], X[:, :, 1::2]))


def bordered(x, mode="constant"): # of one element; nothing has no edge to repeat
    return np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], mode=mode) if x.size or mode == "constant" else np.zeros(x.shape[:2] + (0, 0), x.dtype)


def taps(x, r, s): # r, s, batch, channel, row, column
    high, wide = max(x.shape[2] - r + 1, 0), max(x.shape[3] - s + 1, 0)
    return np.stack([np.stack([x[:, :, p:p + high, q:q + wide] for q in range(s)]) if s else np.zeros((0,) + x.shape[:2] + (high, wide), x.dtype)
                     for p in range(r)])


@op("conv2d", "X:bcij W:ocrs", **SUMS)
def conv2d(X, W):
    return np.einsum("rsbcij,ocrs->boij", taps(bordered(X), *W.shape[2:]), W)


@op("conv2d_nhwc", "X:bijc W:orsc", **SUMS)
def conv2d_nhwc(X, W):
    return conv2d(X.transpose(0, 3, 1, 2), W.transpose(0, 3, 1, 2)).transpose(0, 2, 3, 1)


@op("conv2d_depthwise", "X:bcij W:crs", **SUMS)
def conv2d_depthwise(X, W):
    return np.einsum("rsbcij,crs->bcij", taps(bordered(X), *W.shape[1:]), W)


def spread_out(x, high, wide): # every second element zero, and as many zeros around as taps reach
    out = np.zeros(x.shape[:2] + (2 * x.shape[2] + 2 * high, 2 * x.shape[3] + 2 * wide), x.dtype)
    out[:, :, high:high + 2 * x.shape[2]:2, wide:wide + 2 * x.shape[3]:2] = x
    return out


@op("conv_transpose2d", "X:bcij W:cors", **SUMS)
def conv_transpose2d(X, W): # 0 * inf between pixels, as the formula has it
    r, s = W.shape[2:]
    x = spread_out(X, r - 1, s - 1 if s else 0)[:, :, :2 * X.shape[2] + 2 * r - 3 + (r == 0), :2 * X.shape[3] + max(2 * s - 3, 0 if not s else -1)]
    return np.einsum("rsbcij,cors->boij", taps(x, r, s)[::-1, ::-1], W)


def quarters(x):
    return np.stack([x[:, :, p::2, q::2] for p in (0, 1) for q in (0, 1)])


op("max_pool2d", "X:bci*j*")(lambda X: quarters(X).max(axis=0))
op("avg_pool2d", "X:bci*j*", **SUMS)(lambda X: quarters(X).mean(axis=0))


@op("max_pool2d_indices", "X:bci*j*", dtypes={"I": np.int64})
def max_pool2d_indices(X):
    p, (high, wide) = quarters(X).argmax(axis=0), X.shape[2:] # NaN counts as extreme
    rows, columns = np.arange(high // 2)[:, None], np.arange(wide // 2)
    return {"Y": quarters(X).max(axis=0), "I": (2 * rows + p // 2) * wide + 2 * columns + p % 2}


op("resize_nearest", "X:bcij")(lambda X: X.repeat(2, axis=2).repeat(2, axis=3))


def between(x, axis): # torch: interpolate(scale_factor=2, mode="bilinear") along one axis
    if not x.size:
        return np.concatenate([x, x], axis=axis)
    n, at = x.shape[axis], np.arange(2 * x.shape[axis])
    low, high = (x.take(np.clip((at + d) // 2, 0, n - 1), axis=axis) for d in (-1, 1))
    part = (np.where(at % 2, 0.25, 0.75).astype(x.dtype)).reshape([-1 if a == axis else 1 for a in range(4)])
    return (1 - part) * low + part * high


op("resize_bilinear", "X:bcij", overflows=("largest",))(lambda X: between(between(X, 2), 3))
op("pixel_shuffle", "X:bc**ij")(lambda X: X.reshape(X.shape[0], X.shape[1] // 4, 2, 2, *X.shape[2:]).transpose(0, 1, 4, 2, 5, 3).reshape(
    X.shape[0], X.shape[1] // 4, 2 * X.shape[2], 2 * X.shape[3]))
op("pad_zero", "X:bcij")(bordered)
op("pad_reflect", "X:bci*j*")(lambda X: bordered(X, "reflect"))
op("pad_replicate", "X:bcij")(lambda X: bordered(X, "edge"))
op("unfold", "X:bcij")(lambda X: taps(X, 2, 3).transpose(2, 3, 0, 1, 4, 5))


@op("fold", "X:bcrsij", **SUMS)
def fold(X):
    b, c, r, s, high, wide = X.shape
    out = np.zeros((b, c, high + r - 1, wide + s - 1 if s else wide), X.dtype)
    for p in range(r):
        for q in range(s):
            out[:, :, p:p + high, q:q + wide] += X[:, :, p, q]
    return out
