"""Processes of one model, over torch.distributed or anything else that gathers bytes."""

import datetime
import time

from . import MdError, _core


class Agreement(str):
    """The digest of what this rank chose, with what the agreement found: ``kinds`` of devices, ``shapes``, ``disputed``,
    ``changed``, ``vetoed``, and the first rank that is ``differing`` from rank 0 (-1: none) with its ``difference``."""

    def __new__(cls, digest, **found):
        self = super().__new__(cls, digest)
        self.__dict__.update(found)
        return self


def agree(group=None, *, device="host", timeout=30.0, exchange=None):
    """Makes all ranks of a group that have equal devices run the same kernels, and returns the digest of this one.

    A collective call: every rank of the group makes it, after it prepared or called its ops. Where ranks chose
    differently, the first rank that met a shape decides for it; what some rank cannot build gives way to the next rank's
    choice. Ranks on other kinds of devices are not compared with each other. The ranks of a kind must hold the same ops,
    else MdError names the rank and what differs, on every rank. Afterwards no rank chooses again at these shapes; at
    others they may differ, until they agree again. With MD_AGREE=1 what is measured meanwhile (``select="hybrid"`` or
    ``"measure"``, MD_IDLE_TUNE) is put into use here, and nowhere else. Captured plans keep their kernels: capture after
    agreeing.

    ``group`` is torch.distributed's: gloo, NCCL, or another backend that gathers tensors. ``exchange``, in its place, is
    ``(rank, ranks, gather)``: gather(bytes, seconds) returns the bytes of all ranks, joined; for mpi4py
    ``lambda mine, seconds: b"".join(comm.allgather(mine))``. ``timeout`` in seconds: gloo names a missing rank; NCCL and
    others wait as long as the group was made to. No other thread may call the ops meanwhile.
    """
    rank, n_ranks, gather = exchange if exchange is not None else _of_group(group, timeout)
    try:
        return Agreement(**_core.agree(device, rank, n_ranks, timeout, gather))
    except MdError as error:
        raise type(error)(str(error)) from None


def _of_group(group, timeout):
    import torch
    import torch.distributed as dist
    if not dist.is_initialized():
        raise MdError("agree: torch.distributed is not initialised")
    is_gloo = dist.get_backend(group) == "gloo"
    if is_gloo:
        try:
            dist.monitored_barrier(group, datetime.timedelta(seconds=timeout), wait_all_ranks=True)
        except RuntimeError as error:
            raise MdError(f"agree: not all ranks came within {timeout} s: {error}") from error
    n_ranks = dist.get_world_size(group)
    where = "cpu" if is_gloo else torch.device("cuda", torch.cuda.current_device())

    def gather(mine, seconds):
        own = torch.frombuffer(bytearray(mine), dtype=torch.uint8).to(where)
        every = torch.empty(n_ranks * len(mine), dtype=torch.uint8, device=where)
        work = dist.all_gather(list(every.chunk(n_ranks)), own, group=group, async_op=True)
        if is_gloo:
            work.wait(datetime.timedelta(seconds=max(seconds, 0.001)))
        else:
            end = time.monotonic() + seconds
            work.wait()  # puts it in front of the stream, and comes back
            while not work.is_completed():
                if time.monotonic() > end:
                    raise TimeoutError(f"not all ranks came within {timeout} s")
                time.sleep(0.0001)
        return every.cpu().numpy().tobytes()

    return dist.get_rank(group), n_ranks, gather
