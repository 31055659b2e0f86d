"""What every join of the registry promises, alone and behind the front stage."""

import itertools
import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings

from pipeline.errors import BudgetTooSmall, MasterReadFailed, NotUnique
from pipeline.joins import Options, make, recipe
from pipeline.master.memory import MemoryMaster
from tests.joins.changing import WAIT_FOR_SALES, bursts, right_answers, while_it_changes
from tests.joins.harness import VARIANTS, answer, drive, oracle, smallest_memory
from tests.joins.workloads import Workload, as_keys, master_table, thousands, workloads

pytestmark = pytest.mark.parametrize("variant", VARIANTS, ids=str)
thoroughly = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
briefly = settings(thoroughly, max_examples=6)  # each run draws others

# The least memory of the others grows with the square root of R: that of their directory, or queue, of pages.
NEED_THE_SAME_FOR_EVERY_MASTER = {"inlj", "partitioned", "ssij", "auto"}


@pytest.fixture(scope="module")
def vast():
    """A few sales and a master of some 20 MiB."""
    keys, master = thousands(rows=20_000, sales=60, skew=0.5)
    wide = pa.array([f"{number:01000}" for number in range(20_000)])
    return keys, MemoryMaster(master.table.set_column(3, "label", wide))


@thoroughly
@given(workload=workloads())
def test_every_sale_is_served_exactly_as_sql_says(variant, workload: Workload):
    master = MemoryMaster(workload.master)
    join = variant.build(master, smallest_memory(variant, master) + workload.spare)
    assert answer(drive(join, workload.keys, workload.cuts)) == oracle(workload.keys, workload.master)


@briefly
@given(workload=workloads())
def test_a_join_remembers_nothing_of_the_stream_when_a_batch_is_over(variant, workload: Workload):
    master = MemoryMaster(workload.master)
    join = variant.build(master, smallest_memory(variant, master) + workload.spare)
    wanted = oracle(workload.keys, workload.master)
    for _ in range(3):
        assert answer(drive(join, workload.keys)) == wanted


@briefly
@given(workload=workloads())
def test_the_statistics_add_up(variant, workload: Workload):
    master = MemoryMaster(workload.master)
    join = variant.build(master, smallest_memory(variant, master) + workload.spare)
    wanted = oracle(workload.keys, workload.master)
    drive(join, workload.keys, workload.cuts)
    counted = join.statistics
    assert counted.offered == len(workload.keys)
    assert counted.null_keys == workload.keys.null_count
    assert counted.matched == sum(1 for position, surrogate, *_ in wanted if surrogate is not None)
    assert counted.matched + counted.unmatched == len(workload.keys)
    assert counted.hits + counted.misses == len(workload.keys) - workload.keys.null_count


@briefly
@given(workload=workloads())
def test_a_failed_read_is_an_error_and_the_repeated_batch_loses_nothing(variant, workload: Workload):
    memory = smallest_memory(variant, MemoryMaster(workload.master)) + workload.spare
    undisturbed = MemoryMaster(workload.master)
    drive(variant.build(undisturbed, memory), workload.keys)
    reads = sum(count.queries for count in undisturbed.reads.by_kind.values())
    wanted = oracle(workload.keys, workload.master)
    for fail_on in {1, 2, 3, (reads + 1) // 2, reads} - {0}:
        if fail_on > reads:
            continue
        master = MemoryMaster(workload.master, fail_on=fail_on)
        with pytest.raises(MasterReadFailed):
            drive(variant.build(master, memory), workload.keys)
        master.fail_on = None
        assert answer(drive(variant.build(master, memory), workload.keys)) == wanted


@pytest.mark.parametrize("skew", [0.0, 1.0, 1.5])
def test_a_master_many_times_larger_than_the_budget_is_joined_within_it(variant, skew):
    keys, master = thousands(rows=20_000, sales=1_000, skew=skew)
    for memory, sales in ((smallest_memory(variant, master), 100), (60_000, 1_000)):
        assert master.table.nbytes > 10 * memory
        join, some = variant.build(master, memory), keys.slice(0, sales)
        assert answer(drive(join, some, cuts=[1, 40, 41], check_every=9)) == oracle(some, master.table)


def test_a_master_of_more_than_a_thousand_budgets_is_joined_with_the_least_memory(variant, vast):
    keys, master = vast
    memory = smallest_memory(variant, master)
    assert master.table.nbytes > (1_000 if variant.name in NEED_THE_SAME_FOR_EVERY_MASTER else 50) * memory
    join = variant.build(master, memory)
    assert answer(drive(join, keys, cuts=[7])) == oracle(keys, master.table)


@pytest.mark.parametrize("rows", [1, 2, 99, 100, 101, 500])
def test_keys_at_the_borders_of_the_master_are_found(variant, rows):
    _, master = thousands(rows, sales=0, skew=0.0)
    present = master.table["key"].to_pylist()
    borders = sorted({*present[:2], *present[-2:], *present[::10], *present[9::10], *present[::100], *present[99::100]})
    keys = pa.array([near for key in borders for near in (key - 1, key, key + 1)])
    join = variant.build(master, smallest_memory(variant, master))
    assert answer(drive(join, keys)) == oracle(keys, master.table)


def test_an_empty_master_proves_every_sale_absent(variant):
    master = MemoryMaster(master_table([], "bytes"))
    keys = as_keys([b"a", None, b"a"], "bytes")
    join = variant.build(master, smallest_memory(variant, master))
    assert answer(drive(join, keys)) == oracle(keys, master.table)
    assert (join.statistics.matched, join.statistics.unmatched) == (0, 3)


def test_a_master_of_one_row_is_found_by_its_key_and_by_no_other(variant):
    for kind, key, others in (("integers", 5, [4, 6, -5]), ("texts", "a", ["A", "a ", "", "b"])):
        master = MemoryMaster(master_table([key], kind))
        keys = as_keys([key, *others, None, key], kind)
        join = variant.build(master, smallest_memory(variant, master))
        assert answer(drive(join, keys)) == oracle(keys, master.table)
        assert join.statistics.matched == 2


@pytest.mark.parametrize("length", [70, 5_000])
def test_long_keys_that_are_nearly_alike_are_told_apart(variant, length):
    texts = [f"{'k' * length}{end}" for end in ("", " ", "k", "K", "kk", "kK")]
    master = MemoryMaster(master_table(texts[::2], "long texts"))
    keys = as_keys(texts * 3, "long texts")
    for spare in (0, 30_000):
        join = variant.build(master, smallest_memory(variant, master) + spare)
        assert answer(drive(join, keys, cuts=[11])) == oracle(keys, master.table)


def test_long_keys_of_sales_do_not_break_the_budget_of_a_master_with_short_ones(variant):
    master = MemoryMaster(master_table(["a", "b"], "texts"))
    keys = as_keys([text for number in range(150) for text in (f"{number}{'x' * 3_000}", "b")], "texts")
    join = variant.build(master, smallest_memory(variant, master) + 2_000)
    assert answer(drive(join, keys)) == oracle(keys, master.table)


def test_a_pause_of_the_stream_does_not_stop_the_join(variant):
    keys, master = thousands(rows=300, sales=400, skew=0.8)
    goes_on = variant.name not in WAIT_FOR_SALES
    for memory in (smallest_memory(variant, master), 60_000):
        join = variant.build(master, memory)
        served = bursts(join, keys, sizes=[1, 150, 0, 3, 46, 200], goes_on=goes_on)
        assert answer(served) == oracle(keys, master.table)


@pytest.mark.parametrize("every", [1, 3])
def test_an_answer_is_right_for_some_moment_while_the_sale_was_in_the_join(variant, every):
    keys, master = thousands(rows=300, sales=300, skew=0.8)
    rows, random = master.table, np.random.default_rng(4)
    changing = np.arange(len(rows)) % 3 == 0
    versions = [rows.filter(pa.array(~changing | (random.random(len(rows)) < 0.5))) for _ in range(40)]
    between = right_answers(keys, versions)
    never_old = Options(max_staleness=0, absent_staleness=0)
    join = make(str(variant), master, 40_000, never_old)
    served = while_it_changes(join, keys, master, versions, every)
    assert len(served) == len(keys)
    for admitted, left, found in served:
        assert found <= between(admitted, left), (admitted, left, found)


def test_a_table_that_a_join_cannot_read_is_refused_by_the_joins_own_name(variant):
    master = MemoryMaster(master_table([1, 2], "integers"), unique=False)
    if recipe(str(variant)).needs_index:
        with pytest.raises(NotUnique, match=f"^{re.escape(str(variant))} needs (an|a unique) index on the natural key"):
            variant.build(master, 1 << 20)
    else:
        keys = pa.array([2, 3])
        assert answer(drive(variant.build(master, 1 << 20), keys)) == oracle(keys, master.table)


def test_a_null_key_asks_the_master_nothing(variant):
    keys, master = as_keys([None] * 50, "integers"), MemoryMaster(master_table([1, 2], "integers"))
    join = variant.build(master, 1 << 20)
    assert len(answer(drive(join, keys, cuts=[10]))) == 50
    assert not master.reads.by_kind


def test_sales_with_the_same_key_are_all_served(variant):
    keys, master = pa.array([7] * 300 + [8] * 300), MemoryMaster(master_table([7], "integers"))
    for memory in (smallest_memory(variant, master), 1 << 20):
        assert answer(drive(variant.build(master, memory), keys)) == oracle(keys, master.table)


def test_positions_need_not_be_dense(variant):
    master = MemoryMaster(master_table([1, 2, 3], "integers"))
    join = variant.build(master, 1 << 20)
    positions = np.array([3, 10, 2**40, 2**62])
    assert join.offer(positions, pa.array([1, None, 9, 3])) == 4
    pieces = list(itertools.chain.from_iterable(join.step(drain=True) for _ in range(3)))
    assert {(position, surrogate) for position, surrogate, *_ in answer(pieces)} == {
        (3, 10),
        (10, None),
        (2**40, None),
        (2**62, 30),
    }


def test_a_row_that_changes_is_seen_by_the_next_batch_of_a_fresh_join(variant):
    master = MemoryMaster(master_table([1, 2], "integers"))
    keys = pa.array([1, 2, 3])
    drive(variant.build(master, 1 << 20), keys)
    master.replace(master_table([3, 2], "integers"))
    assert answer(drive(variant.build(master, 1 << 20), keys)) == oracle(keys, master.table)


def test_rows_that_have_changed_are_served_anew_and_absences_that_have_ended_too(variant):
    """What is kept of them may be minutes from its end: the join is told which keys they are."""
    keys, master = thousands(rows=400, sales=2_000, skew=1.0)
    before, random = master.table, np.random.default_rng(6)
    for memory in (60_000, 1 << 20):
        master.replace(before)
        join = variant.build(master, memory)
        for _ in range(3):
            drive(join, keys, cuts=[500])
        changed = random.random(len(before)) < 0.3
        later = pc.if_else(pa.array(changed), pc.add(before["surrogate_key"], 7), before["surrogate_key"])
        gone = changed & (random.random(len(before)) < 0.2)
        come = sorted(set(keys.to_pylist()) - set(before["key"].to_pylist()))[::2]
        new = before.set_column(1, "surrogate_key", later).filter(pa.array(~gone))
        new = pa.concat_tables([new, master_table(come, "integers")]).sort_by("key").combine_chunks()
        master.replace(new)
        join.changed(pa.array([*before["key"].filter(pa.array(changed)).to_pylist(), *come, 10**9, come[0], None]))
        join.check()
        assert answer(drive(join, keys, cuts=[700])) == oracle(keys, new)


def test_when_it_is_not_known_what_has_changed_nothing_is_served_from_memory(variant):
    keys, master = thousands(rows=400, sales=2_000, skew=1.0)
    before = master.table
    for memory in (60_000, 1 << 20):
        master.replace(before)
        join = variant.build(master, memory)
        for _ in range(3):
            drive(join, keys, cuts=[500])
        kept = join.cached_rows
        new = before.set_column(1, "surrogate_key", pc.add(before["surrogate_key"], 7)).slice(100).combine_chunks()
        master.replace(new)
        join.changed(None)
        join.check()
        assert (join.cached_rows, join.statistics.forgotten) == (0, kept)
        for _ in range(2):
            assert answer(drive(join, keys, cuts=[700])) == oracle(keys, new)


def test_the_least_memory_named_in_the_refusal_works_and_one_byte_less_does_not(variant):
    keys, master = thousands(rows=500, sales=500, skew=0.5)
    least = smallest_memory(variant, master)
    assert answer(drive(variant.build(master, least), keys)) == oracle(keys, master.table)
    with pytest.raises(BudgetTooSmall) as refused:
        variant.build(master, least - 1)
    for part in (f"memory = {least - 1:,} bytes", f"needs {least:,}", "Raise"):
        assert part in str(refused.value)


def test_master_rows_wider_than_a_page_of_memory_are_served(variant):
    wide = master_table(list(range(8)), "integers")
    wide = wide.set_column(wide.schema.get_field_index("label"), "label", pa.array([f"{n}" * 30_000 for n in range(8)]))
    master = MemoryMaster(wide)
    keys = pa.array([5, 1, 9, 5, 0, 7])
    join = variant.build(master, smallest_memory(variant, master))
    for _ in range(2):
        assert answer(drive(join, keys)) == oracle(keys, wide)
