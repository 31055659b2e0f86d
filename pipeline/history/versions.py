"""Which versions a row has had: the arithmetic of a history, without a database and without a table.

A snapshot is not of one moment: its pages are read one after the other while rows change. What holds at its beginning,
and is what the history begins with, is told by the log: where a row changed after that, the first change says what it
was before. So a row of the snapshot is right unless the log says otherwise, and a change that the snapshot shows
already makes no version of its own.

After a time that the log does not tell, a row that changes while it is compared with the snapshot may be two versions
of one content, which follow each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from pipeline.master.images import Row, RowChange, Upto


@dataclass(frozen=True)
class Epoch:
    """A snapshot, and what the history since then goes by."""

    place: str  # in the log, at which the snapshot begins
    at: datetime
    first: int  # number of its first version; lower ones are from before it


@dataclass(frozen=True)
class Version:
    """A row as it was for a while."""

    number: int  # over all rows, in the order in which they began: a surrogate key of the version
    row: Row
    since: datetime
    since_position: str
    until: datetime | None = None  # None: it is the present one
    until_position: str | None = None

    def ended(self, at: datetime, position: str) -> Version:
        # Times of the log may go back a little: they are those of statements, its order is that of commits.
        return replace(self, until=max(at, self.since), until_position=position)


@dataclass
class Edit:
    """What becomes of the present versions of some keys."""

    begun: dict[int, Version] = field(default_factory=dict)  # new ones, ended already or not
    changed: dict[int, Version] = field(default_factory=dict)  # known ones that ended, or are told better
    dropped: set[int] = field(default_factory=set)  # known ones that never were
    unlogged: int = 0  # rows that were found other than the log had told

    def __bool__(self) -> bool:
        return bool(self.begun or self.changed or self.dropped)


class History:
    """Takes the present versions of all keys that are concerned, and gives what has to be edited."""

    def __init__(self, present: Iterable[Version], epoch: Epoch, next_number: int, key_columns: int) -> None:
        self._width = key_columns
        self._present = {self._key(version.row): version for version in present}
        self._known = {version.number for version in self._present.values()}
        self._epoch, self.next_number = epoch, next_number
        self._last_end: dict[Row, datetime] = {}  # of keys that have no version now
        self.edit = Edit()

    @property
    def present(self) -> Mapping[Row, Version]:
        return self._present

    def scanned(self, row: Row) -> None:
        """A row as a snapshot found it."""
        version = self._present.get(self._key(row))
        if version is None:
            self._begin(row, self._epoch.at, self._epoch.place)
        elif version.row != row and not self._is_of_snapshot(version):
            self._end(version, self._epoch.at, self._epoch.place)
            self._begin(row, self._epoch.at, self._epoch.place)

    def vanished(self, key: Row) -> None:
        """A snapshot has not found it."""
        self._end(self._present[key], self._epoch.at, self._epoch.place)

    def changed(self, change: RowChange) -> None:
        before, after, position = change.before, change.after, told(change.position)
        if before is not None:
            self._is(before, change.at, position)
            self._end(self._present[self._key(before)], change.at, position)
        if after is not None:
            self._is_absent(self._key(after), change.at, position)
            self._begin(after, change.at, position)

    def _is(self, row: Row, at: datetime, position: str) -> None:
        """So says the log of the moment before a change."""
        version = self._present.get(self._key(row))
        if version is None:
            self._begin(row, self._epoch.at, self._epoch.place)
        elif version.row != row and self._is_of_snapshot(version):
            self._put(replace(version, row=row))
        elif version.row != row:
            # Changed while nobody followed the log, or by what the log does not tell: a cascade, sql_log_bin = 0.
            missed_since = self._epoch if version.number < self._epoch.first else None
            self.edit.unlogged += missed_since is None
            since, place = (missed_since.at, missed_since.place) if missed_since else (at, position)
            self._end(version, since, place)
            self._begin(row, since, place)

    def _is_absent(self, key: Row, at: datetime, position: str) -> None:
        version = self._present.get(key)
        if version is None:
            return
        if self._is_of_snapshot(version):
            self._drop(version)  # it came after the snapshot had begun
        elif version.number < self._epoch.first:
            self._end(version, self._epoch.at, self._epoch.place)
        else:
            self.edit.unlogged += 1
            self._end(version, at, position)

    def _begin(self, row: Row, at: datetime, position: str) -> None:
        before = self._last_end.get(self._key(row), at)
        self._put(Version(self.next_number, row, max(at, before), position))
        self.next_number += 1

    def _end(self, version: Version, at: datetime, position: str) -> None:
        ended = version.ended(at, position)
        self._put(ended)
        del self._present[self._key(version.row)]
        assert ended.until is not None
        self._last_end[self._key(version.row)] = ended.until

    def _put(self, version: Version) -> None:
        into = self.edit.changed if version.number in self._known else self.edit.begun
        into[version.number] = version
        self._present[self._key(version.row)] = version

    def _drop(self, version: Version) -> None:
        if version.number in self._known:
            self.edit.dropped.add(version.number)
        self.edit.begun.pop(version.number, None)
        self.edit.changed.pop(version.number, None)
        del self._present[self._key(version.row)]

    def _is_of_snapshot(self, version: Version) -> bool:
        return version.since_position == self._epoch.place

    def _key(self, row: Row) -> Row:
        return row[: self._width]


def told(position: Upto) -> str:
    """A change's position as text; a place alone means the snapshot that began there."""
    return f"{position.place}#{position.changes}"
