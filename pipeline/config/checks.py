"""What a setting must be, where its type does not say it."""

from __future__ import annotations

import json

from pipeline.config.measures import Seconds
from pipeline.errors import BadSetting


def are_offsets(text: str) -> bool:
    """Spark's JSON: topic, partition, offset; -2 is the earliest, -1 the latest."""
    try:
        topics = json.loads(text)
        return bool(topics) and all(int(p) >= 0 and type(at) is int for ps in topics.values() for p, at in ps.items())
    except (ValueError, AttributeError, RecursionError):
        return False


def is_period(text: str) -> bool:
    try:
        return Seconds.parse(text) > 0
    except ValueError:
        return False


def need(holds: bool, key: str, value: object, needed: str, *also: str) -> None:
    """The loader says where the key, and what it goes `also` with, were given; it also knows a dimension's name."""
    if not holds:
        raise BadSetting(f"{key} = {value!r} must be {needed}.", about=[key, *also])
