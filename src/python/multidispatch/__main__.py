"""``python -m multidispatch``: what this package is and finds here, whether it works, why a kernel is picked."""

import argparse
import json
import sys

import multidispatch as md


def _info(given):
    facts = {"package": md.__version__, "python": sys.version.split()[0]}
    if "torch" in sys.modules or given.torch:
        import torch
        facts["torch"] = torch.__version__
    facts |= md.info(given.device)
    if given.json:
        print(json.dumps(facts))
    else:
        for name, value in facts.items():
            print(f"{name:20} {value}")
    return 0


def _largest_difference():
    """Of results on the host to NumPy's, one for every kind of stage."""
    import numpy as np
    random = np.random.default_rng(1)
    x, w = random.random((5, 33), np.float32), random.random((7, 33), np.float32)
    e = np.exp(x - x.max(1, keepdims=True))
    pairs = [(md.op("Y[b,n] = sum[k](X[b,k] * W[n,k])")(x, w), x @ w.T), (md.op("softmax")(x), e / e.sum(1, keepdims=True)),
             (md.op("Y[i,j] = cumsum[j](X[i,j])")(x), x.cumsum(1)), (md.op("Y[i,j] = 2 * X[i,j]")(x), 2 * x)]
    return max(float(abs(got - wanted).max()) for got, wanted in pairs)


# Each says whether something works (None: it is not needed, or not checked), and a text.

def _device(facts):
    return True, f"{facts['device']}: {facts.get('name', '')}"


def _compiler(facts):
    return facts.get("can_compile", False), facts.get("compiler") or "none: install a C compiler, or set MD_CC"


def _store(facts):
    return (True, facts["store"]) if facts.get("store") else (None, "none: kernels are compiled in every process")


def _results(facts):
    if facts["device"] != "host":
        return None, f"not checked on {facts['device']}"
    try:
        error = _largest_difference()
    except ImportError:
        return None, "NumPy is not installed: not checked"
    return error < 1e-4, f"largest difference to NumPy {error:.1e}"


def _backend(_):
    try:
        import torch
        from torch._dynamo import list_backends
    except ImportError:
        return None, "PyTorch is not installed"
    known = "multidispatch" in list_backends(exclude_tags=())
    return known, f"torch {torch.__version__}, backend multidispatch {'known' if known else 'missing'}"


_CHECKS = {"device": _device, "compiler": _compiler, "store": _store, "results": _results, "backend": _backend}


def _check(given):
    """Says line by line what works; status 1 where something does not."""
    facts, ok = md.info(given.device), True
    for name, check in _CHECKS.items():
        works, said = check(facts)
        print(f"{'--' if works is None else 'ok' if works else 'BAD':4} {name:10} {said}")
        ok &= works is not False
    return 0 if ok else 1


def _explain(given):
    print(md.op(given.formula, static=given.static).explain(given.sizes, dtype=given.dtype, device=given.device, text=True), end="")
    return 0


def main(words=None):
    parser = argparse.ArgumentParser(prog="python -m multidispatch", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="info | check | explain")
    info = commands.add_parser("info", help="versions, the device, its compiler, the store")
    info.add_argument("--json", action="store_true")
    info.add_argument("--torch", action="store_true", help="also PyTorch's version")
    info.set_defaults(run=_info)
    check = commands.add_parser("check", help="whether kernels can be built and results are right; status 1 where not")
    check.set_defaults(run=_check)
    explain = commands.add_parser("explain", help="all kernels for a size, and why one is picked")
    explain.add_argument("formula", help="a formula, or the name of a named op")
    explain.add_argument("--sizes", required=True, help='"b=8, n=64"')
    explain.add_argument("--static", help='sizes that are fixed: "n=4096"')
    explain.add_argument("--dtype", default="f32")
    explain.set_defaults(run=_explain)
    for command in (info, check, explain):
        command.add_argument("--device", default="host", help="host, cuda, cuda:N (default host)")
    given = parser.parse_args(words)
    try:
        return given.run(given)
    except md.MdError as error:
        print(f"multidispatch: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
