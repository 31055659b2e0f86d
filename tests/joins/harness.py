"""Drives any join as the job does, and knows the right answer from a database engine that has never heard of joins."""

from __future__ import annotations

import atexit
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from pipeline.errors import BudgetTooSmall
from pipeline.joins import JOINS, Join, make, with_front_stage
from pipeline.joins.algorithm import ABSENT, Served
from pipeline.master.port import Master

_STEPS_WITHOUT_RESULT = 10_000  # more of them in a row are taken for a join that loops for ever

Answer = Counter[tuple[object, ...]]  # (position, surrogate key, updated at, attributes...) as a multiset


@dataclass(frozen=True)
class Variant:
    """One join of the registry, alone or behind the front stage, made as production makes it."""

    name: str
    behind_front_stage: bool = False

    def build(self, master: Master, memory: int) -> Join:
        return make(str(self), master, memory)

    def __str__(self) -> str:
        return with_front_stage(self.name) if self.behind_front_stage else self.name


OTHER_NAMES = {"cachejoin": "front stage + hybridjoin", "sscj": "front stage + hybridjoin"}  # of the same join
VARIANTS = [
    Variant(name, behind)
    for name in JOINS
    for behind in (False, True)
    if name not in OTHER_NAMES and not (behind and JOINS[name].has_front_stage)
]


def smallest_memory(variant: Variant, master: Master) -> int:
    """The least memory the join accepts, by the number in its own refusal."""
    return named_least(lambda: variant.build(master, 1))


def named_least(build: Callable[[], Join]) -> int:
    """The number of bytes that a refusal names."""
    with pytest.raises(BudgetTooSmall) as refused:
        build()
    number = re.search(r"at least ([\d,]+) bytes", str(refused.value))
    assert number, f"the refusal does not say what is needed: {refused.value}"
    return int(number[1].replace(",", ""))


def drive(join: Join, keys: pa.Array, cuts: Iterable[int] = (), check_every: int = 1) -> list[Served]:
    """Offer the sales and step until all have come back, in micro-batches that end at `cuts`.

    After each offer and each step the join's invariants are checked; or after one of so many, where that takes longer
    than the join and others hold it after each.
    """
    served: list[Served] = []
    borders = [0, *sorted(cuts), len(keys)]
    for first, last in itertools.pairwise(borders):
        positions = np.arange(first, last, dtype=np.int64)
        served += _micro_batch(join, positions, keys.slice(first, last - first), check_every)
        join.check()
        assert join.pending == 0
    assert sum(len(piece.sales) for piece in join.step()) == 0, "a join served sales nobody offered"
    return served


def _micro_batch(join: Join, positions: np.ndarray, keys: pa.Array, check_every: int) -> list[Served]:
    served: list[Served] = []
    met: set[int] = set()
    offered = idle = turn = 0
    while offered < len(keys) or join.pending:
        while offered < len(keys) and (taken := join.offer(positions[offered:], keys.slice(offered))):
            assert 0 < taken <= len(keys) - offered
            offered += taken
            _check(join, turn := turn + 1, check_every)
        waiting = join.pending
        pieces = join.step(drain=offered == len(keys))
        _check(join, turn := turn + 1, check_every)
        met.update(*(piece.sales.tolist() for piece in pieces))
        if join.master.unique:
            assert join.pending == waiting - sum(len(set(piece.sales.tolist())) for piece in pieces)
        else:  # a sale that has come out with one row may come out with more: it is pending until it has met them all
            assert offered - len(met) <= join.pending <= waiting
        idle = 0 if pieces else idle + 1
        assert idle < _STEPS_WITHOUT_RESULT, "the join loops without serving anything"
        served += pieces
    return served


def _check(join: Join, turn: int, every: int) -> None:
    if turn % every == 0:
        join.check()


def answer(served: Iterable[Served]) -> Answer:
    """What a join served, in the oracle's form."""
    found: Answer = Counter()
    for piece in served:
        assert len(piece.sales) == len(piece.match)
        rows = _without_time_zone(piece.rows.drop_columns(["key"])).take(
            pa.array(piece.match, mask=piece.match == ABSENT)
        )
        found.update(zip(piece.sales.tolist(), *(column.to_pylist() for column in rows.columns), strict=True))
    return found


def oracle(keys: pa.Array, master: pa.Table) -> Answer:
    """A left join in SQL."""
    sales = pa.table({"position": np.arange(len(keys)), "key": keys})
    columns = ", ".join(f'master."{name}"' for name in master.column_names if name != "key")
    with _engine().cursor() as engine:
        engine.register("master", _without_time_zone(master))
        engine.register("sales", sales)
        engine.execute(f"SELECT position, {columns} FROM sales LEFT JOIN master ON sales.key = master.key")
        return Counter(engine.fetchall())


@cache
def _engine() -> duckdb.DuckDBPyConnection:
    """One engine for the run: to open one takes longer than any query here."""
    atexit.register(_engine.cache_clear)
    return duckdb.connect(config={"threads": 1})


def _without_time_zone(rows: pa.Table) -> pa.Table:
    """Moments as numbers of microseconds: the engine would need an extension to speak of time zones."""
    moments = [(i, field.name) for i, field in enumerate(rows.schema) if pa.types.is_timestamp(field.type)]
    for i, name in moments:
        rows = rows.set_column(i, name, rows[name].cast(pa.int64()))
    return rows
