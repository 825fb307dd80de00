"""Runs pieces that no plan holds by TorchInductor, where the option asks for it and TorchInductor can."""

from __future__ import annotations

import logging
from typing import Any, Callable

_log = logging.getLogger("multidispatch")


def compiled(module: Any, name: str) -> Callable[[list[Any]], Any] | None:
    """What runs the module, called with the list of its arguments; None where TorchInductor fails."""
    from torch._inductor.compile_fx import compile_fx_inner
    given = [n.meta["val"] for n in module.graph.nodes if n.op == "placeholder"]
    try:
        run = compile_fx_inner(module, given)
    except Exception as error:  # whatever it raises, eager PyTorch can run the piece
        _log.warning("%s: TorchInductor cannot compile a piece, eager PyTorch runs it: %s", name, str(error).splitlines()[0])
        return None
    return lambda arguments: run(list(arguments))  # it empties the list
