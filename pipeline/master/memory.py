"""A master table in memory, for tests and `calibrate`: the port's promises without a server, faults on demand."""

from __future__ import annotations

import pickle
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.errors import MasterReadFailed
from pipeline.master import order
from pipeline.master.asking import need_distinct, need_index, need_rows
from pipeline.master.port import KEY, MasterStatistics, Reads, Scan

_Place = tuple[Any, ...]  # where a row stands in the master's own order
Answer = TypeVar("Answer")


class MemoryMaster:
    """Answers the port from an Arrow table with the column `key` and the contract's columns.

    Its own order is not the order of the bytes: texts are ordered without regard to case first, as a database's
    collation would do. `fail_on=n` makes every n-th read fail. `unique=False` lets a key come many times; such a master
    has no index, unless `indexed` says so.

    >>> R = MemoryMaster.of({b"ale": 1, b"Bun": 2, b"cod": 3})
    >>> R.lookup(pa.array([b"cod", b"COD"], pa.binary()))["surrogate_key"].to_pylist()
    [3]
    >>> R.borders(2).to_pylist(), R.page(b"Bun", None, 1, also=pa.array([b"ale"]))["key"].to_pylist()
    ([b'ale', b'cod'], [b'Bun', b'ale'])
    >>> first = R.scan(None, 2)
    >>> rest = R.scan(first.position, 2)
    >>> first.rows["key"].to_pylist(), rest.rows["key"].to_pylist(), rest.position, rest.reached
    ([b'ale', b'Bun'], [b'cod'], None, True)
    """

    def __init__(
        self,
        table: pa.Table,
        fail_on: int | None = None,
        unique: bool = True,
        indexed: bool | None = None,
    ) -> None:
        self.reads = Reads()
        self.fail_on = fail_on
        self._unique = unique
        self._indexed = unique if indexed is None else indexed
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
        """Let the master hold these rows from now on: a change in mid-run.

        A scan goes on where it stood. A row is the same as before when its key is; where a key comes many times, or is
        null, when its surrogate key is too.
        """
        if not table.schema.equals(self._schema):
            raise ValueError(f"a master's columns cannot change: {table.schema} is not {self._schema}")
        keys = table[KEY].to_pylist()
        if self._unique and len(set(keys) - {None}) < len(keys) - keys.count(None):
            raise ValueError("this master's natural keys are unique")
        places = _places(keys, table["surrogate_key"].to_pylist(), self._unique)
        rows = sorted(range(len(keys)), key=places.__getitem__)
        self._table = table.take(pa.array(rows, pa.int64())).combine_chunks()
        self._places = [places[row] for row in rows]
        self._without_key = keys.count(None)
        self._row_of = {keys[row]: at for at, row in enumerate(rows)} if self._unique else {}

    @property
    def table(self) -> pa.Table:
        """All rows, in the master's own order."""
        return self._table

    @property
    def unique(self) -> bool:
        return self._unique

    @property
    def indexed(self) -> bool:
        return self._indexed

    @property
    def key_type(self) -> pa.DataType:
        return self._schema.field(KEY).type

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def lookup(self, keys: pa.Array) -> pa.Table:
        need_index(self._indexed, "a look-up")
        need_distinct(keys, self.key_type)
        if not len(keys):
            return self._schema.empty_table()
        return self._answer("lookup", np.sort(self._rows_of(keys)))

    def begin_lookup(self, keys: pa.Array) -> _Begun[pa.Table]:
        return _Begun(self.lookup(keys))

    def lookup_from(self, keys: pa.Array, position: bytes | None, rows: int) -> Scan:
        need_index(self._indexed, "a look-up")
        need_distinct(keys, self.key_type)
        need_rows(rows)
        first = 0 if position is None else bisect_right(self._places, _place_at(position))
        numbers = np.sort(self._rows_of(keys))
        numbers = numbers[numbers >= first][:rows]
        answer = self._answer("lookup", numbers)
        if len(numbers) < rows:
            return Scan(answer, None, True)
        return Scan(answer, pickle.dumps(self._places[numbers[-1]]), False)

    def scan(self, position: bytes | None, rows: int, until: bytes | None = None) -> Scan:
        need_rows(rows)
        first = 0 if position is None else bisect_right(self._places, _place_at(position))
        bound = len(self._places) if until is None else max(first, bisect_right(self._places, _place_at(until)))
        end = min(bound, first + rows)
        answer = self._answer("scan", np.arange(max(first, min(self._without_key, end)), end))
        if end - first < rows:  # as a server tells: fewer rows than asked for
            return Scan(answer, until, True)
        last = pickle.dumps(self._places[end - 1])
        return Scan(answer, last, last == until)

    def begin_scan(self, position: bytes | None, rows: int, until: bytes | None = None) -> _Begun[Scan]:
        return _Begun(self.scan(position, rows, until))

    def borders(self, rows: int) -> pa.Array:
        need_index(self._indexed, "a list of borders")
        keys = self._answer("describe", np.arange(self._without_key, len(self._places), rows))[KEY]
        borders = keys.unique() if not self._unique else keys
        return borders.combine_chunks() if isinstance(borders, pa.ChunkedArray) else borders

    def keys(self, behind: Any | None, rows: int) -> pa.Array:
        need_index(self._indexed, "a list of keys")
        need_rows(rows)
        first = self._without_key if behind is None else bisect_left(self._places, (*_behind(behind), (2,)))
        keys = self._answer("keys", np.arange(first, max(first, min(len(self._places), first + rows))))[KEY]
        return keys.combine_chunks()

    def page(self, first: Any | None, until: Any | None, rows: int, also: pa.Array | None = None) -> pa.Table:
        need_index(self._indexed, "a page")
        start = self._without_key if first is None else bisect_left(self._places, _behind(first))
        end = len(self._places) if until is None else bisect_left(self._places, _behind(until))
        page = np.arange(start, max(start, min(end, start + rows)))
        if also is not None and len(also):
            need_distinct(also, self.key_type)
            page = np.concatenate([page, np.setdiff1d(self._rows_of(also), page)])
        return self._answer("page", page)

    def begin_page(
        self, first: Any | None, until: Any | None, rows: int, also: pa.Array | None = None
    ) -> _Begun[pa.Table]:
        return _Begun(self.page(first, until, rows, also))

    def order(self, keys: pa.Array) -> npt.NDArray[Any]:
        if pa.types.is_integer(self.key_type):
            return order.of_integers(keys)
        return order.of_columns([keys], [order.WITHOUT_CASE])

    def statistics(self) -> MasterStatistics:
        rows, keys = len(self._table), self._table[KEY].drop_null()
        longest = 8 if pa.types.is_integer(self.key_type) else max(map(len, keys.to_pylist()), default=0)
        return MasterStatistics(rows, self._table.nbytes / max(1, rows), longest if len(keys) else 0)

    def close(self) -> None:
        pass

    def _rows_of(self, keys: pa.Array) -> npt.NDArray[np.int64]:
        """The rows with these keys, in the order of the keys."""
        if self._unique:
            rows = map(self._row_of.get, keys.to_pylist())
            return np.array([row for row in rows if row is not None], np.int64)
        ranges = [
            np.arange(bisect_left(self._places, _behind(key)), bisect_left(self._places, (*_behind(key), (2,))))
            for key in keys.to_pylist()
        ]
        return np.concatenate([np.empty(0, np.int64), *ranges])

    def _answer(self, kind: str, rows: npt.NDArray[np.int64]) -> pa.Table:
        self._calls += 1
        count = self.reads.by_kind[kind]
        if self.fail_on and self._calls % self.fail_on == 0:
            count.failures += 1
            raise MasterReadFailed(f"{kind} number {self._calls} failed, as the test asked for.")
        # A copy: a slice would drag the whole table along, which no answer of a server does.
        answer = self._table.take(pa.array(rows, pa.int64())).combine_chunks()
        count.queries += 1
        count.rows += len(answer)
        count.bytes += answer.nbytes
        return answer


@dataclass(frozen=True)
class _Begun(Generic[Answer]):
    """A read that shows the rows of the moment in which it was asked for."""

    result: Answer

    def answer(self) -> Answer:
        return self.result

    def abandon(self) -> None:
        pass


def _places(keys: list[Any], surrogate_keys: list[int | None], unique: bool) -> list[_Place]:
    """Where each row stands: by its key (null first), by surrogate key where a key is shared, then as they come."""
    seen: Counter[Any] = Counter()
    places = []
    for key, surrogate_key in zip(keys, surrogate_keys, strict=True):
        if unique and key is not None:
            places.append(_behind(key))
            continue
        same = (surrogate_key is not None, surrogate_key or 0)
        seen[key, same] += 1
        places.append((*_behind(key), (*same, seen[key, same])))
    return places


def _behind(key: Any) -> _Place:
    """The place in front of all rows with this key."""
    if isinstance(key, bytes):
        return (1, key.lower(), key)
    return (0,) if key is None else (1, key)


def _place_at(position: bytes) -> _Place:
    place: _Place = pickle.loads(position)
    return place
