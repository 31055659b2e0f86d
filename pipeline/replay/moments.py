"""As of which moment a batch's master rows are looked up: what is wished, and what the batch allows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pipeline.errors import BadSetting
from pipeline.reentry.span import moment


@dataclass(frozen=True)
class Wishes:
    batch: int
    as_of: str = ""  # a moment, or a place in the master's log; else the place that the batch's commit notes
    dimensions: tuple[str, ...] = ()  # none: all that the facts carry a column of
    limit: int = 100  # differences that are named

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise BadSetting(f"--limit {self.limit} must be at least 1.")


@dataclass(frozen=True)
class Between:
    """From the first moment, a place in the log or a time, up to a second one. Without that only the first counts."""

    first: str | datetime
    last: datetime | None = None

    def __str__(self) -> str:
        return f"{self.first:%Y-%m-%d %H:%M:%S.%f} UTC" if isinstance(self.first, datetime) else self.first


def as_of(text: str) -> str | datetime:
    """
    >>> as_of("2026-11-19T08:00:00+01:00")
    datetime.datetime(2026, 11, 19, 7, 0, tzinfo=datetime.timezone.utc)
    >>> as_of("8a94f357/binlog.000002:157")
    '8a94f357/binlog.000002:157'
    """
    server, _, rest = text.partition("/")
    file, _, offset = rest.rpartition(":")
    if server and "." in file and offset.isdigit():
        return text
    try:
        return moment(text)
    except ValueError:
        raise BadSetting(
            f"--as-of {text!r} must be a moment such as 2026-11-19T08:00:00Z (UTC, unless it says otherwise), or a "
            f"place in the master's log as `millrace why` shows it, such as 8a94f357/binlog.000002:157."
        ) from None
