"""One op over lists of arrays, in one launch where that is faster."""

import functools
import re

from . import ArgumentError, Op, _core, op as make


class _Lists:
    """A formula over lists, and its kernels for each set of dtypes and each device that it met."""

    def __init__(self, formula):
        self.formula = formula
        self._read, self.arguments = _core.list_read(formula)
        self._made = {}

    def _find(self, *key):
        if key not in self._made:
            text, (dtypes, *device) = self.formula, key
            for (name, _, is_scalar, *_), dtype in zip(self.arguments, dtypes):
                at = rf"(?<![\w.@]){name}(\s*@\s*\w+)?\s*"
                if dtype and not is_scalar and not re.search(at + r":\s*\w+\s*\[", text):
                    text = re.sub(at + r"\[", lambda m, t=f"{name}%s:{dtype}[": t % (m[1] or ""), text, count=1)
            self._made[key] = _core.list_make(*device, text)
        return self._made[key]

    def __call__(self, inputs, out, stream, flat, by_name):
        """Lists that are updated are inputs. Results for all items that `out` lacks are made, and returned."""
        left, given = list(inputs), dict(by_name)
        only_written = [a[0] for a in self.arguments if a[5] and not a[4]]
        outputs = list(out) if isinstance(out, tuple) else [out] + [None] * (len(only_written) - 1)
        if len(outputs) != max(len(only_written), 1) or (out is not None and not only_written):
            raise ArgumentError(f"out: the formula has {len(only_written)} outputs that are no inputs")
        given.update(zip(only_written, outputs))
        row = []
        for name, *_ in self.arguments:
            if name not in given and not left:
                raise ArgumentError(f"argument '{name}' is missing")
            row.append(given.pop(name) if name in given else left.pop(0))
        if left or given:
            raise ArgumentError(f"the formula has no argument {next(iter(given))!r}" if given else "too many arguments")
        made = _core.list_call(self._read, self._find, tuple(row), stream, flat)
        return made[0] if len(made) == 1 else made or None


_catalogue = functools.lru_cache(maxsize=1)(_core.lists)
_lists = functools.lru_cache(maxsize=256)(_Lists)


def foreach(op, *inputs, out=None, stream=None, flat=False, **by_name):
    """Calls ``op`` for each item of lists: ``md.foreach("add", [a0, a1], [b0, b1])`` gives ``[a0 + b0, a1 + b1]``.

    - ``op``: an Op, a formula or the name of a named op, or a formula over lists or its name (``mdctl ops``).
    - Inputs: in the order of the op's inputs, or by name. A list or tuple has one array for each item, with shapes of its
      own; all items have the same dtypes and device. A scalar, or an array without axes, may be one for all items.
    - ``out``: a list for the output, or a tuple with a list (or None) for each output. Without it outputs are made. An
      output may be an input: ``out=a`` updates in place. No output may overlap another item.
    - ``flat``: arrays of any shape stand where the formula has one axis. Those of an item have one shape, and their elements
      lie in one order without gaps. Outputs must be given.

    A formula with ``X@t[i]``, element i of item t, may reduce over all items: ``md.foreach("N = sum[t,i](X@t[i])", x)``
    gives one number, and ``"scalar c; let n = sum[t,i](G@t[i]*G@t[i]); P@t[i] = P@t[i] - c*G@t[i]/sqrt(n)"`` updates the
    list P, which is an input then. Lists that are only written must be given: ``out``. Inputs are then in the order of the
    formula, those without ``@`` are one array for all items, and what is returned are results for all items, of the
    type that follows from the items'.

    Items have no order. The results have the bits of single calls. Returns the list of outputs, or a list of them;
    None if all outputs were given. Raises as calls of the op do, and ArgumentError for overlaps (both items are named).
    """
    if isinstance(op, str) and ("@" in op or op in _catalogue()):
        return _lists(_catalogue().get(op, (op,))[0])(inputs, out, stream, flat, by_name)
    one = op if isinstance(op, Op) else make(op)
    arguments = one.arguments
    n_outputs = sum(is_output for *_, is_output, _ in arguments)
    outputs = list(out) if isinstance(out, tuple) else [out] * n_outputs if out is None else [out]
    if len(outputs) != n_outputs:
        raise ArgumentError(f"out: the op has {n_outputs} outputs: a tuple with a list for each")
    given, left = dict(by_name), list(inputs)
    row = []
    for name, _, _, is_output, _ in arguments:
        if is_output:
            row.append(outputs.pop(0))
        elif name in given:
            row.append(given.pop(name))
        elif left:
            row.append(left.pop(0))
        else:
            raise ArgumentError(f"argument '{name}' is missing")
    if left or given:
        raise ArgumentError(f"the op has no argument {next(iter(given), None)!r}" if given else "too many arguments")
    return one._foreach(tuple(row), stream, flat)
