"""Where a batch came from, as the commit of its facts notes it, so that the next start can tell where it goes on."""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping
from typing import Any

import msgspec

from pipeline.answers.task import Offsets

Ends = dict[str, dict[str, int]]  # the first offset not yet read, by topic and partition, as Spark writes offsets


class LastMessage(msgspec.Struct, frozen=True):
    """The newest message read of a partition: if it is another one today, so is the topic."""

    offset: int
    sent: int  # Kafka timestamp, microseconds since 1970


class Gap(msgspec.Struct, frozen=True):
    """Messages that Kafka no longer had and that an operator decided to do without."""

    topic: str
    partition: int
    first: int
    last: int
    by: str
    at: str  # ISO 8601
    reason: str = ""

    @property
    def messages(self) -> int:
        return self.last - self.first + 1


class Origin(msgspec.Struct, omit_defaults=True):
    """What is known after a batch. All but `offsets` and `gaps`, which are this batch's own, is carried on."""

    checkpoint: str | None = None
    offsets: dict[str, list[int]] = {}  # of "topic/partition": first, last, messages
    gaps: list[Gap] = []
    ends: Ends = {}
    newest: dict[str, LastMessage] = {}  # of "topic/partition"
    topics: dict[str, str] = {}  # Kafka's ids, where the broker has any
    skipped: dict[str, int] = {}  # messages by topic, in all gaps so far
    feed: str = ""  # a place in the master's log: no row of the batch is from before it; the batch's own
    contracts: str = ""  # a fingerprint of those that the batch went by

    def after(
        self,
        read: Mapping[str, Offsets],
        topics: Mapping[str, str],
        checkpoint: str | None,
        feed: str = "",
        contracts: str = "",
    ) -> Origin:
        """The origin of the next batch, which read these messages from these topics."""
        ends, newest = {topic: dict(parts) for topic, parts in self.ends.items()}, dict(self.newest)
        for topic_partition, offsets in read.items():
            topic, _, partition = topic_partition.rpartition("/")
            ends.setdefault(topic, {})[partition] = offsets.last + 1
            newest[topic_partition] = LastMessage(offsets.last, offsets.last_sent)
        return Origin(
            checkpoint=checkpoint,
            offsets={name: [o.first, o.last, o.messages] for name, o in read.items()},
            ends=ends,
            newest=newest,
            topics=self.topics | dict(topics),  # one that is gone is remembered: it may come back as another
            skipped=self.skipped,
            feed=feed,
            contracts=contracts,
        )

    def skipping(self, gaps: list[Gap], checkpoint: str | None) -> Origin:
        """The origin of a batch that reads nothing and leaves these messages out."""
        ends, skipped = {topic: dict(parts) for topic, parts in self.ends.items()}, dict(self.skipped)
        for gap in gaps:
            ends.setdefault(gap.topic, {})[str(gap.partition)] = gap.last + 1
            skipped[gap.topic] = skipped.get(gap.topic, 0) + gap.messages
        return Origin(
            checkpoint=checkpoint, gaps=gaps, ends=ends, newest=self.newest, topics=self.topics, skipped=skipped
        )

    def as_note(self) -> dict[str, Any]:
        """As it stands in the commit."""
        return dict(msgspec.to_builtins(self))


def of_note(note: Mapping[str, Any] | None) -> Origin:
    """What a commit noted. Older releases noted less.

    >>> of_note({"checkpoint": "c1", "offsets": {"sales/0": [0, 9, 10]}}).checkpoint, of_note(None).ends
    ('c1', {})
    """
    return msgspec.convert(dict(note or {}), Origin)


def account() -> str:
    """Who runs this process, for a note of what was decided."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return f"uid {os.getuid()}"
