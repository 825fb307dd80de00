#!/usr/bin/env python3
"""md.tune by Dask's executor, over a cluster of processes on this machine, one of which dies."""

import unittest

from dask.distributed import Client, LocalCluster

import multidispatch as md


class Dask(unittest.TestCase):
    def test_cluster(self):
        with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
            said = md.tune("softmax", client.get_executor(), hints="8,40", builds=1, limit=120.0)
        self.assertEqual((said["done"], said["failed"]), (said["pieces"], {}), said)
        self.assertGreater(said["pieces"], 1)

    def test_worker_that_dies(self):
        with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
            told = []

            def kill_one(*done):
                if not told:
                    next(iter(cluster.workers.values())).process.process.kill()
                told.append(done)
            said = md.tune("gelu", client.get_executor(), hints="(i=4,j=8) (i=9,j=9) (i=64,j=30) (i=7,j=100)", builds=1,
                           limit=120.0, progress=kill_one)
        self.assertEqual((said["done"], said["failed"]), (said["pieces"], {}), said)


if __name__ == "__main__":
    unittest.main()
