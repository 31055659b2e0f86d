"""What a join's own steps take, each on as many sales and rows as are usual: no server is asked for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import numpy as np
import pyarrow as pa

from pipeline.joins import make
from pipeline.joins.algorithm import matched_rows
from pipeline.joins.parts.budget import most_that_fit
from pipeline.joins.parts.cache import RowCache
from pipeline.joins.parts.keycodes import KeyCoder
from pipeline.joins.parts.newcomers import Newcomers
from pipeline.joins.parts.waiting import WaitingSales
from pipeline.master.memory import MemoryMaster
from pipeline.master.port import Master

_TRIALS = 5
_BLOCK = 8_192  # sales, as they are offered
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
    codes, row_codes = coder.encode(sold, remember=False), coder.encode(keys, remember=False)
    waiting, positions = WaitingSales(4 * _BLOCK, coder.words), np.arange(_BLOCK)

    def empty() -> None:
        waiting.release(waiting.oldest(len(waiting)))

    def refill() -> None:
        empty()
        waiting.admit(positions, codes)

    c_A = _step(lambda: waiting.admit(positions, codes), _BLOCK, before=empty)
    c_E = _step(empty, _BLOCK, before=refill)
    refill()
    portions = waiting.portions(row_codes)
    pairs = _step(lambda: [waiting.pairs(*portion) for portion in portions], _BLOCK)
    strange = row_codes.copy()
    strange[:, 0] ^= np.uint64(0x5555)  # most rows meet no waiting sale
    c_H = _step(lambda: (coder.encode(keys, remember=False), waiting.match(strange)), len(keys))
    numbers = np.random.default_rng(2).integers(0, len(rows), _BLOCK).astype(np.int32)
    return {
        "c_S": _step(lambda: coder.encode(sold, remember=False), _BLOCK),
        "c_A": c_A,
        "c_E": c_E,
        "c_H": c_H,
        "c_O": pairs + _step(lambda: matched_rows(rows, numbers), _BLOCK),
        "c_F": _hit(rows, coder, size.rows, memory),
        "c_P": _offer(rows),
        "loop": _loop(rows),
    }


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


def _step(work: Callable[[], object], items: int, before: Callable[[], object] = lambda: None) -> float:
    """Median seconds an item, with nothing left in the processor's caches: as a join finds its arrays after a read."""
    taken, elsewhere = [], np.zeros(_CACHES, np.uint8)
    for _ in range(2 * _TRIALS + 1):
        before()
        elsewhere += 1
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return median(taken) / items
