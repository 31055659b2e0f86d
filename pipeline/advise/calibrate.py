"""Unit costs of the cost models, measured: what the master table's reads and the joins' own steps take here and now."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from statistics import mean, median
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.advise.calibrate_joins import in_flow, own_steps
from pipeline.joins import make
from pipeline.joins.algorithm import matched_rows
from pipeline.joins.cost.unit_costs import Line, UnitCosts
from pipeline.joins.parts.budget import most_that_fit
from pipeline.joins.parts.cache import RowCache
from pipeline.joins.parts.keycodes import KeyCoder
from pipeline.joins.parts.newcomers import Newcomers
from pipeline.joins.parts.waiting import WaitingSales
from pipeline.master.memory import MemoryMaster
from pipeline.master.port import Master

_SAMPLE = 40_000  # keys, spread evenly over R
_SECONDS = 0.4  # at least so long is each kind of read tried
_TRIALS = 5
_FEW_KEYS, _MANY_KEYS = 250, 2_000  # of a look-up
_BLOCK = 8_192  # sales, as they are offered
_CACHES = 64 << 20  # bytes, more than a processor keeps

Say = Callable[[str], None]


@dataclass(frozen=True)
class Sample:
    """Keys from all over R, in random order, so that the server's cache helps no more than it will in a running job."""

    keys: pa.Array
    rows: int  # of R


def calibrate(master: Master, connections: int = 2, say: Say = lambda line: None, memory: int = 32 << 20) -> UnitCosts:
    """Measure every unit cost on this master, for joins with so much memory. Takes some ten seconds.

    Where R has no index on the key, the costs of look-ups and pages stay the built-in ones: nothing can use them.
    """
    rows = master.statistics().rows
    say(f"{rows:,} rows")
    return reads_of(master, own_steps_of(master, say, memory), connections, say)


def own_steps_of(master: Master, say: Say = lambda line: None, memory: int = 32 << 20) -> UnitCosts:
    """The joins' own steps, on rows of this master, for joins with so much memory."""
    steps: dict[str, Any] = _steps(master, memory)
    say("own steps: " + ", ".join(f"{name} {seconds * 1e9:.0f} ns" for name, seconds in steps.items()))
    costs = own_steps(master, replace(UnitCosts(), scan=_scan(master), **steps))
    iterations = ", ".join(f"{name} {seconds * 1e3:.2f} ms" for name, seconds in costs.loops)
    say(f"a key asked for: {costs.c_K * 1e9:.0f} ns; an iteration: {iterations or 'not measured'}")
    return costs


def reads_of(master: Master, costs: UnitCosts, connections: int = 2, say: Say = lambda line: None) -> UnitCosts:
    """These costs, with what this master's reads take now."""
    costs = replace(costs, scan=_scan(master))
    say(f"scan: {_told(costs.scan)}")
    if not master.indexed:
        return costs
    rows = master.statistics().rows
    started = time.perf_counter()
    firsts = master.borders(max(1, rows // _SAMPLE))
    costs = replace(costs, borders=(time.perf_counter() - started) / max(1, rows))
    order = np.random.default_rng(0).permutation(len(firsts))
    sample = Sample(firsts.take(pa.array(order)), rows)
    costs = replace(costs, lookup=_look_up(master, sample))
    say(f"look-up: {_told(costs.lookup)}")
    costs = replace(costs, overlapped=_overlapped(master, sample, costs, connections))
    say(f"look-ups in auto's flow: {_told(costs.overlapped)}")
    costs = replace(costs, page=_page(master, firsts, rows))
    say(f"page: {_told(costs.page)}")
    return costs


def _scan(master: Master) -> Line:
    """Each read goes on where the one before it ended: what was just read would come from the server's memory."""
    position: bytes | None = None

    def reads(rows: int) -> Iterator[float]:
        nonlocal position
        while True:
            started = time.perf_counter()
            scan = master.scan(position, rows)
            took = time.perf_counter() - started
            position = scan.position
            if len(scan.rows) == rows or position is None:
                yield took

    return _line(reads, 500, 8_000)


def _look_up(master: Master, sample: Sample) -> Line:
    def reads(keys: int) -> Iterator[float]:
        for some in _pieces(sample, keys):
            started = time.perf_counter()
            master.lookup(some)
            yield time.perf_counter() - started

    return _line(reads, 1, _MANY_KEYS)


def _overlapped(master: Master, sample: Sample, costs: UnitCosts, connections: int) -> Line:
    """As auto's fetching stage asks; on a table too small for a flow, as one look-up after the other."""
    if len(sample.keys) < 2 * _MANY_KEYS or not master.unique:
        return Line(costs.lookup.request + costs.loop, costs.lookup.item + costs.c_K)
    points = [in_flow(master, sample.keys, batch, costs, connections) for batch in (_FEW_KEYS, _MANY_KEYS)]
    return _through(*points[0], *points[1])


def _page(master: Master, firsts: pa.Array, R_t: int) -> Line:
    """As the joins read pages: from one border to the next, with a key asked for by name."""
    apart = max(1, R_t // _SAMPLE)  # rows from one of `firsts` to the next

    def reads(rows: int) -> Iterator[float]:
        borders = firsts.take(pa.array(np.arange(0, len(firsts), rows // apart)))
        keys = borders.to_pylist()
        order = np.random.default_rng(0).permutation(max(1, len(keys) - 1))
        for number in range(1 << 30):
            page = int(order[number % len(order)])
            until = keys[page + 1] if page + 1 < len(keys) else None
            started = time.perf_counter()
            master.page(keys[page], until, 2 * rows, borders.slice(page, 1))
            yield time.perf_counter() - started

    few, many = max(1, min(50, R_t // 4)), max(2, min(8_000, R_t // 2))
    return _line(reads, -(-few // apart) * apart, -(-many // apart) * apart)


def _line(reads: Callable[[int], Iterator[float]], few: int, many: int) -> Line:
    """The straight line through the usual times of small and of large requests."""
    return _through(few, _typical(reads(few)), many, _typical(reads(many)))


def _through(few: float, small: float, many: float, large: float) -> Line:
    item = max((large - small) / max(1.0, many - few), 1e-9)
    return Line(max(small - few * item, 1e-6), item)


def _typical(times: Iterator[float]) -> float:
    next(times)  # opens connections
    taken: list[float] = []
    while sum(taken) < _SECONDS or len(taken) < _TRIALS:
        taken.append(next(times))
    # A rate is made of all reads, the slow ones too; but one pause of the machine must not count as usual.
    taken.sort()
    return mean(taken[: max(_TRIALS - 1, len(taken) * 49 // 50)])


def _pieces(sample: Sample, keys: int) -> Iterator[pa.Array]:
    keys = min(keys, max(1, len(sample.keys)))
    while True:
        for start in range(0, len(sample.keys) - keys + 1, keys):
            yield sample.keys.slice(start, keys)


def _steps(master: Master, memory: int) -> dict[str, float]:
    """The joins' own steps, each on as many sales and rows as are usual, over rows of this master."""
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


def _told(line: Line) -> str:
    return f"{line.request * 1e3:.2f} ms + {line.item * 1e6:.2f} us each"
