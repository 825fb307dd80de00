"""One tensor operation, many kernels, the right one for every shape.

>>> import numpy as np, multidispatch as md
>>> op = md.op("Y[b,n] = gelu(X[b,n] + c[n])")
>>> y = op(np.zeros((4, 8), np.float32), np.ones(8, np.float32))
>>> y.shape, y.dtype.name
((4, 8), 'float32')

Arrays of NumPy, PyTorch, CuPy and everything else with a buffer or ``__dlpack__`` are read without copying.
"""

import json
import os
import re
import sys

from . import _core
from ._core import ArgumentError, DeviceError, FormulaError, MdError, Unsupported, catalogue, share_torch_memory

__all__ = ["ArgumentError", "DeviceError", "FormulaError", "MdError", "Op", "Unsupported", "catalogue", "check",
           "bundle_begin", "bundle_write", "choices_export", "choices_import",
           "digest", "info", "op", "ops", "share_torch_memory", "stats", "tune", "wisdom_export", "wisdom_import"]
__version__ = _core.version()

_SELECT = {"distance": 1, "model": 2, "measure": 3, "hybrid": 4}
_NUMERIC = {"fast": 1, "deterministic": 2, "batch_invariant": 3}
_BOUNDS = {"report": 0, "clamp": 1, "zero": 2}
_TUNE = {"off": 1, "estimate": 2, "measure": 3, "exhaustive": 4}
_FREEZE = {"none": 0, "ready": 1, "reference": 2, "fail": 3}
_REAL = ("f32", "f64", "f16", "bf16", "f8e4m3", "f8e5m2")


def _number(table, option, value):
    if value is None:
        return 0
    if value not in table:
        raise ArgumentError(f"option {option}: {value!r}: expected {', '.join(table)}")
    return table[value]


def _sizes_text(sizes):
    """{"b": 8, "n": (1, 64)} -> "b=8, n=1..64". Text stays."""
    if sizes is None or isinstance(sizes, str):
        return sizes
    return ", ".join(f"{name}={size[0]}..{size[1]}" if isinstance(size, (tuple, list)) else f"{name}={size}"
                     for name, size in sizes.items())


def _names_text(names):
    """("W", "V") -> "W, V". Text stays."""
    return names if names is None or isinstance(names, str) else ", ".join(names)


def _points(sizes):
    """{"b": [1, 8], "n": 64} -> "b=1, n=64; b=8, n=64": every combination."""
    points = [""]
    for name, values in sizes.items():
        values = values if isinstance(values, (list, tuple, range)) else [values]
        points = [(p + ", " if p else "") + f"{name}={v}" for p in points for v in values]
    return "; ".join(points)


class Op(_core.Op):
    """A formula with options. Call it with the inputs, in the order of their first appearance in the formula.

    ``op(*inputs, out=None, stream=None, sizes=None, **inputs_by_name)`` returns the output, or a tuple of them.

    - Inputs: arrays with the shapes and dtypes that the formula says; numbers for its scalars, which are f64 until they
      meet an element. A tensor whose type the
      formula does not declare has the array's dtype. Kernels of a new set of dtypes are made at its first call.
    - ``out``: an array to write, or a tuple with one for each output. Without it outputs are made: PyTorch's where the
      first tensor is, NumPy's otherwise. The target of a scatter (``+=``) must be given.
    - ``stream``: a number, or an object with ``cuda_stream`` or ``ptr``. By default PyTorch's current stream.
    - ``sizes``: ``{"b": 37}`` chooses the kernel as if dim b had this size. It never changes the result.

    Raises ArgumentError for what does not fit (and says what), DeviceError, Unsupported, MemoryError. Thread-safe;
    other threads run during calls. Pickled as formula and options.
    """

    def __new__(cls, formula, **options):
        self = super().__new__(
            cls, formula, name=options.get("name"), sizes=_sizes_text(options.get("static")),
            hints=options.get("hints"), weights=_sizes_text(options.get("weights")), pin=options.get("pin"),
            select=_number(_SELECT, "select", options.get("select")),
            numeric=_number(_NUMERIC, "numeric", options.get("numeric")),
            bounds=_number(_BOUNDS, "bounds", options.get("bounds", "report")),
            tune=_number(_TUNE, "tune", options.get("tune")), tune_budget_ms=options.get("tune_budget_ms", 0.0),
            max_variants=options.get("max_variants", 0), uncovered=options.get("uncovered", 0.0),
            async_=options.get("async_", False), tf32=options.get("tf32", False),
            constant=_names_text(options.get("constant")))
        self._text = catalogue()[formula][0] if formula in catalogue() else formula
        self._options = options
        self._given = formula
        return self

    def __init__(self, formula, **options):
        pass

    def __reduce__(self):
        return _make, (type(self), self._given, self._options)

    def __repr__(self):
        options = "".join(f", {name}={value!r}" for name, value in self._options.items())
        return f"md.op({self.formula!r}{options})"

    def _is_declared(self, name):
        return re.search(rf"(?<![\w.]){name}\s*:\s*\w+\s*\[", self._text) is not None

    def _typed(self, dtypes):
        """The formula in which undeclared tensors have these dtypes ("": as the formula says), and the op's dtype."""
        free = [(argument[0], argument[3], dtype) for argument, dtype in zip(self.arguments, dtypes)
                if dtype and not self._is_declared(argument[0])]
        base = next((dtype for _, is_output, dtype in free if dtype in _REAL and not is_output), "f32")
        text = self._text
        for name, _, dtype in free:
            text = re.sub(rf"(?<![\w.]){name}(\s*)\[", rf"{name}:{dtype}\1[", text, count=1)
        return text, base

    # ---- Choices

    def _dtypes(self, dtype):
        """Names of dtypes, one an argument: undeclared real inputs have `dtype`."""
        return tuple("" if is_scalar or is_output else dtype if own == "f32" and not self._is_declared(name) else own
                     for name, own, is_scalar, is_output, _ in self.arguments)

    def explain(self, sizes, *, dtype="f32", device="host", text=False):
        """All candidates at these sizes (``{"b": 8}`` or text), why one is picked, and its predicted time.

        A dict, or with ``text=True`` the table of ``mdctl explain``."""
        said = self._explain(device, self._dtypes(dtype), _sizes_text(sizes) or "", not text)
        return said if text else json.loads(said)

    def choice(self, *inputs, out):
        """What a call with these arguments would run: ``{"stages": [{"variant", "source", ...}], ...}``."""
        outputs = iter(out if isinstance(out, (tuple, list)) else (out,))
        given = iter(inputs)
        return self._choice(*(next(outputs if argument[3] else given) for argument in self.arguments))

    def variants(self, *, dtype="f32", device="host"):
        """Names of the variants, a list for each stage."""
        return self._variants(device, self._dtypes(dtype))

    def source(self, variant, *, stage=0, dtype="f32", device="host"):
        """The generated source of a variant, C or CUDA C++."""
        return self._source(device, self._dtypes(dtype), stage, variant)

    def prepare(self, *, dtype="f32", device="host", **sizes):
        """Picks for sizes, ``op.prepare(b=[1, 8, 64], n=512)``, and waits for the best kernel of each combination."""
        self._prepare(device, self._dtypes(dtype), _points(sizes))

    def freeze(self, mode="ready"):
        """Builds nothing more. A new shape gets what is "ready", the "reference", or fails ("fail"). "none" undoes it."""
        self._freeze(_number(_FREEZE, "mode", mode))

    def stats(self, device="host"):
        """The rows of ``md.stats()`` for ops of this name, as dicts."""
        return [row for row in stats(device)["shapes"] if row["op"] == self._stats_name()]

    def _stats_name(self):
        if self._options.get("name"):
            return self._options["name"]
        return self._given if self._given in catalogue() else next(a[0] for a in self.arguments if a[3])


def _make(kind, formula, options):
    return kind(formula, **options)


def op(formula, *, name=None, static=None, hints=None, weights=None, select=None, numeric=None, pin=None,
       bounds="report", tune=None, tune_budget_ms=0.0, max_variants=0, uncovered=0.0, async_=False, tf32=False,
       constant=None, grad=None):
    """Reads a formula, or the name of a named op (``md.ops`` has them all), and gives an Op. Compiles nothing yet.

    - ``static``: sizes that are fixed, and ranges: ``{"n": 4096, "b": (1, 8192)}``
    - ``hints``: sizes to make kernels at: ``"1,64,4096"`` or ``"b=1,64 n=64"``
    - ``select``: "model", "distance", "measure" or "hybrid"; ``numeric``: "fast", "deterministic", "batch_invariant"
    - ``constant``: names of inputs whose memory does not change, as weights: ``"W"`` or ``("W", "V")``. Kernels may read
      them in a layout of their own, which the first call makes. The op holds these arrays. ``op.changed("W")`` says that
      one was written, and lets go of it; that PyTorch has written one the next call sees, and warns
    - ``grad``: PyTorch's gradients as formulas, ``{"X": "dX[b,k] = sum[n](dY[b,n]*W[n,k])"}``. They may read the op's
      inputs, its outputs, and ``d`` with an output's name; each has the axes of its input. They are first derivatives:
      what differentiates them again, torch.vmap and jvp raise Unsupported. Import torch first: torch.compile then traces
      the op, too.
    - the others as in ``md_op_options`` of the C library (man 3 multidispatch)

    Raises FormulaError with line, column and a caret:

    >>> op("Y[i] = X[i")
    Traceback (most recent call last):
        ...
    multidispatch.FormulaError: ...
    """
    given = {"name": name, "static": static, "hints": hints, "weights": weights, "select": select, "numeric": numeric,
             "pin": pin, "bounds": bounds, "tune": tune, "tune_budget_ms": tune_budget_ms,
             "max_variants": max_variants, "uncovered": uncovered, "async_": async_, "tf32": tf32,
             "constant": constant}
    defaults = {"bounds": "report", "tune_budget_ms": 0.0, "max_variants": 0, "uncovered": 0.0, "async_": False,
                "tf32": False}
    given = {key: value for key, value in given.items() if value != defaults.get(key)}
    if grad is None and "torch" not in sys.modules:
        return Op(formula, **given)
    from .torch_op import TorchOp
    return TorchOp(formula, **given) if grad is None else TorchOp(formula, grad=grad, **given)


class Stats(dict):
    """What ``stats`` gives: a dict, with a table of its shapes."""

    def to_pandas(self):
        """A row for each op and shape, as a pandas.DataFrame."""
        import pandas
        return pandas.DataFrame(self["shapes"])

    def report(self, path="report.html"):
        """Writes a page of them, which loads nothing: time by op and shape, which part of the roofline each reaches and what
        keeps it from more, shapes that no hint covers, what other hints would bring, what is on trial. Returns the path.

        It is made by ``mdctl report``, which comes with this package. gnuplot draws plots where it is installed.
        """
        return _report(self, path)


def _find_mdctl():
    """The program that was installed with this package: beside this Python, below the same prefix, or on PATH."""
    import shutil
    import sysconfig
    places = [sysconfig.get_path("scripts"), os.path.join(sys.prefix, "bin"),
              *(os.path.join(folder, "bin") for folder in _prefixes(os.path.dirname(os.path.abspath(__file__))))]
    return shutil.which("mdctl", path=os.pathsep.join(places)) or shutil.which("mdctl")


def _prefixes(folder):
    """The folders above .../lib/python3.x/site-packages/multidispatch."""
    while os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
        if os.path.basename(folder) in ("lib", "lib64"):
            yield os.path.dirname(folder)


def _report(numbers, path):
    import subprocess
    import tempfile
    mdctl = _find_mdctl()
    if not mdctl:
        raise MdError("the program mdctl, which comes with this package, was not found: put it on PATH")
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(numbers, file)
        file.flush()
        done = subprocess.run([mdctl, "report", file.name, "--output", os.fspath(path)], capture_output=True, text=True,
                              check=False)
    if done.returncode:
        raise MdError(done.stderr.strip() or f"mdctl ended with status {done.returncode}")
    return path


def stats(device="host"):
    """What all ops of this process did on a device, destroyed ones included: the JSON of md_stats_report as a dict."""
    return Stats(json.loads(_core.stats(device, "json")))


def info(device="host"):
    """Facts about the build and the device, as a dict."""
    return json.loads(_core.info(device))


def digest(device="host"):
    """A digest of what the living ops chose: equal where equal formulas have equal variants for equal sizes."""
    return _core.digest(device)


def choices_export(device="host"):
    """What the living ops chose, as text that another process on an equal device can import."""
    return _core.choices_export(device)


def choices_import(text, device="host"):
    """Makes the living ops run what the text of choices_export says: all of it, or nothing where it raises MdError.

    Of texts that are joined, the first line of an op and shape counts. Returns how many lines are of other ops or
    devices. Captured plans keep their kernels. No other thread may call the ops meanwhile.
    """
    return _core.choices_import(device, text)


def wisdom_export(device="host"):
    """Tuned results of a device as text, for ``wisdom_import`` and ``mdctl store merge``."""
    return _core.wisdom_export(device)


def wisdom_import(text, device="host"):
    """Keeps what the text says: ``{"lines", "taken", "related", "foreign"}``. Nothing where a line is damaged (MdError).

    A better result never gives way to a worse one, so texts are taken in any order, and any number of times."""
    return _core.wisdom_import(device, text)


def bundle_begin(device="host"):
    """From now on the kernels of all ops on a device are kept for bundle_write. Call it before the first op."""
    _core.bundle_begin(device)


def bundle_write(path, device="host"):
    """Writes the kernels of all ops that were made since bundle_begin, those of formulas over lists and optimizers, too.

    A process with MD_BUNDLE=path runs the same program without a compiler. Sizes may differ, dtypes may not.
    """
    _core.bundle_write(device, os.fspath(path))


def check(device="host"):
    """Raises ArgumentError if a GPU kernel met an index out of range since the last check. Synchronise first."""
    _core.check(device)


from . import entry, ops  # noqa: E402 (ops uses op)
from .tuning import tune  # noqa: E402

entry.register(__version__)


def __getattr__(name):
    """``foreach``, ``load_package``; with PyTorch ``agree``, ``capture``, ``explain_graph``, ``optim``, ``package``,
    ``wait_graphs``. Imported when used."""
    if name == "load_package":
        from .packages import load_package
        return load_package
    if name == "foreach":
        from .lists import foreach
        return foreach
    if name == "optim":
        import importlib
        return importlib.import_module(".optim", __name__)
    if name == "agree":
        from .ranks import agree
        return agree
    if name in ("capture", "explain_graph", "package", "wait_graphs"):
        from . import compile as graphs
        return getattr(graphs, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
