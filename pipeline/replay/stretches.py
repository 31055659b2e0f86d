"""What of the master's log a history knows: in stretches, and what was between two of them nobody knows.

A stretch begins with a snapshot and ends where the log was followed to. Positions are ordered by stretch first, so that
one server may follow another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from pipeline.errors import WarehouseRefused
from pipeline.history.record import SyncRecord
from pipeline.master.images import LogPlace
from pipeline.master.open import place_in_log
from pipeline.replay.moments import Between

Order = tuple[int, ...]


@dataclass(frozen=True)
class Stretch:
    begins: str
    ends: str
    at: datetime  # when it begins
    is_whole: bool  # else its snapshot is still being read


@dataclass
class Stretches:
    """Of one history, the oldest first."""

    uri: str
    all: list[Stretch]

    @staticmethod
    def told_by(uri: str, commits: Sequence[SyncRecord]) -> Stretches:
        """By what its commits said, the oldest first."""
        newest = {said.epoch_place: said for said in commits}
        found = [Stretch(said.epoch_place, said.place, said.epoch_at, said.is_whole) for said in newest.values()]
        return Stretches(uri, found)

    @property
    def end(self) -> str:
        return self.all[-1].ends

    def order(self, position: str) -> Order:
        """Of two positions, the later one's is greater. A change's own is behind the place at which it begins."""
        place = place_in_log(position)
        before = (
            number for number, known in enumerate(self._places) if known.is_beside(place) and known.order <= place.order
        )
        return (max(before, default=-1), *place.order, int("#" in position))

    def unknown_after(self, position: str, until: datetime) -> Iterator[tuple[str, str]]:
        """Between which places it knows nothing, where that lies behind this position and has begun by then."""
        first = self.order(position)
        for before, after in zip(self.all, self.all[1:], strict=False):
            if first < self.order(after.begins) and after.at <= until:
                yield before.ends, after.begins

    def require(self, asked: Between) -> None:
        """Refuse a moment of which it is not known what was then."""
        if not self.all[-1].is_whole:
            raise WarehouseRefused(
                f"{self.uri}: its snapshot of {self.all[-1].begins} is not whole yet. Run `millrace sync` first."
            )
        if isinstance(asked.first, datetime):
            if asked.first < self.all[0].at:
                raise WarehouseRefused(
                    f"{self.uri} begins at {self.all[0].at:%Y-%m-%d %H:%M:%S.%f} UTC, as far as its log tells: what "
                    f"was before, at {asked}, is not known."
                )
        else:
            self._require_place(asked.first)

    def _require_place(self, place: str) -> None:
        number, *_ = first = self.order(place)
        if number < 0:
            raise WarehouseRefused(
                f"{self.uri} begins at {self.all[0].begins}, as far as its log tells: what was at {place}, the place "
                f"in the master's log that the batch notes, is not known."
            )
        ends = self.all[number].ends
        if first <= self.order(ends):
            return
        if number + 1 < len(self.all):
            raise WarehouseRefused(
                f"{self.uri} does not know what was between {ends} and {self.all[number + 1].begins}, and the batch is "
                f"as of {place}."
            )
        raise WarehouseRefused(
            f"{self.uri} is told up to {ends}, and the batch is as of {place}, {_behind(ends, place)}. Run "
            f"`millrace sync` first."
        )

    @cached_property
    def _places(self) -> list[LogPlace]:
        return [place_in_log(known.begins) for known in self.all]


def _behind(ends: str, place: str) -> str:
    """How far.

    >>> _behind("s/log.000002:100", "s/log.000002:157"), _behind("s/log.000002:100", "s/log.000004:4")
    ('57 bytes of log further', '2 files of log further')
    """
    (file, offset), (other, further) = place_in_log(ends).order, place_in_log(place).order
    return f"{further - offset:,} bytes of log further" if file == other else f"{other - file:,} files of log further"
