"""The budget against real memory: what the join allocates at its peak, counted by the allocators themselves."""

import gc
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from tests.joins.harness import VARIANTS
from tests.joins.workloads import thousands

MEMORY = 3 << 20
OVERHEAD = 1 << 20  # objects of the interpreter, the test's own master and the driver's last answer
SALES = 300_000


@pytest.fixture(scope="module")
def workload():
    """Nearly as many distinct keys as the master has rows; many budgets' worth of sales in one window."""
    return thousands(rows=100_000, sales=SALES, skew=0.3)


@pytest.fixture
def arrow_memory():
    """A pool that only this file uses, so that its peak is that of the joins tried here."""
    usual, ours = pa.default_memory_pool(), pa.system_memory_pool()
    assert usual.backend_name != ours.backend_name, "ARROW_DEFAULT_MEMORY_POOL=system hides what the joins allocate"
    pa.set_memory_pool(ours)
    yield ours
    pa.set_memory_pool(usual)


# A front stage looks at so many hits that it takes several times as long as the join behind it.
TRIED = [pytest.param(v, marks=pytest.mark.slow) if v.behind_front_stage else v for v in VARIANTS]


@pytest.mark.parametrize("variant", TRIED, ids=str)
def test_a_window_far_larger_than_the_budget_takes_no_more_memory_than_the_budget(variant, workload, arrow_memory):
    keys, master = workload
    positions = np.arange(len(keys), dtype=np.int64)
    assert positions.nbytes + keys.nbytes > MEMORY
    join = variant.build(master, MEMORY)
    gc.collect()
    tracemalloc.start()
    served = offered = 0
    while offered < len(keys) or join.pending:
        offered += join.offer(positions[offered:], keys.slice(offered))
        served += sum(len(piece.sales) for piece in join.step(drain=offered == len(keys)))
    _, numpy_and_python = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert served == SALES
    peak = numpy_and_python + arrow_memory.max_memory()
    assert peak <= MEMORY + OVERHEAD, f"{numpy_and_python:,} + {arrow_memory.max_memory():,} = {peak:,} bytes"
