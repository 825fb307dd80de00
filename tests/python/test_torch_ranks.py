#!/usr/bin/env python3
"""Two processes of one model over gloo: md.agree."""

import re
import tempfile
import time
import unittest

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import multidispatch as md

FORMULA = "Y[b] = sum[n](X[b,n])"


def work(rank, file, case, queue):
    dist.init_process_group("gloo", init_method="file://" + file, rank=rank, world_size=2)
    pins = [None, None]
    if case == "pins":  # kernels that no import can change
        pins = md.op(FORMULA).variants()[0][:2]
    op = md.op(FORMULA, pin=pins[rank])
    for b in (1, 7) if rank or case != "shapes" else (1,):
        op(torch.ones(b, 4))
    if case == "late" and rank:
        time.sleep(120)  # until it is ended
    try:
        if case == "import":  # rank 1 runs what it would not choose
            own = re.findall(r'"variants":\["([^"]*)"\]', md.choices_export())
            other = [v for v in op.variants()[0] if v not in own][0]
            if rank:
                md.choices_import(re.sub(r'"variants":\["[^"]*"\]', f'"variants":["{other}"]', md.choices_export()))
        before = md.digest()
        after = md.agree(timeout=1.0 if case == "late" else 60.0)
        assert md.digest() == after and (case != "import" or rank == 0 or before != after)
        assert torch.equal(op(torch.ones(7, 4)), torch.full((7,), 4.0))
        queue.put(after)
    except md.MdError as error:
        queue.put(str(error))
    queue.close()
    queue.join_thread()
    time.sleep(120)  # a rank that goes first would end the other's group


class Ranks(unittest.TestCase):
    def said(self, case):
        context = mp.get_context("spawn")
        with tempfile.TemporaryDirectory() as folder:
            queues = [context.Queue() for _ in range(2)]
            children = [context.Process(target=work, args=(rank, folder + "/meet", case, queues[rank]))
                        for rank in range(2)]
            for child in children:
                child.start()
            said = [queue.get(timeout=120) for queue in queues[:1 if case == "late" else 2]]
            for child in children:
                child.kill()
                child.join(60)
        return said

    def test_agree(self):
        first, second = self.said("agree")
        self.assertEqual(first, second)
        self.assertRegex(first, "^[0-9a-f]{32}$")

    def test_shapes_that_one_has_met(self):
        first, second = self.said("shapes")
        self.assertEqual(first, second)
        self.assertRegex(first, "^[0-9a-f]{32}$")

    def test_other_kernels(self):
        first, second = self.said("import")
        self.assertEqual(first, second)
        self.assertRegex(first, "^[0-9a-f]{32}$")

    def test_kernels_that_cannot_change(self):
        for text in self.said("pins"):
            self.assertRegex(text, "different kernels.*rank [01] cannot build .*another one is pinned")

    def test_late(self):
        self.assertRegex(self.said("late")[0], "not all ranks came within 1.0 s")

    def test_no_group(self):
        with self.assertRaisesRegex(md.MdError, "not initialised"):
            md.agree()


if __name__ == "__main__":
    unittest.main()
