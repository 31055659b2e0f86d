"""Figures as people read them, on the panel and in the dashboards' pictures."""

from __future__ import annotations

UNKNOWN = "-"
_BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: tuple[float, ...]) -> str:
    """
    >>> sparkline((0.0, 5.0, 10.0))
    '▁▄█'
    """
    highest = max(values, default=0) or 1
    return "".join(_BARS[min(int(value / highest * (len(_BARS) - 1)), len(_BARS) - 1)] for value in values)


def bar(share: float, width: int = 6) -> str:
    """
    >>> bar(0.25, 8)
    '██░░░░░░'
    """
    filled = min(width, max(0, round(share * width)))
    return "█" * filled + "░" * (width - filled)


def number(value: float | None) -> str:
    """
    >>> number(31204.4), number(None)
    ('31,204', '-')
    """
    return UNKNOWN if value is None else f"{value:,.0f}"


def percent(share: float | None) -> str:
    """
    >>> percent(0.0312), percent(1.0), percent(None)
    ('3.1 %', '100.0 %', '-')
    """
    return UNKNOWN if share is None else f"{100 * share:.1f} %"


def duration(seconds: float | None) -> str:
    """
    >>> duration(0.0042), duration(0.34), duration(2.34), duration(75), duration(7260), duration(None)
    ('4.2 ms', '340 ms', '2.3 s', '1 min 15 s', '2 h 1 min', '-')
    """
    if seconds is None:
        return UNKNOWN
    if seconds < 1:
        return f"{seconds * 1000:.1f} ms" if seconds < 0.01 else f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
