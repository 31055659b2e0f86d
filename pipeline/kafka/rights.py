"""The least that the job's principal must be allowed, as words for Kafka's own tool, `kafka-acls.sh`."""

from __future__ import annotations

import re

from pipeline.config.settings import KafkaSettings

OPERATIONS = ("Read", "Describe", "DescribeConfigs")  # the last one for the doctor, who looks at the retention
_PLAIN_START = re.compile(r"(?:[\w-]|\\\.)*")


def words(kafka: KafkaSettings, principal: str) -> list[list[str]]:
    """Of each command. A right on a group is not needed: offsets are in the checkpoint, and none are committed.

    >>> words(KafkaSettings(topics=("sales",)), "User:shop")[0][-2:]
    ['--topic', 'sales']
    """
    options = ["--add", "--allow-principal", principal]
    options += [word for operation in OPERATIONS for word in ("--operation", operation)]
    if not kafka.topic_pattern:
        return [[*options, "--topic", topic] for topic in kafka.topics]
    if start := plain_start(kafka.topic_pattern):
        return [[*options, "--topic", start, "--resource-pattern-type", "prefixed"]]
    return [[*options, "--topic", "*"]]


def plain_start(pattern: str) -> str:
    r"""With what the names begin that a pattern means: Kafka's rights know no patterns, but beginnings.

    >>> plain_start("sales-.*"), plain_start(r"sales\.(de|fr)"), plain_start("sales|returns"), plain_start("sales?")
    ('sales-', 'sales.', '', 'sale')
    """
    if "|" in re.sub(r"\(.*?\)", "", pattern):
        return ""
    found = _PLAIN_START.match(pattern)
    start = found[0] if found else ""
    if pattern[len(start) : len(start) + 1] in ("?", "*", "{"):  # the last one may be missing
        start = start[: -2 if start.endswith("\\.") else -1]
    return start.replace("\\.", ".")
