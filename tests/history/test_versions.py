"""The arithmetic of versions, without a server: a snapshot read while rows change, and the log behind its place."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from pipeline.history.versions import Epoch, History, Version
from pipeline.master.images import Row, RowChange, Upto

START = datetime(2026, 11, 19, tzinfo=timezone.utc)
EPOCH = Epoch("s/log.1:100", START, 1)


class Kept:
    """A table's versions, edited as a history says."""

    def __init__(self) -> None:
        self.versions: dict[int, Version] = {}
        self.next_number, self.epoch = 1, EPOCH

    def history(self, keys: list[Row]) -> History:
        present = [v for v in self.versions.values() if v.until is None and v.row[:1] in keys]
        return History(present, self.epoch, self.next_number, key_columns=1)

    def take(self, history: History) -> None:
        edit = history.edit
        assert not set(edit.begun) & set(self.versions)
        assert set(edit.changed) <= set(self.versions)
        assert edit.dropped <= set(self.versions)
        self.versions = {n: v for n, v in self.versions.items() if n not in edit.dropped} | edit.changed | edit.begun
        self.next_number = history.next_number

    def scan(self, rows: list[Row]) -> None:
        history = self.history([row[:1] for row in rows])
        for row in rows:
            history.scanned(row)
        self.take(history)

    def apply(self, changes: list[RowChange]) -> int:
        images = [image for change in changes for image in change[:2] if image]
        history = self.history([image[:1] for image in images])
        for change in changes:
            history.changed(change)
        self.take(history)
        return history.edit.unlogged

    def told(self, key: str) -> list[tuple[Row, bool]]:
        """What the row was, one after the other, and whether it was gone behind it."""
        found = [v for _, v in sorted(self.versions.items()) if v.row[0] == key]
        behind = [v.since_position for v in found[1:]] + [None]
        return [(v.row, v.until_position != after) for v, after in zip(found, behind, strict=True)]


def change(number: int, before: Row | None, after: Row | None) -> RowChange:
    return RowChange(before, after, Upto("s/log.1:200", number), START + timedelta(seconds=number))


@pytest.mark.parametrize("seed", range(40))
def test_whatever_changes_while_a_snapshot_is_read_the_history_is_what_happened(seed: int) -> None:
    choose = random.Random(seed)
    rows: dict[str, Row] = {key: (key, choose.randrange(3)) for key in "abcdef" if choose.random() < 0.6}
    happened = {key: [rows.get(key)] for key in "abcdef"}
    kept, log, pages = Kept(), [], ["ab", "cd", "ef"]
    for number in range(1, 40):
        if pages and choose.random() < 0.15:
            page = pages.pop(0)
            kept.scan([rows[key] for key in page if key in rows])
        key, other = choose.choice("abcdef"), choose.choice("abcdef")
        before, after = rows.get(key), (key, choose.randrange(3))
        if before and choose.random() < 0.3:
            after = None
        elif before and other not in rows and choose.random() < 0.4:
            after = (other, choose.randrange(3))
        if before == after:
            continue
        log.append(change(number, before, after))
        rows.pop(key, None)
        if before and (after is None or after[0] != key):
            happened[key].append(None)
        if after:
            rows[after[0]] = after
            happened[after[0]].append(after)
    for page in pages:
        kept.scan([rows[key] for key in page if key in rows])
    while log:
        size = choose.randrange(1, 8)
        assert kept.apply(log[:size]) == 0
        log = log[size:]
    for key, states in happened.items():
        pairs = zip(states, [*states[1:], states[-1]], strict=True)
        assert kept.told(key) == [(row, after is None) for row, after in pairs if row]


def test_a_row_that_changed_beside_the_log_is_put_right_and_counted() -> None:
    kept = Kept()
    kept.scan([("a", 1)])
    kept.apply([change(1, ("a", 1), ("a", 2))])
    assert kept.apply([change(2, ("a", 7), ("a", 8))]) == 1
    assert [row for row, _ in kept.told("a")] == [("a", 1), ("a", 2), ("a", 7), ("a", 8)]


def test_after_a_gap_what_changed_gets_a_version_at_the_new_snapshot_and_what_did_not_stays() -> None:
    kept = Kept()
    kept.scan([("a", 1), ("b", 1), ("c", 1)])
    later = START + timedelta(hours=1)
    kept.epoch = Epoch("s/log.9:4", later, kept.next_number)
    kept.scan([("a", 1), ("b", 2)])
    gone = kept.history([("c",)])
    gone.vanished(("c",))
    kept.take(gone)
    a, b, c, b2 = (kept.versions[number] for number in (1, 2, 3, 4))
    assert (a.until, b.until, c.until) == (None, later, later)
    assert b2 == Version(4, ("b", 2), later, "s/log.9:4")
    assert kept.apply([change(9, ("c", 5), None)]) == 0  # it came in the gap, and was there at the snapshot's beginning
    assert kept.told("c") == [(("c", 1), False), (("c", 5), True)]


def test_a_clock_that_goes_back_does_not_make_a_version_end_before_it_began() -> None:
    kept = Kept()
    kept.scan([("a", 1)])
    back = replace(EPOCH, at=START).at - timedelta(seconds=5)
    kept.apply([change(3, ("a", 1), ("a", 2))._replace(at=back), change(4, ("a", 2), None)])
    assert kept.versions[1].until == kept.versions[2].since == START
