"""Optimizers for PyTorch: all parameters of a step in one launch where that is faster."""

import collections
import functools

import torch

from . import op
from .lists import foreach
_foreach = foreach  # clip_grad_norm_ has an argument of that name

__all__ = ["AdamW", "clip_grad_norm_"]

_NORM = "scalar max_norm; let n = sum[k,i](f32(G@k[i]) * f32(G@k[i])); let c = min(1, max_norm / (sqrt(n) + 1e-6)); "


@functools.lru_cache(maxsize=None)
def _adamw(amsgrad, maximize, is_captured):
    """The op of one parameter. Captured: rate, step, scale of the gradients and found_inf are tensors of the device."""
    gradient = ("-" if maximize else "") + "G[i]" + (" / scale[]" if is_captured else "")
    rate = "lr[]" if is_captured else "lr"
    correct = ["(1 - pow(beta1, t[]))", "(1 - pow(beta2, t[]))"] if is_captured else ["correction1", "correction2"]
    second = "max(X[i], v[i])" if amsgrad else "v[i]"
    new = {"M1": ("M", "m[i]"), "V1": ("V", "v[i]"),
           "P1": ("P", f"P[i] * (1 - {rate} * decay) - {rate} * (m[i] / {correct[0]}) "
                       f"/ (sqrt({second} / {correct[1]}) + eps)")}
    if amsgrad:
        new["X1"] = ("X", second)
    stores = [f"{name}[i] = where(found_inf[] > 0, {old}[i], {value})" if is_captured else f"{name}[i] = {value}"
              for name, (old, value) in new.items()]
    scalars = "beta1, beta2, eps, decay" + ("" if is_captured else ", lr, correction1, correction2")
    return op(f"scalar {scalars}; let g[i] = {gradient}; let m[i] = beta1 * M[i] + (1 - beta1) * g[i]; "
              "let v[i] = beta2 * V[i] + (1 - beta2) * g[i] * g[i]; " + "; ".join(stores),
              name="adamw" + "_amsgrad" * amsgrad + "_maximize" * maximize + "_captured" * is_captured)


@functools.lru_cache(maxsize=None)
def _clipped(amsgrad, maximize, is_captured, is_whole):
    """AdamW over lists, in place, with gradients scaled by c: from the norm of these lists, if they are all, or given."""
    gradient = ("-" if maximize else "") + "G@k[i]" + (" / scale[]" if is_captured else "")
    rate = "lr[]" if is_captured else "lr"
    correct = ["(1 - pow(beta1, T@k[]))", "(1 - pow(beta2, T@k[]))"] if is_captured else ["correction1", "correction2"]
    new = {"M": "m@k[i]", "V": "v@k[i]"} | ({"X": "max(X@k[i], v@k[i])"} if amsgrad else {})
    new["P"] = (f"P@k[i] * (1 - {rate} * decay) - {rate} * (m@k[i] / {correct[0]}) "
                f"/ (sqrt({'X' if amsgrad else 'v'}@k[i] / {correct[1]}) + eps)")
    stores = [f"{x}@k[i] = where(found_inf[] > 0, {x}@k[i], {y})" if is_captured else f"{x}@k[i] = {y}"
              for x, y in new.items()]
    norm = "let n = sum[k,i](f32(u@k[i]) * f32(u@k[i])); let c = min(1, max_norm / (sqrt(n) + 1e-6)); "
    return ("scalar beta1, beta2, eps, decay" + ("" if is_captured else ", lr, correction1, correction2")
            + (", max_norm" if is_whole else "") + f"; let u@k[i] = {gradient}; " + norm * is_whole
            + "let g@k[i] = c[] * u@k[i]; let m@k[i] = beta1 * M@k[i] + (1 - beta1) * g@k[i]; "
            "let v@k[i] = beta2 * V@k[i] + (1 - beta2) * g@k[i] * g@k[i]; " + "; ".join(stores))


def _total(norms):
    """The norm of lists by the norms of each, on the device of the first."""
    return norms[0] if len(norms) == 1 else torch.linalg.vector_norm(torch.stack([n.to(norms[0].device) for n in norms]))


def _norm_of(tensors, scale=None):
    """The 2-norm of all elements, in f32 (f64 if all are f64), without copies of tensors without gaps."""
    lists = collections.defaultdict(list)
    for x in tensors:
        flat = _flat([x.detach()])
        lists[x.device, x.dtype].append(x.detach().contiguous().view(-1) if flat is None else flat[0])
    norms = []
    for (device, dtype), own in lists.items():
        kind = "f64" if dtype in (torch.float64, torch.complex128) else "f32"
        out = torch.empty((), dtype=torch.float64 if kind == "f64" else torch.float32, device=device)
        foreach(f"N:{kind}[] = sqrt(sum[k,i]({kind}(G@k[i]) * {kind}(G@k[i])))", own, out=out)
        norms.append(out if scale is None else out / scale.to(device))
    return _total(norms)


@torch.no_grad()
def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """A drop-in for ``torch.nn.utils.clip_grad_norm_``: scales all gradients so that the norm of all elements is at most
    ``max_norm``, and returns the norm before. Norms other than 2 are left to PyTorch. ``foreach`` is ignored."""
    parameters = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
    if float(norm_type) != 2.0 or any(p.grad is not None and p.grad.is_sparse for p in parameters):
        return torch.nn.utils.clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        return torch.tensor(0.0)
    flat = [_flat([g]) for g in grads]
    is_one = None not in flat and all(g.dtype == grads[0].dtype and g.device == grads[0].device for g in grads)
    if is_one and not error_if_nonfinite and grads[0].dtype not in (torch.float64, torch.complex128):
        norm = torch.empty((), dtype=torch.float32, device=grads[0].device)
        _foreach(_NORM + "N:f32[] = sqrt(n); G@k[i] = G@k[i] * c", G=[f[0] for f in flat], max_norm=max_norm, out=norm)
        return norm
    norm = _norm_of(grads)
    if error_if_nonfinite and not torch.isfinite(norm):
        raise RuntimeError(f"The total norm of order {float(norm_type)} for gradients from `parameters` is non-finite, "
                           "so it cannot be clipped. To disable this error and scale the gradients by the non-finite "
                           "norm anyway, set `error_if_nonfinite=False`")
    for g in grads:
        g.mul_((max_norm / (norm + 1e-6)).clamp(max=1.0).to(g.device))
    return norm


def _flat(tensors):
    """Views with one axis over the same elements in the same order; None if the layouts differ or have gaps."""
    first = tensors[0]
    if first.is_complex():
        return _flat([torch.view_as_real(t) for t in tensors])
    if all(t.is_contiguous() for t in tensors):
        return [t.view(-1) for t in tensors]
    if all(t.stride() == first.stride() for t in tensors) and any(
            first.dim() == rank and first.is_contiguous(memory_format=layout)
            for rank, layout in ((4, torch.channels_last), (5, torch.channels_last_3d))):
        return [t.as_strided((t.numel(),), (1,)) for t in tensors]
    return None


class AdamW(torch.optim.Optimizer):
    """A drop-in for ``torch.optim.AdamW``: the same arguments, defaults, state and state_dict, and the same steps within
    rounding. ``foreach`` and ``fused`` are taken and ignored. With ``capturable`` a step can be captured in a CUDA graph,
    and ``torch.amp.GradScaler`` leaves scaling and found_inf to it. Parameters whose layout differs from their
    gradient's, or has gaps, are copied for the step.

    With ``max_norm`` a step scales all gradients, as it reads them, so that their norm is at most that: what
    ``clip_grad_norm_`` before it does, without writing the gradients."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False, *,
                 maximize=False, foreach=None, capturable=False, differentiable=False, fused=None, max_norm=None):
        if differentiable:
            raise ValueError("differentiable=True is not supported")
        for name, value, is_right in (("learning rate", lr, lr >= 0), ("epsilon value", eps, eps >= 0),
                                      ("beta parameter at index 0", betas[0], 0 <= betas[0] < 1),
                                      ("beta parameter at index 1", betas[1], 0 <= betas[1] < 1),
                                      ("weight_decay value", weight_decay, weight_decay >= 0)):
            if not is_right:
                raise ValueError(f"Invalid {name}: {value}")
        if torch.is_tensor(lr) and not capturable:
            raise ValueError("lr as a Tensor is not supported for capturable=False")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
                                  "amsgrad": amsgrad, "maximize": maximize, "foreach": foreach,
                                  "capturable": capturable, "differentiable": False, "fused": fused})
        self._step_supports_amp_scaling = capturable
        self.max_norm = max_norm
        self._views = {}

    def __getstate__(self):
        return super().__getstate__() | {"max_norm": self.max_norm, "_views": {},
                                         "_step_supports_amp_scaling": self._step_supports_amp_scaling}

    def _init_state(self, p, group):
        state = self.state[p]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32, device=p.device if group["capturable"] else "cpu")
            for name in ("exp_avg", "exp_avg_sq") + (("max_exp_avg_sq",) if group["amsgrad"] else ()):
                state[name] = torch.zeros_like(p, memory_format=torch.preserve_format)
        return state

    @torch.no_grad()
    def step(self, closure=None):
        """Updates all parameters that have a gradient. ``closure`` computes the loss anew, and is returned."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        steps = [(group, *self._collect(group)) for group in self.param_groups]
        n_lists = sum(len(lists) for _, lists, _ in steps)
        clip = None if self.max_norm is None or n_lists == 0 else "whole" if n_lists == 1 else self._factor()
        for group, lists, copied in steps:
            for (device, _, t), items in lists.items():
                self._step_items(group, device, t, items, clip)
            for own, tensors in copied:
                for i, (x, y) in enumerate(zip(own, tensors)):
                    if i != 1 and x.data_ptr() != y.data_ptr():
                        x.copy_(y.view(x.shape))
        return loss

    def _factor(self):
        """What all gradients are multiplied by, where several lists hold them."""
        scale = getattr(self, "grad_scale", None)
        norm = _norm_of([p.grad for group in self.param_groups for p in group["params"] if p.grad is not None],
                        None if scale is None else scale.view(()))
        return (self.max_norm / (norm.float() + 1e-6)).clamp(max=1.0)

    def _collect(self, group):
        """Parameters with gradients as flat tensors, by device, dtype and step; and those that are copies."""
        lists, copied = collections.defaultdict(list), []
        names = ["exp_avg", "exp_avg_sq"] + ["max_exp_avg_sq"] * group["amsgrad"]
        for p in group["params"]:
            if p.grad is None:
                continue
            if p.grad.is_sparse:
                raise RuntimeError("AdamW does not support sparse gradients")
            state = self._init_state(p, group)
            moments = [state[n] for n in names]
            own = [p, p.grad] + moments
            tensors = self._flat_of(p, moments) or _flat(own)
            if tensors is None:
                own = [torch.view_as_real(x) if x.is_complex() else x for x in own]
                tensors = [x.contiguous().view(-1) for x in own]
                copied.append((own, tensors))
            t = None if group["capturable"] else float(state["step"]) + 1
            lists[p.device, p.dtype, t].append((state["step"], tensors))
        return lists, copied

    def _flat_of(self, p, moments):
        """Flat views of parameter, gradient and moments. All but the gradient stay where they are from step to step, so
        their views are kept. None: not all are contiguous, or they are complex."""
        kept = self._views.get(id(p))
        if kept is None or kept[0] != p.data_ptr() or any(x is not y for x, y in zip(kept[1], moments)):
            own = [p, *moments]
            if p.is_complex() or not all(x.is_contiguous() for x in own):
                return None
            kept = self._views[id(p)] = (p.data_ptr(), moments, [x.view(-1) for x in own])
        if len(kept[1]) != len(moments) or not p.grad.is_contiguous():
            return None
        flat = kept[2]
        return [flat[0], p.grad.view(-1), *flat[1:]]

    def _step_items(self, group, device, t, items, clip):
        beta1, beta2 = (float(b) for b in group["betas"])
        steps, columns = [i[0] for i in items], list(zip(*[i[1] for i in items]))
        given = {"G": columns[1], "P": columns[0], "M": columns[2], "V": columns[3], "beta1": beta1, "beta2": beta2,
                 "eps": group["eps"], "decay": group["weight_decay"]}
        if group["amsgrad"]:
            given["X"] = columns[4]
        if group["capturable"]:
            self._add_tensors(given, group, device, steps, clip is not None)
        else:
            torch._foreach_add_(steps, 1)
            given.update(lr=group["lr"], correction1=1 - beta1**t, correction2=1 - beta2**t)
        if clip is not None:
            given.update({"max_norm": self.max_norm} if isinstance(clip, str) else {"c": clip.to(device)})
            foreach(_clipped(group["amsgrad"], group["maximize"], group["capturable"], isinstance(clip, str)), **given)
            return
        out = (columns[2], columns[3], columns[0]) + ((columns[4],) if group["amsgrad"] else ())
        foreach(_adamw(group["amsgrad"], group["maximize"], group["capturable"]), out=out, **given)

    def _add_tensors(self, given, group, device, steps, is_clipped):
        """Rate, steps, scale and found_inf as tensors of the device."""
        n = len(steps)
        one = functools.partial(torch.full, (), dtype=torch.float32, device=device)
        found, scale, lr = getattr(self, "found_inf", None), getattr(self, "grad_scale", None), group["lr"]
        found = one(0.0) if found is None else found.to(device).view(())
        scale = one(1.0) if scale is None else scale.to(device).view(())
        lr = lr.to(device=device, dtype=torch.float32).view(()) if torch.is_tensor(lr) else one(lr)
        torch._foreach_add_(steps, 1 - found)
        if is_clipped:
            given.update(T=steps, found_inf=found, scale=scale, lr=lr)
        else:
            given.update(t=steps, found_inf=[found] * n, scale=[scale] * n, lr=[lr] * n)
