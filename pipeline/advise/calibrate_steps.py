"""What a join's own steps take, each on as many sales and rows as are usual: no server is asked for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import mean, median

import numpy as np
import pyarrow as pa

from pipeline.joins import make
from pipeline.joins.algorithm import matched_rows
from pipeline.joins.parts.budget import most_that_fit
from pipeline.joins.parts.cache import RowCache
from pipeline.joins.parts.keycodes import Codes, KeyCoder, picked
from pipeline.joins.parts.newcomers import Newcomers
from pipeline.joins.parts.waiting import Places, WaitingSales
from pipeline.master.memory import MemoryMaster
from pipeline.master.port import Master

_TRIALS = 10
_BLOCK = 8_192  # sales, as they are offered
_BLOCKS = 16  # one part of so many of a table comes or goes at once: the queue is closed up in every fifth trial
_CACHES = 64 << 20  # bytes, more than a processor keeps


def steps_of(master: Master, memory: int) -> dict[str, float]:
    """By the names of UnitCosts, over rows of this master, for joins with so much memory."""
    rows = master.scan(None, _BLOCK).rows
    size = master.statistics()
    coder = KeyCoder(master.key_type, size.key_bytes)
    keys = rows["key"].combine_chunks()
    if not len(keys):
        return {}
    sold = keys.take(pa.array(np.random.default_rng(1).integers(0, len(keys), _BLOCK)))
    return {
        "c_S": _step(lambda: coder.encode(sold, remember=False), _BLOCK),
        **steps_of_waiting(master, memory),
        "c_F": _hit(rows, coder, size.rows, memory),
        "c_P": _offer(rows),
        "loop": _loop(rows),
    }


def steps_of_waiting(master: Master, memory: int) -> dict[str, float]:
    """What is done to H and Q, with as many sales in them as so much memory holds: a large table is further away.

    Their keys are all over the table, and so are the sales that leave. What it takes now and then to close the queue
    up is among what it takes to come in.
    """
    rows = master.scan(None, _BLOCK).rows
    coder = KeyCoder(master.key_type, master.statistics().key_bytes)
    keys = rows["key"].combine_chunks()
    if not len(keys):
        return {}
    table = _FullTable(memory, coder.words)
    strange = coder.encode(keys, remember=False)  # most rows meet no waiting sale
    portions = table.sales.portions(table.waiting_keys())
    pairs = sum(len(table.sales.pairs(*portion)[0]) for portion in portions)
    numbers = np.random.default_rng(2).integers(0, len(rows), _BLOCK).astype(np.int32)
    return {
        "c_O": _step(lambda: [table.sales.pairs(*portion) for portion in portions], pairs)
        + _step(lambda: matched_rows(rows, numbers), _BLOCK),
        "c_H": _step(lambda: (coder.encode(keys, remember=False), table.sales.match(strange)), len(keys)),
        "c_A": _step(table.come, table.block, before=table.make_room, usual=mean),
        "c_E": _step(table.go, table.block, before=table.fill),
    }


class _FullTable:
    """Waiting sales of keys drawn from as many as there is room for sales."""

    def __init__(self, memory: int, words: int) -> None:
        capacity = max(2 * _BLOCK, WaitingSales.capacity_for(memory, words))
        self._random = np.random.default_rng(1)
        self._keys = self._random.integers(0, 1 << 63, (capacity, words)).astype(np.uint64)
        self.sales = WaitingSales(capacity, words)
        self.block = max(_BLOCK, capacity // _BLOCKS)  # sales that come or go at once
        self._arrive(capacity)
        self.come()

    def waiting_keys(self) -> Codes:
        """Distinct keys of some sales."""
        codes: Codes = np.unique(self.sales.codes(self._some(_BLOCK)), axis=0)
        return self._random.permutation(codes)

    def come(self) -> None:
        self.sales.admit(self._positions, self._arriving)

    def go(self) -> None:
        self.sales.release(self._leaving)

    def fill(self) -> None:
        """Some of those who wait then may go."""
        self._arrive(self.sales.room)
        self.come()
        self._leaving = self._some(self.block)

    def make_room(self) -> None:
        """Some others may come."""
        self.fill()
        self.go()
        self._arrive(self.block)

    def _some(self, number: int) -> Places:
        """Sales from all over the full queue."""
        every = self.sales.capacity // number
        begin = int(self._random.integers(0, every))
        return self._random.permutation(self.sales.oldest(self.sales.capacity)[begin::every][:number])

    def _arrive(self, number: int) -> None:
        self._positions = np.arange(number)
        self._arriving = picked(self._keys, self._random.integers(0, len(self._keys), number))


def _loop(rows: pa.Table) -> float:
    """One iteration of an outer loop with next to nothing to do, over a master that takes no time."""
    master = MemoryMaster(rows.slice(0, 1))
    join, key = make("inlj", master, 1 << 20), rows["key"].combine_chunks().slice(0, 1)

    def iteration() -> None:
        join.offer(np.zeros(1, np.int64), key)
        join.step(drain=True)

    return max(1e-6, _step(iteration, 1) - _step(lambda: master.lookup(key), 1))


def _offer(rows: pa.Table) -> float:
    """An offer of one sale."""
    join, key = make("inlj", MemoryMaster(rows.slice(0, 1)), 1 << 20), rows["key"].combine_chunks().slice(0, 1)
    return _step(lambda: join.offer(np.zeros(1, np.int64), key), 1)


def _hit(sample: pa.Table, coder: KeyCoder, R_t: int, memory: int) -> float:
    """Finding a sale's row in a cache of as many rows as so much memory holds: a large one is further away."""
    random, row_bytes = np.random.default_rng(3), max(8.0, sample.nbytes / len(sample))
    capacity = max(1, most_that_fit(memory, lambda n: RowCache.bytes_for(n, row_bytes, coder.words), R_t))
    rows = sample.take(pa.array(np.arange(capacity) % len(sample))).combine_chunks()
    codes = random.integers(0, 1 << 63, (capacity, coder.words)).astype(np.uint64)  # distinct, for all that is likely
    cache = RowCache(capacity, 2 * row_bytes, coder.words, rows.schema)
    cache.consider(Newcomers(codes, rows, np.ones(capacity, np.float32), np.full(capacity, 1e6)))
    cache.merge(0.0)
    block = codes[random.integers(0, capacity, _BLOCK)]
    return _step(lambda: cache.use(cache.find(block, 1.0)), _BLOCK)


def _step(
    work: Callable[[], object],
    items: int,
    before: Callable[[], object] = lambda: None,
    usual: Callable[[Sequence[float]], float] = median,
) -> float:
    """Usual seconds an item, with nothing left in the processor's caches: as a join finds its arrays after a read."""
    taken, elsewhere = [], np.zeros(_CACHES, np.uint8)
    for _ in range(_TRIALS):
        before()
        elsewhere += 1
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return usual(taken) / items
