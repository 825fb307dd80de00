"""The named ops, made on first use: ``md.ops.softmax(x)``.

>>> import numpy as np, multidispatch as md
>>> float(md.ops.softmax(np.zeros((1, 4), np.float32))[0, 0])
0.25
"""


def __getattr__(name):
    from . import _core, op
    entry = _core.catalogue().get(name)
    if entry is None:
        raise AttributeError(f"multidispatch has no named op {name!r}")
    made = op(name)
    made.__doc__ = f"{entry[1]}\n\n{entry[0]}"
    globals()[name] = made
    return made


def __dir__():
    from . import _core
    return sorted(_core.catalogue())
