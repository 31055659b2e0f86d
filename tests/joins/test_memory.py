"""The budget against real memory: what the join allocates at its peak, counted by the allocators themselves."""

import gc
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from pipeline.joins import Join, Options, make, recipe
from pipeline.joins.meshjoin import MeshJoin
from pipeline.joins.rmeshjoin import ReducedMeshJoin
from pipeline.master.memory import MemoryMaster
from tests.joins.harness import VARIANTS, Variant, drive
from tests.joins.workloads import master_table, thousands

MEMORY = 3 << 20
OVERHEAD = 1 << 20  # objects of the interpreter, the test's own master and the driver's last answer
SALES = 300_000


@pytest.fixture(scope="module")
def workload():
    """Nearly as many distinct keys as the master has rows; many budgets' worth of sales in one window."""
    return thousands(rows=100_000, sales=SALES, skew=0.3)


@pytest.fixture(scope="module", autouse=True)
def _compiled_loops():
    """They are loaded once in a process, and take memory that is no join's."""
    drive(make("meshjoin", MemoryMaster(master_table([1], "integers")), MEMORY), pa.array([1]))


def takes_repeated_keys(variant: Variant) -> bool:
    return recipe(str(variant)).reads(unique=False, indexed=True)


# A front stage looks at so many hits that it takes several times as long as the join behind it.
TRIED = [pytest.param(v, marks=pytest.mark.slow) if v.behind_front_stage else v for v in VARIANTS]


@pytest.mark.parametrize("variant", TRIED, ids=str)
def test_a_window_far_larger_than_the_budget_takes_no_more_memory_than_the_budget(variant, workload, arrow_memory):
    keys, master = workload
    assert 8 * len(keys) + keys.nbytes > MEMORY
    served, peak, parts = most_memory(variant.build(master, MEMORY), keys, arrow_memory)
    assert served == SALES
    assert peak <= MEMORY + OVERHEAD, parts


@pytest.fixture
def versions(times):
    """So many versions of each key, made before anybody counts memory; and their sales."""
    keys = 20_000 // times
    rows = [key for key in range(keys) for _ in range(times)]
    master = MemoryMaster(master_table(rows, "integers"), unique=False, indexed=True)
    return master, pa.array(np.random.default_rng(0).integers(0, keys, 300_000 // times))


@pytest.mark.parametrize("times", [1, 10, 500, 10_000])
@pytest.mark.parametrize("variant", [v for v in VARIANTS if takes_repeated_keys(v)], ids=str)
def test_keys_that_repeat_bring_out_many_matches_within_the_budget(variant, times, versions, arrow_memory):
    """A row for each of so many versions of a key: a read of R has matches for many times the memory."""
    master, wanted = versions
    served, peak, parts = most_memory(variant.build(master, MEMORY), wanted, arrow_memory)
    assert served == len(wanted) * times
    assert peak <= MEMORY + OVERHEAD, parts


@pytest.fixture(scope="module")
def hot_keys_coincide():
    """R with 10 000 rows of one key, 5 000 of the next, to 10 of the last, in any order; sales ask for them alike."""
    random = np.random.default_rng(0)
    times = 10_000 // np.arange(1, 1_001)
    keys = random.permutation(np.repeat(np.arange(1_000), times))
    wanted = np.minimum(999, 1_000 ** random.random(3_000) - 1).astype(np.int64)
    master = MemoryMaster(master_table(keys.tolist(), "integers"), unique=False, indexed=True)
    return master, wanted, int(times[wanted].sum())


@pytest.mark.parametrize("variant", [v for v in VARIANTS if takes_repeated_keys(v)], ids=str)
def test_keys_that_repeat_differently_bring_out_their_matches_within_the_budget(
    variant, hot_keys_coincide, arrow_memory
):
    master, wanted, pairs = hot_keys_coincide
    served, peak, parts = most_memory(variant.build(master, MEMORY), pa.array(wanted), arrow_memory)
    assert served == pairs
    assert peak <= MEMORY + OVERHEAD, parts


@pytest.mark.parametrize("memory", [MEMORY // 8, MEMORY])
@pytest.mark.parametrize("kind", [MeshJoin, ReducedMeshJoin], ids=lambda kind: kind.name)
def test_as_published_too_the_budget_holds_where_keys_repeat(kind, memory, hot_keys_coincide, arrow_memory):
    master, wanted, pairs = hot_keys_coincide
    join = make(kind.name, master, memory, Options(settings={kind.name: kind.Settings(published=True)}))
    served, peak, parts = most_memory(join, pa.array(wanted), arrow_memory)
    assert served == pairs
    assert peak <= memory + OVERHEAD, parts


def most_memory(join: Join, keys: pa.Array, arrow_memory: pa.MemoryPool) -> tuple[int, int, str]:
    """Matches, and the most that the allocators gave while the join made them, as a number and in words."""
    positions = np.arange(len(keys), dtype=np.int64)
    gc.collect()
    tracemalloc.start()
    served = offered = 0
    while offered < len(keys) or join.pending:
        offered += join.offer(positions[offered:], keys.slice(offered))
        served += sum(len(piece.sales) for piece in join.step(drain=offered == len(keys)))
    _, numpy_and_python = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    peak = numpy_and_python + arrow_memory.max_memory()
    return served, peak, f"{numpy_and_python:,} + {arrow_memory.max_memory():,} = {peak:,} bytes"
