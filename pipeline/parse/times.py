"""Timestamps as RFC 3339 has them, in UTC microseconds; dates as its full-date.

Needed are `T`, seconds, and `Z` or an offset with a colon; at most six decimals. `t` and `z` may be small, as in the
RFC. Second 60 and hour 24 are refused, and so is a year outside 0001 to 9999, before or after going to UTC.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, timezone
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.config.contracts import Field
from pipeline.parse.kinds import QuickValues
from pipeline.parse.reasons import BAD_TIMESTAMP
from pipeline.parse.strings import TextKind
from pipeline.parse.texts import Bytes, ByteTexts, Integers, Mask

_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIMESTAMP = re.compile(
    _DATE.pattern + r"[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,6}))?(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)
# The first day of every month from 0001-01 to 10000-01, counted from 1970.
_FIRST_DAYS: Integers = np.arange("0001-01", "10000-02", dtype="M8[M]").astype("M8[D]").astype(np.int64)
_SECOND = 1_000_000
_DAY = 86_400 * _SECOND
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_DATE_WIDTH, _SECONDS_WIDTH = len("2026-11-18"), len("2026-11-18T09:30:00")
_ZULU, _OFFSET = len("Z"), len("+01:00")
_LONGEST = _SECONDS_WIDTH + len(".123456") + _OFFSET


class Timestamp(TextKind):
    def __init__(self, field: Field) -> None:
        super().__init__(field)
        self.needs = f"an RFC 3339 timestamp with Z or an offset and at most six decimals{self._allowed}"

    def value(self, given: Any) -> int:
        text = self.text(given)
        parts = _TIMESTAMP.fullmatch(text)
        if parts is None:
            raise self.reject(BAD_TIMESTAMP, given, "is not one")
        *numbers, fraction, sign, hours, minutes = parts.groups(default="0")
        try:
            if int(hours) > 23 or int(minutes) > 59:
                raise ValueError("the offset is not hours and minutes within a day")
            offset = timedelta(hours=int(hours), minutes=int(minutes))
            year, month, day, hour, minute, second = map(int, numbers)
            local = datetime(year, month, day, hour, minute, second, int(fraction.ljust(6, "0")), timezone.utc)
            instant = local + offset if sign == "-" else local - offset
        except (ValueError, OverflowError) as error:
            raise self.reject(BAD_TIMESTAMP, given, f"is not one ({error})") from None
        return (instant - _EPOCH) // timedelta(microseconds=1)

    def column(self, given: list[Any]) -> QuickValues:
        texts, kept = self.texts(given)
        instants = np.zeros(len(given), np.int64)
        sure = np.zeros(len(given), bool)
        shortest = _SECONDS_WIDTH + _ZULU
        for rows, characters in ByteTexts.of_array(texts).by_length(shortest, _LONGEST):
            zulu = characters[-1] | 0x20 == ord("z")
            for zone, has_it in ((_ZULU, zulu), (_OFFSET, ~zulu)):
                if has_it.all():
                    instants[rows], sure[rows] = _instants(characters, zone)
                elif has_it.any():
                    instants[rows[has_it]], sure[rows[has_it]] = _instants(characters[:, has_it], zone)
        return _finished(texts, instants, sure, kept, self.field.type)


class Date(TextKind):
    def __init__(self, field: Field) -> None:
        super().__init__(field)
        self.needs = f"a date like 2026-11-18{self._allowed}"

    def value(self, given: Any) -> int:
        parts = _DATE.fullmatch(self.text(given))
        try:
            if parts is None:
                raise ValueError("its form is another")
            return (date(*map(int, parts.groups())) - _EPOCH.date()).days
        except ValueError as error:
            raise self.reject(BAD_TIMESTAMP, given, f"is not one ({error})") from None

    def column(self, given: list[Any]) -> QuickValues:
        texts, kept = self.texts(given)
        days = np.zeros(len(given), np.int64)
        sure = np.zeros(len(given), bool)
        for rows, characters in ByteTexts.of_array(texts).by_length(_DATE_WIDTH, _DATE_WIDTH):
            days[rows], exists = _days(characters)
            sure[rows] = exists & _has_form(characters, "9999-99-99")
        return _finished(texts, days.astype(np.int32), sure, kept, self.field.type)


def _instants(characters: Bytes, zone: int) -> tuple[Integers, Mask]:
    """Texts of one length and form as UTC microseconds, and which of them are surely that."""
    decimals = len(characters) - _SECONDS_WIDTH - zone - 1  # -1: not even a point
    if decimals < -1 or decimals == 0 or decimals > 6:
        return np.zeros(characters.shape[1], np.int64), np.zeros(characters.shape[1], bool)
    fraction_form = "." + "9" * decimals if decimals > 0 else ""
    sure = _has_form(characters, "9999-99-99t99:99:99" + fraction_form + ("z" if zone == _ZULU else "+99:99"))
    days, exists = _days(characters)
    hours, minutes, seconds = (_number(characters, at, at + 2) for at in (11, 14, 17))
    sure &= exists & (hours <= 23) & (minutes <= 59) & (seconds <= 59)
    instants = days * _DAY + (hours * 3600 + minutes * 60 + seconds) * _SECOND
    if decimals > 0:
        fraction = _number(characters, _SECONDS_WIDTH + 1, _SECONDS_WIDTH + 1 + decimals)
        instants += fraction * 10 ** (6 - decimals)
    if zone == _OFFSET:
        hours, minutes = (_number(characters[-_OFFSET:], at, at + 2) for at in (1, 4))
        west = characters[-_OFFSET] == ord("-")
        instants += (hours * 60 + minutes) * np.where(west, 60 * _SECOND, -60 * _SECOND)
        sure &= (hours <= 23) & (minutes <= 59)
        sure &= (instants >= _FIRST_DAYS[0] * _DAY) & (instants < _FIRST_DAYS[-1] * _DAY)
    return instants, sure


def _days(characters: Bytes) -> tuple[Integers, Mask]:
    """The first ten characters as days since 1970, and whether there is such a day."""
    year, month, day = (_number(characters, start, stop) for start, stop in ((0, 4), (5, 7), (8, 10)))
    exists: Mask = (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1)
    months = np.clip((year - 1) * 12 + month - 1, 0, len(_FIRST_DAYS) - 2)  # what is no digit may be anything
    days = _FIRST_DAYS[months] + day - 1
    return days, exists & (days < _FIRST_DAYS[months + 1])


def _has_form(characters: Bytes, form: str) -> Mask:
    """Which texts have the form: 9 stands for a digit, + for a sign, t and z for a letter of either size."""
    letters, lowest, spread = _bounds(form)
    within: Mask = np.logical_and.reduce((characters | letters) - lowest <= spread, axis=0)  # bytes wrap round
    return within & (characters[form.index("+")] != ord(",")) if "+" in form else within


@lru_cache(maxsize=64)
def _bounds(form: str) -> tuple[Bytes, Bytes, Bytes]:
    """For each position: a bit that makes a letter small, the lowest byte allowed, and how far one may be above it."""
    allowed = {"9": ("0", "9"), "+": ("+", "-")}  # between the signs lies only the comma
    pairs = [allowed.get(character, (character, character)) for character in form]
    columns = (
        [0x20 * low.isalpha() for low, _ in pairs],
        [ord(a) for a, _ in pairs],
        [ord(b) - ord(a) for a, b in pairs],
    )
    letters, lowest, spread = (np.array(column, np.uint8)[:, None] for column in columns)
    return letters, lowest, spread


def _number(characters: Bytes, start: int, stop: int) -> Integers:
    number = np.zeros(characters.shape[1], np.int64)
    for row in characters[start:stop]:
        number *= 10
        number += row
    return number - int("1" * (stop - start)) * ord("0")


def _finished(texts: pa.Array, numbers: Any, sure: Mask, kept: Mask | None, kind: pa.DataType) -> QuickValues:
    if texts.null_count:
        nulls = texts.is_null().to_numpy(zero_copy_only=False)
        values = pa.array(numbers, mask=nulls).view(kind)
        sure = sure | nulls
    else:
        values = pa.array(numbers).view(kind)
    return QuickValues(values, sure if kept is None else sure & kept)
