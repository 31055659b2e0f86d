"""Some unknown facts go through the dimensions' joins again, and are counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline import columns
from pipeline.config.settings import WorkerSettings
from pipeline.enrich import Dimension, enrich
from pipeline.repair.unknown import is_unknown, joined_by

_NEVER_MIND = pa.scalar(0, columns.MESSAGE[columns.TIMESTAMP])


class Window:
    """Of each dimension the facts have the master's columns now: its surrogate key is the unknown member where the
    fact has the row already, or the master has none."""

    def __init__(self, facts: pa.Table, dimensions: Sequence[Dimension], limits: WorkerSettings) -> None:
        self._facts = facts.combine_chunks()
        self._unknown = {d.contract.name: is_unknown(self._facts, d.contract) for d in dimensions}
        for dimension in dimensions:
            self._ask(dimension, limits)
        known = [is_known(self._facts, name) for name in self._unknown]
        self._known = np.flatnonzero(np.logical_or.reduce([np.asarray(mask) for mask in known]))

    def known(self, most: int | None) -> pa.Table:
        """The facts for which a master has a row now, at most so many, and that row's columns."""
        names = [name for name in self._facts.column_names if columns.origin(name) != "sale"]
        return self._facts.select(names).take(pa.array(self._known[:most]))

    def passed(self, most: int) -> int:
        """How many of the window's facts, from the first on, are done with when so many known ones are taken."""
        return int(self._known[most]) if most < len(self._known) else len(self._facts)

    def outcome(self, dimension: str, healed: int) -> tuple[pa.Table, pa.Array]:
        """The facts that were unknown in this dimension, and which of them are among the first so many known ones."""
        is_healed = np.zeros(len(self._facts), bool)
        is_healed[self._known[:healed]] = True
        rows = np.flatnonzero(self._unknown[dimension])
        return self._facts.take(pa.array(rows)), pa.array((is_healed & is_known(self._facts, dimension))[rows])

    def _ask(self, dimension: Dimension, limits: WorkerSettings) -> None:
        rows = np.flatnonzero(self._unknown[dimension.contract.name])
        sales = self._facts.select(joined_by(dimension.contract))
        # The joins count from it how long a sale has waited, which nobody asks here.
        sales = sales.append_column(columns.TIMESTAMP, pa.repeat(_NEVER_MIND, len(sales)))
        answered = pa.concat_tables(enrich(sales.take(pa.array(rows)), [dimension], limits))
        place = np.full(len(self._facts), -1)
        place[rows] = np.arange(len(rows))
        for column in dimension.contract.columns.names:
            name = columns.of_dimension(dimension.contract.name, column)
            values = answered[name].take(pa.array(place, mask=place < 0))
            if column == columns.SURROGATE_KEY:
                values = pc.fill_null(values, columns.UNKNOWN_MEMBER)
            self._facts = self._facts.drop_columns([name] if name in self._facts.column_names else [])
            self._facts = self._facts.append_column(name, values)


@dataclass
class Tally:
    """What came of one dimension's unknown facts."""

    name: str
    dry_run: bool
    unknown: int = 0
    healed: int = 0
    oldest: datetime | None = None  # of those still unknown

    def add(self, unknown: pa.Table, healed: pa.Array) -> None:
        """Facts, and which of them are healed now."""
        self.unknown += len(unknown)
        self.healed += healed.true_count
        if columns.TIMESTAMP in unknown.column_names:
            oldest = pc.min(unknown[columns.TIMESTAMP].filter(pc.invert(healed))).as_py()
            self.oldest = min((at for at in (self.oldest, oldest) if at is not None), default=None)

    def __str__(self) -> str:
        did = "could be healed" if self.dry_run else "healed"
        oldest = f", the oldest of {self.oldest:%Y-%m-%d %H:%M:%S} UTC" if self.oldest else ""
        still = self.unknown - self.healed
        return f"{self.name}: {self.unknown:,} unknown facts, {self.healed:,} {did}, {still:,} still unknown{oldest}"


def is_known(facts: pa.Table, dimension: str) -> Any:
    """Which facts have a row of this dimension's master."""
    key = columns.of_dimension(dimension, columns.SURROGATE_KEY)
    return pc.not_equal(facts[key], columns.UNKNOWN_MEMBER)
