"""The computed master answers as one that holds its rows, costs what was declared, and takes no memory."""

import tracemalloc
from collections import OrderedDict, deque

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import BadSetting, MillraceError
from pipeline.generate.zipf import ZipfDraw
from pipeline.joins import Options
from pipeline.joins import make as make_join
from pipeline.master.charged import ChargedMaster
from pipeline.master.computed import ComputedRows, Scatter
from pipeline.master.disks import Disk, PagePool, VirtualClock
from pipeline.master.memory import MemoryMaster
from tests.joins.harness import VARIANTS, answer, drive, oracle

DISK = Disk(request=0.25, seek=4.0, byte=1e-4, page_bytes=1_000)  # 10 rows of 100 bytes a page, 0.1 s each
SHAPES = {
    "sorted": ComputedRows(97, 100),
    "scattered": ComputedRows(97, 40, scattered=True, seed=3),
    "keys repeat": ComputedRows(97, 24, law=ZipfDraw(60, 1.0)),
    "keys repeat evenly": ComputedRows(97, 31, law=ZipfDraw(20, 0.0)),
    "keys repeat, rows anywhere": ComputedRows(97, 120, law=ZipfDraw(60, 0.7), scattered=True),
    "keys repeat, most have no row": ComputedRows(97, 40, law=ZipfDraw(10_000, 1.0)),
    "one row": ComputedRows(1),
}
shapes = pytest.mark.parametrize("rows", SHAPES.values(), ids=SHAPES.keys())
briefly = settings(max_examples=8, deadline=None)


def charged(rows: ComputedRows, **options) -> ChargedMaster:
    return ChargedMaster(rows, DISK, VirtualClock(), **options)


def in_memory(rows: ComputedRows, indexed: bool = True) -> MemoryMaster:
    """A master that holds the same rows, read by one scan."""
    table = charged(rows).scan(None, rows.rows + 1).rows
    assert len(table) == rows.rows
    return MemoryMaster(table, unique=rows.unique and indexed, indexed=indexed)


def as_set(table: pa.Table) -> list[tuple]:
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))


def keys_around(rows: ComputedRows) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(-3, 2 * rows.ranks + 3), unique=True, max_size=20)


@shapes
@briefly
@given(data=st.data())
def test_look_ups_answer_as_a_master_that_holds_the_rows(rows, data):
    twin, master = in_memory(rows), charged(rows, pool_bytes=data.draw(st.sampled_from([0, 1_000, 5_000])))
    asked = [pa.array(data.draw(keys_around(rows)), pa.int64()) for _ in range(3)]
    for keys, begun in [(keys, master.begin_lookup(keys)) for keys in asked]:
        answer = begun.answer()
        assert answer.schema == twin.schema
        assert as_set(master.lookup(keys)) == as_set(answer) == as_set(twin.lookup(keys))
    assert master.reads.by_kind["lookup"].rows == 2 * sum(len(twin.lookup(keys)) for keys in asked)


def in_pieces(master, keys: list[int], rows: int) -> list[pa.Table]:
    position, read = None, []
    while not read or position is not None:
        piece = master.lookup_from(pa.array(keys, pa.int64()), position, rows)
        assert piece.reached == (piece.position is None)
        assert len(piece.rows) <= rows
        position = piece.position
        read.append(piece.rows)
    return read


@shapes
@briefly
@given(data=st.data())
def test_look_ups_in_pieces_bring_every_row_once(rows, data):
    keys, a_piece = data.draw(keys_around(rows)), data.draw(st.sampled_from([1, 2, 7, 200]))
    for master in (charged(rows), in_memory(rows)):
        pieces = in_pieces(master, keys, a_piece)
        assert as_set(pa.concat_tables(pieces)) == as_set(in_memory(rows).lookup(pa.array(keys, pa.int64())))
        assert all(len(piece) == a_piece for piece in pieces[:-1])


def test_a_look_up_in_pieces_costs_the_pages_of_each_piece():
    master = charged(ComputedRows(1_000, 100, ZipfDraw(10, 0.0)))  # 100 rows a key, 10 a page
    first = int(master.rows.first_at(np.array([6]))[0])
    pages = (first + 30) // 10 - first // 10 + 1
    master.lookup_from(pa.array([6]), None, 31)
    assert master.clock() == pytest.approx(4 + pages * 0.1)
    before = master.clock()
    master.lookup_from(pa.array([6]), (first + 29).to_bytes(8, "big"), 30)
    assert master.clock() - before == pytest.approx(4 + 3.5 * 0.1, abs=0.06)  # 3 or 4
    before = master.clock()
    assert len(master.lookup_from(pa.array([7]), None, 5).rows) == 0  # no such key
    assert master.clock() - before == pytest.approx(4.1)


@shapes
@briefly
@given(data=st.data())
def test_pages_and_borders_answer_as_a_master_that_holds_the_rows(rows, data):
    twin, master = in_memory(rows), charged(rows)
    a_page = data.draw(st.integers(1, 100))
    assert master.borders(a_page).to_pylist() == twin.borders(a_page).to_pylist()
    behind = data.draw(st.none() | st.integers(-3, 2 * rows.ranks + 3))
    assert master.keys(behind, a_page).to_pylist() == twin.keys(behind, a_page).to_pylist()
    for _ in range(3):
        bound = st.none() | st.integers(-3, 2 * rows.ranks + 3)
        first, until, most = data.draw(bound), data.draw(bound), data.draw(st.integers(1, 100))
        also = data.draw(st.none() | keys_around(rows).map(lambda keys: pa.array(keys, pa.int64())))
        assert as_set(master.page(first, until, most, also)) == as_set(twin.page(first, until, most, also))


@shapes
@briefly
@given(data=st.data())
def test_scans_answer_as_a_master_that_holds_the_rows(rows, data):
    twin, master = in_memory(rows), charged(rows)
    places = [(None, None)]  # the same place, in the words of each
    for _ in range(12):
        most = data.draw(st.integers(1, 40))
        ours, theirs = places[-1]
        behind = [place for place in places[1:] if None not in place and (ours is None or place[0] >= ours)]
        until = data.draw(st.sampled_from([(None, None), *behind]))
        scan, wanted = master.begin_scan(ours, most, until[0]).answer(), twin.scan(theirs, most, until[1])
        assert (len(scan.rows), scan.reached) == (len(wanted.rows), wanted.reached)
        assert (scan.position is None) == (wanted.position is None)
        if rows.clustered:
            assert scan.rows.equals(wanted.rows)
        places.append((scan.position, wanted.position))


@shapes
@pytest.mark.parametrize("a_read", [1, 7, 97, 98])
def test_every_row_comes_once_in_a_cycle(rows, a_read):
    master = charged(rows)
    seen, position = [], None
    while True:
        scan = master.scan(position, a_read)
        seen += scan.rows["surrogate_key"].to_pylist()
        if (position := scan.position) is None:
            break
    assert sorted(seen) == list(range(1, rows.rows + 1))
    if rows.clustered:
        assert seen == sorted(seen)
    else:
        assert seen != sorted(seen)


@pytest.mark.parametrize("width", [24, 25, 32, 120, 1_000])
def test_a_row_is_as_wide_as_was_asked_for(width):
    rows = ComputedRows(1_000, width)
    assert rows.table(np.arange(500)).nbytes == 500 * width
    statistics = charged(rows).statistics()
    assert (statistics.rows, statistics.row_bytes, statistics.key_bytes) == (1_000, width, 8)


def test_keys_repeat_as_the_law_says():
    rows = ComputedRows(200_000, 24, law=ZipfDraw(5_000, 1.0))
    counts = np.bincount(np.asarray(rows.table(np.arange(200_000))["key"]) // 2)
    law = ZipfDraw(5_000, 1.0)
    wanted = 200_000 * np.diff(law.shares_of_first(np.arange(5_001)))
    assert np.abs(counts - wanted).max() <= 1
    assert counts[0] == pytest.approx(200_000 * law.share_of_first(1), abs=1)


@given(size=st.integers(1, 2_000), seed=st.integers(0, 9))
@briefly
def test_a_scatter_is_one_to_one_and_goes_back(size, seed):
    scatter, numbers = Scatter(size, seed), np.arange(size)
    places = scatter.place(numbers)
    assert np.array_equal(np.sort(places), numbers)
    assert np.array_equal(scatter.number(places), numbers)


def test_the_most_wanted_rows_are_scattered_evenly_over_a_hundred_million():
    rows = ComputedRows(100_000_000, scattered=True, seed=1)
    wanted = rows.keys_of(np.arange(100_000)) // 2
    in_parts = np.bincount(wanted * 100 // rows.rows, minlength=100)
    assert len(np.unique(wanted)) == 100_000
    # As many in each hundredth of R as chance would have: 1 000 by root of 1 000.
    assert in_parts.std() == pytest.approx(np.sqrt(1_000), rel=0.35)
    assert ComputedRows(100_000_000).keys_of(np.arange(3)).tolist() == [0, 2, 4]


@pytest.mark.parametrize("law", [None, ZipfDraw(50_000_000, 0.8)], ids=["unique", "repeating"])
def test_a_hundred_million_rows_take_no_memory_and_are_right_at_random_places(law):
    rows = ComputedRows(100_000_000, 120, law=law, scattered=law is None)
    tracemalloc.start()
    try:
        master = charged(rows, pool_bytes=100_000)
        last = None
        for number in np.random.default_rng(5).integers(20_000_000, rows.rows - 2_000, 10).tolist():
            scan = master.scan(int(number - 1).to_bytes(8, "big"), 1_000)
            assert scan.rows["surrogate_key"].to_pylist() == list(range(number + 1, number + 1_001))
            keys = np.asarray(scan.rows["key"])
            assert (np.diff(keys) >= (law is None)).all()
            assert last is None or (keys[0] > last[0]) == (number > last[1]) or keys[0] == last[0]
            last = keys[0], number
            of_key = master.lookup(pa.array(keys[[500]]))["surrogate_key"].to_pylist()
            assert number + 501 in of_key
            assert of_key == list(range(of_key[0], of_key[0] + len(of_key)))
            assert not len(master.lookup(pa.array(keys[[500]] + 1)))
            page = master.page(int(keys[500]), int(keys[-1]) + 2, 100)
            assert page["surrogate_key"][0].as_py() == of_key[0]
        assert len(master.borders(1_000_000)) == 100
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


def test_every_kind_of_read_costs_what_was_declared():
    master = charged(ComputedRows(1_000, 100))
    clock, a_page = master.clock, 0.1

    def took(read) -> float:
        before = clock()
        read()
        return pytest.approx(clock() - before)

    assert took(lambda: master.scan(None, 50)) == 0.25 + 50 * 100 * 1e-4
    assert took(lambda: master.scan((999).to_bytes(8, "big"), 50)) == 0  # nothing is left
    assert took(lambda: master.scan((989).to_bytes(8, "big"), 50)) == 0.25 + 10 * 100 * 1e-4
    assert took(lambda: master.lookup(pa.array([400]))) == 4 + a_page
    assert took(lambda: master.lookup(pa.array([401]))) == 4 + a_page  # no such key
    assert took(lambda: master.lookup(pa.array([400, 402, 800]))) == 2 * (4 + a_page)
    assert took(lambda: master.lookup(pa.array([402, 420, 440]))) == 4 + 3 * a_page  # one page behind the other
    assert took(lambda: master.page(100, 180, 100)) == 4 + 40 * 100 * 1e-4
    assert took(lambda: master.page(100, 180, 20)) == 4 + 20 * 100 * 1e-4
    assert took(lambda: master.page(100, 180, 100, pa.array([102, 103]))) == 4 + 40 * 100 * 1e-4
    assert took(lambda: master.page(100, 180, 100, pa.array([102, 1_002]))) == 4 + 40 * 100 * 1e-4 + 4 + a_page
    assert took(lambda: master.borders(10)) == 0.25 + 1_000 * 8 * 1e-4
    assert took(lambda: master.keys(1_899, 100)) == 0.25 + 50 * 8 * 1e-4
    assert took(master.statistics) == 0
    assert took(lambda: master.lookup(pa.array([], pa.int64()))) == 0
    assert master.reads.total.seconds == pytest.approx(clock())
    assert master.disk_use.seconds == pytest.approx(clock())
    assert {kind: count.queries for kind, count in master.reads.by_kind.items()} == {
        "scan": 3, "lookup": 4, "page": 4, "describe": 1, "keys": 1,
    }  # fmt: skip
    assert master.reads.by_kind["describe"].rows == 100


def test_rows_of_one_key_cost_a_seek_where_they_lie_together_and_one_each_where_they_lie_anywhere():
    law = ZipfDraw(10, 0.0)  # 100 rows a key: 10 pages of 10
    together, anywhere = (charged(ComputedRows(1_000, 100, law, scattered)) for scattered in (False, True))
    assert len(together.lookup(pa.array([4]))) == len(anywhere.lookup(pa.array([4])))
    assert together.clock() == pytest.approx(4 + 11 * 0.1, abs=0.11)
    assert anywhere.disk_use.requests > 20
    assert anywhere.clock() == pytest.approx(4 * anywhere.disk_use.requests + 0.1 * anywhere.disk_use.pool_misses)


def test_an_overflow_chain_costs_a_seek_for_each_page_of_a_keys_rows():
    law = ZipfDraw(10, 0.0)  # 100 rows a key, keys one behind the other: from row 300 on, 10 or 11 pages
    rows = ComputedRows(1_000, 100, law)
    first, end = rows.first_at(np.array([6]))[0], rows.behind(np.array([6]))[0]
    pages = (end - 1) // 10 - first // 10 + 1
    chain = charged(rows, chained=True)
    assert len(chain.lookup(pa.array([6]))) == end - first
    assert chain.clock() == pytest.approx(pages * (4 + 0.1))
    assert chain.disk_use.requests == pages > 9


def test_the_disk_works_on_what_was_begun_while_the_caller_does_something_else():
    master = charged(ComputedRows(1_000, 100))
    begun = master.begin_scan(None, 50)
    assert master.clock() == 0
    master.clock.advance(0.5)
    begun.answer()
    assert master.clock() == pytest.approx(0.75)
    assert master.reads.by_kind["scan"].seconds == pytest.approx(0.25)
    # But it does one thing after the other.
    master.begin_scan(None, 50).abandon()
    master.lookup(pa.array([0]))
    assert master.clock() == pytest.approx(0.75 + 0.75 + 4.1)


@briefly
@given(pages=st.lists(st.integers(0, 12), max_size=200), capacity=st.integers(0, 8))
def test_the_pool_keeps_the_pages_that_were_used_last(pages, capacity):
    pool = PagePool(capacity * 1_000 + 999, page_bytes=1_000)
    kept: deque[int] = deque(maxlen=capacity)  # the plainest there is: look through all of it
    for page in pages:
        missing = page not in kept
        if not missing:
            kept.remove(page)
        kept.append(page)
        assert pool.missing([page]) == [page] * missing
        assert len(pool) == len(kept)
    assert pool.missing(list(kept)) == []


def test_a_look_up_of_a_page_in_the_pool_costs_nothing():
    master = charged(ComputedRows(1_000, 100), pool_bytes=2_000)
    for key, cost in ((0, 4.1), (18, 0), (20, 4.1), (2, 0), (40, 4.1), (20, 4.1), (40, 0)):
        before = master.clock()
        assert len(master.lookup(pa.array([key]))) == 1
        assert master.clock() - before == pytest.approx(cost), key
    assert (master.disk_use.pool_hits, master.disk_use.pool_misses) == (3, 4)
    assert master.pool_pages == master.pool_capacity == 2


@pytest.mark.parametrize(
    "rows",
    [ComputedRows(2_000, 100), ComputedRows(2_000, 100, ZipfDraw(500, 0.8), scattered=True)],
    ids=["unique", "repeating"],
)
def test_a_pool_is_filled_with_what_look_ups_would_have_left_in_it_and_that_costs_nothing(rows):
    looked_up, filled = charged(rows, pool_bytes=20_000), charged(rows, pool_bytes=20_000)
    past = pa.array(np.random.default_rng(3).integers(0, 2 * rows.ranks, 300))
    for key in past:
        looked_up.lookup(pa.array([key.as_py()]))
    filled.fill_pool(past)
    assert (filled.clock(), filled.disk_use.requests, filled.reads.total.queries) == (0, 0, 0)
    assert filled.pool_pages == looked_up.pool_pages == filled.pool_capacity
    before = looked_up.clock()
    for key in range(2 * rows.ranks):
        looked_up.lookup(pa.array([key]))
        filled.lookup(pa.array([key]))
    assert filled.clock() == pytest.approx(looked_up.clock() - before)


def test_an_access_to_a_full_pool_does_not_look_through_it(monkeypatch):
    pool = PagePool(100_000, page_bytes=1)
    pool.missing(range(100_000))

    def forbidden(*_):
        raise AssertionError("looked through the pool")

    class Watched(OrderedDict):
        __iter__ = keys = items = values = forbidden

    pool._last_used = Watched.fromkeys(range(100_000))
    assert pool.missing([100_000, 5, 0]) == [100_000, 0]


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_every_join_answers_on_it_as_on_a_master_in_memory(variant):
    rows = ComputedRows(500, 120, scattered=True)
    sales, master = _sales(rows, 700), charged(rows, pool_bytes=10_000)
    options = Options(clock=master.clock, max_staleness=1e6, absent_staleness=1e6)
    served = answer(drive(make_join(str(variant), master, 60_000, options), sales, cuts=[400]))
    assert served == oracle(sales, in_memory(rows).table)
    assert master.clock() > 0


@pytest.mark.parametrize("scattered", [False, True], ids=["sorted", "scattered"])
@pytest.mark.parametrize("name", ["meshjoin", "r-meshjoin"])
def test_a_join_that_scans_answers_on_it_where_keys_repeat(name, scattered):
    rows = ComputedRows(1_500, 120, law=ZipfDraw(600, 0.9), scattered=scattered)
    sales = _sales(rows, 300)
    for indexed in (True, False):
        master, twin = charged(rows, indexed=indexed), in_memory(rows, indexed)
        assert not master.unique
        assert answer(drive(make_join(name, master, 120_000), sales)) == oracle(sales, twin.table)


def _sales(rows: ComputedRows, number: int) -> pa.Array:
    random = np.random.default_rng(2)
    keys = rows.keys_of(ZipfDraw(rows.ranks, 0.8).draw(random.random(number)))
    return pa.array(keys + (random.random(number) < 0.1), mask=random.random(number) < 0.05)


def test_without_an_index_it_can_only_be_scanned():
    master = charged(ComputedRows(10), indexed=False)
    assert (master.unique, master.indexed) == (False, False)
    for read in (lambda: master.lookup(pa.array([0])), lambda: master.borders(2), lambda: master.page(None, None, 1)):
        with pytest.raises(MillraceError, match="needs an index"):
            read()
    assert len(master.scan(None, 20).rows) == 10


def test_what_cannot_be_is_refused_in_a_sentence():
    for wrong in ({"rows": 0}, {"rows": 5, "row_bytes": 23}, {"rows": 1 << 60}):
        with pytest.raises(BadSetting, match="row"):
            ComputedRows(**wrong)
    with pytest.raises(BadSetting, match="below 0"):
        Disk(-1, 0, 0)
    with pytest.raises(BadSetting, match="pool"):
        charged(ComputedRows(5), pool_bytes=-1)
    with pytest.raises(ValueError, match="distinct int64"):
        charged(ComputedRows(5)).lookup(pa.array([1, 1]))
    with pytest.raises(ValueError, match="at least one row"):
        charged(ComputedRows(5)).scan(None, 0)
