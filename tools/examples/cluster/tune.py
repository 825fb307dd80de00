#!/usr/bin/env python3
"""Tunes the ops and shapes of a program's statistics, or named ops, by many workers.

    tune.py pool stats.json                                    # a process for each GPU of this host, or two on a CPU
    mpirun -n 9 python3 -m mpi4py.futures tune.py mpi stats.json
    tune.py dask tcp://scheduler:8786 stats.json
"""

import concurrent.futures
import multiprocessing
import os
import sys

import multidispatch as md


def one_gpu(queue):
    """In a worker of a pool: it sees one GPU, which no other worker sees."""
    os.environ["CUDA_VISIBLE_DEVICES"] = queue.get()


def gpus():
    """Those that this process may use, as Slurm and others say it, or all."""
    mine = os.environ.get("CUDA_VISIBLE_DEVICES")
    if mine is not None:
        return [name for name in mine.split(",") if name]
    return [name[6:] for name in os.listdir("/dev") if name.startswith("nvidia") and name[6:].isdigit()]


def by_pool(ops):
    context = multiprocessing.get_context("spawn")
    names = gpus()
    n = len(names)
    queue = context.Queue()

    def make():  # once more if a kernel takes a worker down
        for name in names:
            queue.put(name)
        return concurrent.futures.ProcessPoolExecutor(n or 2, mp_context=context, initializer=one_gpu if n else None,
                                                      initargs=(queue,) if n else ())
    return md.tune(ops, make, device="cuda" if n else "host", progress=True)


def by_mpi(ops):
    from mpi4py.futures import MPIPoolExecutor
    with MPIPoolExecutor() as pool:
        return md.tune(ops, pool, progress=True)


def by_dask(address, ops):
    from dask.distributed import Client
    with Client(address) as client:
        return md.tune(ops, client.get_executor(), progress=True)


def main():
    ways = {"pool": by_pool, "mpi": by_mpi, "dask": lambda ops: by_dask(ops[0], ops[1:])}
    if len(sys.argv) < 3 or sys.argv[1] not in ways:
        sys.exit(__doc__)
    said = ways[sys.argv[1]](sys.argv[2:])
    print(f"{said['done']} of {said['pieces']} pieces are tuned, in {said['seconds']:.1f} s")
    for piece, why in said["failed"].items():
        print(f"{piece}: {why}")
    return said["done"] != said["pieces"]


if __name__ == "__main__":
    sys.exit(main())
