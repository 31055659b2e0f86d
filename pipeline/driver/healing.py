"""Heals facts beside the stream, in a thread of the driver, when the master's feed tells of the rows that they lack.

A sale that was joined before a change may be committed after it. So a change is acted upon when every batch that began
before it had settled is committed: then each fact that lacks the row is in the table.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from pipeline.answers.task import TaskAnswer
from pipeline.config.contracts import DimensionContract
from pipeline.driver.load import Load
from pipeline.driver.told import Told
from pipeline.master.feed import Changes
from pipeline.master.open import keeping_to, open_master
from pipeline.plan import Plan
from pipeline.repair.healer import Healer, Tell
from pipeline.repair.steps import can_be_healed
from pipeline.repair.unknown import dimensions_of, require_columns
from pipeline.warehouse import healing, storage
from pipeline.warehouse.log import TableLog

log = logging.getLogger("millrace.healing")

_LOOKS = 0.5  # seconds until it is looked again whether there is something to do
_PAUSE = 5.0  # seconds between two turns at least; a turn that took longer is followed by a pause as long
_AFTER_FAILURE = 60.0
_LONGEST_ASKING = 10  # seconds of the load contract that one window of facts may take
_PATIENCE = 60.0  # seconds that a stop waits for the commit in hand


class Healing:
    """Of one job: it is told of changes and of batches. Nothing happens if `warehouse.heal_rows_per_minute` is 0."""

    def __init__(self, plan: Plan, load: Load, tell: Tell) -> None:
        self._plan, self._load, self._tell = plan, load, tell
        self._told = Told()
        self._batch_began: float | None = None  # of the batch that is not committed yet
        self._has_unknown = True  # the table may, since it was last looked at
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="healing", daemon=True)
        self._is_on = plan.settings.warehouse.heals

    def start(self) -> None:
        """When the table is there. Refuses what cannot be healed rightly."""
        if not self._is_on:
            return
        facts, warehouse = self._plan.facts, self._plan.settings.warehouse
        able = dimensions_of(facts, self._plan.dimensions, [])
        require_columns(facts, able, by_age=True)
        table = TableLog(storage.table_uri(warehouse, facts.name), warehouse.storage_options)
        healing.refuse_what_is_not_safe(table, facts, warehouse, job_is_stopped=False)
        if dimensions := [dimension for dimension in able if self._can_be_healed(dimension)]:
            self._healer = Healer(
                self._plan, table, dimensions, self._tell, self._stop.is_set, self._asking, self._most
            )
            self._thread.start()

    def heard(self, changes: Changes) -> None:
        if self._is_on:
            self._told.add(changes)

    def batch_begins(self) -> None:
        """Before it is known what the workers are told of the master's changes."""
        self._batch_began = time.monotonic()

    def batch_committed(self, answer: TaskAnswer) -> None:
        counts = [dimension.counts for dimension in answer.dimensions.values()]
        self._has_unknown |= any(count.unmatched > count.null_keys for count in counts)
        self._batch_began = None

    def close(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(_PATIENCE)

    @property
    def _most(self) -> int:
        """Facts that may be asked for at once: what the contract allows in about ten seconds."""
        rows, window = self._load.contract.lent.rows, self._plan.settings.worker.window_sales
        return min(window, _LONGEST_ASKING * rows) if rows else window

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """The healer's reads keep to a part of the load contract that no task has meanwhile."""
        if not self._load.contract.caps_something:
            yield
            return
        with self._load.lent(self._stop.is_set) as part, keeping_to(part, self._plan.settings.master):
            yield

    def _can_be_healed(self, dimension: DimensionContract) -> bool:
        server = self._plan.settings.master
        with keeping_to(self._load.shares(tasks=1)[0], server) as told, open_master(server, dimension) as master:
            if not can_be_healed(dimension, master):
                log.warning(
                    "dimension %s: %s has no unique index on its natural key, so a sale may have several rows there, "
                    "each of which would be a fact: its unknown facts are not healed",
                    dimension.name, dimension.table,
                )  # fmt: skip
            is_able = can_be_healed(dimension, master)
        self._load.told(told.used)
        return is_able

    def _run(self) -> None:
        pause = 0.0
        while not self._stop.wait(pause):
            told, pause = self._told.due(self._batch_began), _LOOKS
            if told.keys or told.all_of or self._has_unknown or self._healer.is_busy:
                began = time.monotonic()
                self._has_unknown = False
                try:
                    self._healer.turn(told)
                except Exception as error:  # noqa: BLE001 of the store, the database, the network: it is tried again
                    if self._stop.is_set():
                        return
                    log.warning("facts are not healed, and will be tried again: %s", error)
                    self._tell.healing_failed()
                    pause = _AFTER_FAILURE
                else:
                    pause = max(_PAUSE, time.monotonic() - began)
