"""A master table whose rows are read from the log: where a row has the contract's columns, and as what."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from pipeline import keys as natural_keys
from pipeline.config.contracts import DimensionContract
from pipeline.errors import BadContract, FeedRefused
from pipeline.master.images import Row
from pipeline.master.mysql import rows as rows_of
from pipeline.master.mysql.binlog.rows import Values
from pipeline.master.mysql.binlog.tables import LoggedTable
from pipeline.master.mysql.binlog.texts import Reading, reading_of
from pipeline.master.mysql.catalogue import Catalogue, Column
from pipeline.master.mysql.fitting import violations


@dataclass(frozen=True)
class Layout:
    contract: DimensionContract
    columns: int  # that the table has
    wanted: tuple[int, ...]  # the contract's, by their place; once, if it names one twice
    slots: tuple[int, ...]  # of each of the contract's, among the wanted
    readings: tuple[Reading, ...]
    shape: str

    @classmethod
    def of(cls, contract: DimensionContract, catalogue: Catalogue) -> Layout:
        """Refuses a table that is not as agreed, and one that the log does not tell whole."""
        if broken := violations(catalogue, contract):
            raise BadContract("\n".join(broken))
        if catalogue.is_view:
            raise FeedRefused(
                f"{contract.table} is a view, and the log has no rows of views. Name the table behind it."
            )
        columns = [column for name in _names(contract) if (column := catalogue.column(name))]
        types = _types(contract)
        readings = [reading_of(column, kind) for column, kind in zip(columns, types, strict=True)]
        if unread := [column for column, reading in zip(columns, readings, strict=True) if reading is None]:
            raise FeedRefused(_unread(contract, unread))
        order = list(catalogue.columns)
        places = [order.index(column.name.lower()) for column in columns]
        wanted = tuple(dict.fromkeys(places))
        return cls(
            contract,
            len(order),
            wanted,
            tuple(map(wanted.index, places)),
            tuple(reading for reading in readings if reading),
            _shape(catalogue, contract),
        )

    def fits(self, table: LoggedTable) -> bool:
        """Whether the rows were written when the table was as the catalogue has it."""
        return len(table.columns) == self.columns and all(
            table.columns[self.wanted[slot]].kind in reading.kinds
            for slot, reading in zip(self.slots, self.readings, strict=True)
        )

    def rows(self, images: Sequence[Values | None]) -> list[Row | None]:
        """None stays None; so does a row without a natural key, which no sale can mean."""
        key = self.slots[: len(self.contract.natural_key)]
        there = [
            number
            for number, image in enumerate(images)
            if image is not None and all(image[slot] is not None for slot in key)
        ]
        columns = [
            self._column(place, [images[number][slot] for number in there])  # type: ignore[index]
            for place, slot in enumerate(self.slots)
        ]
        found: list[Row | None] = [None] * len(images)
        for number, row in zip(there, zip(*columns, strict=True), strict=True):
            found[number] = row
        return found

    def _column(self, place: int, values: Sequence[bytes | None]) -> list[object]:
        name, kind, text = _names(self.contract)[place], _types(self.contract)[place], self.readings[place].text
        where = f"{self.contract.table}.{name}"
        try:
            texts = [value if value is None else text(value) for value in values]
        except ValueError as error:
            raise BadContract(f"{where}: a value in the log is no text of its character set: {error}.") from error
        parsed: list[object] = rows_of.parsed(pa.chunked_array([pa.array(texts, pa.binary())]), kind, where).to_pylist()
        return parsed


def _names(contract: DimensionContract) -> list[str]:
    natural = [part.column for part in contract.natural_key]
    return [*natural, contract.surrogate_key, contract.updated_at, *contract.attributes]


def _types(contract: DimensionContract) -> list[pa.DataType]:
    return [*(natural_keys.ARROW[part.type] for part in contract.natural_key), *contract.columns.types]


def _shape(catalogue: Catalogue, contract: DimensionContract) -> str:
    """Changes with anything that changes how rows are read, scanned or kept."""
    scan = catalogue.scan_index([part.column for part in contract.natural_key])
    told = (list(catalogue.columns.values()), scan, _names(contract), list(map(str, _types(contract))))
    return hashlib.sha256(repr(told).encode()).hexdigest()[:16]


def _unread(contract: DimensionContract, columns: Sequence[Column]) -> str:
    listed = ", ".join(f"{column.name} ({column.column_type.upper()})" for column in columns)
    return (
        f"dimension {contract.name}: the log does not tell {contract.table}.{listed} as a SELECT does, so no history "
        f"of it can be kept. Leave the column out of the dimension's contract, give it another type (DOUBLE for FLOAT, "
        f"a text for JSON), or set dimensions.{contract.name}.history to off."
    )
