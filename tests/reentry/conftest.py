"""A world for each test: a topic of its own on the shared servers, master tables that tests only read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.driver import worker
from pipeline.laptop.stack.stack import Stack, StackInfo
from tests.reentry.reentry_world import World


@pytest.fixture
def world(stack: Stack, seeded: StackInfo, topic: str, tmp_path: Path) -> Iterator[World]:
    stack.kafka.create_topic(topic, partitions=1)
    yield World(seeded, topic, tmp_path)
    worker.forget()
    stack.kafka.delete_topic(topic)
