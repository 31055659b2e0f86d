"""Reads that would bring more rows at once than the load contract allows: their first piece is under way, and the
others are asked for when the answer is wanted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.master.mysql.asked import AskedPage, AskedScan
from pipeline.master.port import KEY, Scan, UnderWay


@dataclass
class ScanInPieces:
    """A scan whose rows are asked for piece by piece."""

    first: AskedScan
    next: Callable[[bytes | None, int], Scan]  # behind a position, so many rows
    left: int  # rows behind the first piece
    most: int  # rows a piece

    def answer(self) -> Scan:
        found = self.first.answer()
        rows = [found.rows]
        while self.left and not found.reached:
            # A piece that has not reached the bound has brought as many rows as were asked for.
            piece = min(self.left, self.most)
            found = self.next(found.position, piece)
            rows.append(found.rows)
            self.left -= piece
        return Scan(pa.concat_tables(rows).combine_chunks(), found.position, found.reached)

    def abandon(self) -> None:
        self.first.abandon()


@dataclass
class PageInPieces:
    """A page of one row a key, piece by piece: each begins with the row that the one before ended with."""

    first: AskedPage
    next: Callable[[Any, int], pa.Table]  # from a key on and without it, so many rows, it among them
    rows: int
    most: int  # rows a piece

    def answer(self) -> pa.Table:
        pieces = [self.first.answer()]
        left, is_full = self.rows - self.most, len(pieces[0]) == self.most
        while left > 0 and is_full:
            asked = min(self.most - 1, left)
            found = self.next(pieces[-1][KEY][-1].as_py(), asked + 1)
            pieces.append(found.slice(0, asked))  # one more, if that row has gone meanwhile
            left, is_full = left - asked, len(pieces[-1]) == asked
        return pa.concat_tables(pieces).combine_chunks()

    def abandon(self) -> None:
        self.first.abandon()


@dataclass
class PageAndKeys:
    """A page, and rows that were asked for besides by statements of their own."""

    page: UnderWay[pa.Table]
    look_up: Callable[[], pa.Table]
    others: pa.Array

    def answer(self) -> pa.Table:
        page = self.page.answer()
        others = self.look_up()
        # What was read later counts, and a row does not come twice.
        once = page.filter(pc.invert(pc.is_in(page[KEY], value_set=self.others)))
        return pa.concat_tables([once, others]).combine_chunks()

    def abandon(self) -> None:
        self.page.abandon()
