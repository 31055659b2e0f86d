"""One dimension's rows for the sales of a window: as they were at the first moment, and what else they were."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline import columns, keys
from pipeline.replay.past import Past
from pipeline.replay.stored import differ
from pipeline.replay.versions import ABSENT, Mask, Positions, microseconds

Moments = npt.NDArray[np.int64]  # microseconds

NEVER = np.iinfo(np.int64).min


class RowsOfThen:
    def __init__(self, past: Past, sales: pa.Table, healed: Moments) -> None:
        """`healed` is when each fact that may have been healed was, in any order."""
        packed = keys.pack([sales[columns.of_sale(part.field)] for part in past.contract.natural_key])
        wanted = pc.unique(packed).drop_null()
        self._key = np.asarray(pc.fill_null(pc.index_in(packed, value_set=wanted), ABSENT), np.int64)
        self._last = past.asked.last
        latest = int(healed.max(initial=NEVER))
        until = None if latest == NEVER else pa.scalar(latest, pa.timestamp("us", "UTC")).as_py()
        self._versions = past.versions(wanted, until)
        self.values = self._versions.values(self._of_keys(self._versions.first, np.arange(len(sales))))

    def explained(self, sales: Positions, stand: Mapping[str, pa.Array], healed: Moments) -> tuple[Mask, Mask]:
        """Of facts of these sales that have other values: which are explained by a change between the first moment and
        the last one, and which by a healing that came when `healed` says."""
        last = microseconds(self._last) if self._last else NEVER
        was_absent = self._of_keys(self._versions.absent_by(self._last), sales, without=False)
        changed = was_absent & self._fit(np.full(len(sales), ABSENT), stand)
        is_healed = np.zeros(len(sales), bool)
        for later in self._versions.later:
            rows = self._of_keys(later, sales)
            fits = (rows != ABSENT) & self._fit(rows, stand)
            since = np.append(self._versions.since, 0)[rows]
            changed |= fits & (since <= last)
            is_healed |= fits & was_absent & (since <= healed)
        return changed, is_healed & ~changed

    def _of_keys(self, by_key: npt.NDArray[Any], sales: Positions, without: int = ABSENT) -> npt.NDArray[Any]:
        """Of these sales what is so of their keys, and of those without a key what is so without one."""
        return np.append(by_key, without)[self._key[sales]]

    def _fit(self, rows: Positions, stand: Mapping[str, pa.Array]) -> Mask:
        fit = np.ones(len(rows), bool)
        for source, values in self._versions.values(rows).items():
            if source in stand:
                fit &= ~differ(values, stand[source])
        return fit
