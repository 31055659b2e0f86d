"""Reads that a server was asked for, and whose answers nobody has waited for yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

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
    later: list[Callable[[], pa.Table]] = field(default_factory=list)  # for keys that the statement had no room for

    def answer(self) -> pa.Table:
        if self.request is None:
            return self.schema.empty_table()
        answer = self.reader.decode("lookup", self.reader.receive("lookup", self.request))
        asked_for = pc.is_in(answer[KEY], value_set=self.keys)
        if pc.all(asked_for).as_py() is False:
            answer = answer.filter(asked_for)
        if self.later:
            return pa.concat_tables([answer, *(look_up() for look_up in self.later)]).combine_chunks()
        return answer

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
