"""What PyTorch's optimizers call for all parameters of a step, computed by md.foreach: the kernels of fused=True and
the functions of foreach=True, which are looked up at each call. Named ops of the catalogue serve where they fit."""

import collections
import contextlib
import functools
import sys
from unittest import mock

import torch

import multidispatch as md

calls = collections.Counter()  # by the formula that ran


@functools.lru_cache(maxsize=None)
def made(formula, rank):
    """The op for flat items (rank None) or for items of a rank, with strides of their own."""
    if rank is None:
        return md.op(formula)
    text = md.catalogue()[formula][0] if formula in md.catalogue() else formula
    return md.op(text.replace("[i]", f"[{','.join('ijkl'[:rank])}]"))


def update(formula, given):
    """Runs the formula in place. `given`: a list, one value for each item, or one value for all. A is updated by the
    output A1; capital letters are tensors of the parameter's shape."""
    groups = collections.defaultdict(list)
    for n in range(len(given["P"])):
        own = {k: v[n] if isinstance(v, (list, tuple)) else v for k, v in given.items()}
        tensors = {k: torch.view_as_real(x) if x.is_complex() else x for k, x in own.items() if k.isupper()}
        is_flat = all(x.is_contiguous() for x in tensors.values())
        own |= {k: x.view(-1) for k, x in tensors.items()} if is_flat else tensors
        own |= {k: torch.full((), x, dtype=tensors["P"].dtype, device=x.device) if k == "lr" else x.view(())
                for k, x in own.items() if torch.is_tensor(x) and not k.isupper()}
        groups[tensors["P"].dtype, None if is_flat else tensors["P"].dim()].append(own)
    for (_, rank), items in groups.items():
        op = made(formula, rank)
        columns = {a[0]: [own[a[0][:-1] if a[3] else a[0]] for own in items] for a in op.arguments}
        out = tuple(columns.pop(a[0]) for a in op.arguments if a[3])
        md.foreach(op, out=out, **columns)
        calls[formula] += 1


def stores(values, is_scaled):
    """The ends of a formula. Scaled: nothing changes where found_inf is set."""
    new = {k: f"where(found_inf[] > 0, {k}[i], {v})" if is_scaled else v for k, v in values.items()}
    return "; ".join(f"{k}1[i] = {v}" for k, v in new.items())


def gradient(maximize, is_scaled, decay=True):
    g = ("-" if maximize else "") + "G[i]" + (" / scale[]" if is_scaled else "")
    return f"let g[i] = {g}{' + decay * P[i]' if decay else ''}; "


def scaling(params, grad_scale, found_inf):
    """The arguments of scaled formulas, or none."""
    if grad_scale is None and found_inf is None:
        return {}
    one = torch.ones((), device=params[0].device)
    return {"scale": one if grad_scale is None else grad_scale,
            "found_inf": torch.zeros_like(one) if found_inf is None else found_inf}


# ---- Adam, AdamW

def adam_formula(decoupled, amsgrad, maximize, is_captured):
    if not maximize and decoupled and (not is_captured or not amsgrad):
        return "adamw_captured" if is_captured else "adamw_amsgrad" if amsgrad else "adamw"
    if not (maximize or amsgrad or is_captured):
        return "adam"
    rate = "lr[]" if is_captured else "lr"
    correct = ["(1 - pow(beta1, t[]))", "(1 - pow(beta2, t[]))"] if is_captured else ["correction1", "correction2"]
    second = "max(X[i], v[i])" if amsgrad else "v[i]"
    old = f"P[i] * (1 - {rate} * decay)" if decoupled else "P[i]"
    values = {"M": "m[i]", "V": "v[i]"} | ({"X": second} if amsgrad else {})
    values["P"] = f"{old} - {rate} * (m[i] / {correct[0]}) / (sqrt({second} / {correct[1]}) + eps)"
    return ("scalar beta1, beta2, eps, decay" + ("; " if is_captured else ", lr, correction1, correction2; ")
            + gradient(maximize, is_captured, not decoupled) + "let m[i] = beta1 * M[i] + (1 - beta1) * g[i]; "
            "let v[i] = beta2 * V[i] + (1 - beta2) * g[i] * g[i]; " + stores(values, is_captured))


def adam_step(decoupled, is_captured, params, grads, m, v, most, steps, grad_scale, found_inf, *, amsgrad, lr, beta1,
              beta2, weight_decay, eps, maximize):
    """`steps` count this step already."""
    beta1, beta2 = float(beta1), float(beta2)
    given = {"P": params, "G": grads, "M": m, "V": v, "X": most if amsgrad else m, "beta1": beta1, "beta2": beta2,
             "eps": eps, "decay": weight_decay}
    if is_captured:
        device = params[0].device
        lr = lr.to(device) if torch.is_tensor(lr) else torch.tensor(lr, dtype=torch.float64, device=device)
        scale = torch.ones((), device=device) if grad_scale is None else grad_scale
        given |= {"t": steps, "lr": lr, **scaling(params, scale, found_inf)}
    else:
        t = [float(s) for s in steps]
        given |= {"lr": lr, "correction1": [1 - beta1**s for s in t], "correction2": [1 - beta2**s for s in t]}
    update(adam_formula(decoupled, amsgrad, maximize, is_captured), given)


def fused_adam(decoupled):
    def run(params, grads, m, v, most, steps, *, grad_scale=None, found_inf=None, lr, **options):
        is_captured = grad_scale is not None or found_inf is not None or torch.is_tensor(lr)
        adam_step(decoupled, is_captured, params, grads, m, v, most, steps, grad_scale, found_inf, lr=lr, **options)
    return run


def multi_adam(params, grads, m, v, most, steps, grad_scale, found_inf, *, capturable, differentiable, has_complex,
               decoupled_weight_decay, **options):
    torch._foreach_add_(steps, 1)
    adam_step(decoupled_weight_decay, capturable, params, grads, m, v, most, steps, grad_scale, found_inf, **options)


# ---- SGD

def sgd_step(params, grads, buffers, first, grad_scale, found_inf, *, weight_decay, momentum, lr, dampening, nesterov,
             maximize):
    """`first`: whether each buffer has no value yet; it is 0 then."""
    scaled = scaling(params, grad_scale, found_inf)
    given = {"P": params, "G": grads, "V": buffers or params, "lr": float(lr), "decay": weight_decay,
             "momentum": momentum, "rest": [1.0 if f else 1 - dampening for f in first], **scaled}
    if momentum and not (maximize or scaled or dampening) and (nesterov or not weight_decay):
        update("sgd_nesterov" if nesterov else "sgd_momentum", given)
        return
    new = "(momentum * V[i] + rest * g[i])"
    step = f"(g[i] + momentum * {new})" if nesterov else new if momentum else "g[i]"
    values = ({"V": new} if momentum else {}) | {"P": f"P[i] - lr * {step}"}
    update(f"scalar lr, decay{', momentum, rest' if momentum else ''}; " + gradient(maximize, bool(scaled))
           + stores(values, bool(scaled)), given)


def fused_sgd(params, grads, buffers, *, is_first_step, grad_scale=None, found_inf=None, **options):
    if is_first_step:
        torch._foreach_zero_(buffers)
    sgd_step(params, grads, buffers, [is_first_step] * len(params), grad_scale, found_inf, **options)


def multi_sgd(params, grads, buffers, grad_scale, found_inf, *, has_sparse_grad, momentum, **options):
    first = [b is None for b in buffers] or [True] * len(params)
    if momentum:
        buffers[:] = [torch.zeros_like(p) if b is None else b for p, b in zip(params, buffers)]
    sgd_step(params, grads, buffers if momentum else None, first, grad_scale, found_inf, momentum=momentum, **options)


# ---- Adagrad, RMSprop

def adagrad_step(params, grads, sums, steps, grad_scale, found_inf, *, lr, lr_decay, weight_decay, eps, maximize):
    scaled = scaling(params, grad_scale, found_inf)
    given = {"P": params, "G": grads, "S": sums, "lr": [float(lr) / (1 + (float(s) - 1) * lr_decay) for s in steps],
             "decay": weight_decay, "eps": eps, **scaled}
    new = "(S[i] + g[i] * g[i])"
    text = ("scalar lr, decay, eps; " + gradient(maximize, bool(scaled))
            + stores({"S": new, "P": f"P[i] - lr * g[i] / (sqrt{new} + eps)"}, bool(scaled)))
    update(text if maximize or scaled or weight_decay else "adagrad", given)


def fused_adagrad(params, grads, sums, steps, *, grad_scale=None, found_inf=None, **options):
    adagrad_step(params, grads, sums, steps, grad_scale, found_inf, **options)


def multi_adagrad(params, grads, sums, steps, grad_scale, found_inf, *, has_sparse_grad, differentiable, has_complex,
                  **options):
    torch._foreach_add_(steps, 1)
    adagrad_step(params, grads, sums, steps, grad_scale, found_inf, **options)


def multi_rmsprop(params, grads, squares, means, buffers, steps, *, lr, alpha, eps, weight_decay, momentum, centered,
                  maximize, capturable, differentiable, has_complex):
    torch._foreach_add_(steps, 1)
    given = {"P": params, "G": grads, "V": squares, "M": means or squares, "B": buffers or squares, "lr": float(lr),
             "alpha": alpha, "eps": eps, "decay": weight_decay, "momentum": momentum}
    root = "(sqrt(v[i] - m[i] * m[i]) + eps)" if centered else "(sqrt(v[i]) + eps)"
    step = f"(momentum * B[i] + g[i] / {root})" if momentum else f"g[i] / {root}"
    values = {"V": "v[i]"} | ({"M": "m[i]"} if centered else {}) | ({"B": step} if momentum else {})
    text = ("scalar lr, alpha, eps, decay" + (", momentum; " if momentum else "; ") + gradient(maximize, False)
            + "let v[i] = alpha * V[i] + (1 - alpha) * g[i] * g[i]; "
            + ("let m[i] = M[i] + (1 - alpha) * (g[i] - M[i]); " if centered else "")
            + stores(values | {"P": f"P[i] - lr * {step}"}, False))
    update(text if maximize or weight_decay or centered or momentum else "rmsprop", given)


FUSED = {"_fused_adam_": fused_adam(False), "_fused_adamw_": fused_adam(True), "_fused_sgd_": fused_sgd,
         "_fused_adagrad_": fused_adagrad}
MULTI = {"adam": multi_adam, "sgd": multi_sgd, "adagrad": multi_adagrad, "rmsprop": multi_rmsprop}


@contextlib.contextmanager
def shims():
    """PyTorch's optimizers run by md.foreach inside."""
    with contextlib.ExitStack() as stack:
        for name, function in FUSED.items():
            stack.enter_context(mock.patch.object(torch, name, function))
        for name, function in MULTI.items():
            module = sys.modules["torch.optim." + name]
            stack.enter_context(mock.patch.object(module, "_multi_tensor_" + name, function))
        yield
