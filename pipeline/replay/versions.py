"""The versions that may count of each key that is asked for, and whether it had none for a while."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline import columns
from pipeline.config.contracts import DimensionContract
from pipeline.history.layout import NUMBER

Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

ABSENT = -1
SINCE, UNTIL, FROM, TO = "valid_from", "valid_to", "from_position", "to_position"
# A Delta column has no blank in its name, so none of the master's is called that.
KEY, HELD = " key", " held"  # which of the keys asked for; whether it had begun at the first moment
_NEVER = np.iinfo(np.int64).max


@dataclass
class Versions:
    """
    Example: a key that had been 1, and was 2 soon after; and one that had gone already and came again
        >>> moments = pa.timestamp("us", "UTC")
        >>> found = pa.table({
        ...     KEY: [0, 0, 1], HELD: [True, False, False], NUMBER: [1, 3, 4],
        ...     SINCE: pa.array([5, 20, 30], moments), UNTIL: pa.array([20, None, None], moments),
        ...     FROM: ["s/f.1:4", "s/f.1:8#1", "s/f.1:9#1"], TO: ["s/f.1:8#1", None, None],
        ...     "key": [1, 2, 3], "changed": pa.array([None] * 3, moments),
        ... })
        >>> versions = Versions(DimensionContract("p", "p", (), "key", "changed", {}), found, keys=2)
        >>> versions.first.tolist(), [later.tolist() for later in versions.later]
        ([0, -1], [[1, 2]])
        >>> versions.absent_by(datetime.fromtimestamp(1).astimezone()).tolist()
        [False, True]
    """

    contract: DimensionContract
    found: pa.Table
    keys: int

    def __post_init__(self) -> None:
        self.found = self.found.sort_by([(KEY, "ascending"), (NUMBER, "ascending")])
        # What one transaction has made and ended nobody has seen.
        ends = zip(self.found[FROM].to_pylist(), self.found[TO].to_pylist(), strict=True)
        seen = [not (to and "#" in made and "#" in to and _place(made) == _place(to)) for made, to in ends]
        self.found = self.found.filter(pa.array(seen, pa.bool_()))
        self._key = np.asarray(self.found[KEY])
        self.since = _since_1970(self.found[SINCE])
        self._held = np.asarray(self.found[HELD])

    @cached_property
    def first(self) -> Positions:
        """By key the row of `found` that held at the first moment."""
        rows = np.full(self.keys, ABSENT)
        held = np.flatnonzero(self._held)
        rows[self._key[held]] = held
        return rows

    @cached_property
    def later(self) -> list[Positions]:
        """By key the first row that began after that, the second one, …"""
        rows = np.flatnonzero(~self._held)
        key = self._key[rows]
        rank = np.arange(len(rows)) - np.searchsorted(key, key)
        ranked = []
        for number in range(int(rank.max(initial=-1)) + 1):
            of_rank = rows[rank == number]
            ranked.append(np.full(self.keys, ABSENT))
            ranked[-1][self._key[of_rank]] = of_rank
        return ranked

    def absent_by(self, last: datetime | None) -> Mask:
        """By key, whether it had no row at the first moment, or at some moment between it and the last one."""
        absent: Mask = self.first == ABSENT
        if last is not None and len(self._key):
            made, ended = ([at and _place(at) for at in self.found[name].to_pylist()] for name in (FROM, TO))
            follows = [k == n and t == f for k, n, t, f in zip(self._key, self._key[1:], ended, made[1:], strict=False)]
            gone = (_since_1970(self.found[UNTIL]) <= microseconds(last)) & ~np.array([*follows, False])
            absent[self._key[gone]] = True
        return absent

    def values(self, rows: Positions) -> dict[str, pa.Array]:
        """What sales with these rows carry, by the names of the journey."""
        at, carried = pa.array(rows, mask=rows == ABSENT), {}
        for field in self.contract.columns:
            values = self.found[in_master(self.contract, field.name)].take(at).combine_chunks().cast(field.type)
            if field.name == columns.SURROGATE_KEY:
                values = pc.fill_null(values, columns.UNKNOWN_MEMBER)
            carried[columns.of_dimension(self.contract.name, field.name)] = values
        return carried


def in_master(contract: DimensionContract, name: str) -> str:
    """What the master calls a column of the journey."""
    return {columns.SURROGATE_KEY: contract.surrogate_key, columns.UPDATED_AT: contract.updated_at}.get(name, name)


def _place(position: str) -> str:
    """At which the change's transaction begins."""
    return position.partition("#")[0]


def _since_1970(times: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    return np.asarray(pc.fill_null(times.cast(pa.int64()), _NEVER))


def microseconds(moment: datetime) -> int:
    return int(pa.scalar(moment, pa.timestamp("us", "UTC")).value)
