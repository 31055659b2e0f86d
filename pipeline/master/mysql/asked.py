"""Reads that a server was asked for, and whose answers nobody has waited for yet."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from pipeline import keys as natural_keys
from pipeline.master.mysql.pool import Request
from pipeline.master.mysql.reading import Reader
from pipeline.master.mysql.sql import Statements
from pipeline.master.port import KEY, Scan


@dataclass
class Asked:
    """A look-up under way."""

    keys: pa.Array
    request: Request | None = None  # none: none of the keys can exist
    later: list[pa.Array] = field(default_factory=list)  # keys for which the statement had no room

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
