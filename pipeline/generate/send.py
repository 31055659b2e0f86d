"""Producing to Kafka: topics made when missing, messages handed over by the thousand, every acknowledgement counted."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.cimpl import NewTopic

from pipeline.driver.brokers import Brokers, NoBroker, Quiet
from pipeline.errors import MillraceError
from pipeline.generate.sales import Messages
from pipeline.generate.sent import Sent, SentToPartition

_ANSWER_WITHIN = 10.0  # seconds
_WAITING = 100_000  # messages handed over and not yet acknowledged; more would only use memory
_WAITING_BYTES = 256 << 20
_RUN = 500  # messages without a key that go to one partition before the next partition's turn


class SendFailed(MillraceError):
    """The broker did not take what it was sent. `sent` says what it took, where the run got that far."""

    def __init__(self, sentence: str, sent: Sent | None = None) -> None:
        super().__init__(sentence)
        self.sent = sent


class Sender:
    """Counts what the broker acknowledged: nothing is taken for sent before."""

    def __init__(self, bootstrap: str, client: Mapping[str, str] | None = None, largest_message: int = 0) -> None:
        self._bootstrap = bootstrap
        self._client = dict(client or {})
        self._largest_message = max(1_000_000, largest_message + 100_000)
        settings = {
            "enable.idempotence": True,  # a retry must not put a message there twice: the report would be wrong
            "linger.ms": 5,
            "batch.size": 1 << 20,
            "batch.num.messages": 20_000,
            "compression.type": "lz4",
            "partitioner": "murmur2_random",  # a key goes where Kafka's own client would put it
            "queue.buffering.max.messages": 2 * _WAITING,
            "queue.buffering.max.kbytes": _WAITING_BYTES >> 10,
            "message.max.bytes": self._largest_message,
            "message.timeout.ms": 60_000,
        }
        self._producer = Producer({**settings, **Quiet(bootstrap, client).settings})
        self._partitions: dict[str, int] = {}
        self._turn: Counter[str] = Counter()
        self._on_delivery: dict[str, Callable[[Any, Any], None]] = {}
        self.acknowledged: dict[str, dict[int, SentToPartition]] = {}
        self.failed: Counter[str] = Counter()

    def prepare(self, topics: Collection[str], partitions: int) -> None:
        """Create the topics that are missing, and learn how many partitions each has."""
        brokers = Brokers(self._bootstrap, self._client, _ANSWER_WITHIN)
        known = self._known_topics(brokers)
        config = {"max.message.bytes": str(self._largest_message)} if self._largest_message > 1_000_000 else {}
        missing = [NewTopic(topic, partitions, -1, config=config) for topic in topics if topic not in known]
        for topic, created in (brokers.admin.create_topics(missing) if missing else {}).items():
            try:
                created.result(_ANSWER_WITHIN)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise SendFailed(f"topic {topic}: cannot be created: {error.args[0].str()}.") from error
        deadline = time.monotonic() + _ANSWER_WITHIN
        while not all(known.get(topic) for topic in topics):
            if time.monotonic() > deadline:
                listed = sorted(set(topics) - known.keys())
                raise SendFailed(f"topics {listed}: created, but {self._bootstrap} does not list them.")
            known = self._known_topics(brokers)
        self._partitions = {topic: known[topic] for topic in topics}
        self.acknowledged = {topic: {} for topic in topics}
        self._on_delivery = {topic: self._counting(seen) for topic, seen in self.acknowledged.items()}

    @staticmethod
    def _known_topics(brokers: Brokers) -> dict[str, int]:
        try:
            return {name: len(topic.partitions) for name, topic in brokers.topics().items()}
        except NoBroker as error:
            raise SendFailed(str(error)) from error

    def send(self, topic: str, messages: Messages) -> None:
        if messages.keys is not None:
            pairs = zip(messages.values, messages.keys, strict=True)
            self._hand_over(topic, [{"value": value, "key": key} for value, key in pairs])
            return
        batch = [{"value": value} for value in messages.values]
        start = 0
        while start < len(batch):
            turn, done = divmod(self._turn[topic], _RUN)
            run = batch[start : start + _RUN - done]
            self._hand_over(topic, run, partition=turn % self._partitions[topic])
            self._turn[topic] += len(run)
            start += len(run)

    def _hand_over(self, topic: str, batch: list[dict[str, Any]], **where: Any) -> None:
        while len(self._producer) > _WAITING:
            self._producer.poll(0.01)
        self._producer.poll(0)
        while batch:
            self._producer.produce_batch(topic, batch, on_delivery=self._on_delivery[topic], **where)
            refused = [message for message in batch if "_error" in message]
            batch = []
            for message in refused:
                error = message.pop("_error")
                if error.code() == KafkaError._QUEUE_FULL:
                    batch.append(message)
                else:
                    self.failed[error.str()] += 1
            if batch:
                self._producer.poll(0.01)

    def flush(self) -> None:
        """Wait until every message is acknowledged or given up."""
        if waiting := self._producer.flush():
            self.failed["neither acknowledged nor given up"] += waiting

    @property
    def messages_acknowledged(self) -> int:
        return sum(seen.messages for topic in self.acknowledged.values() for seen in topic.values())

    def _counting(self, partitions: dict[int, SentToPartition]) -> Callable[[Any, Any], None]:
        failed = self.failed

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                failed[error.str()] += 1
                return
            offset = message.offset()
            seen = partitions.get(message.partition())
            if seen is None:
                partitions[message.partition()] = SentToPartition(1, offset, offset)
                return
            seen.messages += 1
            seen.last_offset = offset  # an idempotent producer's messages are acknowledged in their order

        return delivered
