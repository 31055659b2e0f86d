"""Are the topics still those that were read, and is what comes next still there? Offsets alone do not tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone

from pipeline.driver.origin import Ends, Origin
from pipeline.driver.topics import Topics
from pipeline.errors import TopicChanged
from pipeline.source import LAST_MOMENT


@dataclass(frozen=True)
class Missing:
    """Messages of a partition that come next, and that Kafka does not have any more."""

    topic: str
    partition: int
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition} offsets {self.first:,} to {self.last:,}"


def require_same(topics: Topics, origin: Origin, by_message: bool = True) -> Mapping[str, str]:
    """Refuse a topic that was deleted and created again: its offsets begin anew, and say nothing of the old ones.

    A broker that gives no ids is asked for the newest messages read, if `by_message` allows what that costs. Returns
    the ids that the topics have now.
    """
    now = topics.ids()
    for topic, known in origin.topics.items():
        if topic in now and now[topic] != known:
            raise _recreated(topic, f"the facts were read from topic id {known}, the broker now has id {now[topic]}")
    for topic_partition, newest in origin.newest.items() if by_message and not now else ():
        topic, _, partition = topic_partition.rpartition("/")
        found = topics.message_at(topic, int(partition), newest.offset)
        if found is None or found.offset() != newest.offset:
            continue  # Kafka has deleted that message: there is nothing to compare
        was, is_now = newest.sent // 1000, min(found.timestamp()[1], LAST_MOMENT.value // 1000)
        if is_now != was:
            message = f"its message at {topic_partition}@{newest.offset}"
            raise _recreated(topic, f"{message} was sent at {_when(was)}, the broker's at {_when(is_now)}")
    return now


def missing(topics: Topics, following: Ends) -> Iterator[Missing]:
    """What Kafka no longer has of the messages that come next."""
    first, _ = topics.extents(following)
    for topic, parts in sorted(following.items()):
        for part, offset in sorted(parts.items(), key=lambda of_part: int(of_part[0])):
            begin = first.get((topic, int(part)), offset)
            if begin > offset:
                yield Missing(topic, int(part), offset, begin - 1)


def require_present(topics: Topics, following: Ends, origin: Origin) -> None:
    """Refuse to leave out messages that were not read and are not there any more."""
    known = topics.ids() or dict.fromkeys(following, "")
    here = {topic: parts for topic, parts in following.items() if topic in known}
    if gone := list(missing(topics, here)):
        told = "; ".join(f"{each} ({_span(topics, each, origin)})" for each in gone)
        count = sum(each.last - each.first + 1 for each in gone)
        names = " ".join(f"--topic {topic}" for topic in sorted({each.topic for each in gone}))
        raise TopicChanged(
            f"Kafka has deleted messages before they were read: {told}; {count:,} offsets in all. Nothing was skipped. "
            f"If they exist elsewhere, bring them in from there; to go on without them, run `millrace skip {names} "
            f"--to earliest`, which notes the gap in the facts' log (Runbook: messages are gone from Kafka)."
        )
    _, end = topics.extents(here)
    for (topic, partition), last in sorted(end.items()):
        read = here[topic][str(partition)]
        if read > last:
            raise TopicChanged(
                f"{topic}/{partition} ends at offset {last:,}, but it was read up to {read:,}: the topic has lost its "
                f"newest messages (an unclean change of leader, a restored broker), or is another one. What comes in "
                f"below {read:,} would be skipped. {_ANEW}"
            )


_ANEW = (
    "To read the topic as it is now from its beginning, choose another job.name and job.checkpoint; the facts of both "
    "are told apart by their application."
)


def _recreated(topic: str, why: str) -> TopicChanged:
    return TopicChanged(
        f"topic {topic} was deleted and created again: {why}. Its offsets begin anew, so going on at the old ones "
        f"would skip new messages. {_ANEW}"
    )


def _span(topics: Topics, gone: Missing, origin: Origin) -> str:
    """From when to when they were sent, as far as their neighbours tell."""
    before = origin.newest.get(f"{gone.topic}/{gone.partition}")
    after = topics.message_at(gone.topic, gone.partition, gone.last + 1)
    begin = f"after {_when(before.sent // 1000)}" if before else "since the first message"
    end = f"before {_when(after.timestamp()[1])}" if after else "up to now"
    return f"sent {begin} and {end}"


def _when(milliseconds: int) -> str:
    """
    >>> _when(1_700_000_000_123)
    '2023-11-14 22:13:20.123 UTC'
    """
    at = datetime.fromtimestamp(milliseconds / 1000, timezone.utc)
    return f"{at:%Y-%m-%d %H:%M:%S}.{milliseconds % 1000:03} UTC"
