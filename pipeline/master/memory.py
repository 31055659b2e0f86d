"""A master table in memory, for tests: the port's promises without a server, and faults on demand."""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from pipeline.errors import MasterReadFailed
from pipeline.master.port import KEY, MasterStatistics, Reads


class MemoryMaster:
    """Answers the port from an Arrow table with the column `key` and the contract's columns.

    Its own order is not the order of the bytes: texts are ordered without regard to case first, as a database's
    collation would do. `fail_on=n` makes every n-th read fail.

    >>> R = MemoryMaster.of({b"ale": 1, b"Bun": 2, b"cod": 3})
    >>> R.lookup(pa.array([b"cod", b"COD"], pa.binary()))["surrogate_key"].to_pylist()
    [3]
    >>> R.page(None, 2)["key"].to_pylist(), R.page(b"Bun", 2)["key"].to_pylist()
    ([b'ale', b'Bun'], [b'cod'])
    """

    def __init__(self, table: pa.Table, fail_on: int | None = None) -> None:
        self.reads = Reads()
        self.fail_on = fail_on
        self._calls = 0
        self._schema = table.schema
        self.replace(table)

    @classmethod
    def of(
        cls,
        surrogate_keys: Mapping[Any, int],
        key_type: pa.DataType | None = None,
        attributes: Mapping[str, pa.Array] | None = None,
        fail_on: int | None = None,
    ) -> MemoryMaster:
        """A master with these keys, all updated at the epoch. The key type is told by the first key, else binary."""
        is_integer = isinstance(next(iter(surrogate_keys), b""), int)
        columns = {
            KEY: pa.array(list(surrogate_keys), key_type or (pa.int64() if is_integer else pa.binary())),
            "surrogate_key": pa.array(list(surrogate_keys.values()), pa.int64()),
            "updated_at": pa.array([0] * len(surrogate_keys), pa.timestamp("us", tz="UTC")),
        }
        return cls(pa.table(columns | dict(attributes or {})), fail_on)

    def replace(self, table: pa.Table) -> None:
        """Let the master hold these rows from now on: a change in mid-run."""
        if not table.schema.equals(self._schema):
            raise ValueError(f"a master's columns cannot change: {table.schema} is not {self._schema}")
        keys = table[KEY].to_pylist()
        if None in keys or len(set(keys)) < len(keys):
            raise ValueError("a master's natural keys are not null and unique")
        order = sorted(range(len(keys)), key=lambda row: _collated(keys[row]))
        self._table = table.take(pa.array(order, pa.int64())).combine_chunks()
        self._order = [_collated(keys[row]) for row in order]
        self._row_of = {keys[row]: place for place, row in enumerate(order)}

    @property
    def table(self) -> pa.Table:
        """All rows, in the master's own order."""
        return self._table

    @property
    def key_type(self) -> pa.DataType:
        return self._schema.field(KEY).type

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def lookup(self, keys: pa.Array) -> pa.Table:
        if keys.type != self.key_type or keys.null_count or len(keys.unique()) < len(keys):
            raise ValueError(f"a look-up takes distinct {self.key_type} keys without nulls, not {keys.type}: {keys}")
        if not len(keys):
            return self._schema.empty_table()
        found = sorted(row for row in map(self._row_of.get, keys.to_pylist()) if row is not None)
        return self._answer("lookup", self._table.take(pa.array(found, pa.int64())))

    def page(self, after: Any | None, rows: int) -> pa.Table:
        first = 0 if after is None else bisect.bisect_right(self._order, _collated(after))
        return self._answer("page", self._table.slice(first, rows))

    def page_at(self, key: Any, rows: int) -> pa.Table:
        return self._answer("page", self._table.slice(bisect.bisect_left(self._order, _collated(key)), rows))

    def statistics(self) -> MasterStatistics:
        return MasterStatistics(len(self._table), self._table.nbytes / max(1, len(self._table)))

    def close(self) -> None:
        pass

    def _answer(self, kind: str, rows: pa.Table) -> pa.Table:
        self._calls += 1
        count = self.reads.by_kind[kind]
        if self.fail_on and self._calls % self.fail_on == 0:
            count.failures += 1
            raise MasterReadFailed(f"{kind} number {self._calls} failed, as the test asked for.")
        # A copy: a slice would drag the whole table along, which no answer of a server does.
        rows = rows.take(pa.array(range(len(rows)), pa.int64())).combine_chunks()
        count.queries += 1
        count.rows += len(rows)
        count.bytes += rows.nbytes
        return rows


def _collated(key: Any) -> Any:
    return (key.lower(), key) if isinstance(key, bytes) else key
