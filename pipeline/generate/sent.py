"""What a run sent, so that what arrives can be reconciled with it exactly."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.errors import BadSetting
from pipeline.generate import malformed
from pipeline.generate.draws import NONE, Draws
from pipeline.generate.keys import DIMENSIONS, Rows


@dataclass
class SentToPartition:
    """What the broker acknowledged in one partition."""

    messages: int
    first_offset: int
    last_offset: int


@dataclass
class SentToTopic:
    """Counts of messages of one topic. `valid` become facts, `malformed` become rejects; together they are all."""

    messages: int = 0
    valid: int = 0  # well-formed, whatever their keys; duplicates included
    malformed: dict[str, int] = field(default_factory=dict)  # by kind
    unknown: dict[str, int] = field(default_factory=dict)  # valid, by the dimension whose key is not in the master
    null: dict[str, int] = field(default_factory=dict)  # valid, by the dimension whose key is null
    duplicates: int = 0  # valid, and counted in `unknown` or `null` too where they repeat such a sale
    partitions: dict[int, SentToPartition] = field(default_factory=dict)

    def add(self, draws: Draws) -> None:
        spoilt = draws.malformed != NONE
        self.messages += len(draws)
        self.valid += len(draws) - int(spoilt.sum())
        self.malformed = _added(self.malformed, draws.malformed, malformed.NAMES)
        self.unknown = _added(self.unknown, draws.unknown, DIMENSIONS)
        self.null = _added(self.null, draws.null, DIMENSIONS)
        self.duplicates += int(draws.duplicate.sum())


@dataclass
class Sent:
    """A whole run. When it says `complete`, every message counted here was acknowledged by the broker, once."""

    workload: dict[str, Any]
    started_at: str = ""
    ended_at: str = ""
    seconds: float = 0.0
    messages: int = 0
    messages_per_second: float = 0.0
    next_sale: int = 0  # where a run that goes on with other sales begins
    interrupted: bool = False
    complete: bool = False
    failed: dict[str, int] = field(default_factory=dict)  # messages not acknowledged, by reason
    topics: dict[str, SentToTopic] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2)

    def write(self, path: Path | str) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(self.to_json() + "\n", "utf-8")

    @classmethod
    def read(cls, path: Path | str) -> Sent:
        try:
            document = json.loads(Path(path).read_text("utf-8"))
            topics = {name: _topic(counts) for name, counts in document.pop("topics").items()}
            return cls(**document, topics=topics)
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
            raise BadSetting(
                f"{path} is no report of `millrace generate --report` ({reason}). Name the file that it wrote."
            ) from error


def _topic(document: dict[str, Any]) -> SentToTopic:
    partitions = {int(number): SentToPartition(**seen) for number, seen in document.pop("partitions").items()}
    return SentToTopic(**document, partitions=partitions)


def _added(counts: dict[str, int], places: Rows, names: tuple[str, ...]) -> dict[str, int]:
    more = np.bincount(places[places != NONE], minlength=len(names))
    return dict(Counter(counts) + Counter(dict(zip(names, more.tolist(), strict=True))))
