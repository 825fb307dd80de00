"""A graph of inference as Dynamo found it, in place of what AOTAutograd makes of it: with PyTorch's operations whole, so that
it is as fast as eager. Taken apart a group norm of 16-bit reals takes fifty times as long."""

from __future__ import annotations

from typing import Any, Callable

import torch


def _is_plain(x: Any) -> bool:
    return not isinstance(x, torch.Tensor) or type(x) in (torch.Tensor, torch.nn.Parameter)


def _n_results(graph: Any) -> int:
    results = next(n for n in graph.nodes if n.op == "output").args[0]
    return len(results) if isinstance(results, (tuple, list)) else -1


def _has_same_arguments(facts: Any) -> bool:
    """True if AOTAutograd changes neither arguments nor results: it adds what is mutated, aliases and tokens."""
    return facts is not None and not facts.mutated_inp_runtime_indices and not facts.num_outputs_aliased \
        and not facts.num_intermediate_bases and not facts.tokens and not facts.num_graphsafe_rng_states


def _is_random(node: Any) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags


class Original:
    """What torch.compile gave the backend."""

    def __init__(self, module: Any, inputs: Any) -> None:
        is_cast = any(torch.is_autocast_enabled(kind) for kind in ("cpu", "cuda"))
        has_own = any(True for _ in (*module.parameters(), *module.buffers()))
        self._module = module if all(map(_is_plain, inputs)) and not is_cast and not has_own else None

    def of(self, graph: Any, facts: Any) -> Callable[[list[Any]], Any] | None:
        """Runs it with the arguments of AOTAutograd's graph; None: they are others, or it draws other random numbers."""
        module = self._module
        if module is None or not _has_same_arguments(facts) or any(map(_is_random, graph.nodes)):
            return None
        n = [sum(node.op == "placeholder" for node in g.nodes) for g in (module.graph, graph)]
        if n[0] != n[1] or _n_results(module.graph) != _n_results(graph) or _n_results(graph) < 0:
            return None

        def run(arguments: list[Any]) -> Any:
            with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
                return tuple(module(*arguments))

        return run
