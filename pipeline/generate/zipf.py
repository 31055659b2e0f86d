"""Which product is sold: a draw by Zipf's law, as in the benchmark of HYBRIDJOIN."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pipeline.errors import BadSetting
from pipeline.generate.keys import Rows

Uniforms = npt.NDArray[np.float64]

EIGHTY_TWENTY = "80/20"
_STEEPEST = 64.0


class ZipfDraw:
    """
    Idea
        Rank r of n is drawn with a frequency that falls like r^-e. The sum over ranks is replaced by the integral of
        x^-e, which can be inverted, so one uniform number gives one rank without a table of n frequencies. e = 0 is
        the uniform distribution, e = 1 the paper's choice, e > 1 is steeper still.

    Departures from the paper
        The paper has e = 1 only; here F(x) is the integral of t^-e from 1 to x for every e >= 0. Counting from x = 1
        makes the paper's `- integral at x = min` vanish; written with expm1 and log1p it has no gap at e = 1, where
        the plain power formula divides by zero. x runs to n + 1, so that the floor gives rank n its share. Ranks count
        from 0. All draws of a batch are one array operation.

    Example
        >>> ZipfDraw(1_000, 1.0).draw(np.array([0.0, 0.5, 0.999999])).tolist()
        [0, 30, 999]

    Reference
        Naeem, Dobbie, Weber: HYBRIDJOIN for Near-Real-Time Data Warehousing, 2011, figure 7, lines 28 to 31.
    """

    def __init__(self, ranks: int, exponent: float) -> None:
        if ranks < 1 or not 0 <= exponent <= _STEEPEST:
            raise BadSetting(
                f"skew: {exponent} over {ranks} rows. It needs at least one row and an exponent from 0 (uniform) "
                f"to {_STEEPEST:g}."
            )
        self.ranks = ranks
        self.exponent = exponent
        # 28  sumOfFrequency <- integral of 1/x at x = max - integral of 1/x at x = min
        self.sum_of_frequency = self._integral(ranks + 1.0)

    # 29  random <- getNextRandom()
    # 30  distributionValue <- inverseIntegralOf(random * sumOfFrequency + integral of 1/x at x = min)
    # 31  return floor(distributionValue)
    def draw(self, random: Uniforms) -> Rows:
        """The rank, from 0, that each uniform number of [0, 1) falls on."""
        value = self._inverse_integral(random * self.sum_of_frequency)
        return np.minimum(value, self.ranks).astype(np.int64) - 1

    def share_of_first(self, ranks: float) -> float:
        """The part of all draws that falls on the most frequent `ranks`."""
        return self._integral(ranks + 1.0) / self.sum_of_frequency

    def shares_of_first(self, ranks: Rows) -> Uniforms:
        """The same for several numbers of ranks."""
        return self._integrals(np.asarray(ranks, np.float64) + 1.0) / self.sum_of_frequency

    def _integral(self, x: float) -> float:
        return float(self._integrals(np.array([x]))[0])

    def _integrals(self, x: Uniforms) -> Uniforms:
        power = 1.0 - self.exponent
        return np.expm1(power * np.log(x)) / power if power else np.log(x)

    def _inverse_integral(self, area: Uniforms) -> Uniforms:
        power = 1.0 - self.exponent
        if not power:
            return np.exp(area)
        with np.errstate(divide="ignore", over="ignore"):  # a steep law's far end is infinite, and cut to the last rank
            return np.exp(np.log1p(np.maximum(area * power, -1.0)) / power)


def exponent_of(skew: float | str, ranks: int) -> float:
    """The exponent that a skew means: itself, or for "80/20" the one that gives 80 % of sales to 20 % of products.

    That exponent depends on the number of products; it is 0.894 for two millions, not the paper's "approximately" 1.

    >>> round(exponent_of("80/20", 2_000_000), 3)
    0.894
    >>> exponent_of("0.5", 100)
    0.5
    """
    if skew == EIGHTY_TWENTY:
        return _eighty_twenty(ranks)
    try:
        return float(skew)
    except ValueError:
        raise BadSetting(f"skew: {skew!r}. It must be a number from 0 upwards, or {EIGHTY_TWENTY}.") from None


def _eighty_twenty(ranks: int) -> float:
    if ranks < 5:
        raise BadSetting(
            f"skew: {EIGHTY_TWENTY} over {ranks} rows. A fifth of them must be at least one: use 5 or more."
        )
    low, high = 0.0, _STEEPEST
    for _ in range(60):
        middle = (low + high) / 2
        too_flat = ZipfDraw(ranks, middle).share_of_first(round(ranks / 5)) < 0.8
        low, high = (middle, high) if too_flat else (low, middle)
    return high
