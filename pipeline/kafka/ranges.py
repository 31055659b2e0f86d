"""What a batch reads, as ranges of offsets, and how they are dealt out to tasks.

Spark's Kafka source plans: starting offsets, patterns, new topics and partitions, limits, available-now. Before a batch
begins Spark puts down in the checkpoint where it ends, and it begins where the one before ended. That log is what
restarts go by, so its form is stable, and both readers leave the same checkpoint. Spark's plan of the batch would tell
the same, but only through classes that are not public; its progress reports come after the batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pipeline.errors import TopicChanged

Offsets = Mapping[str, Mapping[str, int]]  # by topic and partition, as Spark writes them


@dataclass(frozen=True)
class Range:
    """Offsets of one partition; `end` is the first that is not read any more."""

    topic: str
    partition: int
    first: int
    end: int

    def __len__(self) -> int:
        return self.end - self.first

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


def planned(begin: Offsets, end: Offsets) -> list[Range]:
    """The ranges between the end of the last batch and the end of this one. What would be left out is refused.

    A partition that is new begins at 0, as with Spark's source: if Kafka has deleted something of it already, the
    reader finds it missing.

    >>> planned({"sales": {"0": 5, "1": 7}}, {"sales": {"0": 9, "1": 7, "2": 3}})
    [Range(topic='sales', partition=0, first=5, end=9), Range(topic='sales', partition=2, first=0, end=3)]
    """
    for topic, parts in begin.items():
        for part, first in sorted(parts.items()):
            last = end.get(topic, {}).get(part)
            if last is None or last < first:
                now = "is gone" if last is None else f"ends at offset {last:,}"
                raise TopicChanged(
                    f"{topic}/{part} {now}, but it was read up to {first:,}: the topic was deleted, or has lost its "
                    f"newest messages. Nothing was skipped. To read what is there now from its beginning, choose "
                    f"another job.name and job.checkpoint."
                )
    ranges = [
        Range(topic, int(part), begin.get(topic, {}).get(part, 0), last)
        for topic, parts in end.items()
        for part, last in parts.items()
    ]
    return sorted((r for r in ranges if len(r)), key=lambda r: (r.topic, r.partition))


def dealt_out(ranges: Sequence[Range], tasks: int) -> list[list[Range]]:
    """As many messages to each task, however many partitions: the ranges end to end, cut where a task is full.

    A partition that is cut is read by two tasks, and a record batch across the cut is fetched twice.

    >>> for task in dealt_out([Range("sales", 0, 0, 60), Range("sales", 1, 100, 120)], 2): print(task)
    [Range(topic='sales', partition=0, first=0, end=40)]
    [Range(topic='sales', partition=0, first=40, end=60), Range(topic='sales', partition=1, first=100, end=120)]
    """
    left, dealt = sum(map(len, ranges)), []
    rest = list(reversed(ranges))
    for tasks_left in range(tasks, 0, -1):
        share, task = -(-left // tasks_left), []
        left -= share
        while share:
            some = rest.pop()
            taken = min(len(some), share)
            task.append(replace(some, end=some.first + taken))
            share -= taken
            if taken < len(some):
                rest.append(replace(some, first=some.first + taken))
        if task:
            dealt.append(task)
    return dealt
