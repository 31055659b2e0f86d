"""The front stage: a cache of master rows, and of absences, in front of any join."""

from __future__ import annotations

import time
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.joins.base import ABSENT, Clock, Join, Positions, Served

_ENTRY_BYTES = 8 + 4 + 1  # loaded-at, score, present: kept beside each cached row
_AGING = np.float32(0.5)  # what a use is worth one window later
_JITTER = 0.1  # share of its life by which a row may expire early, so that a warm cache does not expire at once


class FrontStage(Join):
    """
    Idea
        Under skew a few master rows serve most sales. Keep those in memory; only the rest reaches the join behind.

    Memory
        M = M_inner + C * (v_R + v_entry) * 2: the cache of C rows, twice while it is rebuilt. An absent key takes a
        row as well, so that a flood of unknown keys asks the master once, not once a sale.

    Departures from the paper
        A row's score is its uses, halved every window, instead of a count since it came in. When the cache is full,
        the lowest score is the threshold a newcomer must exceed; the paper moves a separate threshold up and down.
        Rows expire: none is served older than `max_staleness`, no absence longer than `absent_staleness`.

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
        Naeem, Dobbie, Weber: A Lightweight Stream-based Join with Limited Resource Consumption (CMESHJOIN), 2013.
    """

    name: ClassVar[str] = "front stage"

    def __init__(
        self,
        inner: Join,
        memory: int,
        max_staleness: float = 300.0,
        absent_staleness: float = 10.0,
        clock: Clock = time.monotonic,
    ) -> None:
        super().__init__(inner.master, memory)
        self.inner = inner
        self._require(inner.memory + 16_384, f"the join behind ({inner.memory:,} bytes) and a cache of a few rows")
        self._cache_memory = (memory - inner.memory) // 2
        self._life = {True: max_staleness, False: absent_staleness}
        self._clock = clock
        self._random = np.random.default_rng(0)
        self._rows: pa.Table = self.master.schema.empty_table()
        self._present = np.empty(0, np.bool_)
        self._expires = np.empty(0, np.float64)
        self._score = np.empty(0, np.float32)
        self._threshold = np.float32(0)
        self._hits: list[Served] = []
        self._missed: list[tuple[Positions, pa.Array]] = []
        self._newcomers: list[pa.Table] = []  # rows and, in the extra columns, what the cache keeps beside them
        self._newcomer_bytes = 0

    # The front stage of the paper's algorithm, for a window of sales:
    #   1  for each tuple s of the window: if s is in the cache, output it       -> _admit
    #   2  else hand s to the disk stage                                         -> _admit
    #   3  for each row r the disk stage read: count the sales it served         -> _consider
    #   4  if the count exceeds the threshold, put r into the cache,             -> _rebuild
    #      which loses its least used row when it is full
    def _admit(self, positions: Positions, keys: pa.Array) -> int:
        if self.inner.pending or self._hits:
            return 0
        slot = np.asarray(pc.fill_null(pc.index_in(keys, value_set=self._rows["key"].combine_chunks()), ABSENT))
        hit = slot >= 0
        hit[hit] = self._expires[slot[hit]] > self._clock()
        missed = np.flatnonzero(~hit)
        missed_keys = keys.take(pa.array(missed))
        admitted = self.inner.offer(positions[missed], missed_keys) if len(missed) else 0
        taken = len(keys) if admitted == len(missed) else int(missed[admitted])
        hit = hit[:taken]
        self._serve_hits(positions[:taken][hit], slot[:taken][hit])
        if admitted:
            self._missed.append((positions[missed[:admitted]], missed_keys.slice(0, admitted)))
        self.statistics.hits += int(np.count_nonzero(hit))
        self.statistics.misses += admitted
        return taken

    def _serve_hits(self, positions: Positions, slot: npt.NDArray[np.int32]) -> None:
        if not len(positions):
            return
        self._score += np.bincount(slot, minlength=len(self._score)).astype(np.float32)
        found = np.where(self._present[slot], slot, ABSENT).astype(np.int64)
        self._hits.append(Served(positions, self._rows, found))

    def _iterate(self, drain: bool) -> list[Served]:
        served, self._hits = self._hits, []
        if self.inner.pending:
            fetched = self.inner.step(drain)
            for piece in fetched:
                self._consider(piece)
            served += fetched
        if not self.inner.pending:
            self._rebuild()
            self._missed = []
        return served

    def _consider(self, piece: Served) -> None:
        """Note the rows and absences worth keeping; what is used less than the threshold is not even copied."""
        uses = np.bincount(piece.match[piece.match != ABSENT], minlength=len(piece.rows)).astype(np.float32)
        worth = np.flatnonzero(uses > self._threshold)
        absent_keys, absent_uses = self._absent_keys(piece.sales[piece.match == ABSENT])
        absent = pa.table({name: pa.nulls(len(absent_keys), kind) for name, kind in _columns(piece.rows.schema)})
        absent = absent.set_column(0, "key", absent_keys)
        for rows, counts, present in (
            (piece.rows.take(pa.array(worth)), uses[worth], True),
            (absent, absent_uses, False),
        ):
            if len(rows):
                life = self._life[present] * (1 - _JITTER * self._random.random(len(rows)))
                beside = {"score": counts, "present": np.full(len(rows), present), "expires": self._clock() + life}
                for name, values in beside.items():
                    rows = rows.append_column(f" {name}", pa.array(values))
                self._newcomers.append(rows)
                self._newcomer_bytes += rows.nbytes
        if self._newcomer_bytes > self._cache_memory:
            self._rebuild()

    def _absent_keys(self, positions: Positions) -> tuple[pa.Array, npt.NDArray[np.float32]]:
        """The distinct keys of sales that proved absent, and how many sales each has."""
        keys = []
        for offered, offered_keys in self._missed:
            at = np.minimum(np.searchsorted(offered, positions), len(offered) - 1)
            keys.append(offered_keys.take(pa.array(at[offered[at] == positions])))
        counted = pa.chunked_array(keys, self.master.key_type).value_counts()
        uses = np.asarray(counted.field("counts")).astype(np.float32)
        worth = np.flatnonzero(uses > self._threshold)
        return counted.field("values").take(pa.array(worth)), uses[worth]

    def _rebuild(self) -> None:
        """One new cache out of the old one and the newcomers: what has not expired, the most used first."""
        self._score *= _AGING
        if not self._newcomers:
            return
        newcomers = pa.concat_tables(self._newcomers)
        self._newcomers, self._newcomer_bytes = [], 0
        replaced = pc.is_in(self._rows["key"], value_set=newcomers["key"].combine_chunks())
        stays = np.flatnonzero(~np.asarray(replaced) & (self._expires > self._clock()))
        rows = pa.concat_tables([self._rows.take(pa.array(stays)), newcomers.select(self._rows.column_names)])
        score = np.concatenate([self._score[stays], np.asarray(newcomers[" score"])])
        present = np.concatenate([self._present[stays], np.asarray(newcomers[" present"])])
        expires = np.concatenate([self._expires[stays], np.asarray(newcomers[" expires"])])
        keep = self._most_used(score, rows.nbytes)
        self.statistics.evicted += len(score) - len(keep)
        self._rows = rows.take(pa.array(keep)).combine_chunks()
        self._score, self._present, self._expires = score[keep], present[keep], expires[keep]

    def _most_used(self, score: npt.NDArray[np.float32], row_bytes: int) -> Positions:
        """The rows that fit, the most used ones; sets the threshold for newcomers."""
        capacity = int(self._cache_memory * 0.9 / (row_bytes / max(1, len(score)) + _ENTRY_BYTES))
        if len(score) <= capacity:
            self._threshold = np.float32(0)
            return np.arange(len(score))
        if not capacity:  # not one row of this width fits
            return np.empty(0, np.int64)
        lowest = len(score) - capacity
        order = np.argpartition(score, lowest)
        self._threshold = score[order[lowest]] * _AGING
        return np.sort(order[lowest:])

    def _pending(self) -> int:
        return self.inner.pending + sum(len(served.sales) for served in self._hits)

    @property
    def label(self) -> str:
        return f"{self.name} + {self.inner.label}"

    @property
    def cached_rows(self) -> int:
        return len(self._rows)

    def memory_used(self) -> dict[str, int]:
        cache = self._rows.nbytes + self._present.nbytes + self._expires.nbytes + self._score.nbytes
        return {"cache": cache, "newcomers": self._newcomer_bytes, **self.inner.memory_used()}

    def check(self) -> None:
        super().check()
        self.inner.check()
        # A key is in the cache at most once.
        assert len(self._rows["key"].unique()) == len(self._rows)
        # What is kept beside the rows is as long as they are.
        assert len(self._rows) == len(self._score) == len(self._present) == len(self._expires)


def _columns(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    return [(field.name, field.type) for field in schema]
