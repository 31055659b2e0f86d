"""What a database tells of changes in its master tables: the port. `mysql/binlog/` reads a server's binary log.

A feed says which keys are no longer what they were, never what they are now: who wants to know asks the master. A key
may be told that did not change; none that changed is left out.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

POLLED = "polled"  # the place of a feed that has no log: nothing can be gone on from there


@dataclass(frozen=True)
class Changes:
    """What was told in one piece; often nothing, only that the feed is alive."""

    keys: Mapping[str, pa.Array] = field(default_factory=dict)  # by dimension, packed by `pipeline.keys`
    all_of: frozenset[str] = frozenset()  # dimensions that changed in a way that names no keys
    altered: frozenset[str] = frozenset()  # those among them whose table may have other columns now
    place: str = ""  # in the server's log: behind all transactions that were told whole
    # By dimension, the Unix time up to which all that was logged is told; not of those whose keys may change unlogged.
    told_until: Mapping[str, float] = field(default_factory=dict)
    at: float = 0.0  # Unix time at which the last of them began, by the server's clock; 0: nothing is left to tell


class Feed(Protocol):
    def follow(self, place: str = "") -> Generator[Changes, None, None]:
        """From a place that was told before, or from now on, until the caller has enough. Says something every second
        at least. From now on, or where the place is no longer known, it first tells that all may have changed.

        Raises `FeedRefused` where the server does not let its changes be followed; anything else may pass by itself.
        """
        ...


def together(told: Iterable[Changes]) -> Changes:
    """Which keys changed in several pieces, each key once.

    >>> pieces = [Changes({"product": pa.array([7, 8])}), Changes({"product": pa.array([7])}, frozenset({"store"}))]
    >>> both = together(pieces)
    >>> both.keys["product"].to_pylist(), [*both.all_of]
    ([7, 8], ['store'])
    """
    pieces: dict[str, list[pa.Array]] = {}
    all_of: set[str] = set()
    for changes in told:
        all_of |= changes.all_of
        for dimension, keys in changes.keys.items():
            pieces.setdefault(dimension, []).append(keys)
    return Changes({name: pc.unique(pa.concat_arrays(some)) for name, some in pieces.items()}, frozenset(all_of))
