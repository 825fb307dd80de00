"""Optimizers for PyTorch: all parameters of a step in one launch where that is faster."""

import collections
import functools
import operator

import torch

from . import ArgumentError, MdError, op
from .lists import foreach
_foreach = foreach  # clip_grad_norm_ has an argument of that name

__all__ = ["AdamW", "clip_grad_norm_"]

_NORM = "scalar max_norm; let n = sum[k,i](f32(G@k[i]) * f32(G@k[i])); let c = min(1, max_norm / (sqrt(n) + 1e-6)); "


def _corrections(t, is_wide):
    """1 - beta^t without the digits that are lost where beta is near 1, and beta^t of f32."""
    return [f"(-expm1(log(beta{k}) * {'f64(' + t + ')' if is_wide else t}))" for k in (1, 2)]


@functools.lru_cache(maxsize=None)
def _adamw(amsgrad, maximize, is_captured, is_wide):
    """The op of one parameter. Captured: rate, step, scale of the gradients and found_inf are tensors of the device.
    Wide: parameters of f64."""
    gradient = ("-" if maximize else "") + "G[i]" + (" / scale[]" if is_captured else "")
    rate = "lr[]" if is_captured else "lr"
    correct = _corrections("t[]", is_wide) if is_captured else ["correction1", "correction2"]
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
              name="adamw" + "_amsgrad" * amsgrad + "_maximize" * maximize + "_captured" * is_captured
              + "_wide" * (is_captured and is_wide))


@functools.lru_cache(maxsize=None)
def _clipped(amsgrad, maximize, is_captured, is_wide, is_whole):
    """AdamW over lists, in place, with gradients scaled by c: from the norm of these lists, if they are all, or given."""
    gradient = ("-" if maximize else "") + "G@k[i]" + (" / scale[]" if is_captured else "")
    rate = "lr[]" if is_captured else "lr"
    correct = _corrections("T@k[]", is_wide) if is_captured else ["correction1", "correction2"]
    new = {"M": "m@k[i]", "V": "v@k[i]"} | ({"X": "max(X@k[i], v@k[i])"} if amsgrad else {})
    new["P"] = (f"P@k[i] * (1 - {rate} * decay) - {rate} * (m@k[i] / {correct[0]}) "
                f"/ (sqrt({'X' if amsgrad else 'v'}@k[i] / {correct[1]}) + eps)")
    stores = [f"{x}@k[i] = where(found_inf[] > 0, {x}@k[i], {y})" if is_captured else f"{x}@k[i] = {y}"
              for x, y in new.items()]
    wide = "f64" if is_wide else "f32"
    norm = f"let n = sum[k,i]({wide}(u@k[i]) * {wide}(u@k[i])); let c = min(1, max_norm / (sqrt(n) + 1e-6)); "
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


def _refuse_overlaps(params):
    """Refuses parameters of one dtype that share elements: of copies the last one stored would count. The library sees
    it where nothing is copied."""
    spans, before = [], []
    for i, p in enumerate(params):
        if p.numel() > 0:
            last = sum((n - 1) * s for n, s in zip(p.shape, p.stride()))
            spans.append((p.data_ptr(), p.data_ptr() + (last + 1) * p.element_size(), i))
    for first, end, i in sorted(spans):
        before = [x for x in before if x[1] > first]
        for start, other_end, k in before:
            p, q, size = params[i], params[k], params[i].element_size()
            is_there = torch.zeros((max(end, other_end) - start) // size, dtype=torch.bool)
            is_there.as_strided(q.shape, q.stride()).fill_(True)
            if is_there.as_strided(p.shape, p.stride(), (first - start) // size).any():
                raise ArgumentError(f"parameter of item {max(i, k)} overlaps parameter of item {min(i, k)}")
        before.append((first, end, i))


class _List:
    """Parameters of a group that have one device, dtype and step: what of them stays from step to step."""

    def __init__(self, params, states, names, places, t):
        self.params, self.states, self.names, self.places, self.t = params, states, names, places, t
        self.moments = [[s[name] for s in states] for name in names]
        self.grads = []
        self.is_flat = not params[0].is_complex()
        self._share_steps()

    def _share_steps(self):
        """The steps become views of one tensor, so that one addition counts all. Not in a capture: a replay would make
        that tensor anew."""
        self.steps = [s["step"] for s in self.states]
        self.shared = None
        is_captured = self.steps[0].is_cuda and torch.cuda.is_current_stream_capturing()
        if not is_captured and all(x.dtype == self.steps[0].dtype and x.device == self.steps[0].device for x in self.steps):
            self.shared = torch.stack([x.view(()) for x in self.steps])
            self.steps = list(self.shared.unbind())
            for state, step in zip(self.states, self.steps):
                state["step"] = step
            self.version = self.shared._version

    def is_current(self, state_of):
        """False if anybody has changed a step, or put other tensors in the place of steps or moments."""
        if self.shared is None or (self.t is not None and self.shared._version != self.version) \
                or not all(map(operator.is_, map(state_of.get, self.params), self.states)):
            return False
        columns = [("step", self.steps), *zip(self.names, self.moments)]
        return all(state[name] is x for name, column in columns for state, x in zip(self.states, column))

    def advance(self, by):
        if self.shared is None:
            torch._foreach_add_(self.steps, by)
            return
        self.shared.add_(by)
        self.version = self.shared._version
        self.t = None if self.t is None else self.t + by

    def tensors(self):
        """Lists of parameters, gradients and moments; as one axis each where the library cannot see them so."""
        columns = [self.params, self.grads, *self.moments]
        if self.is_flat:
            return columns, []
        rows, copied = [], []
        for own in zip(*columns):
            flat = _flat(list(own))
            if flat is None:
                own = [torch.view_as_real(x) if x.is_complex() else x for x in own]
                flat = [x.contiguous().view(-1) for x in own]
                copied.append((own, flat))
            rows.append(flat)
        if copied:
            _refuse_overlaps(self.params)
        return list(map(list, zip(*rows))), copied


_LATER_OPTIONS = {"amsgrad": False, "maximize": False, "foreach": None, "capturable": False, "differentiable": False,
                  "fused": None}  # options of a group that states of older versions of PyTorch may lack


class AdamW(torch.optim.Optimizer):
    """A drop-in for ``torch.optim.AdamW``: the same arguments, defaults, state and state_dict, and the same steps within
    rounding. ``foreach`` and ``fused`` are taken and ignored. With ``capturable`` a step can be captured in a CUDA graph,
    and ``torch.amp.GradScaler`` leaves scaling and found_inf to it. Left out: ``differentiable``, sparse gradients, and
    parameters that are subclasses of tensors (DTensor, FSDP2). Parameters whose layout differs from their
    gradient's, or has gaps, are copied for the step.

    With ``max_norm`` a step scales all gradients, as it reads them, so that their norm is at most that: what
    ``clip_grad_norm_`` before it does, without writing the gradients."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False, *,
                 maximize=False, foreach=None, capturable=False, differentiable=False, fused=None, max_norm=None):
        if differentiable:
            raise ValueError("differentiable=True is not supported")
        for name, value in (("lr", lr), ("betas[0]", betas[0]), ("betas[1]", betas[1])):
            if torch.is_tensor(value) and value.numel() != 1:
                raise ValueError(f"Tensor {name} must be 1-element")
        if torch.is_tensor(betas[0]) != torch.is_tensor(betas[1]):
            raise ValueError("betas must be either both floats or both Tensors")
        for name, value, is_right in (("learning rate", lr, lr >= 0), ("epsilon value", eps, eps >= 0),
                                      ("beta parameter at index 0", betas[0], 0 <= betas[0] < 1),
                                      ("beta parameter at index 1", betas[1], 0 <= betas[1] < 1),
                                      ("weight_decay value", weight_decay, weight_decay >= 0)):
            if not is_right:
                raise ValueError(f"Invalid {name}: {value}")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
                                  "amsgrad": amsgrad, "maximize": maximize, "foreach": foreach,
                                  "capturable": capturable, "differentiable": False, "fused": fused})
        self._step_supports_amp_scaling = capturable
        self.max_norm = max_norm
        self._kept = {}

    def __getstate__(self):
        return super().__getstate__() | {"max_norm": self.max_norm, "_kept": {},
                                         "_step_supports_amp_scaling": self._step_supports_amp_scaling}

    def __setstate__(self, state):
        """Takes states of other versions, too: steps that are numbers, groups without some options."""
        super().__setstate__(state)
        self._kept = {}
        for group in self.param_groups:
            for name, value in _LATER_OPTIONS.items():
                group.setdefault(name, value)
            for p in group["params"]:
                if "step" in self.state.get(p, ()):
                    self.state[p]["step"] = _as_step(self.state[p]["step"], p, group)

    @torch.no_grad()
    def step(self, closure=None):
        """Updates all parameters that have a gradient. ``closure`` computes the loss anew, and is returned."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        lists = [(group, x) for group in self.param_groups for x in self._lists_of(group)]
        clip = None if self.max_norm is None or not lists else "whole" if len(lists) == 1 else self._factor()
        for group, x in lists:
            self._step_list(group, x, clip)
        return loss

    def _factor(self):
        """What all gradients are multiplied by, where several lists hold them."""
        scale = getattr(self, "grad_scale", None)
        norm = _norm_of([p.grad for group in self.param_groups for p in group["params"] if p.grad is not None],
                        None if scale is None else scale.view(()))
        return (self.max_norm / (norm + 1e-6)).clamp(max=1.0)

    def _lists_of(self, group):
        """The group's parameters with gradients as lists: those of the last step, unless anything has changed."""
        params, grads = group["params"], [p.grad for p in group["params"]]
        if not all(g is not None for g in grads):
            params, grads = [p for p in params if p.grad is not None], [g for g in grads if g is not None]
        if any(g.is_sparse for g in grads):
            raise RuntimeError("AdamW does not support sparse gradients")
        names = ["exp_avg", "exp_avg_sq"] + ["max_exp_avg_sq"] * group["amsgrad"]
        key = (group["capturable"], names)
        kept = self._kept.get(id(group))
        if kept is None or kept[0] != key or len(kept[1]) != len(params) or not all(map(operator.is_, kept[1], params)) \
                or not all(x.is_current(self.state) for x in kept[2]):
            kept = self._kept[id(group)] = (key, list(params), self._sorted(group, params, names))
        for x in kept[2]:
            x.grads = grads if len(x.places) == len(grads) else [grads[i] for i in x.places]
        return kept[2]

    def _sorted(self, group, params, names):
        places = collections.defaultdict(list)
        for i, p in enumerate(params):
            state = self._state_of(p, group, names)
            places[p.device, p.dtype, None if group["capturable"] else float(state["step"])].append(i)
        return [_List([params[i] for i in own], [self.state[params[i]] for i in own], names, own, t)
                for (_, _, t), own in places.items()]

    def _state_of(self, p, group, names):
        state = self.state[p]
        if not state:
            state["step"] = 0.0
            for name in names:
                state[name] = torch.zeros_like(p, memory_format=torch.preserve_format)
        state["step"] = _as_step(state["step"], p, group)
        return state

    def _step_list(self, group, x, clip):
        """Counts the step and computes it. What is refused is not counted."""
        beta1, beta2 = (float(b) for b in group["betas"])
        device, dtype = x.params[0].device, x.params[0].dtype
        is_wide = dtype in (torch.float64, torch.complex128)
        kept = torch.float64 if is_wide else torch.float32
        given = {"beta1": beta1, "beta2": beta2, "eps": group["eps"], "decay": group["weight_decay"]}
        if group["capturable"]:
            found = self._number("found_inf", 0.0, device)
            by = 1 - found
            lr = group["lr"]
            lr = lr.to(device=device, dtype=kept).view(()) if torch.is_tensor(lr) else _one(lr, device, kept)
            given.update(found_inf=found, scale=self._number("grad_scale", 1.0, device), lr=lr,
                         **{"t" if clip is None else "T": x.steps})
        else:
            by, t = 1, x.t + 1
            given.update(lr=float(group["lr"]), correction1=1 - beta1**t, correction2=1 - beta2**t)
        if clip is not None:
            given.update({"max_norm": self.max_norm} if isinstance(clip, str) else {"c": clip.to(device, kept)})
        kind = group["amsgrad"], group["maximize"], group["capturable"], is_wide
        x.advance(by)
        try:
            self._run(x, kind, given, clip)
        except MdError:
            x.advance(-by)
            raise

    def _run(self, x, kind, given, clip):
        try:
            self._launch(x, kind, given, clip)
        except ArgumentError:
            if not x.is_flat:
                raise
            x.is_flat = False
            self._launch(x, kind, given, clip)

    @staticmethod
    def _launch(x, kind, given, clip):
        (p, g, m, v, *top), copied = x.tensors()
        more = {"X": top[0]} if top else {}
        if clip is not None:
            foreach(_clipped(*kind, isinstance(clip, str)), flat=x.is_flat, G=g, P=p, M=m, V=v, **more, **given)
        else:
            foreach(_adamw(*kind), flat=x.is_flat, out=(m, v, p, *top), G=g, P=p, M=m, V=v, **more, **given)
        for own, tensors in copied:
            for i, (to, new) in enumerate(zip(own, tensors)):
                if i != 1 and to.data_ptr() != new.data_ptr():
                    to.copy_(new.view(to.shape))

    def _number(self, name, default, device):
        """What torch.amp.GradScaler gives a step, as a tensor of the device."""
        given = getattr(self, name, None)
        return _one(default, device) if given is None else given.to(device).view(())


def _as_step(step, p, group):
    """The count of a parameter's steps, as PyTorch keeps it: on the device where graphs capture steps."""
    return step if torch.is_tensor(step) else _one(step, p.device if group["capturable"] else "cpu")


def _one(value, device, dtype=torch.float32):
    return torch.full((), value, dtype=dtype, device=device)
