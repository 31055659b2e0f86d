"""Partition values: rows divided by them, and their text in Delta's log and in a folder's name."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.config.contracts import TableContract
from pipeline.errors import BadContract

Values = dict[str, "str | None"]

NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
_LONGEST_NAME = 120  # characters of a value in a folder's name; file systems end at 255 bytes


def check(contract: TableContract) -> None:
    """Refuse partition columns whose values have no exact text, and tables of nothing else."""
    for name in contract.partition_by:
        kind = contract.schema.field(name).type
        if not (pa.types.is_string(kind) or pa.types.is_integer(kind) or kind in (pa.date32(), pa.bool_())):
            raise BadContract(
                f"table {contract.name}: partition column {name} is {kind}; it must be a date, string, int32, int64 or "
                f"boolean. Take it out of `partition_by`, or add a date column for it."
            )
    if len(contract.partition_by) == len(contract.columns):
        raise BadContract(
            f"table {contract.name}: every column is in `partition_by`; a file needs at least one column."
        )


def divided(rows: pa.Table, columns: Sequence[str]) -> Iterator[tuple[Values, pa.Table]]:
    """The rows by partition, in their order, without the partition columns."""
    if not len(rows):
        return
    inside = rows.drop_columns(list(columns))
    code, texts = _coded(rows, columns)
    if code is None:
        yield {name: texts[name][0] for name in columns}, inside
        return
    _, first, group, counts = np.unique(code, return_index=True, return_inverse=True, return_counts=True)
    inside = inside.take(pa.array(np.argsort(group, kind="stable")))
    begin = 0
    for row, count in zip(first, counts, strict=True):
        yield {name: text(rows[name][int(row)].as_py()) for name in columns}, inside.slice(begin, count)
        begin += count


def _coded(rows: pa.Table, columns: Sequence[str]) -> tuple[np.ndarray | None, dict[str, list[str | None]]]:
    """One number for each combination of values; None where there is only one, which is the usual batch."""
    code = np.zeros(len(rows), np.int64)
    texts = {}
    for name in columns:
        encoded = pc.dictionary_encode(rows[name].combine_chunks(), null_encoding="encode")
        if len(encoded.dictionary) == 1:
            texts[name] = [text(encoded.dictionary[0].as_py())]
        else:
            code = code * len(encoded.dictionary) + encoded.indices.to_numpy()
    return (None if len(texts) == len(columns) else code), texts


def text(value: Any) -> str | None:
    """As Delta's protocol writes it. An empty string cannot be told from null there, so it is null."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None or value == "" else str(value)


def folder(values: Values) -> str:
    """The folder of a partition, named as Hive does, so that people and other tools find their way.

    >>> folder({"day": "2026-11-18", "shop": "a/b=c"}), folder({"shop": None}), folder({})
    ('day=2026-11-18/shop=a%2Fb%3Dc/', 'shop=__HIVE_DEFAULT_PARTITION__/', '')
    """
    return "".join(
        f"{escaped(name)}={NULL_FOLDER if value is None else escaped(value)}/" for name, value in values.items()
    )


def escaped(value: str) -> str:
    """Safe in every store and URL. Delta's log has the true value, so a long one may end in a hash."""
    safe = re.sub(r"[^A-Za-z0-9_.\-]", lambda found: "".join(f"%{b:02X}" for b in found[0].encode()), value)
    if safe.strip(".") == "":  # "." and ".." are no names
        safe = safe.replace(".", "%2E")
    if len(safe) <= _LONGEST_NAME:
        return safe
    begin = re.sub("%.?$", "", safe[:_LONGEST_NAME])  # not through an escape
    return f"{begin}-{hashlib.sha256(value.encode()).hexdigest()[:16]}"
