"""A fault of the package is logged, and PyTorch computes what it concerns: imported by tests of graphs, which must see
it."""

import sys

from multidispatch.compile.lowering import lower
from multidispatch.compile.rewriting import rewrite
from multidispatch.compile.running import building, mending

backend = sys.modules["multidispatch.compile.backend"]  # the package has a function of that name


def stop(consequence):
    raise sys.exc_info()[1]


for module in (backend, lower, mending, rewrite):
    module.fault = stop
# The first calls are the plan's, unless a test asks for eager's.
is_wanted = building.is_wanted
building.is_wanted = lambda options: is_wanted(options) and options.eager_while_building is True
