"""How many messages of each topic wait in Kafka. Spark commits no consumer-group offsets, so we ask the broker."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from pipeline.settings import Kafka


class Backlog:
    def __init__(self, kafka: Kafka) -> None:
        self._admin = AdminClient({"bootstrap.servers": kafka.bootstrap, **kafka.client})

    def behind(self, committed: dict[str, dict[str, int]]) -> dict[str, int]:
        """Messages by topic that lie behind the offsets the last batch ended at."""
        wanted = {TopicPartition(t, int(p)): OffsetSpec.latest() for t, ps in committed.items() for p in ps}
        waiting: Counter[str] = Counter()
        for place, future in self._admin.list_offsets(wanted).items() if wanted else ():
            done = committed[place.topic][str(place.partition)]
            waiting[place.topic] += max(0, future.result(timeout=10).offset - done)
        return dict(waiting)


def end_offsets(progress: Any) -> dict[str, dict[str, int]]:
    """Where a query's last finished batch ended, out of Spark's progress report."""
    sources = progress["sources"] if progress else []
    end = sources[0]["endOffset"] if sources else None
    if not end:
        return {}
    return json.loads(end) if isinstance(end, str) else end
