"""The question for what is still to be read, and what the answer says of each partition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from kafka.errors import for_code
from kafka.protocol.consumer import FetchRequest

from pipeline.errors import CorruptMessages, TopicChanged
from pipeline.kafka.cluster import Cluster, not_allowed
from pipeline.kafka.connection import FETCH
from pipeline.kafka.ranges import Range
from pipeline.kafka.recordset import RecordSet

_LEAST, _FIRST = 64 << 10, 1 << 20  # bytes asked for of a partition; where the size of its messages is not known yet
_SPARE = 1.2  # times the bytes that the rest of a range is likely to have
_WAIT = 500  # ms a broker may wait for what is not there yet

_OUT_OF_RANGE, _CORRUPT, _NOT_ALLOWED = 1, 2, 29


@dataclass
class Rest:
    """What is still to be read of a range."""

    whole: Range
    first: int
    not_before: float = 0.0  # when its leader is asked again
    ends_at: int | None = None  # where the partition ends, if it ends too early

    @property
    def key(self) -> tuple[str, int]:
        return self.whole.topic, self.whole.partition

    @property
    def end(self) -> int:
        return self.whole.end

    def __str__(self) -> str:
        return f"{self.whole} offsets {self.first:,} to {self.end - 1:,}"


@dataclass(frozen=True)
class Came:
    """What a fetch brought of a range: these offsets of the records."""

    records: RecordSet
    first: int
    end: int


class NotYet(Exception):
    """The partition's leader gives nothing now; `leads` says whether it is to be asked again."""

    def __init__(self, why: str, leads: bool = True) -> None:
        super().__init__(why)
        self.leads = leads


def request(rests: Sequence[Rest], cluster: Cluster, most: int) -> Any:
    """For all of them at once. The first one is served in any case, the others as far as `most` bytes go."""
    topics = defaultdict(list)
    for rest in rests:
        of_message = cluster.message_bytes.get(rest.whole.topic)
        likely = _FIRST if of_message is None else int((rest.end - rest.first) * of_message * _SPARE)
        topics[rest.whole.topic].append(
            FetchRequest.FetchTopic.FetchPartition(
                partition=rest.whole.partition,
                current_leader_epoch=-1,
                fetch_offset=rest.first,
                log_start_offset=-1,
                partition_max_bytes=min(most, max(_LEAST, likely)),
            )
        )
    return FetchRequest[FETCH](
        max_wait_ms=_WAIT,
        min_bytes=1,
        max_bytes=most,
        isolation_level=int(cluster.client.read_committed),
        session_id=0,
        session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=parts) for topic, parts in topics.items()],
        forgotten_topics_data=[],
    )


def taken(rest: Rest, part: Any, cluster: Cluster) -> Came | None:
    """What the answer has of this range, which is then as much shorter; None if others took all the room.

    Raises NotYet, or what no further attempt can mend.
    """
    if part.error_code == _OUT_OF_RANGE:
        _refuse_lost(rest, *cluster.extent(*rest.key))
        raise NotYet(f"{rest.whole} does not have offset {rest.first:,}")
    if part.error_code == _CORRUPT:
        raise CorruptMessages(
            f"{rest.whole}: the broker itself finds the messages from offset {rest.first:,} on damaged. Nothing of "
            f"them was written. Look at the broker's disk and its log."
        )
    if part.error_code == _NOT_ALLOWED:
        raise not_allowed(rest.whole.topic, cluster.client.user)
    if part.error_code:  # a leader that is not there, not yet, or another one; or what is told in the end
        raise NotYet(f"{rest.whole}: {for_code(part.error_code).__name__}", leads=False)
    if part.log_start_offset > rest.first:
        _refuse_lost(rest, part.log_start_offset, part.high_watermark)
    if part.records:
        return _moved_on(rest, part, cluster)
    end = part.last_stable_offset if cluster.client.read_committed else part.high_watermark
    if end > rest.first:
        return None
    rest.ends_at = end
    raise NotYet(f"{rest.whole} ends at offset {end:,}")


def too_short(rest: Rest, end: int) -> TopicChanged:
    first, last = max(end, rest.first), rest.end - 1
    return TopicChanged(
        f"{rest.whole} ends at offset {end:,}, but offsets {first:,} to {last:,} were to be read: the topic has "
        f"lost its newest messages, or is another one. Nothing was skipped."
    )


def _moved_on(rest: Rest, part: Any, cluster: Cluster) -> Came:
    aborted = [(txn.producer_id, txn.first_offset) for txn in part.aborted_transactions or ()]
    data = np.frombuffer(part.records, np.uint8)
    records = RecordSet(rest.whole.topic, rest.whole.partition, data, rest.first, aborted)
    if records.next_offset == rest.first:
        raise CorruptMessages(f"{rest.whole}: what the broker gives for offset {rest.first:,} ends before it.")
    came = Came(records, rest.first, rest.end)
    cluster.message_bytes[rest.whole.topic] = len(data) / (records.next_offset - rest.first)
    rest.first, rest.ends_at = min(rest.end, records.next_offset), None
    return came


def _refuse_lost(rest: Rest, begin: int, end: int) -> None:
    """Kafka has less than was planned. Where it has what is wanted, another attempt finds it."""
    if begin > rest.first:
        last = min(begin, rest.end) - 1
        raise TopicChanged(
            f"Kafka has deleted messages before they were read: {rest.whole} offsets {rest.first:,} to {last:,}. "
            f"Nothing was skipped."
        )
    if end < rest.first:
        raise too_short(rest, end)
