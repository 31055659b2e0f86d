"""A look-up whose answer may be larger than memory: its rows in pieces, in the order of a scan."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pipeline import keys as natural_keys
from pipeline.master.mysql.asked import AskedScan
from pipeline.master.mysql.reading import Reader
from pipeline.master.mysql.sql import Statements
from pipeline.master.port import KEY, Scan

_NUMBER_BYTES = 4  # of a part of the keys, before the place of the row read last


class Pieces:
    """Where the text for all keys would be too long for the server, some of the keys are asked for after the others."""

    def __init__(self, reader: Reader, statements: Statements, types: Sequence[str]) -> None:
        self._reader, self._statements, self._types = reader, statements, types

    def next(self, keys: pa.Array, position: bytes | None, rows: int) -> Scan:
        """`keys`: those that some row can have, the same ones each time."""
        parts = self._parts(keys, rows)
        number, place = _divided(position)
        statement = self._statement(parts[number], place, rows)
        request = self._reader.send("lookup", statement, rows)
        found = AskedScan(self._reader, "lookup", request, self._statements, rows, None).answer()
        asked_for = pc.is_in(found.rows[KEY], value_set=parts[number])
        answer = found.rows if pc.all(asked_for).as_py() is not False else found.rows.filter(asked_for)
        number += found.reached
        if number == len(parts):
            return Scan(answer, None, True)
        return Scan(answer, number.to_bytes(_NUMBER_BYTES, "big") + (found.position or b""), False)

    def _parts(self, keys: pa.Array, rows: int) -> list[pa.Array]:
        """Keys that one statement has room for; half of it is left to a place."""
        if len(keys) == 1 or len(self._statement(keys, b"", rows).encode()) <= self._reader.pool.largest_statement // 2:
            return [keys]
        half = len(keys) // 2
        return self._parts(keys[:half], rows) + self._parts(keys[half:], rows)

    def _statement(self, keys: pa.Array, place: bytes, rows: int) -> str:
        behind = self._statements.place_in_scan(place) if place else None
        return self._statements.lookup_from(natural_keys.unpack(keys, self._types), behind, rows)


def _divided(position: bytes | None) -> tuple[int, bytes]:
    """The number of the part, and the place in its rows."""
    if position is None:
        return 0, b""
    return int.from_bytes(position[:_NUMBER_BYTES], "big"), position[_NUMBER_BYTES:]
