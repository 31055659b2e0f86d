"""One dimension's way: a snapshot where none is there or the log does not go on, then the log."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator

from pipeline import keys as natural_keys
from pipeline.config.contracts import DimensionContract
from pipeline.errors import MillraceError, NotUnique
from pipeline.history.layout import HistoryLayout
from pipeline.history.patience import Patience
from pipeline.history.record import SyncRecord
from pipeline.history.table import HistoryTable
from pipeline.history.versions import History, Version
from pipeline.master.images import Beginning, Row, RowChange, Told
from pipeline.master.open import open_images, open_master
from pipeline.master.port import KEY, MasterTable
from pipeline.plan import Plan
from pipeline.watch.sync import SyncMetrics

log = logging.getLogger("millrace.history")

_PAGE = 50_000  # rows of the snapshot in one commit
_ASKED = 5_000  # keys in one look for rows that have gone
_MOST_CHANGES, _MOST_BYTES = 10_000, 32 << 20  # of the log in one commit
# A server writes a change to its log a moment before others can read it.
_UNTIL_ALL_ARE_SEEN = 1.0
_PROGRESS = 600.0  # seconds after which a position is committed although no row has changed: logs are purged

Say = Callable[[str], None]


def layout_of(plan: Plan, name: str) -> HistoryLayout:
    return HistoryLayout(plan.dimensions[name], plan.settings.dimensions[name].history == "type 2")


def require_one_row_a_key(master: MasterTable, contract: DimensionContract) -> None:
    master.verify()
    if not master.unique:
        raise NotUnique(f"{contract.table} may have several rows of one natural key: no history is kept.")


class DimensionSync:
    def __init__(self, plan: Plan, name: str, stop: threading.Event, say: Say, metrics: SyncMetrics) -> None:
        self.name = name
        self._settings, self._contract = plan.settings.master, plan.dimensions[name]
        self._layout = layout_of(plan, name)
        self._table = HistoryTable(self._layout, plan.settings.warehouse)
        self._images = open_images(self._settings, self._contract)
        self._stop, self._say, self._metrics = stop, say, metrics
        self._applied = self._unlogged = 0

    def catch_up(self) -> None:
        """Up to where the log ended when this began."""
        self._run(every=None)

    def follow(self, every: float) -> None:
        """Until it is stopped; a commit so often where something has changed."""
        self._run(every)

    def _run(self, every: float | None) -> None:
        now = self._ask_to_begin()  # refuses a server or a table of which no history can be kept
        self._table.open()
        said = self._table.newest()
        lost = "the table does not say up to where it is" if self._table.sequence else "the history begins"
        if said and said.shape != now.shape:
            said, lost = None, "table or contract has other columns than before"
        while not self._stop.is_set():
            if said is None:
                said = self._begin(lost)
            if not said.is_whole:
                said = self._complete(said)
            if not said.is_whole:
                break
            said, lost = self._apply_log(said, every)
            if not lost:
                break
            log.warning("%s: %s; a new snapshot is compared with the table", self.name, lost)
            said = None
        if said and not said.is_whole:
            self._say(f"{self.name}: stopped in the middle of the snapshot; the next sync goes on there")
        elif said:
            self._say(
                f"{self.name}: {self._applied:,} changes applied, up to {said.place} ({self._table.uri}, "
                f"version {self._table.log.version()})"
            )
        if self._unlogged:
            log.warning("%s: %d rows had changed beside the log", self.name, self._unlogged)

    def _begin(self, reason: str) -> SyncRecord:
        begun, sequence = self._ask_to_begin(), self._table.sequence
        newest = self._table.newest()
        first = newest.next_number if newest else self._table.next_number()
        said = SyncRecord(
            self.name, sequence + 1, begun.place, 0, begun.shape, first, begun.place, begun.at, first, reason
        )
        self._metrics.snapshot_begun(self.name)
        return self._commit(self._history(said, []), said)

    def _complete(self, said: SyncRecord) -> SyncRecord:
        """The rest of the snapshot."""
        with open_master(self._settings, self._contract) as master:
            require_one_row_a_key(master, self._contract)
            before, expected = said.scanned_rows, master.statistics().rows
            self._stop.wait(0 if said.scanned_to else _UNTIL_ALL_ARE_SEEN)
            while not said.is_scanned and not self._stop.is_set():
                self._metrics.snapshot(self.name, said.scanned_rows, expected)
                said = self._scan(master, said)
            self._metrics.snapshot(self.name, said.scanned_rows, expected)
            if said.is_scanned and not self._stop.is_set():
                said, gone = self._look_for_gone(master, said)
                self._say(f"{self.name}: {said.scanned_rows - before:,} rows read, {gone:,} have gone ({said.reason})")
        return said

    def _scan(self, master: MasterTable, said: SyncRecord) -> SyncRecord:
        position = bytes.fromhex(said.scanned_to) if said.scanned_to else None
        page = master.scan(position, _PAGE)
        rows = self._layout.rows(page.rows)
        history = self._history(said, [self._key(row) for row in rows])
        for row in rows:
            history.scanned(row)
        to = page.position.hex() if page.position is not None else None
        scanned = said.scanned_rows + len(rows)
        return self._commit(history, said.next(scanned_to=to, scanned_rows=scanned, is_scanned=page.reached))

    def _look_for_gone(self, master: MasterTable, said: SyncRecord) -> tuple[SyncRecord, int]:
        """Versions from before the snapshot whose rows it has not found: asked for by their keys."""
        gone = 0
        for batch in self._table.keys_before(said.epoch_first, _ASKED):
            packed = natural_keys.pack(batch.columns)
            there = set(master.lookup(packed)[KEY].to_pylist())
            rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
            missing = [key for key, code in zip(rows, packed.to_pylist(), strict=True) if code not in there]
            if missing:
                history = self._history(said, missing)
                for key in list(history.present):
                    history.vanished(key)
                said, gone = self._commit(history, said.next()), gone + len(missing)
        return self._commit(self._history(said, []), said.next(is_whole=True)), gone

    def _apply_log(self, said: SyncRecord, every: float | None) -> tuple[SyncRecord, str]:
        """Why the log does not go on; nothing, if it was stopped or its end was reached."""
        pending: list[RowChange] = []
        size, committed = 0, time.monotonic()
        whole_until = 0.0  # Unix time up to which the table has all changes
        for told in self._pieces(said, for_ever=every is not None):
            pending += told.changes
            size += told.bytes
            is_last = bool(told.lost) or self._stop.is_set() or (every is None and told.is_all)
            since = time.monotonic() - committed
            is_due = len(pending) >= _MOST_CHANGES or size >= _MOST_BYTES or (every is not None and since >= every)
            if (pending and (is_due or is_last)) or ((is_last or since >= _PROGRESS) and told.upto != said.upto):
                said = self._apply(pending, said.next(place=told.upto.place, changes=told.upto.changes))
                pending, size, committed = [], 0, time.monotonic()
            whole_until = whole_until if pending else told.at
            self._metrics.followed(self.name, whole_until)
            if is_last:
                return said, told.lost
        return said, ""

    def _pieces(self, said: SyncRecord, for_ever: bool) -> Iterator[Told]:
        """What the log tells, through broken connections."""
        upto, patience = said.upto, Patience(self.name, None if for_ever else self._settings.retry_for, self._stop)
        while not self._stop.is_set():
            try:
                for told in self._images.follow(upto, said.shape):
                    upto = told.upto
                    patience.renew()
                    yield told
                return
            except MillraceError:
                raise
            except Exception as error:  # noqa: BLE001 of the network or the server
                self._metrics.silent(self.name)
                patience.wait(error)

    def _ask_to_begin(self) -> Beginning:
        patience = Patience(self.name, self._settings.retry_for, self._stop)
        while True:
            try:
                return self._images.begin()
            except MillraceError:
                raise
            except Exception as error:  # noqa: BLE001 of the network or the server
                patience.wait(error)

    def _apply(self, changes: list[RowChange], said: SyncRecord) -> SyncRecord:
        images = [row for change in changes for row in (change.before, change.after) if row is not None]
        history = self._history(said, list(dict.fromkeys(map(self._key, images))))
        for change in changes:
            history.changed(change)
        said = self._commit(history, said, len(changes))
        self._applied += len(changes)
        self._unlogged += history.edit.unlogged
        return said

    def _history(self, said: SyncRecord, keys: list[Row]) -> History:
        present: list[Version] = self._table.present(keys)
        return History(present, said.epoch, said.next_number, len(self._layout.key))

    def _commit(self, history: History, said: SyncRecord, changes: int = 0) -> SyncRecord:
        said, edit = said.numbered(history.next_number), history.edit
        self._table.commit(edit, said)
        self._metrics.committed(self.name, changes, len(edit.begun), edit.unlogged)
        return said

    def _key(self, row: Row) -> Row:
        return row[: len(self._layout.key)]
