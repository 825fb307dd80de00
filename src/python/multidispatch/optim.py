"""Optimizers for PyTorch: all parameters of a step in one launch where that is faster."""

import collections
import functools

import torch

from . import op
from .lists import foreach

__all__ = ["AdamW"]


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
    gradient's, or has gaps, are copied for the step."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False, *,
                 maximize=False, foreach=None, capturable=False, differentiable=False, fused=None):
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
        for group in self.param_groups:
            self._step_group(group)
        return loss

    def _step_group(self, group):
        lists, copied = collections.defaultdict(list), []
        for p in group["params"]:
            if p.grad is None:
                continue
            if p.grad.is_sparse:
                raise RuntimeError("AdamW does not support sparse gradients")
            state = self._init_state(p, group)
            names = ["exp_avg", "exp_avg_sq"] + ["max_exp_avg_sq"] * group["amsgrad"]
            own = [p, p.grad] + [state[n] for n in names]
            tensors = _flat(own)
            if tensors is None:
                own = [torch.view_as_real(x) if x.is_complex() else x for x in own]
                tensors = [x.contiguous().view(-1) for x in own]
                copied.append((own, tensors))
            t = None if group["capturable"] else float(state["step"]) + 1
            lists[p.device, p.dtype, t].append((state["step"], tensors))
        for (device, _, t), items in lists.items():
            self._step_items(group, device, t, items)
        for own, tensors in copied:
            for i, (x, y) in enumerate(zip(own, tensors)):
                if i != 1 and x.data_ptr() != y.data_ptr():
                    x.copy_(y.view(x.shape))

    def _step_items(self, group, device, t, items):
        beta1, beta2 = (float(b) for b in group["betas"])
        steps, columns = [i[0] for i in items], list(zip(*[i[1] for i in items]))
        given = {"G": columns[1], "P": columns[0], "M": columns[2], "V": columns[3], "beta1": beta1, "beta2": beta2,
                 "eps": group["eps"], "decay": group["weight_decay"]}
        if group["amsgrad"]:
            given["X"] = columns[4]
        if group["capturable"]:
            self._add_tensors(given, group, device, steps)
        else:
            torch._foreach_add_(steps, 1)
            given.update(lr=group["lr"], correction1=1 - beta1**t, correction2=1 - beta2**t)
        out = (columns[2], columns[3], columns[0]) + ((columns[4],) if group["amsgrad"] else ())
        foreach(_adamw(group["amsgrad"], group["maximize"], group["capturable"]), out=out, **given)

    def _add_tensors(self, given, group, device, steps):
        """Rate, steps, scale and found_inf as tensors of the device."""
        n = len(steps)
        one = functools.partial(torch.full, (), dtype=torch.float32, device=device)
        found, scale, lr = getattr(self, "found_inf", None), getattr(self, "grad_scale", None), group["lr"]
        found = one(0.0) if found is None else found.to(device).view(())
        scale = one(1.0) if scale is None else scale.to(device).view(())
        lr = lr.to(device=device, dtype=torch.float32).view(()) if torch.is_tensor(lr) else one(lr)
        torch._foreach_add_(steps, 1 - found)
        given.update(t=steps, found_inf=[found] * n, scale=[scale] * n, lr=[lr] * n)
