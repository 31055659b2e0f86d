"""The one port to master rows that a join keeps: it can be told that some are no longer true."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from pipeline.joins.parts.keycodes import Codes
from pipeline.joins.parts.keyindex import ABSENT, KeyIndex, Slots


class KeptRows(Protocol):
    """Rows of R in memory: RowCache row by row, PageCache and ResidentPages page by page.

    An answer of the master that was asked for before its row changed may still come in after `forget`: to forget such
    rows again once it has come is the caller's part: it knows what is being read.
    """

    def __len__(self) -> int:
        """Distinct keys that are kept."""
        ...

    @property
    def nbytes(self) -> int: ...

    def forget(self, codes: Codes) -> None:
        """Never again serve from memory what is kept of these keys: rows, proofs of absence, and what waits to come in.

        Keys that are not kept may be among them, and a key may come twice. What the master says of a forgotten key
        afterwards may come in as if it had never been here.
        """
        ...

    def clear(self) -> None:
        """Keep nothing: any row may have changed."""
        ...

    def check(self) -> None:
        """Assert every invariant."""
        ...


def index_of(codes: Codes) -> KeyIndex:
    """These keys, to find others among them."""
    index = KeyIndex(len(codes), codes.shape[1])
    index.add(codes)
    return index


def slots_of(codes: Codes, index: KeyIndex) -> Slots:
    """Where the index has any of these keys, each slot once."""
    found = index.find(codes)
    slots: Slots = np.unique(found[found != ABSENT])
    return slots
