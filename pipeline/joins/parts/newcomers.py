"""Rows, and absences, that wait to come into the row cache."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.joins.parts.keycodes import Codes, picked
from pipeline.joins.parts.keyindex import KeyIndex

NO_ROW = -1


@dataclass(frozen=True)
class Newcomers:
    """Rows, or absences, that were wanted `frequency` times and may come in."""

    codes: Codes
    rows: pa.Table | None  # None: keys proved absent
    frequency: npt.NDArray[np.float32]
    expires: npt.NDArray[np.float64]  # the moment, in seconds since the cache was made

    @property
    def nbytes(self) -> int:
        rows = 0 if self.rows is None else self.rows.nbytes
        return rows + self.codes.nbytes + self.frequency.nbytes + self.expires.nbytes

    def without(self, gone: KeyIndex) -> Newcomers:
        """Those whose keys are not among these."""
        stay = np.flatnonzero(gone.find(self.codes) < 0)
        if len(stay) == len(self.codes):
            return self
        rows = None if self.rows is None else self.rows.take(pa.array(stay))
        return Newcomers(picked(self.codes, stay), rows, self.frequency[stay], self.expires[stay])


@dataclass
class Coming:
    """All newcomers as one: each key once, with what all its appearances were worth."""

    codes: Codes
    frequency: npt.NDArray[np.float32]
    expires: npt.NDArray[np.float64]
    row: npt.NDArray[np.int64]  # in `rows`, or NO_ROW
    rows: pa.Table


def together(newcomers: list[Newcomers], schema: pa.Schema, words: int) -> Coming:
    codes = np.concatenate([some.codes for some in newcomers])
    key = KeyIndex(len(codes), words).add(codes)
    keys, last = np.unique(key[::-1], return_index=True)
    last = len(codes) - 1 - last
    rows, counted = [], 0
    for some in newcomers:
        here = 0 if some.rows is None else len(some.rows)
        rows.append(np.arange(counted, counted + here) if here else np.full(len(some.codes), NO_ROW))
        counted += here
    return Coming(
        codes=picked(codes, last),
        frequency=np.bincount(key, np.concatenate([some.frequency for some in newcomers]))[keys].astype(np.float32),
        expires=np.concatenate([some.expires for some in newcomers])[last],
        row=np.concatenate(rows)[last],
        rows=pa.concat_tables([schema.empty_table(), *(some.rows for some in newcomers if some.rows is not None)]),
    )
