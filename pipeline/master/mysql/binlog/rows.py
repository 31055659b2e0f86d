"""The rows of an event, of which only the key's columns are looked at."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from pipeline.master.mysql.binlog.events import DELETES, UPDATES, WRITES, length_coded
from pipeline.master.mysql.binlog.tables import LoggedTable

Values = tuple["bytes | None", ...]  # of the wanted columns, as the log has them


class _Step(NamedTuple):
    size: int
    varies: bool
    place: int  # among the wanted; -1: passed over


def wanted_values(kind: int, body: bytes, table: LoggedTable, wanted: Sequence[int]) -> list[Values] | None:
    """These columns of each row as it was and as it is now. None: the log has not all of them (a minimal row image)."""
    at = 8
    if kind in (WRITES[1], UPDATES[1], DELETES[1]):
        at += int.from_bytes(body[8:10], "little")
    count, at = length_coded(body, at)
    width = (count + 7) // 8
    images = []
    for _ in range(2 if kind in UPDATES else 1):
        present = int.from_bytes(body[at : at + width], "little")
        if not all(present >> column & 1 for column in wanted):
            return None
        images.append(_steps(table, present, tuple(wanted)))
        at += width
    found = []
    while at < len(body):
        for steps in images:
            values, at = _image(body, at, steps, len(wanted))
            found.append(values)
    return found


@lru_cache(maxsize=256)
def _steps(table: LoggedTable, present: int, wanted: tuple[int, ...]) -> list[_Step]:
    """How to walk through an image: the columns that are there."""
    return [
        _Step(column.size, column.varies, wanted.index(number) if number in wanted else -1)
        for number, column in enumerate(table.columns)
        if present >> number & 1
    ]


def _image(body: bytes, at: int, steps: Sequence[_Step], width: int) -> tuple[Values, int]:
    size = (len(steps) + 7) // 8
    null, at = int.from_bytes(body[at : at + size], "little"), at + size
    values: list[bytes | None] = [None] * width
    for size, varies, place in steps:
        is_null, null = null & 1, null >> 1
        if is_null:
            continue
        if varies:
            begin = at + size
            at = begin + int.from_bytes(body[at:begin], "little")
        else:
            begin, at = at, at + size
        if place >= 0:
            values[place] = body[begin:at]
    if at > len(body):
        raise IndexError("a row is cut off")
    return tuple(values), at
