"""Where points are measured: the one port behind which stand declared disks, or a real server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from pipeline.bench.point.points import Point


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What one run of a point told."""

    numbers: dict[str, float] = {}  # by name: rate, processing_time, hits, ...; deploy/docs/experiments.md has them all
    predicted: dict[str, float] = {}  # the same names, by our cost models
    curve: list[float] = []  # of a point with a curve: what was told in each of its places
    refused: str = ""  # the join cannot work like this, and says why


class Target(Protocol):
    """A target makes a join's numbers for one point."""

    name: str  # as `--master` says it; also the reduction of an experiment file that holds here, if it has one
    tells: str  # for captions: what stands behind its numbers

    def versions(self) -> Mapping[str, str]:
        """Of what numbers may depend on beside this program."""
        ...

    def measure(self, point: Point, seed: int) -> Measured:
        """Run this point once. What the join refuses is an answer; anything else that fails is raised."""
        ...

    def close(self) -> None:
        """Nothing more is measured."""
        ...
