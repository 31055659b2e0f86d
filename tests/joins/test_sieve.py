"""The filter of all keys before `auto`: what it says is so, whatever becomes of master, feed and workers."""

from __future__ import annotations

import gc
import time
import tracemalloc
import weakref
from collections import defaultdict
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pipeline import columns
from pipeline.config.settings import WorkerSettings
from pipeline.driver.changelog import ChangeLog
from pipeline.enrich import Dimension, enrich
from pipeline.errors import BadContract
from pipeline.joins import JOINS, Join, Options, auto, make
from pipeline.joins.algorithm import ABSENT
from pipeline.joins.cost import keyfilter as cost
from pipeline.joins.cost.caps import Caps
from pipeline.joins.cost.prediction import Prediction
from pipeline.joins.cost.question import Stream as Sales
from pipeline.joins.parts.keyfilter import KeyFilter
from pipeline.joins.sieve import NEVER, Stage
from pipeline.master.charged import ChargedMaster
from pipeline.master.computed import ComputedRows
from pipeline.master.disks import Disk, VirtualClock
from pipeline.master.feed import Changes
from pipeline.master.memory import MemoryMaster
from pipeline.master.port import Scan, UnderWay
from pipeline.news import News
from tests.joins.harness import answer, drive, oracle
from tests.joins.test_memory import MEMORY, OVERHEAD
from tests.joins.workloads import key_pool, master_table, sales_keys
from tests.kit.fakes import FakeClock
from tests.kit.master_fixtures import dimension

ABSENT_STALENESS, LIFE = 5.0, 60.0


def codes(numbers: Any) -> np.ndarray:
    return np.asarray(numbers, np.uint64).reshape(-1, 1)


@pytest.mark.parametrize("keys", [1, 100, 60_000])
def test_a_key_that_was_noted_is_found_and_of_the_others_few_are(keys: int) -> None:
    random = np.random.default_rng(keys)
    known = random.choice(1 << 40, 2 * keys, replace=False)
    some = KeyFilter(keys)
    for part in np.array_split(known[:keys], 3):
        some.note(codes(part))
    assert some.has(codes(known[:keys])).all()
    assert some.has(codes(known[keys:])).mean() < 0.02
    assert some.noted >= 0.99 * keys
    assert some.nbytes == KeyFilter.bytes_for(keys) <= 10 * keys / 8 + 64
    some.clear()
    assert not some.has(codes(known)).any()


@dataclass
class World:
    """A master that others see change a moment after its log has it, a feed that is late, breaks off or cannot name the
    keys, and workers; all by one clock, and at random. It knows by itself which key was there when."""

    seed: int
    slowest_commit: float = 0.9  # seconds from the log until others see it
    clock: FakeClock = field(default_factory=FakeClock)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)
        self.log = ChangeLog(self.clock)
        self.pool = list(range(0, 900))
        self.there: dict[int, tuple[float, float]] = {}  # key: seen since, and told at
        self.in_log: set[int] = set(self.pool[:300])
        self.commits: list[
            tuple[float, float, set[int], set[int]]
        ] = []  # seen from, logged at, keys that go, that come
        self.told_at: dict[int, float] = {}
        self.untold: list[tuple[float, set[int] | None]] = []  # logged at, keys (None: not named)
        self.down_until = 0.0
        self.master = Seen(self)
        for key in self.in_log:
            self.there[key] = (0.0, 0.0)
        self.master.show()

    def goes_on(self, seconds: float) -> None:
        """Time passes, and things happen."""
        end = self.clock() + seconds
        while self.clock() < end:
            self.clock.advance(min(0.05, end - self.clock()))
            if self.random.random() < 0.3:
                self._change()
            if self.random.random() < 0.0004:
                self.down_until = self.clock() + float(self.random.uniform(0, 3 * ABSENT_STALENESS))
            self._commit()
            self._tell()

    def _change(self) -> None:
        """Some keys come, go, or become others, in one transaction."""
        now, some = self.clock(), int(self.random.integers(1, 4))
        gone = set(self.random.choice(sorted(self.in_log), some).tolist())
        come = set(self.random.choice(sorted(set(self.pool) - self.in_log), some).tolist())
        kind = self.random.random()
        gone, come = (gone, set()) if kind < 0.3 else (set(), come) if kind < 0.6 else (gone, come)
        self.in_log = (self.in_log - gone) | come
        is_named = self.random.random() > 0.001
        self.untold.append((now, gone | come if is_named else None))
        self.commits.append((now + float(self.random.uniform(0, self.slowest_commit)), now, gone, come))

    def _commit(self) -> None:
        """What was logged first is seen first."""
        shown = False
        while self.commits and self.commits[0][0] <= self.clock():
            _, logged, gone, come = self.commits.pop(0)
            for key in gone:
                self.there.pop(key, None)
            for key in come:
                self.there[key] = (self.clock(), logged)
            shown = True
        if shown:
            self.master.show()

    def _tell(self) -> None:
        now = self.clock()
        if now < self.down_until:
            return
        late = float(self.random.uniform(0, 0.2))
        due = [keys for logged, keys in self.untold if logged <= now - late]
        self.untold = [one for one in self.untold if one[0] > now - late]
        named = sorted(set().union(*(keys for keys in due if keys is not None)))
        for key in named:
            self.told_at[key] = now
        all_of = frozenset({"thing"} if None in due else ())
        keys = {"thing": pa.array(named, pa.int64())} if named and not all_of else {}
        self.log.add(Changes(keys, all_of, told_until={"thing": now - late}))

    def must_be_found(self, key: int, news_of: float, began: float) -> bool:
        """By a sale of a batch that began then with news of that time, now."""
        if key not in self.there:
            return False
        seen_since, logged = self.there[key]
        is_told = key in self.told_at and logged <= self.told_at[key] <= news_of
        return seen_since <= self.clock() - ABSENT_STALENESS or (
            self.slowest_commit < 1 and is_told and seen_since <= began
        )


class Seen(MemoryMaster):
    """The master as others see it; while they read, time goes on."""

    def __init__(self, world: World) -> None:
        self.world = world
        super().__init__(master_table([1], "integers"))

    def show(self) -> None:
        self.replace(master_table(sorted(self.world.there), "integers"))

    def _then(self, found: Any) -> Any:
        self.world.goes_on(float(self.world.random.uniform(0, 0.1)))
        return found

    def lookup(self, keys: pa.Array) -> pa.Table:
        return self._then(super().lookup(keys))

    def scan(self, position: bytes | None, rows: int, until: bytes | None = None) -> Scan:
        return self._then(super().scan(position, rows, until))

    def page(self, first: object, until: object, rows: int, also: pa.Array | None = None) -> pa.Table:
        return self._then(super().page(first, until, rows, also))

    def keys(self, behind: object, rows: int) -> pa.Array:
        return self._then(super().keys(behind, rows))


class Worker:
    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.ruled_out = 0
        self.begin_anew()

    def begin_anew(self) -> None:
        options = Options(
            stream=Sales(0.5, 500),
            max_staleness=LIFE,
            absent_staleness=ABSENT_STALENESS,
            clock=self.world.clock,
            caps=Caps(read=20),
        )
        self.dimension = Dimension(dimension({"n": "int64"}), make("auto", self.world.master, 100_000, options))

    def works(self, news: News, news_of: float) -> None:
        """One batch: no key that must be found may come out as absent."""
        began, join = self.world.clock(), self.dimension.join
        self.dimension.begin_batch(news)
        before = join.statistics.ruled_out
        keys = self.world.random.choice(self.world.pool, int(self.world.random.integers(1, 400)))
        offered, column = 0, pa.array(keys, pa.int64())
        while offered < len(keys) or join.pending:
            offered += join.offer(np.arange(offered, len(keys)), column.slice(offered))
            must = {key: self.world.must_be_found(key, news_of, began) for key in set(keys[:offered].tolist())}
            for piece in join.step(drain=offered == len(keys)):
                absent = piece.sales[piece.match == ABSENT]
                wrong = [key for key in set(keys[absent].tolist()) if must[key]]
                # It may have gone while the step went on.
                assert not [key for key in wrong if self.world.must_be_found(key, news_of, began)], wrong
            join.check()
        self.ruled_out += join.statistics.ruled_out - before


@pytest.fixture
def worth(monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter is always worth its cost."""
    monkeypatch.setattr(cost, "is_worth_making", lambda *_: True)
    monkeypatch.setattr(cost, "is_worth_keeping", lambda *_: True)


@pytest.mark.parametrize("slowest_commit", [0.9, 9.0])
@pytest.mark.parametrize("seed", range(6))
def test_no_key_that_must_be_found_is_ever_taken_for_absent(
    seed: int, slowest_commit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As fresh as remembered absences are: what the feed told before the batch began and others see, is found; and so
    is whatever is there for as long as an absence may be remembered, told or not."""
    world = World(seed, slowest_commit)
    monkeypatch.setattr("pipeline.enrich.time.time", world.clock)
    monkeypatch.setattr(cost, "is_worth_making", lambda *_: world.random.random() < 0.8)
    monkeypatch.setattr(cost, "is_worth_keeping", lambda *_: world.random.random() < 0.95)
    workers = [Worker(world, "one"), Worker(world, "two")]
    stages = defaultdict(int)
    for _ in range(300):
        news, news_of = world.log.news(), world.clock()
        taking_part = [worker for worker in workers if world.random.random() < 0.98]
        for worker in taking_part:
            worker.works(news, news_of)
            stages[worker.dimension.join.sieve.stage] += 1
        if world.random.random() < 0.99:
            world.log.heard([worker.name for worker in taking_part], news)
        else:
            for worker in taking_part:
                worker.begin_anew()
        world.goes_on(float(world.random.uniform(0, 1.5)))
    assert len(stages) == len(Stage), stages
    assert sum(worker.ruled_out for worker in workers) > 3_000, stages


def completed(join: Join, clock: FakeClock, keys: pa.Array) -> Join:
    """With its filter, made while these sales come."""
    for _ in range(20):
        clock.advance(11.0)
        join.informed(0.0)
        join.check()
        if join.sieve.stage is Stage.COMPLETE:
            return join
        drive(join, keys)
    raise AssertionError(f"no filter was made: {join.sieve.stage}")


def with_clock(master: MemoryMaster, memory: int = 200_000, **more: Any) -> tuple[Join, FakeClock]:
    clock = FakeClock()
    return make("auto", master, memory, Options(clock=clock, **more)), clock


@pytest.mark.parametrize("kind", ["integers", "texts", "bytes", "two columns", "long texts"])
def test_with_a_filter_every_sale_gets_what_it_gets_without(kind: str, worth: None) -> None:
    random, pool = np.random.default_rng(0), key_pool(kind, 600)
    random.shuffle(pool)
    keys, master = sales_keys(pool, 2_000, 0.5, 0.05, random, kind), MemoryMaster(master_table(pool[:300], kind))
    join, clock = with_clock(master)
    completed(join, clock, keys)
    before = copy(join.statistics)
    assert answer(drive(join, keys, cuts=[1, 700])) == oracle(keys, master.table)
    counts = join.statistics - before
    assert counts.ruled_out > 0.9 * (counts.unmatched - counts.null_keys)
    assert counts.offered == counts.ruled_out + counts.null_keys + counts.hits + counts.misses == len(keys)


def test_a_key_that_is_told_is_asked_for_again(worth: None) -> None:
    master = MemoryMaster(master_table([1, 2, 3], "integers"))
    join, clock = with_clock(master)
    keys = pa.array([2, 7, 7, 9])
    completed(join, clock, keys)
    master.replace(master_table([1, 2, 7], "integers"))
    assert answer(drive(join, keys)) == oracle(keys, master_table([1, 2, 3], "integers"))
    join.changed(pa.array([3, 7]))
    join.informed(0.0)
    assert answer(drive(join, keys)) == oracle(keys, master.table)


def test_a_key_that_has_gone_is_asked_for_until_all_keys_are_read_again(worth: None) -> None:
    master = MemoryMaster(master_table([1, 2, 3], "integers"))
    join, clock = with_clock(master, max_staleness=100.0)
    completed(join, clock, pa.array([3, 7]))
    master.replace(master_table([1, 2], "integers"))
    join.changed(pa.array([3]))
    join.informed(0.0)
    assert join.sieve.has(codes([3, 7])).tolist() == [True, False]
    assert answer(drive(join, pa.array([3, 7]))) == oracle(pa.array([3, 7]), master.table)
    clock.advance(100.0)
    join.informed(0.0)
    completed(join, clock, pa.array([3, 7]))
    assert join.sieve.has(codes([1, 2, 3])).tolist() == [True, True, False]


def test_it_answers_only_as_long_as_the_feed_is_heard_and_goes_on_when_it_is_back(worth: None) -> None:
    join, clock = with_clock(MemoryMaster(master_table([1, 2, 3], "integers")))
    completed(join, clock, pa.array([1, 7]))
    assert join.sieve.answers
    clock.advance(9.9)  # in one long batch, or while the feed is down: as long as an absence is remembered
    assert join.sieve.answers
    clock.advance(0.2)
    assert not join.sieve.answers
    join.informed(11.0)
    assert not join.sieve.answers
    join.informed(0.1)
    assert join.sieve.answers


def test_it_is_not_older_than_a_row_may_be_for_there_are_changes_that_no_feed_can_see(worth: None) -> None:
    master = MemoryMaster(master_table([1, 2, 3], "integers"))
    join, clock = with_clock(master, max_staleness=100.0)
    keys = pa.array([1, 7])
    completed(join, clock, keys)
    master.replace(master_table([1, 7], "integers"))  # in silence
    until = clock() + 100.0
    while clock() < until:
        clock.advance(5.0)
        join.informed(0.0)
        drive(join, keys)
    assert answer(drive(join, keys)) == oracle(keys, master.table)
    assert answer(drive(completed(join, clock, keys), keys)) == oracle(keys, master.table)


def test_without_a_feed_or_by_its_setting_there_is_none(worth: None) -> None:
    master, keys = MemoryMaster(master_table([1, 2, 3], "integers")), pa.array([1, 7])
    join, clock = with_clock(master)
    for _ in range(10):
        clock.advance(11.0)
        join.changed(pa.array([7]))
        join.informed(NEVER)
        drive(join, keys)
    assert (join.sieve.stage, join.sieve.taken, master.reads.by_kind["keys"].queries) == (Stage.NONE, None, 0)
    completed(join, clock, keys)
    join.informed(NEVER)
    assert (join.sieve.stage, join.sieve.taken) == (Stage.NONE, None)
    assert "filter" not in join.memory_used()
    off, _ = with_clock(master, settings={"auto": auto.Settings(key_filter=False)})
    assert off.sieve is None


def test_a_batch_tells_that_there_is_one_and_what_it_spared_and_expects_no_hits_of_those(worth: None) -> None:
    join, clock = with_clock(MemoryMaster(master_table([1, 2, 3], "integers")))
    half = Prediction({}, {"p_N": 0.5}, mu=1_000.0)
    product = Dimension(dimension({"n": "int64"}), join, predict=lambda sales: half)
    keys = pa.array(np.array([1, 2, 3, 7, 8])[np.arange(100) % 5])
    now = pa.array([datetime.now(timezone.utc)] * 100, pa.timestamp("us", "UTC"))
    sales = pa.table({columns.of_sale("n"): keys, columns.TIMESTAMP: now})
    completed(join, clock, keys)
    for told, there, unasked, expected in (({"thing": time.time()}, 1, 40, 30.0), ({}, 0, 0, 50.0)):
        product.begin_batch(News(told_until=told))
        [_] = enrich(sales, [product], WorkerSettings())
        found = product.answer()
        assert (found.key_filters, found.counts.ruled_out, found.predicted_hits) == (there, unasked, expected)
        assert (found + found).key_filters == 2 * there


def test_a_sale_that_was_sent_after_what_is_told_is_asked_for(worth: None) -> None:
    master = MemoryMaster(master_table([1, 2, 3], "integers"))
    join, clock = with_clock(master)
    product, sent = Dimension(dimension({"n": "int64"}), join), datetime.now(timezone.utc)
    completed(join, clock, pa.array([2, 8, 8, 9]))
    never = datetime(1969, 12, 31, 23, 59, 59, 999_000, timezone.utc)  # a message without a timestamp
    times = pa.array([sent, sent - timedelta(seconds=2), never], pa.timestamp("us", "UTC"))
    sales = pa.table({columns.of_sale("n"): pa.array([7, 9, 10]), columns.TIMESTAMP: times})
    master.replace(master_table([1, 2, 3, 7], "integers"))  # which the feed has not told yet
    product.begin_batch(News(told_until={"thing": sent.timestamp() - 1}))
    [found] = enrich(sales, [product], WorkerSettings())
    assert [key != -1 for key in found[columns.of_dimension("thing", columns.SURROGATE_KEY)].to_pylist()] == [
        True, False, False,
    ]  # fmt: skip
    assert product.answer().counts.ruled_out == 1


@pytest.mark.parametrize("name", sorted(set(JOINS) - {"auto"}))
def test_no_other_join_has_one(name: str) -> None:
    join = make(name, MemoryMaster(master_table([1, 2, 3], "integers")), 1 << 20)
    join.informed(0.0)
    assert join.sieve is None


def test_on_a_table_without_a_unique_index_nothing_is_asked_by_name_and_there_is_none() -> None:
    master = MemoryMaster(master_table([1, 1, 2], "integers"), unique=False, indexed=True)
    assert make("auto", master, 200_000).sieve is None


def test_a_key_that_cannot_be_read_ends_it_and_nothing_else(worth: None) -> None:
    class Odd(MemoryMaster):
        def keys(self, behind: object, rows: int) -> pa.Array:
            raise BadContract("t.n: a value is no int64")

    master, keys = Odd(master_table([1, 2, 3], "integers")), pa.array([1, 7])
    join, clock = with_clock(master)
    for _ in range(10):
        clock.advance(11.0)
        join.informed(0.0)
        assert answer(drive(join, keys)) == oracle(keys, master.table)
    assert (join.sieve.stage, join.sieve.taken) == (Stage.NONE, None)


def test_when_r_has_grown_by_half_it_is_made_anew_for_as_many(worth: None) -> None:
    master = MemoryMaster(master_table(list(range(1_000)), "integers"))
    join, clock = with_clock(master)
    keys = pa.array([1, 7, 10**6])
    small = completed(join, clock, keys).sieve.taken
    master.replace(master_table(list(range(4_000)), "integers"))
    join.changed(pa.array(range(1_000, 4_000)))
    assert completed(join, clock, keys).sieve.taken is not small
    assert join.sieve.taken.keys >= 3_000
    nobody = np.arange(10_000, 20_000)
    assert join.sieve.has(codes(nobody)).mean() < 0.04


def test_a_table_much_larger_than_it_was_said_to_be_is_read_again_with_room_for_it(worth: None) -> None:
    master = MemoryMaster(master_table(list(range(100)), "integers"))
    join, clock = with_clock(master)
    master.replace(master_table(list(range(3_000)), "integers"))
    assert completed(join, clock, pa.array([1, 10**6])).sieve.taken.keys >= 2_000


def test_the_algorithm_that_makes_room_is_gone_at_once(worth: None) -> None:
    """Not when garbage is collected: a worker's joins are kept out of that."""
    join, clock = with_clock(MemoryMaster(master_table(list(range(500)), "integers")))
    keys = pa.array(range(1_000))
    gc.disable()
    try:
        drive(join, keys)
        before = weakref.ref(join.algorithm)
        completed(join, clock, keys)
        assert before() is None
    finally:
        gc.enable()


@pytest.fixture(params=[0.3, 1.0])
def as_many_rows(request: pytest.FixtureRequest) -> MemoryMaster:
    """So much of what a filter may take at most, made before anybody counts memory."""
    rows = int(request.param * (MEMORY / 2.6) * 8 / 10)
    return MemoryMaster(master_table(list(range(0, 2 * rows, 2)), "integers"))


def test_with_its_filter_a_join_keeps_to_its_memory(
    as_many_rows: MemoryMaster, worth: None, arrow_memory: pa.MemoryPool
) -> None:
    """While changes are noted, while keys are read, and when it answers."""
    keys = pa.array(np.random.default_rng(1).integers(0, 2 * len(as_many_rows.table), 100_000))
    drive(with_clock(as_many_rows)[0], keys.slice(0, 1_000))  # loads the compiled loops
    gc.collect()
    tracemalloc.start()
    join, clock = with_clock(as_many_rows, MEMORY)
    stages = []
    while Stage.COMPLETE not in stages:
        clock.advance(11.0)
        join.informed(0.0)
        stages.append(join.sieve.stage)
        assert in_and_out(join, keys) == len(keys)
    _, numpy_and_python = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert {Stage.LISTENING, Stage.READING} < set(stages)
    peak = numpy_and_python + arrow_memory.max_memory()
    assert peak <= MEMORY + OVERHEAD, f"{numpy_and_python:,} + {arrow_memory.max_memory():,} bytes"
    assert join.memory_used()["filter"] >= len(as_many_rows.table)
    assert sum(join.memory_used().values()) <= MEMORY


def in_and_out(join: Join, keys: pa.Array) -> int:
    """So many sales were served; nobody keeps them."""
    positions = np.arange(len(keys), dtype=np.int64)
    served = offered = 0
    while offered < len(keys) or join.pending:
        offered += join.offer(positions[offered:], keys.slice(offered))
        served += sum(len(piece.sales) for piece in join.step(drain=offered == len(keys)))
    return served


ROWS = 100_000
AT_ONCE = Disk(request=0.0, seek=0.0, byte=0.0)


class Server(ChargedMaster):
    """A key that is asked for by name takes 6 µs; all else comes at once."""

    def begin_lookup(self, keys: pa.Array) -> UnderWay[pa.Table]:
        self.clock.advance(5e-4 + 6e-6 * len(keys))
        return super().begin_lookup(keys)


@dataclass
class Stream:
    """A window of 5 000 sales each second, so many of them without a row."""

    join: Join
    clock: VirtualClock
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(5))

    @classmethod
    def of(cls, share: float, **more: Any) -> Stream:
        """`share`: of R, as memory."""
        clock, rows = VirtualClock(), ComputedRows(ROWS, 58, scattered=True)
        options = Options(stream=Sales(0.5, 5_000), clock=clock, **more)
        return cls(make("auto", Server(rows, AT_ONCE, clock), int(share * ROWS * 58), options), clock)

    def goes_on(self, seconds: int, missing: float, told: float = 0.0, named: bool = True) -> set[Stage]:
        """The stages that were seen."""
        stages = set()
        for _ in range(seconds):
            self.clock.advance(1.0)
            if not named:
                self.join.changed(None)
            self.join.informed(told)
            stages.add(self.join.sieve.stage)
            drawn = 2 * self.random.integers(0, ROWS, 5_000) + (self.random.random(5_000) < missing)
            assert in_and_out(self.join, pa.array(drawn)) == len(drawn)
        return stages


def test_where_half_of_the_keys_are_missing_they_are_soon_not_asked_for_any_more() -> None:
    stream = Stream.of(0.1)
    assert Stage.COMPLETE in stream.goes_on(120, missing=0.5)
    before = copy(stream.join.statistics)
    stream.goes_on(10, missing=0.5)
    counts = stream.join.statistics - before
    assert counts.ruled_out > 0.98 * counts.unmatched > 0
    assert stream.join.master.reads.by_kind["keys"].rows == ROWS


@pytest.mark.parametrize(
    ("share", "missing", "told"),
    [(0.1, 0.0, 0.0), (0.1, 0.002, 0.0), (0.03, 0.5, 0.0), (0.1, 0.5, NEVER), (0.1, 0.5, 60.0)],
    ids=["none is missing", "few are", "no room", "no feed", "a feed that is far behind"],
)
def test_where_it_would_not_pay_there_is_none_and_all_is_as_it_was(share: float, missing: float, told: float) -> None:
    stream = Stream.of(share)
    algorithm = stream.join.algorithm
    assert stream.goes_on(120, missing, told) == {Stage.NONE}
    assert stream.join.algorithm is algorithm
    assert "keys" not in stream.join.master.reads.by_kind


def test_when_no_keys_are_missing_any_more_the_memory_goes_back() -> None:
    stream = Stream.of(0.1)
    stream.goes_on(120, missing=0.5)
    assert stream.join.sieve.stage is Stage.COMPLETE
    stream.goes_on(60, missing=0.0)
    assert (stream.join.sieve.stage, stream.join.memory_used().get("filter")) == (Stage.NONE, None)


def test_a_feed_that_seldom_names_the_keys_leaves_no_time_for_a_filter_to_pay() -> None:
    stream = Stream.of(0.1)
    for _ in range(40):
        stream.goes_on(1, missing=0.5, named=False)
        stream.goes_on(9, missing=0.5)
    assert stream.join.sieve.stage is Stage.NONE
    assert "keys" not in stream.join.master.reads.by_kind


def test_after_all_of_it_changed_it_is_made_again() -> None:
    stream = Stream.of(0.1)
    stream.goes_on(120, missing=0.5)
    stream.goes_on(1, missing=0.5, named=False)
    assert stream.join.sieve.stage is Stage.LISTENING
    assert Stage.COMPLETE in stream.goes_on(120, missing=0.5)


def test_rows_that_may_not_grow_old_are_worth_no_filter() -> None:
    stream = Stream.of(0.1, max_staleness=12.0)
    assert stream.goes_on(120, missing=0.5) == {Stage.NONE}


def test_caps_on_the_database_make_a_pass_over_all_keys_too_dear() -> None:
    stream = Stream.of(0.1, caps=Caps(rows=300.0, read=75.0))
    assert stream.goes_on(120, missing=0.01) == {Stage.NONE}
