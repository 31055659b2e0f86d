"""Dates and timestamps of RFC 3339, in compiled loops."""

from __future__ import annotations

from pipeline.compiling import piece
from pipeline.parse.loops.layout import UNSURE
from pipeline.parse.loops.memory import byte_at
from pipeline.parse.loops.texts import ZERO

_SECOND = 1_000_000
_DAY = 86_400 * _SECOND
_FIRST_DAY, _BEHIND_LAST_DAY = -719_162, 2_932_897  # 0001-01-01, 10000-01-01
_DATE_WIDTH, _SECONDS_WIDTH, _OFFSET = len("2026-11-18"), len("2026-11-18T09:30:00"), len("+01:00")


@piece
def _two(at: int) -> int:
    """The number of two digits; far below 0 if they are none."""
    tens, ones = byte_at(at) - ZERO, byte_at(at + 1) - ZERO
    if tens < 0 or tens > 9 or ones < 0 or ones > 9:
        return -1_000_000
    return tens * 10 + ones


@piece
def _day(at: int) -> tuple[int, bool]:
    """Ten characters as a day counted from 1970, and whether there is such a day."""
    year, month, day = _two(at) * 100 + _two(at + 2), _two(at + 5), _two(at + 8)
    if byte_at(at + 4) != ord("-") or byte_at(at + 7) != ord("-") or year < 1 or month < 1 or month > 12 or day < 1:
        return 0, False
    if day > 28:
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        longest = (29 if leap else 28) if month == 2 else 30 if month in (4, 6, 9, 11) else 31
        if day > longest:
            return 0, False
    # Years begin in March here: then the odd day is the last one, and months have 153 days in five.
    year, month = year - (month < 3), (month + 9) % 12
    return year * 365 + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 + day - 719_469, True


@piece
def date(at: int, end: int) -> tuple[int, int]:
    """The day that is written here, and the place behind it."""
    if at + _DATE_WIDTH > end:
        return 0, UNSURE
    days, exists = _day(at)
    return days, at + _DATE_WIDTH if exists else UNSURE


@piece
def timestamp(at: int, end: int) -> tuple[int, int]:
    """The instant that is written here, in microseconds of UTC, and the place behind it."""
    if at + _SECONDS_WIDTH + 1 > end:
        return 0, UNSURE
    days, exists = _day(at)
    hours, minutes, seconds = _two(at + 11), _two(at + 14), _two(at + 17)
    if (
        not exists
        or byte_at(at + 10) | 0x20 != ord("t")
        or byte_at(at + 13) != ord(":")
        or byte_at(at + 16) != ord(":")
    ):
        return 0, UNSURE
    if hours < 0 or hours > 23 or minutes < 0 or minutes > 59 or seconds < 0 or seconds > 59:
        return 0, UNSURE
    instant = days * _DAY + (hours * 3600 + minutes * 60 + seconds) * _SECOND
    at += _SECONDS_WIDTH
    if byte_at(at) == ord("."):
        at += 1
        unit = _SECOND
        while at < end and ZERO <= byte_at(at) <= ord("9"):
            unit //= 10
            instant += (byte_at(at) - ZERO) * unit
            at += 1
            if unit == 0:
                return 0, UNSURE
        if unit == _SECOND or at >= end:
            return 0, UNSURE
    zone = byte_at(at)
    if zone | 0x20 == ord("z"):
        return instant, at + 1
    if at + _OFFSET > end or (zone != ord("+") and zone != ord("-")) or byte_at(at + 3) != ord(":"):
        return 0, UNSURE
    hours, minutes = _two(at + 1), _two(at + 4)
    if hours < 0 or hours > 23 or minutes < 0 or minutes > 59:
        return 0, UNSURE
    offset = (hours * 60 + minutes) * 60 * _SECOND
    instant += offset if zone == ord("-") else -offset
    if instant < _FIRST_DAY * _DAY or instant >= _BEHIND_LAST_DAY * _DAY:
        return 0, UNSURE
    return instant, at + _OFFSET
