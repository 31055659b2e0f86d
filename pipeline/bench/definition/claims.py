"""What a paper says of a figure, as something that code can judge."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from typing import Literal

import msgspec

Line = Mapping[float, float]  # y by x
Lines = Callable[[str], Line]  # of a series


class Claim(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`take` is made of series, at each x; it is tested; `printed` is what the paper has."""

    says: str
    where: str = ""  # in the paper; "" if it is ours
    series: list[str]  # judged one by one
    over: list[str] = []  # each of them beside this one: one for all, or one for each
    take: Literal["value", "ratio", "loss", "excess", "apart", "peak", "trough", "spread", "step"] = "value"
    x: list[float] = []  # where; all if none is named
    z: float | None = None
    printed: float | None = None
    within: float | None = None  # of the printed one, as a share
    at_least: float | None = None
    at_most: float | None = None
    because: str = ""  # why it does not hold, or cannot

    @property
    def names(self) -> list[str]:
        return [*self.series, *self.over]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """What is judged, and what it is put beside; "" if nothing is."""
        over = self.over or [""]
        return list(zip(self.series, over if len(over) > 1 else over * len(self.series), strict=True))

    def numbers(self, series: str, beside: str, lines: Lines) -> dict[float, float]:
        """What is to be tested, by x."""
        line = dict(sorted(lines(series).items()))
        other = lines(beside) if beside else {}
        at = [x for x in line if (not self.x or x in self.x) and (not beside or x in other)]
        return _TAKEN[self.take](line, other, at) if at else {}

    def missed(self, number: float) -> float:
        """By how much the number is beyond what it may be; below 0: so much is left. It holds at 0 or below."""
        if math.isnan(number):
            return math.inf
        beyond = []
        if self.at_least is not None:
            beyond.append(self.at_least - number)
        if self.at_most is not None:
            beyond.append(number - self.at_most)
        if self.printed is not None and self.within is not None:
            beyond.append(abs(number / self.printed - 1) - self.within)
        return max(beyond)

    def check(self, series: Collection[str], x: Collection[float], z: Collection[float]) -> None:
        """Refuse a claim that cannot be judged."""
        told = f"the claim {self.says!r}"
        if unknown := [name for name in self.names if name not in series]:
            raise ValueError(f"{told} is about {', '.join(unknown)}, and there are {', '.join(series)}")
        if not self.series or len(self.over) not in (0, 1, len(self.series)):
            raise ValueError(f"{told} has {len(self.series)} series beside {len(self.over)}: one for all, or for each")
        if (self.take in _NEED_TWO) != bool(self.over) and self.take not in _MAY_HAVE_TWO:
            raise ValueError(f"{told} takes {self.take}, and `over` is for {', '.join(_NEED_TWO + _MAY_HAVE_TWO)}")
        if not set(self.x) <= set(x) or (self.z is not None and self.z not in z):
            raise ValueError(f"{told} is at x = {self.x}, z = {self.z}, where there is nothing")
        if self.take == "step" and len(self.x or x) < 2:
            raise ValueError(f"{told} is at x = {self.x}: a step is from one x to the next, so name two")
        if self.within is not None and not self.printed:
            raise ValueError(f"{told} is within {self.within} of nothing: it needs `printed`")
        if self.at_least is self.at_most is self.within is None:
            raise ValueError(f"{told} has no test: at_least, at_most, or within")


_NEED_TWO = ("ratio", "apart")
_MAY_HAVE_TWO = ("loss", "excess")


def _ratio(line: Line, other: Line, at: Sequence[float]) -> dict[float, float]:
    return {x: line[x] / other[x] if other[x] else math.nan for x in at}


def _loss(line: Line, other: Line, at: Sequence[float]) -> dict[float, float]:
    """The share that is missing to the other, or to its own best."""
    best = max(line.values())
    return {x: 1 - line[x] / (other[x] if other else best) for x in at}


def _excess(line: Line, other: Line, at: Sequence[float]) -> dict[float, float]:
    """How much more than the other, or than its own least, as a share of that."""
    least = min(line.values())
    return {x: line[x] / (other[x] if other else least) - 1 for x in at}


def _spread(line: Line, other: Line, at: Sequence[float]) -> dict[float, float]:
    chosen = [line[x] for x in at]
    return {at[-1]: (max(chosen) - min(chosen)) / max(chosen)}


def _step(line: Line, other: Line, at: Sequence[float]) -> dict[float, float]:
    """How many times the one before."""
    return {after: line[after] / line[before] for before, after in pairwise(at)}


def _where(best: Callable[..., float]) -> Callable[[Line, Line, Sequence[float]], dict[float, float]]:
    def taken(line: Line, other: Line, at: Sequence[float]) -> dict[float, float]:
        x = best(at, key=lambda x: line[x])
        return {x: x}

    return taken


_TAKEN: dict[str, Callable[[Line, Line, Sequence[float]], dict[float, float]]] = {
    "value": lambda line, other, at: {x: line[x] for x in at},
    "ratio": _ratio,
    "loss": _loss,
    "excess": _excess,
    "apart": lambda line, other, at: {x: abs(ratio - 1) for x, ratio in _ratio(line, other, at).items()},
    "peak": _where(max),
    "trough": _where(min),
    "spread": _spread,
    "step": _step,
}
