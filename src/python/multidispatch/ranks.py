"""Processes of one model, over torch.distributed."""

import datetime

from . import MdError, digest, info


def agree(group=None, *, device="host", timeout=30.0):
    """Checks that all ranks of a group on equal devices chose the same kernels, and returns the digest of this one.

    A collective call: every rank of the group makes it, after it prepared or called the same ops. Ranks on other kinds
    of devices are not compared with each other. ``timeout`` in seconds is for gloo, where a missing rank is named; other
    backends wait as long as the group was made to. Raises MdError that says which ranks differ, on every rank.
    """
    import torch.distributed as dist
    if not dist.is_initialized():
        raise MdError("agree: torch.distributed is not initialised")
    if dist.get_backend(group) == "gloo":
        try:
            dist.monitored_barrier(group, datetime.timedelta(seconds=timeout), wait_all_ranks=True)
        except RuntimeError as error:
            raise MdError(f"agree: not all ranks came within {timeout} s: {error}") from error
    mine = (_kind(device), digest(device))
    every = [None] * dist.get_world_size(group)
    dist.all_gather_object(every, mine, group)
    first, different = {}, []
    for rank, (kind, said) in enumerate(every):
        if first.setdefault(kind, (rank, said))[1] != said:
            different.append(f"rank {rank} from rank {first[kind][0]} ({kind})")
    if different:
        raise MdError("agree: ranks chose different kernels: " + "; ".join(different))
    return mine[1]


def _kind(device):
    return info(device)["name"]
