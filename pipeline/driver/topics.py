"""What the driver asks the broker itself: which topics there are, their ids, and what lies in them."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import TimeoutError as NoWord
from datetime import datetime
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicCollection, TopicPartition
from confluent_kafka.admin import AclOperation, AdminClient, OffsetSpec  # type: ignore[attr-defined]

from pipeline.config.settings import KafkaSettings
from pipeline.driver.brokers import Brokers, Quiet
from pipeline.driver.origin import Ends
from pipeline.errors import BadSetting
from pipeline.kafka.cluster import not_allowed

ANSWER_WITHIN = 15.0  # seconds
_SPARE = 10.0  # seconds that a client may be late with the word that it was not answered
_EARLIEST, _LATEST = -2, -1  # as Spark writes them in place of an offset
_BOTH = (_EARLIEST, _LATEST)
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # sixteen bytes of zero: the broker is older than topic ids


class Topics:
    def __init__(self, kafka: KafkaSettings, within: float = ANSWER_WITHIN) -> None:
        self._kafka, self._within = kafka, within
        self._brokers = Brokers(kafka.bootstrap, kafka.librdkafka, within)

    @property
    def _admin(self) -> AdminClient:
        return self._brokers.admin

    def check(self) -> None:
        """Refuse topics that are not there: Spark would fail later, and less clearly."""
        known = self.names()
        if self._kafka.topic_pattern:
            return  # a pattern may wait for its first topic
        if missing := sorted(set(self._kafka.topics) - known):
            raise BadSetting(
                f"kafka.topics names {', '.join(missing)}, but {self._kafka.bootstrap} has no such topic. "
                f"It has: {', '.join(sorted(known)) or 'none'}. Create it first: "
                f"`millrace topic create {missing[0]}`."
            )

    def names(self) -> set[str]:
        """Of all topics that there are, whether the settings name them or not."""
        return set(self._brokers.topics())

    def start(self) -> dict[str, dict[str, int]]:
        """Where a job without a checkpoint starts, by topic and partition, as kafka.starting_offsets says."""
        chosen = self._kafka.starting_offsets
        if chosen.startswith("{"):
            given: dict[str, dict[str, int]] = json.loads(chosen)
        else:
            symbol = _EARLIEST if chosen == "earliest" else _LATEST
            given = {topic: dict.fromkeys(map(str, parts), symbol) for topic, parts in self._partitions().items()}
        ends = {symbol: self._offsets(given, symbol) for symbol in (_EARLIEST, _LATEST)}
        return {
            topic: {part: ends[at][topic, int(part)] if at < 0 else at for part, at in parts.items()}
            for topic, parts in given.items()
        }

    def ids(self) -> dict[str, str]:
        """Kafka's own identity of each topic, which a topic deleted and created again does not keep.

        Left out: topics that are not there, or all if the broker gives no ids.
        """
        found = {topic: str(described.topic_id) for topic, described in self._described().items()}
        return {topic: of_topic for topic, of_topic in found.items() if of_topic != _NO_ID}

    def require_readable(self) -> None:
        """Refuse topics that this account may see and not read. A broker older than 2.3 does not tell."""
        for topic, described in self._described(include_authorized_operations=True).items():
            allowed = described.authorized_operations
            if allowed and AclOperation.READ not in allowed:
                raise not_allowed(topic, self._kafka.librdkafka.get("sasl.username"))

    def extents(self, partitions: Ends) -> tuple[dict[tuple[str, int], int], dict[tuple[str, int], int]]:
        """The first offset that Kafka still has of each of these partitions, and the one behind its last."""
        return tuple(self._offsets({t: dict.fromkeys(p, at) for t, p in partitions.items()}, at) for at in _BOTH)  # type: ignore[return-value]

    def since(self, partitions: Ends, moment: datetime) -> dict[tuple[str, int], int | None]:
        """The first offset of each of these partitions that was sent then or later; None if there is none."""
        spec = OffsetSpec.for_timestamp(int(moment.timestamp() * 1000))
        asked = {TopicPartition(topic, int(part)): spec for topic, parts in partitions.items() for part in parts}
        offsets = self._listed(asked)
        return {place: offset if offset >= 0 else None for place, offset in offsets.items()}

    def message_at(self, topic: str, partition: int, offset: int) -> Message | None:
        """The first message at this offset or behind it; None if there is none (any more)."""
        consumer = Consumer(
            {
                **Quiet(self._kafka.bootstrap, self._kafka.librdkafka).settings,
                "group.id": "millrace-looks",  # the client insists on a name; no group is joined
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
            }
        )
        try:
            consumer.assign([TopicPartition(topic, partition, offset)])
            found = consumer.poll(self._within)
            return found if found is not None and found.error() is None else None
        finally:
            consumer.close()

    def _described(self, **more: bool) -> dict[str, Any]:
        """What the broker says of each topic that is there."""
        wanted = TopicCollection(list(self._partitions()) if self._kafka.topic_pattern else list(self._kafka.topics))
        admin = self._admin  # held until it has answered: without it no answer comes
        asked = admin.describe_topics(wanted, request_timeout=self._within, **more) if wanted.topic_names else {}
        found = {}
        for topic, future in asked.items():
            try:
                found[topic] = self._answer(future)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise
        return found

    def _partitions(self) -> dict[str, list[int]]:
        kafka, known = self._kafka, self._admin.list_topics(timeout=self._within).topics
        return {topic: list(found.partitions) for topic, found in known.items() if kafka.may_read(topic)}

    def _offsets(self, given: dict[str, dict[str, int]], symbol: int) -> dict[tuple[str, int], int]:
        spec = OffsetSpec.earliest() if symbol == _EARLIEST else OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = {TopicPartition(t, int(p)): spec for t, ps in given.items() for p, at in ps.items() if at == symbol}
        return self._listed(asked)

    def _listed(self, asked: dict[TopicPartition, OffsetSpec]) -> dict[tuple[str, int], int]:
        admin = self._admin  # held until it has answered
        found = admin.list_offsets(asked, request_timeout=self._within) if asked else {}
        return {(at.topic, at.partition): self._answer(done).offset for at, done in found.items()}

    def _answer(self, future: Any) -> Any:
        """It comes within the client's own time limit, or the client's word why not: always a KafkaException. A time
        limit of the same length here would be the first one half of the time, and is no KafkaException."""
        try:
            return future.result(timeout=self._within + _SPARE)
        except KafkaException as error:
            if error.args[0].code() == KafkaError._TIMED_OUT:
                self._ask_anew()
            raise
        except NoWord as error:
            self._ask_anew()
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "Kafka's client gives no word")) from error

    def _ask_anew(self) -> None:
        """A client waits for the broker that it was told is the controller, for minutes and though the others are well.
        Who asks again asks by one that knows of none."""
        self._brokers = Brokers(self._kafka.bootstrap, self._kafka.librdkafka, self._within)

    def backlog(self, committed: dict[str, dict[str, int]]) -> dict[str, int]:
        """Messages by topic behind the offsets the last batch ended at. Spark commits no consumer-group offsets."""
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        wanted = {TopicPartition(t, int(p)): latest for t, ps in committed.items() for p in ps}
        waiting: Counter[str] = Counter()
        for (topic, partition), latest_offset in self._listed(wanted).items():
            waiting[topic] += max(0, latest_offset - committed[topic][str(partition)])
        return dict(waiting)


def end_offsets(progress: Any) -> dict[str, dict[str, int]]:
    """Where a query's last finished batch ended, out of Spark's progress report."""
    sources = progress["sources"] if progress else []
    end = sources[0]["endOffset"] if sources else None
    if not end:
        return {}
    return dict(json.loads(end)) if isinstance(end, str) else dict(end)
