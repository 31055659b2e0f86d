"""The twin in memory keeps the promises of the port, against a reading of them that is as plain as can be."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import MasterReadFailed, MillraceError
from pipeline.master.memory import MemoryMaster
from tests.kit.master_fixtures import every_key

KEYS = [None, b"", b"A", b"a", b"aB", b"Ab", b"b", b"\xc3\xa9", b"z", b"Z"]
BYTES = st.sampled_from(KEYS)


def table(rows: list[tuple[bytes | None, int]]) -> pa.Table:
    return pa.table(
        {
            "key": pa.array([key for key, _ in rows], pa.binary()),
            "surrogate_key": pa.array([number for _, number in rows], pa.int64()),
            "updated_at": pa.array([0] * len(rows), pa.timestamp("us", tz="UTC")),
        }
    )


def rows_of(answer: pa.Table) -> list[tuple[bytes, int]]:
    return list(zip(answer["key"].to_pylist(), answer["surrogate_key"].to_pylist(), strict=True))


rows_with_shared_keys = st.lists(st.tuples(BYTES, st.integers(0, 3)), max_size=30)
rows_with_own_keys = st.lists(
    st.tuples(BYTES.filter(bool), st.integers(0, 3)), max_size=9, unique_by=lambda row: row[0]
)


@settings(deadline=None)
@given(st.data(), st.booleans())
def test_a_row_that_stays_is_seen_once_in_a_cycle_whatever_else_changes(data, unique):
    rows = rows_with_own_keys if unique else rows_with_shared_keys
    versions = data.draw(st.lists(rows, min_size=1, max_size=4))
    master = MemoryMaster(table(versions[0]), unique=unique)
    seen: Counter = Counter()
    scan = master.scan(None, data.draw(st.integers(1, 4)))
    seen.update(rows_of(scan.rows))
    shown = [versions[0]]
    while scan.position is not None:
        shown.append(data.draw(st.sampled_from(versions)))
        master.replace(table(shown[-1]))
        scan = master.scan(scan.position, data.draw(st.integers(1, 4)))
        seen.update(rows_of(scan.rows))
    assert scan.reached
    for row in set.intersection(*(set(version) for version in shown)):
        if row[0] is not None:
            always = min(Counter(version)[row] for version in shown)
            most = max(Counter(version)[row] for version in shown)
            assert always <= seen[row] <= most


@settings(deadline=None)
@given(rows_with_shared_keys, st.integers(1, 5), st.integers(1, 5))
def test_a_scan_up_to_a_place_ends_there_and_the_rest_is_the_rest(rows, before, step):
    master = MemoryMaster(table(rows), unique=False)
    first = master.scan(None, before)
    if first.position is None:
        assert Counter(rows_of(first.rows)) == Counter(row for row in rows if row[0] is not None)
        return
    again, position, reached = [], None, False
    while not reached:
        scan = master.scan(position, step, until=first.position)
        again += rows_of(scan.rows)
        position, reached = scan.position, scan.reached
    assert again == rows_of(first.rows)
    assert position == first.position


@settings(deadline=None)
@given(
    rows_with_own_keys, st.integers(1, 4), st.lists(BYTES.filter(lambda key: key is not None), max_size=4, unique=True)
)
def test_pages_from_border_to_border_are_all_of_the_table_and_also_is_exact(rows, size, also):
    master = MemoryMaster(table(rows))
    borders = [*master.borders(size).to_pylist(), None]
    paged = []
    for first, until in pairwise(borders):
        page = rows_of(master.page(first, until, size))
        with_others = rows_of(master.page(first, until, size, also=pa.array(also, pa.binary())))
        assert Counter(with_others) == Counter({*page, *(row for row in rows if row[0] in also)})
        paged += page
    assert Counter(paged) == Counter(rows)
    assert [row[0] for row in paged[::size]] == borders[:-1]
    assert every_key(master, size) == [row[0] for row in paged]


@pytest.mark.parametrize("kind", [pa.int64(), pa.binary()])
def test_keys_bisect_into_the_pages_that_hold_them(kind):
    keys = list(range(-500, 500)) if kind == pa.int64() else [f"{n % 26 + 65:c}{n}".encode() for n in range(1_000)]
    master = MemoryMaster.of(dict.fromkeys(keys, 1), kind)
    borders = master.borders(50)
    pages = np.searchsorted(master.order(borders), master.order(master.table["key"].combine_chunks()), side="right") - 1
    assert pages.tolist() == [place // 50 for place in range(1_000)]


def test_a_master_whose_keys_come_many_times_can_only_be_scanned():
    master = MemoryMaster(table([(b"a", 1), (b"a", 2)]), unique=False)
    assert (master.unique, master.indexed) == (False, False)
    keys = pa.array([b"a"])
    indexed = lambda: master.lookup(keys), lambda: master.borders(9), lambda: master.page(None, None, 9)
    for read in (*indexed, lambda: master.keys(None, 9)):
        with pytest.raises(MillraceError, match="only be scanned"):
            read()
    assert len(master.scan(None, 9).rows) == 2
    assert MemoryMaster(master.table, unique=False, indexed=True).lookup(keys).num_rows == 2


def test_a_unique_master_refuses_a_key_that_comes_twice():
    with pytest.raises(ValueError, match="unique"):
        MemoryMaster(table([(b"a", 1), (b"a", 2)]))


def test_every_kind_of_read_is_counted_and_the_one_that_shall_fail_does():
    master = MemoryMaster(table([(b"a", 1)]), fail_on=4)
    master.lookup(pa.array([b"a", b"b"]))
    master.page(None, None, 9)
    master.scan(None, 9)
    with pytest.raises(MasterReadFailed):
        master.borders(9)
    reads = master.reads.by_kind
    assert {kind: (count.queries, count.rows, count.failures) for kind, count in reads.items()} == {
        "lookup": (1, 1, 0),
        "page": (1, 1, 0),
        "scan": (1, 1, 0),
        "describe": (0, 0, 1),
    }


def test_the_longest_key_is_told():
    assert MemoryMaster(table([(b"a", 1), (b"abc", 1)])).statistics().key_bytes == 3
    assert MemoryMaster.of({1: 1}).statistics().key_bytes == 8
    assert MemoryMaster(table([])).statistics().key_bytes == 0
