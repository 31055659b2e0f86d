"""Reads that a server was asked for, and whose answers nobody has waited for yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline import keys as natural_keys
from pipeline.master.mysql.pool import Request
from pipeline.master.mysql.reading import Reader
from pipeline.master.mysql.sql import Statements
from pipeline.master.port import KEY, Scan


@dataclass
class AskedKeys:
    """A look-up under way."""

    reader: Reader
    keys: pa.Array
    schema: pa.Schema
    request: Request | None = None  # none: none of the keys can exist
    unique: bool = False  # no key has more than one row
    later: list[Callable[[], pa.Table]] = field(default_factory=list)  # for keys that the statement had no room for

    def answer(self) -> pa.Table:
        if self.request is None:
            return self.schema.empty_table()
        answer = self.reader.decode("lookup", self.reader.receive("lookup", self.request))
        answer = self._wanted(answer)
        if self.later:
            return pa.concat_tables([answer, *(look_up() for look_up in self.later)]).combine_chunks()
        return answer

    def _wanted(self, answer: pa.Table) -> pa.Table:
        """Rows with one of the keys, byte for byte; and where no key has two rows, no row twice."""
        which = pc.index_in(answer[KEY], value_set=self.keys)
        if which.null_count:
            answer, which = answer.filter(which.is_valid()), which.drop_null()
        if self.unique and len(which) and np.bincount(which).max() > 1:
            answer = answer.take(pa.array(np.sort(np.unique(which, return_index=True)[1])))
        return answer.combine_chunks()

    def abandon(self) -> None:
        if self.request is not None:
            self.request.abandon()


@dataclass
class AskedPage:
    """A page under way."""

    reader: Reader
    request: Request
    others: pa.Array | None = None  # keys that were asked for besides

    def answer(self) -> pa.Table:
        raw = self.reader.receive("page", self.request)
        if self.others is None:
            return self.reader.decode("page", raw)
        answer = self.reader.decode("page", raw[:-1])
        # Rows with one of the other keys are taken from their own part of the answer, where none of them is missing.
        asked_for = pc.is_in(answer[KEY], value_set=self.others)
        return answer.filter(pc.equal(asked_for, pc.equal(raw[-1], b"1"))).combine_chunks()

    def abandon(self) -> None:
        self.request.abandon()


@dataclass
class AskedScan:
    """A scan under way."""

    reader: Reader
    kind: str
    request: Request
    statements: Statements
    rows: int
    until: bytes | None

    def answer(self) -> Scan:
        raw = self.reader.receive(self.kind, self.request)
        answer = self.reader.decode(self.kind, raw[: len(self.statements.columns)])
        if len(raw[0]) < self.rows:
            return Scan(answer, self.until, True)
        last = [raw[place].slice(len(raw[place]) - 1).combine_chunks() for place in self.statements.scan_places]
        place = natural_keys.pack(last)[0].as_py()
        return Scan(answer, place, place == self.until)

    def abandon(self) -> None:
        self.request.abandon()
