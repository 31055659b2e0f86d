"""What every keeper of master rows promises when it is told that keys have changed."""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest

from pipeline.joins.parts.cache import RowCache
from pipeline.joins.parts.keycodes import KeyCoder
from pipeline.joins.parts.newcomers import Newcomers
from pipeline.joins.parts.pagecache import PageCache
from pipeline.joins.parts.resident import ResidentPages

PAGES, A_PAGE = 12, 5
KEYS = {
    "integers": (pa.int64(), lambda number: number * 7 - 100),
    "texts": (pa.binary(), lambda number: b"key %d" % number),
    "long texts": (pa.binary(), lambda number: b"key %d" % number * 30),
}


@dataclass
class Rows:
    """Page `p` of R has the keys p * A_PAGE and on; a row tells its version."""

    key_type: pa.DataType
    key: object
    coder: KeyCoder = field(init=False)

    def __post_init__(self):
        self.coder = KeyCoder(self.key_type, longest=12)

    @property
    def schema(self):
        return pa.schema([("key", self.key_type), ("surrogate_key", pa.int64()), ("version", pa.string())])

    @property
    def row_bytes(self):
        return self.of(range(A_PAGE), 0).nbytes / A_PAGE + 40

    def of(self, numbers, version):
        numbers = list(numbers)
        columns = [[self.key(n) for n in numbers], numbers, [f"version {version}"] * len(numbers)]
        return pa.table(columns, schema=self.schema)

    def codes(self, numbers):
        keys = pa.array([self.key(n) for n in numbers], self.key_type)
        return self.coder.encode(keys, remember=False)


def page(number):
    return range(number * A_PAGE, (number + 1) * A_PAGE)


class KeptInRowCache:
    def __init__(self, rows):
        self.rows = rows
        self.keeper = RowCache(PAGES * A_PAGE, rows.row_bytes, rows.coder.words, rows.schema)

    def consider(self, number, version):
        table = self.rows.of(page(number), version)
        ones, never = np.ones(A_PAGE, np.float32), np.full(A_PAGE, 1e6)
        self.keeper.consider(Newcomers(self.rows.codes(page(number)), table, ones, never))

    def let_in(self):
        self.keeper.merge(now=0.0)

    def found(self, numbers):
        slots = self.keeper.find(self.rows.codes(numbers), now=1.0)
        there = np.flatnonzero(slots >= 0)
        at = self.keeper.use(slots[there])
        return {
            numbers[n]: self.keeper.rows.slice(int(row), 1).to_pylist()[0] for n, row in zip(there, at, strict=True)
        }


class KeptInPageCache:
    """Its pages never wait: they come in at once."""

    def __init__(self, rows):
        self.rows, width = rows, rows.row_bytes
        memory = PageCache.bytes_for(PAGES * A_PAGE, width, rows.coder.words)
        self.keeper = PageCache(memory, width, rows.coder.words, life=60, clock=lambda: 0.0)

    def consider(self, number, version):
        if number in self.keeper:
            self.keeper.drop(number)
        self.keeper.put(number, self.rows.of(page(number), version), self.rows.codes(page(number)), asked_at=0.0)

    def let_in(self):
        pass

    def found(self, numbers):
        pages, rows = self.keeper.find(self.rows.codes(numbers))
        at = zip(numbers, pages.tolist(), rows.tolist(), strict=True)
        return {n: self.keeper.rows(p).slice(row, 1).to_pylist()[0] for n, p, row in at if p >= 0}


class KeptInResidentPages:
    def __init__(self, rows):
        self.rows = rows
        self.keeper = ResidentPages(rows.schema, rows.coder, PAGES * A_PAGE, rows.row_bytes, PAGES, clock=lambda: 0.0)

    def consider(self, number, version):
        self.keeper.observe(number, sales=3)
        self.keeper.consider(number, 3, self.rows.of(page(number), version), read_at=0.0)

    def let_in(self):
        self.keeper.settle()

    def found(self, numbers):
        rows = self.keeper.find(self.rows.codes(numbers)).tolist()
        return {
            n: self.keeper.table.slice(row, 1).to_pylist()[0] for n, row in zip(numbers, rows, strict=True) if row >= 0
        }


@pytest.fixture(params=KEYS)
def rows(request):
    return Rows(*KEYS[request.param])


@pytest.fixture(params=[KeptInRowCache, KeptInPageCache, KeptInResidentPages])
def kept(request, rows):
    return request.param(rows)


def filled(kept, pages=range(PAGES)):
    for number in pages:
        kept.consider(number, version=0)
    kept.let_in()
    return kept.keeper


def numbers_found(kept):
    return sorted(kept.found(list(range(PAGES * A_PAGE))))


def everybody_but(*gone):
    return [number for number in range(PAGES * A_PAGE) if number not in gone]


def test_forgotten_keys_are_not_found_and_the_others_are(kept, rows):
    keeper = filled(kept)
    assert numbers_found(kept) == everybody_but()
    keeper.forget(rows.codes([0, 7, 8, 59]))
    assert numbers_found(kept) == everybody_but(0, 7, 8, 59)
    assert len(keeper) == PAGES * A_PAGE - 4
    keeper.check()


def test_forgetting_takes_no_memory(kept, rows):
    keeper = filled(kept)
    before = keeper.nbytes
    for number in range(0, PAGES * A_PAGE, 2):
        keeper.forget(rows.codes([number]))
        assert keeper.nbytes <= before
    keeper.check()


def test_to_forget_keys_that_are_not_there_is_harmless(kept, rows):
    keeper = filled(kept, pages=range(4))
    keeper.forget(rows.codes([20, 35, 59, 10_000]))
    keeper.forget(rows.codes([]))
    assert numbers_found(kept) == list(range(20))
    keeper.check()


def test_a_keeper_that_keeps_nothing_may_be_told_too(kept, rows):
    kept.keeper.forget(rows.codes([1, 2]))
    assert numbers_found(kept) == []
    kept.keeper.check()


def test_a_key_that_is_named_twice_is_forgotten_once(kept, rows):
    keeper = filled(kept)
    keeper.forget(rows.codes([3, 3, 3]))
    keeper.forget(rows.codes([3]))
    assert numbers_found(kept) == everybody_but(3)
    keeper.check()


def test_a_forgotten_key_can_come_in_again_with_its_new_row(kept, rows):
    keeper = filled(kept)
    keeper.forget(rows.codes([7]))
    kept.consider(1, version=1)
    kept.let_in()
    assert numbers_found(kept) == everybody_but()
    assert kept.found([7])[7]["version"] == "version 1"
    keeper.check()


def test_what_waits_to_come_in_is_forgotten_too(kept, rows):
    keeper = filled(kept, pages=range(4))
    kept.consider(4, version=0)
    keeper.forget(rows.codes([21, 23]))
    keeper.check()
    kept.let_in()
    assert numbers_found(kept) == [*range(20), 20, 22, 24]
    keeper.check()


def test_to_forget_all_leaves_nothing_and_room_for_all(kept, rows):
    keeper = filled(kept)
    keeper.forget(rows.codes(everybody_but()))
    assert (numbers_found(kept), len(keeper)) == ([], 0)
    keeper.check()
    filled(kept)
    assert numbers_found(kept) == everybody_but()
    keeper.check()


@pytest.mark.parametrize("seed", range(15))
def test_a_keeper_is_a_dictionary_whatever_comes_goes_and_is_forgotten(kept, rows, seed):
    random, known, waiting = np.random.default_rng(seed), {}, {}
    for version in range(60):
        if random.random() < 0.5:
            number = int(random.integers(PAGES))
            kept.consider(number, version)
            into = known if isinstance(kept, KeptInPageCache) else waiting
            into |= dict.fromkeys(page(number), f"version {version}")
        if random.random() < 0.3:
            kept.let_in()
            known, waiting = known | waiting, {}
        if random.random() < 0.5:
            gone = random.integers(0, PAGES * A_PAGE, random.integers(0, 9)).tolist()
            kept.keeper.forget(rows.codes(gone))
            known, waiting = ({n: v for n, v in some.items() if n not in gone} for some in (known, waiting))
        found = {number: row["version"] for number, row in kept.found(list(range(PAGES * A_PAGE))).items()}
        if found != known:  # resident pages come in by themselves when enough of them wait
            known, waiting = known | waiting, {}
        assert found == known
        kept.keeper.check()


def test_a_proof_of_absence_is_forgotten_too(rows):
    cache = RowCache(8, rows.row_bytes, rows.coder.words, rows.schema)
    ones, never = np.ones(2, np.float32), np.full(2, 1e6)
    cache.consider(Newcomers(rows.codes([1, 2]), None, ones, never))
    cache.merge(now=0.0)
    cache.consider(Newcomers(rows.codes([3, 4]), None, ones, never))
    assert (cache.find(rows.codes([1, 2]), now=1.0) >= 0).all()
    cache.forget(rows.codes([1, 3]))
    cache.merge(now=0.0)
    assert (cache.find(rows.codes([1, 2, 3, 4]), now=1.0) >= 0).tolist() == [False, True, False, True]
    cache.check()


def test_a_key_on_two_pages_is_forgotten_on_both(rows):
    """As after a page was split: the old copy must not come to light when the new page goes."""
    clock = [0.0]
    pages = ResidentPages(rows.schema, rows.coder, 20, rows.row_bytes, 3, clock=lambda: clock[0], max_staleness=10)
    for number, (keys, read_at) in enumerate([((1, 2, 3), 5.0), ((3, 4), 0.0)]):
        pages.observe(number, 10 - number)
        pages.consider(number, 10 - number, rows.of(keys, number), read_at)
    pages.settle()
    pages.forget(rows.codes([3]))
    pages.check()
    clock[0] = 10.0  # the second page is too old: the first one is copied anew
    assert (pages.find(rows.codes([1, 2, 3, 4])) >= 0).tolist() == [True, True, False, False]
    pages.check()
    cache = PageCache(100_000, rows.row_bytes, rows.coder.words, life=60, clock=lambda: 0.0)
    for number, keys in enumerate([(1, 2, 3), (3, 4)]):
        cache.put(number, rows.of(keys, number), rows.codes(keys), asked_at=0.0)
    cache.forget(rows.codes([3]))
    cache.drop(1)
    assert cache.find(rows.codes([1, 2, 3, 4]))[0].tolist() == [0, 0, -1, -1]
    cache.check()


def test_a_page_that_lost_a_row_is_not_taken_to_be_whole(rows):
    """Else a key that is on it would be asked for by name for as long as the page stays."""
    kept = KeptInResidentPages(rows)
    filled(kept, pages=range(3))
    kept.consider(3, version=0)
    kept.keeper.forget(rows.codes([6, 16]))
    kept.let_in()
    assert kept.keeper.holds(np.arange(4, dtype=np.int32)).tolist() == [True, False, True, False]
