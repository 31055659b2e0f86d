"""Carries a stream's origin from batch to batch while the job runs."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaException

from pipeline.answers.task import TaskAnswer
from pipeline.driver import topic_checks
from pipeline.driver.checkpoint import Checkpoint
from pipeline.driver.origin import Origin, of_note
from pipeline.driver.topics import Topics
from pipeline.errors import TopicChanged, WarehouseRefused

log = logging.getLogger("millrace.lineage")

_PATIENCE = 120.0  # seconds for a broker that is away, as for the master
_PAUSE = 1.0
_BETWEEN_LOOKS = 60.0  # seconds between two looks at the newest messages, where the broker gives no ids


class Lineage:
    """What each commit of this run notes, and whether one that is found there is this run's."""

    def __init__(self, checkpoint: Checkpoint, topics: Topics, origin: Origin, contracts: str) -> None:
        self.origin = origin  # of the last batch that is committed
        self._contracts = contracts
        self.checkpoint, self.topics = checkpoint, topics
        self._id: str | None = None
        self._under_way = origin
        self._looked = time.monotonic()  # at the newest messages: the start has just done so

    def note(self, answer: TaskAnswer) -> dict[str, Any]:
        """The note of the batch in hand. Its messages are read: if a topic is still the same now, it was then."""
        ids = self._ids()
        ours = self._checkpoint_id(), answer.feed, self._contracts
        self._under_way = self.origin.after(answer.offsets, ids, *ours)
        return self._under_way.as_note()

    def committed(self) -> None:
        self.origin = self._under_way

    def require_ours(self, batch: int, note: Mapping[str, Any] | None) -> None:
        """A batch that is committed already must be one of this stream, not another job's of the same name."""
        known, ours = of_note(note).checkpoint, self._checkpoint_id()
        if known and ours and known != ours:
            raise WarehouseRefused(
                f"batch {batch} is in the facts already, written with checkpoint {known}, but this job's is {ours}: "
                f"two jobs run under one job.name. Stop one, or give it a job.name and a job.checkpoint of its own. "
                f"Nothing of this batch was written by this job."
            )

    def _checkpoint_id(self) -> str | None:
        self._id = self._id or self.checkpoint.id()
        return self._id

    def _ids(self) -> Mapping[str, str]:
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                due = time.monotonic() - self._looked > _BETWEEN_LOOKS
                ids = topic_checks.require_same(self.topics, self.origin, by_message=due)
                self._looked = time.monotonic() if due else self._looked
                return ids
            except KafkaException as error:
                if time.monotonic() > deadline:
                    raise TopicChanged(
                        f"the broker has not told the topics' ids for {_PATIENCE:g} s ({error}), so it is not "
                        f"known whether they are still the same. The batch is not committed; the next start replays it."
                    ) from error
                log.warning("the broker does not tell the topics' ids: %s", error)
                threading.Event().wait(_PAUSE)
