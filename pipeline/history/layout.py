"""The columns of a history's table, and rows as they are there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pipeline import keys as natural_keys
from pipeline.config.contracts import DimensionContract, TableColumn, TableContract, arrow_type
from pipeline.errors import BadContract
from pipeline.history.versions import Version
from pipeline.master.images import Row
from pipeline.master.port import KEY

NUMBER, CURRENT = "version_key", "is_current"
_MOMENT = pa.timestamp("us", tz="UTC")
_ALWAYS = (
    ("valid_from", _MOMENT, "Since when the row is so: its transaction's time by the master's clock"),
    ("from_position", pa.string(), "The change in the master's log that made it so; a place alone: a snapshot"),
)
_ENDS = (
    ("valid_to", _MOMENT, "Until when it was so; null: it is so now"),
    ("to_position", pa.string(), "The change that ended it; a place alone: a snapshot found it gone or changed"),
    (CURRENT, pa.bool_(), "Whether it is so now"),
)


@dataclass(frozen=True)
class HistoryLayout:
    """Of one dimension, by its contract. Type 1 keeps rows as they are, type 2 as they were, too."""

    contract: DimensionContract
    keeps_ended: bool

    @property
    def name(self) -> str:
        return f"dim_{self.contract.name}"

    @property
    def table(self) -> TableContract:
        """As the contract of a warehouse table."""
        told = [(NUMBER, pa.int64(), "Names this version among all; grows with the master's log"), *self._data]
        told += [*_ALWAYS, *(_ENDS if self.keeps_ended else ())]
        columns = tuple(TableColumn(name, kind, f"history.{name}", meaning) for name, kind, meaning in told)
        lower = [column.name.lower() for column in columns]
        if twice := sorted({name for name in lower if lower.count(name) > 1}):
            raise BadContract(
                f"dimension {self.contract.name}: {self.name} would have two columns {twice[0]}. Its own are "
                f"{', '.join(name for name, *_ in (told[0], *_ALWAYS, *_ENDS))}: leave the column of this name out of "
                f"the dimension's contract."
            )
        return TableContract(self.name, columns, (CURRENT,) if self.keeps_ended else ())

    @property
    def key(self) -> list[str]:
        return [part.column for part in self.contract.natural_key]

    def rows(self, scanned: pa.Table) -> list[Row]:
        """What a scan of the master has found."""
        types = [part.type for part in self.contract.natural_key]
        key = natural_keys.unpack(scanned[KEY].combine_chunks(), types)
        rest = [scanned[name] for name in self.contract.columns.names]
        return list(zip(*(column.to_pylist() for column in [*key, *rest]), strict=True))

    def versions(self, found: pa.Table) -> list[Version]:
        """Present ones, of the table's columns."""
        rows = zip(*(found[name].to_pylist() for name in self._columns), strict=True)
        told = (found[name].to_pylist() for name in (NUMBER, "valid_from", "from_position"))
        return [Version(number, row, since, position) for row, number, since, position in zip(rows, *told, strict=True)]

    def as_table(self, versions: Iterable[Version]) -> pa.Table:
        versions = list(versions)
        columns: dict[str, list[Any]] = {NUMBER: [version.number for version in versions]}
        for place, name in reversed(list(enumerate(self._columns))):
            columns[name] = [version.row[place] for version in versions]
        columns |= {"valid_from": [v.since for v in versions], "from_position": [v.since_position for v in versions]}
        columns |= {"valid_to": [v.until for v in versions], "to_position": [v.until_position for v in versions]}
        columns[CURRENT] = [version.until is None for version in versions]
        schema = pa.schema([(column.name, column.type) for column in self.table.columns])
        return pa.table([pa.array(columns[field.name], field.type) for field in schema], schema=schema)

    @property
    def _columns(self) -> list[str]:
        """Of a `Row`'s values, in their order; the contract may name one twice."""
        return [*self.key, self.contract.surrogate_key, self.contract.updated_at, *self.contract.attributes]

    @property
    def _data(self) -> Sequence[tuple[str, pa.DataType, str]]:
        types = [arrow_type(part.type, self.name) for part in self.contract.natural_key]
        types += self.contract.columns.types
        return [
            (name, kind, f"As in {self.contract.table}")
            for place, (name, kind) in enumerate(zip(self._columns, types, strict=True))
            if name not in self._columns[:place]
        ]
