"""Rows, and absences, that wait to come into the row cache."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.joins.parts.keycodes import Codes, picked
from pipeline.joins.parts.keyindex import KeyIndex
from pipeline.joins.parts.runs import begins, runs

NO_ROW = -1


@dataclass(frozen=True)
class Newcomers:
    """Rows, or absences, that were wanted `frequency` times and may come in."""

    codes: Codes
    rows: pa.Table | None  # None: keys proved absent
    frequency: npt.NDArray[np.float32]
    expires: npt.NDArray[np.float64]  # the moment, in seconds since the cache was made
    many: npt.NDArray[np.int64] | None = None  # how many rows each key has, one behind the other; None: one each

    @property
    def nbytes(self) -> int:
        rows = 0 if self.rows is None else self.rows.nbytes
        many = 0 if self.many is None else self.many.nbytes
        return rows + self.codes.nbytes + self.frequency.nbytes + self.expires.nbytes + many

    @property
    def rows_a_key(self) -> npt.NDArray[np.int64]:
        if self.many is not None:
            return self.many
        return np.full(len(self.codes), 0 if self.rows is None else 1, np.int64)

    def without(self, gone: KeyIndex) -> Newcomers:
        """Those whose keys are not among these."""
        stay = np.flatnonzero(gone.find(self.codes) < 0)
        if len(stay) == len(self.codes):
            return self
        left = self.rows_a_key[stay]
        rows = None if self.rows is None else self.rows.take(pa.array(runs(begins(self.rows_a_key)[stay], left)))
        many = None if self.many is None else left
        return Newcomers(picked(self.codes, stay), rows, self.frequency[stay], self.expires[stay], many)


@dataclass
class Coming:
    """All newcomers as one: each key once, with what all its appearances were worth."""

    codes: Codes
    frequency: npt.NDArray[np.float32]
    expires: npt.NDArray[np.float64]
    row: npt.NDArray[np.int64]  # the first in `rows`, or NO_ROW
    many: npt.NDArray[np.int64]
    rows: pa.Table


def counted(codes: Codes) -> tuple[Codes, npt.NDArray[np.float32]]:
    """The distinct keys, and how often each comes."""
    slots = KeyIndex(len(codes), codes.shape[1]).add(codes)
    _, first, counts = np.unique(slots, return_index=True, return_counts=True)
    return picked(codes, first), counts.astype(np.float32)


def together(newcomers: list[Newcomers], schema: pa.Schema, words: int) -> Coming:
    codes = np.concatenate([some.codes for some in newcomers])
    key = KeyIndex(len(codes), words).add(codes)
    keys, last = np.unique(key[::-1], return_index=True)
    last = len(codes) - 1 - last
    many = np.concatenate([some.rows_a_key for some in newcomers])
    row = np.where(many > 0, begins(many), NO_ROW)
    return Coming(
        codes=picked(codes, last),
        frequency=np.bincount(key, np.concatenate([some.frequency for some in newcomers]))[keys].astype(np.float32),
        expires=np.concatenate([some.expires for some in newcomers])[last],
        row=row[last],
        many=many[last],
        rows=pa.concat_tables([schema.empty_table(), *(some.rows for some in newcomers if some.rows is not None)]),
    )
