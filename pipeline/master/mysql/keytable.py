"""Keys as a table that the server joins with. A list it would sort into ranges first, key against key by the collation:
that takes it longer than to find the rows (`tests/benchmarks/asking.py`; deploy/docs/peers.md, "What a key costs").

The keys come as one JSON text, which MySQL since 8.0 and MariaDB since 10.6 read as a table. Such a table may have two
keys that the collation takes for the same, so the server may give a row twice, where a list gives it once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import MasterReadFailed
from pipeline.master.mysql.drivers import Query
from pipeline.master.mysql.literals import BETWEEN_QUOTES, Part, around, bytes_of, joined, quoted

LEAST = 50  # keys; for fewer the server makes a list of ranges sooner than a table
_TRIED = "SELECT k FROM JSON_TABLE('[\"a\"]', '$[*]' COLUMNS (k VARCHAR(1) CHARACTER SET utf8mb4 PATH '$')) AS t"

_MEANS_ITSELF = BETWEEN_QUOTES.copy()  # in JSON, between the quotes of SQL
_MEANS_ITSELF[ord('"')] = False


def is_read(query: Query) -> bool:
    """Whether the server knows such tables."""
    try:
        return bool(query(_TRIED, "asking whether the server reads JSON"))
    except MasterReadFailed:  # from before JSON_TABLE
        return False


def in_order(keys: pa.Array) -> pa.Array:
    """Neighbours lie on one page: that spares the server more than it takes here."""
    return keys.take(pc.sort_indices(keys)) if len(keys) >= LEAST else keys


def key_table(parts: Sequence[Part], columns: Sequence[pa.Array], name: str) -> str | None:
    """A table of this name with a column for each part of the key; None where a value would need care.

    >>> parts = Part("n", "number", in_json="BIGINT"), Part("c", "string", "utf8mb4", in_json="CHAR(2)")
    >>> print(key_table(parts[:1], [pa.array([7, -8])], "keys"))
    JSON_TABLE('[7,-8]', '$[*]' COLUMNS (k0 BIGINT PATH '$')) AS `keys`
    >>> print(key_table(parts, [pa.array([7]), pa.array([b"a"])], "keys"))
    JSON_TABLE('[[7,"a"]]', '$[*]' COLUMNS (k0 BIGINT PATH '$[0]', k1 CHAR(2) PATH '$[1]')) AS `keys`
    >>> key_table(parts, [pa.array([7]), pa.array([b'"'])], "keys")
    """
    if not all(part.in_json for part in parts):
        return None
    written = [_written(values) for values in columns]
    if any(values is None for values in written):
        return None
    [row, *others] = written
    path = "$"
    if others:
        row, path = around("[", pc.binary_join_element_wise(*written, ","), "]"), "$[{}]"
    told = ", ".join(f"k{i} {part.in_json} PATH '{path.format(i)}'" for i, part in enumerate(parts))
    return f"JSON_TABLE('[{joined(row)}]', '$[*]' COLUMNS ({told})) AS {quoted(name)}"


def _written(values: pa.Array) -> pa.Array | None:
    """As JSON that SQL takes as it stands."""
    texts = values.cast(pa.string())
    if pa.types.is_integer(values.type):
        return texts
    return around('"', texts, '"') if np.all(_MEANS_ITSELF[bytes_of(texts)[1]]) else None
