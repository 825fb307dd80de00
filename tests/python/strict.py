"""A fault of the package is logged, and PyTorch computes what it concerns: imported by tests of graphs, which must see
it."""

import sys

from multidispatch.compile.lowering import lower
from multidispatch.compile.rewriting import rewrite

backend = sys.modules["multidispatch.compile.backend"]  # the package has a function of that name


def stop(consequence):
    raise sys.exc_info()[1]


for module in (backend, lower, rewrite):
    module.fault = stop
