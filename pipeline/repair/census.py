"""What is known of the unknown facts of each file of the table: how many, the oldest, and which keys they have.

A file of a Delta table never changes, so what was once read of it stays true until the file leaves the table. So each
file is read once, however often the master changes, and only if its statistics do not rule unknown facts out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline import columns, keys
from pipeline.config.contracts import DimensionContract
from pipeline.repair.unknown import UnknownFacts, is_unknown, natural_key_of

Hashes = npt.NDArray[np.int64]

_MOST_KEYS = 4_000_000  # in memory, 8 bytes each


@dataclass
class Unknown:
    """The unknown facts of one dimension, in a file or in all of them."""

    facts: int = 0
    oldest: datetime | None = None

    def add(self, facts: int, oldest: datetime | None) -> None:
        self.facts += facts
        self.oldest = min((at for at in (self.oldest, oldest) if at is not None), default=None)


@dataclass(frozen=True)
class _File:
    unknown: Mapping[str, Unknown]  # by dimension
    hashes: Mapping[str, Hashes] | None  # None: too many to remember, so the file may have any key


class Census:
    def __init__(self, dimensions: Sequence[DimensionContract]) -> None:
        self._dimensions = dimensions
        self._files: dict[str, _File] = {}

    def look(self, facts: UnknownFacts, is_over: Callable[[], bool] = lambda: False) -> None:
        """Read the files that are new, forget those that have left."""
        files = facts.files()
        self._files = {path: known for path, known in self._files.items() if path in files}
        for path, file in files.items():
            if is_over():
                return
            if path not in self._files:
                self._files[path] = self._read(facts.of(file))

    def total(self, since: datetime) -> dict[str, tuple[int, float | None]]:
        """By dimension how many, and the Unix time of the oldest. A file's facts count until all of them are older, and
        none is said to be older."""
        totals = {dimension.name: Unknown() for dimension in self._dimensions}
        for file in self._files.values():
            for name, unknown in file.unknown.items():
                totals[name].add(unknown.facts, unknown.oldest and max(unknown.oldest, since))
        return {name: (of.facts, of.oldest.timestamp() if of.oldest else None) for name, of in totals.items()}

    def files_with(self, wanted: Mapping[str, pa.Array]) -> set[str]:
        """The files that have unknown facts with one of these keys, by dimension; now and then one that has none."""
        hashes = {name: hashes_of(some) for name, some in wanted.items()}
        return {path for path, file in self._files.items() if _may_have(file, hashes)}

    def _read(self, batches: Iterable[pa.RecordBatch]) -> _File:
        unknown = {dimension.name: Unknown() for dimension in self._dimensions}
        hashes: dict[str, list[Hashes]] = {dimension.name: [] for dimension in self._dimensions}
        for batch in batches:
            for dimension in self._dimensions:
                of_it = batch.filter(pa.array(is_unknown(batch, dimension)))
                unknown[dimension.name].add(len(of_it), pc.min(of_it[columns.TIMESTAMP]).as_py())
                hashes[dimension.name].append(hashes_of(packed_keys(of_it, dimension)))
        some = {name: np.unique(np.concatenate(parts)) for name, parts in hashes.items() if parts}
        fits = _remembered(self._files.values()) + _count(some) <= _MOST_KEYS
        return _File(unknown, some if fits else None)


def packed_keys(facts: pa.Table | pa.RecordBatch, dimension: DimensionContract) -> pa.Array:
    """The natural keys of these facts, as the feed tells them."""
    return keys.pack([facts[source] for source in natural_key_of(dimension)])


def hashes_of(packed: pa.Array) -> Hashes:
    """Of keys that are packed. Two keys with one hash cost a file read in vain, nothing else."""
    distinct = pc.unique(packed).to_pylist()
    return np.fromiter(map(hash, distinct), np.int64, len(distinct))


def _may_have(file: _File, wanted: Mapping[str, Hashes]) -> bool:
    return any(
        unknown.facts and (file.hashes is None or bool(np.isin(file.hashes[name], wanted[name]).any()))
        for name, unknown in file.unknown.items()
        if name in wanted
    )


def _remembered(files: Iterable[_File]) -> int:
    return sum(_count(file.hashes) for file in files if file.hashes)


def _count(hashes: Mapping[str, Hashes]) -> int:
    return sum(map(len, hashes.values()))
