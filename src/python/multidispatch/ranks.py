"""Processes of one model, over torch.distributed."""

import datetime

from . import MdError, choices_export, choices_import, digest, info


def agree(group=None, *, device="host", timeout=30.0):
    """Makes all ranks of a group that have equal devices run the same kernels, and returns the digest of this one.

    A collective call: every rank of the group makes it, after it prepared or called its ops. Where ranks chose
    differently, all take over the choices of all: the first rank that met a shape decides for it. Ranks on other kinds of
    devices are not compared with each other. The ranks of a kind must hold the same ops, else their digests stay
    different, and MdError says on every rank which ones do. Afterwards no rank chooses again at these shapes; at others
    they may differ, until they agree again. Captured plans keep their kernels: capture after agreeing.

    ``timeout`` in seconds is for gloo, where a missing rank is named; other backends wait as long as the group was made
    to. No other thread may call the ops meanwhile.
    """
    import torch.distributed as dist
    if not dist.is_initialized():
        raise MdError("agree: torch.distributed is not initialised")
    if dist.get_backend(group) == "gloo":
        try:
            dist.monitored_barrier(group, datetime.timedelta(seconds=timeout), wait_all_ranks=True)
        except RuntimeError as error:
            raise MdError(f"agree: not all ranks came within {timeout} s: {error}") from error
    kind = info(device)["name"]
    problem = ""
    # whether one differs is known to every rank of every kind, so that all go on together
    if _differing(_gather(dist, group, (kind, digest(device)))):
        texts = [text for other, text in _gather(dist, group, (kind, choices_export(device))) if other == kind]
        try:
            choices_import(_joined(texts), device)
        except MdError as error:
            problem = str(error)
    else:
        return digest(device)
    said = _gather(dist, group, (kind, digest(device), problem))
    different = _differing([one[:2] for one in said])
    failed = [f"rank {rank}: {one[2]}" for rank, one in enumerate(said) if one[2]]
    if different or failed:
        raise MdError("agree: ranks chose different kernels: " + "; ".join(different + failed))
    return said[dist.get_rank(group)][1]


def _gather(dist, group, mine):
    every = [None] * dist.get_world_size(group)
    dist.all_gather_object(every, mine, group)
    return every


def _differing(said):
    """Which ranks differ from the first of their kind, given (kind, digest) of each."""
    first, different = {}, []
    for rank, (kind, mine) in enumerate(said):
        if first.setdefault(kind, (rank, mine))[1] != mine:
            different.append(f"rank {rank} from rank {first[kind][0]} ({kind})")
    return different


def _joined(texts):
    """One text, in which each line is once. The library takes the first line of a shape."""
    return "".join(dict.fromkeys(line for text in texts for line in text.splitlines(keepends=True)))
