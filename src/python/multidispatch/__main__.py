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


def _small_op():
    """A result of every kind of stage, by NumPy and here: the largest difference."""
    import numpy as np
    random = np.random.default_rng(1)
    x, w = random.random((5, 33), np.float32), random.random((7, 33), np.float32)
    e = np.exp(x - x.max(1, keepdims=True))
    pairs = [(md.op("Y[b,n] = sum[k](X[b,k] * W[n,k])")(x, w), x @ w.T), (md.op("softmax")(x), e / e.sum(1, keepdims=True)),
             (md.op("Y[i,j] = cumsum[j](X[i,j])")(x), x.cumsum(1)), (md.op("Y[i,j] = 2 * X[i,j]")(x), 2 * x)]
    return max(float(abs(got - wanted).max()) for got, wanted in pairs)


def _check(given):
    """Says line by line what works; status 1 where something does not."""
    ok = True
    facts = md.info(given.device)
    for name, is_good, said in [
            ("device", True, f"{facts['device']}: {facts.get('name', '')}"),
            ("compiler", facts.get("can_compile", False), facts.get("compiler") or "none: install a C compiler, or set MD_CC"),
            ("store", bool(facts.get("store")), facts.get("store") or "none: kernels are compiled in every process")]:
        print(f"{'ok  ' if is_good else 'BAD '} {name:10} {said}")
        ok &= is_good or name == "store"
    try:
        error = _small_op() if given.device == "host" else 0.0
        print(f"{'ok  ' if error < 1e-4 else 'BAD '} {'results':10} largest difference to NumPy {error:.1e}")
        ok &= error < 1e-4
    except ImportError:
        print("--   results    NumPy is not installed: not checked")
    try:
        import torch
        from torch._dynamo import list_backends
        known = "multidispatch" in list_backends(exclude_tags=())
        print(f"{'ok  ' if known else 'BAD '} {'backend':10} torch {torch.__version__}, backend multidispatch {'known' if known else 'missing'}")
        ok &= known
    except ImportError:
        print("--   backend    PyTorch is not installed")
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
