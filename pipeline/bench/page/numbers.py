"""How numbers are written for a reader."""

from __future__ import annotations

import math

_NOTHING = 5e-5  # of a share
_SHARES = ("loss", "excess", "apart", "spread")


def spaced(number: float, digits: int = 3) -> str:
    """So many digits that mean something, thousands apart.

    >>> spaced(36123.8), spaced(0.01234), spaced(2.0), spaced(26.04), spaced(0.0)
    ('36 100', '0.0123', '2', '26', '0')
    """
    if not number or not math.isfinite(number):
        return "0" if not number else str(number)
    places = digits - 1 - math.floor(math.log10(abs(number)))
    rounded = round(number, places)
    if places <= 0:
        return f"{rounded:,.0f}".replace(",", " ")
    return f"{rounded:,.{places}f}".rstrip("0").rstrip(".").replace(",", " ")


def taken(take: str, number: float) -> str:
    """A number of a claim.

    >>> taken("value", 6000), taken("ratio", 1.996), taken("loss", 0.0117), taken("loss", 1e-9)
    ('6 000', '2 x', '1.17 %', '0 %')
    """
    if take in _SHARES:
        if abs(number) < _NOTHING:
            return "0 %"
        return f"{spaced(100 * number)} %"
    return f"{spaced(number)} x" if take in ("ratio", "step") else spaced(number)
