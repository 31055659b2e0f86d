"""Sums of 1 / x, as the papers need them."""

from __future__ import annotations

import math

EULER = 0.5772156649015329  # gamma; x-hybridjoin-kais2013 section 6.3 has 0.5772156649


def harmonic(m: float) -> float:
    """The sum of 1 / x from x = 1 to m: ln m + gamma + 1 / 2m, and two terms more.

    The papers leave 1 / 2m away; for the few rows of a small resident part it counts.

    >>> harmonic(0), harmonic(1), round(harmonic(4), 9) == round(1 + 1 / 2 + 1 / 3 + 1 / 4, 9)
    (0.0, 1.0, True)
    """
    if m < 100:
        whole = int(m)
        return sum(1 / x for x in range(1, whole + 1)) + (m - whole) / (whole + 1)
    return math.log(m) + EULER + 1 / (2 * m) - 1 / (12 * m**2) + 1 / (120 * m**4)


def share_of_first(rows: float, R_t: float) -> float:
    """p_N: the share of sales that want one of the most wanted rows, by Zipf's law with exponent 1."""
    return harmonic(rows) / harmonic(R_t)
