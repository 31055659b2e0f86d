"""The front stage: a cache of master rows, and of absences, in front of any join."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache, partial
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.joins.base import ABSENT, USUAL, Join, Options, Positions, Served, matched_rows, relation
from pipeline.joins.budget import memory_for, to_split
from pipeline.joins.cost import frontstage as cost
from pipeline.joins.cost.units import Prediction, Relation, Stream
from pipeline.joins.parts.cache import NO_ROW, Newcomers, RowCache
from pipeline.joins.parts.keycodes import Codes, KeyCoder, picked
from pipeline.joins.parts.keyindex import KeyIndex
from pipeline.master.port import Master

_JITTER = 0.1  # share of its life by which a row may expire early, so that a warm cache does not expire at once
_HALF_LIFE = 20  # a use counts half when so many sales a cached row have passed
_RAISE, _LOWER = 1.5, 0.5  # how the threshold moves
_WORTH_AN_OFFER = 3  # a last one may be that much shorter than the longest
_TOO_OFTEN = 0.1  # evictions, as a share of the cache, while as many sales pass: then the threshold is too low


class FrontStage(Join):
    """
    Idea
        Under skew a few master rows serve most sales. Keep those in memory; only the rest reaches the join behind.

    Memory
        M = M_inner + h_R * (v_R + 8 + index): h_R rows, their frequency recorder of 8 bytes a slot, and the hash index
        H_R; and an eighth of the rows that wait to come in. M_inner is what the join behind splits: sales are offered
        here, so it needs no part of its own for that. An absent key takes a slot too, but no row, so that a flood of
        unknown keys asks the master once, not once a sale.

    Departures from the paper
        Frequencies fade (a use counts half after 20 sales a cached row), so that the cache follows the stream. Rows
        come in at the end of a window and all at once, the most wanted first; one that is wanted less than all inside
        stays outside. The threshold starts at 0, rises by half when more than a tenth of the cache is evicted while as
        many sales pass as it has rows, or in one window, and halves while the cache is not full. Rows expire: none is
        served older than `max_staleness`, no absence longer than `absent_staleness`.

    Example
        >>> from pipeline.joins.inlj import IndexNestedLoopJoin
        >>> from pipeline.master.memory import MemoryMaster
        >>> R = MemoryMaster.of({b"ale": 1, b"bun": 2, b"cod": 3, b"dip": 4})
        >>> join = FrontStage(IndexNestedLoopJoin(R, 64_000), memory=128_000)
        >>> for _ in range(2):
        ...     taken = join.offer(np.arange(3), pa.array([b"bun", b"elk", b"bun"], pa.binary()))
        ...     served = join.step()
        >>> join.statistics.misses, join.statistics.hits, R.reads.by_kind["lookup"].queries
        (3, 3, 1)

    Reference
        Naeem, Weber, Dobbie, Lutteroth: A Generic Front-Stage for Semi-Stream Processing (CMESHJOIN), CIKM 2013.
    """

    name: ClassVar[str] = "front stage"

    keeps_rows: ClassVar[bool] = True

    def __init__(self, inner: Join, memory: int, options: Options = USUAL) -> None:
        super().__init__(inner.master, memory, options, inner.size)
        self.inner = inner
        self.coder = inner.coder  # a sale's key is encoded once, here
        self.asks_by_key = inner.asks_by_key  # type: ignore[misc]  # as the join behind does
        self.require(
            inner.to_split + cost.least_memory(self.relation), f"the join behind ({inner.memory:,} bytes) and a row"
        )
        self._life = {True: options.max_staleness, False: options.absent_staleness}
        self._born = options.clock()
        self._random = np.random.default_rng(0)
        self.cache = self._make_cache()
        self.threshold = 0.0
        self._hits: list[Served] = []
        self._held = 0  # sales in them
        self._probed = 0  # sales since the last merge
        self._passed = self._lately_evicted = 0  # sales, and rows thrown out, since the threshold was judged

    # Algorithm 1 of the paper, for a block of sales at a time:
    #    2-11  front stage: for each tuple t of the stream: if t in H_R output it, else add t to H_S and Q   -> _admit
    #   12-16  the join behind: read rows of R, output the matching tuples                                  -> _iterate
    #   17-18  a row whose matches f exceed the threshold is switched into H_R                              -> _consider
    #          where it takes the place of a least-frequent one; the threshold adapts                       -> _merge
    def _admit(self, positions: Positions, codes: Codes) -> int:
        if self.cache.newcomers_full or (self.cache.has_newcomers and not self._pending()):
            self._merge()
        slot = self.cache.find(codes, self._now())
        missed = np.flatnonzero(slot < 0)
        admitted = self._to_the_join_behind(positions[missed], picked(codes, missed))
        taken = len(codes) if admitted == len(missed) else int(missed[admitted])
        hit = np.flatnonzero(slot[:taken] >= 0)
        if len(hit):
            self._serve(positions[hit], self.cache.use(slot[hit]))
        self.statistics.hits += len(hit)
        self.statistics.misses += admitted
        self._probed += taken
        return taken

    def _serve(self, positions: Positions, rows: npt.NDArray[np.int64]) -> None:
        match = np.where(rows == NO_ROW, ABSENT, rows)
        table = self.cache.rows
        if len(match) * 4 < len(table):
            # Few sales must not keep a whole table of rows alive in their user's hands.
            table, used = matched_rows(table, match[match != ABSENT])
            match[match != ABSENT] = used
        self._hits.append(Served(positions, table, match))
        self._held += len(positions)

    def _to_the_join_behind(self, positions: Positions, codes: Codes) -> int:
        room = min(self.inner._room(), len(codes))
        return self.inner._admit(positions[:room], codes[:room]) if room else 0

    def _iterate(self, drain: bool) -> list[Served]:
        served, self._hits, self._held = self._hits, [], 0
        if self.inner.pending:
            fetched = self.inner.step(drain)
            for piece in fetched:
                self._consider(piece)
            served += fetched
        return served

    def _consider(self, piece: Served) -> None:
        """Note the rows and absences worth keeping; what is wanted no more than the threshold is not even copied."""
        if self.cache.newcomers_full:
            return
        found = piece.match != ABSENT
        f = np.bincount(piece.match[found], minlength=len(piece.rows)).astype(np.float32)
        worth = np.flatnonzero(f > self.threshold)
        if len(worth):
            rows = piece.rows.take(pa.array(worth))
            codes = self.coder.encode(rows["key"].combine_chunks(), remember=False)
            self.cache.consider(Newcomers(codes, rows, f[worth], self._expiry(len(worth), present=True)))
        if piece.absent_keys is not None and len(piece.absent_keys):
            codes, f = _counted(piece.absent_keys)
            worth = np.flatnonzero(f > self.threshold)
            expires = self._expiry(len(worth), present=False)
            self.cache.consider(Newcomers(picked(codes, worth), None, f[worth], expires))

    def _merge(self) -> None:
        """Switch rows into H_R, and move the threshold."""
        self.cache.age(0.5 ** (self._probed / (_HALF_LIFE * max(1, self.cache.capacity))))
        self._passed, self._probed = self._passed + self._probed, 0
        was_full = self.cache.is_full
        evicted = self.cache.merge(self._now())
        self.statistics.evicted += evicted
        self._lately_evicted += evicted
        if self._lately_evicted > _TOO_OFTEN * self.cache.capacity:
            self.threshold = max(1.0, self.threshold * _RAISE)
        elif not was_full:
            self.threshold = self.threshold * _LOWER if self.threshold >= 1 else 0.0
        elif self._passed < self.cache.capacity:
            return
        self._passed = self._lately_evicted = 0

    def _expiry(self, count: int, present: bool) -> npt.NDArray[np.float64]:
        lives = self._life[present] * (1 - _JITTER * self._random.random(count))
        expires: npt.NDArray[np.float64] = self._now() + lives
        return expires

    def _make_cache(self) -> RowCache:
        v_R, words = self.relation.v_R, self.coder.words
        memory = self.to_split - self.inner.to_split
        return RowCache(max(1, RowCache.capacity_for(memory, v_R, words)), v_R, words, self.master.schema)

    def _now(self) -> float:
        return self.options.clock() - self._born

    @property
    def _most_long_keys(self) -> int:
        return self.inner._most_long_keys

    def _room(self) -> int:
        # While the join behind is busy, even a sale that needs nothing from it must not overtake the budget: the hits
        # that are held are no more than those of the longest offer.
        room = self._longest_offer - self._held if self.inner._room() else 0
        return room if room >= self._longest_offer // _WORTH_AN_OFFER else 0

    def _pending(self) -> int:
        return self.inner.pending + self._held

    @property
    def label(self) -> str:
        return f"{self.name} + {self.inner.label}"

    @property
    def cached_rows(self) -> int:
        return len(self.cache.rows)

    def memory_used(self) -> dict[str, int]:
        cache = {"cache": self.cache.nbytes, "newcomers": self.cache.newcomer_bytes}
        return {**cache, **self.inner.memory_used()}

    def check(self) -> None:
        super().check()
        self.inner.check()
        self.cache.check()


def split_before(behind: type[Join], master: Master, memory: int, options: Options) -> int:
    """How much of the memory a front stage leaves to the join behind it."""
    size = master.statistics()
    R = relation(size, KeyCoder(master.key_type, size.key_bytes).words)
    return _split_before(behind, memory, R, options)


def predict_before(behind: type[Join], memory: int, R: Relation, options: Options, named: str = "") -> Prediction:
    """What the cost model says of a front stage with this join behind it."""
    inner = to_split(_split_before(behind, memory, R, options.as_planned))
    model = partial(_predict_behind, behind, R, replace(options, planned=None))
    prediction = cost.predict(to_split(memory), inner, R, options.stream, options.costs, model)
    return replace(prediction, algorithm=named or prediction.algorithm)


@lru_cache(maxsize=32)
def _split_before(behind: type[Join], memory: int, R: Relation, options: Options) -> int:
    least = math.ceil(behind.least(R, options))
    model = partial(_predict_behind, behind, R, options)
    return memory_for(cost.inner_share(to_split(memory), least, R, options.stream, options.costs, model))


def _predict_behind(behind: type[Join], R: Relation, options: Options, memory: int, stream: Stream) -> Prediction:
    return behind.predict(memory, R, replace(options, stream=stream))


def _counted(codes: Codes) -> tuple[Codes, npt.NDArray[np.float32]]:
    """The distinct keys, and how often each comes."""
    slots = KeyIndex(len(codes), codes.shape[1]).add(codes)
    _, first, counts = np.unique(slots, return_index=True, return_counts=True)
    return picked(codes, first), counts.astype(np.float32)
