"""One op over lists of arrays, in one launch where that is faster."""

from . import ArgumentError, Op, op as make


def foreach(op, *inputs, out=None, stream=None, **by_name):
    """Calls ``op`` for each item of lists: ``md.foreach("add", [a0, a1], [b0, b1])`` gives ``[a0 + b0, a1 + b1]``.

    - ``op``: an Op, a formula or the name of a named op.
    - Inputs: in the order of the op's inputs, or by name. A list or tuple has one array for each item, with shapes of its
      own; all items have the same dtypes and device. A scalar is one number for all items, or a list.
    - ``out``: a list for the output, or a tuple with a list (or None) for each output. Without it outputs are made. An
      output may be an input: ``out=a`` updates in place. No output may overlap another item.

    Items have no order. The results have the bits of single calls. Returns the list of outputs, or a list of them;
    None if all outputs were given. Raises as calls of the op do, and ArgumentError for overlaps (both items are named).
    """
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
    return one._foreach(tuple(row), stream)
