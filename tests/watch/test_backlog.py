"""The backlog is known from the first moment: before any batch, too."""

from __future__ import annotations

import json

import pytest

from pipeline.config.settings import KafkaSettings
from pipeline.driver.topics import Topics
from pipeline.generate.run import generate
from pipeline.generate.workload import Workload
from pipeline.laptop.stack.stack import StackInfo


@pytest.mark.parametrize(
    ("starting", "waiting"),
    [("earliest", 500), ("latest", 0), ('{"0": 10, "1": -2}', 490), ('{"0": -1, "1": -1}', 0)],
)
def test_before_the_first_batch_what_waits_depends_on_where_the_job_starts(
    starting: str, waiting: int, seeded: StackInfo, topic: str
) -> None:
    workload = Workload(topics={topic: 1.0})
    generate(bootstrap=seeded.bootstrap, workload=workload, messages=500, partitions=2, progress=False)
    if starting.startswith("{"):
        starting = json.dumps({topic: json.loads(starting)})
    for named in ({"topics": (topic,)}, {"topic_pattern": f"{topic}|nothing-else"}):
        topics = Topics(KafkaSettings(bootstrap=seeded.bootstrap, starting_offsets=starting, **named))
        assert topics.backlog(topics.start()) == {topic: waiting}
