"""Timestamps as RFC 3339 has them, in UTC microseconds; dates as its full-date.

Needed are `T`, seconds, and `Z` or an offset with a colon; at most six decimals. `t` and `z` may be small, as in the
RFC. Second 60 and hour 24 are refused, and so is a year outside 0001 to 9999, before or after going to UTC.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, timezone
from typing import Any

from pipeline.config.contracts import Field
from pipeline.parse.loops import layout
from pipeline.parse.reasons import BAD_TIMESTAMP
from pipeline.parse.strings import TextKind

_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIMESTAMP = re.compile(
    _DATE.pattern + r"[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,6}))?(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Timestamp(TextKind):
    kind = layout.TIMESTAMP

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


class Date(TextKind):
    kind = layout.DATE

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
