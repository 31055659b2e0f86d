"""What one writes by hand to look keys up: an LRU cache of rows, and one `IN` list for what it has not."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

Row = tuple[Any, ...]


class LookUp:
    """Rows of one table by their key."""

    def __init__(self, cursor: Any, table: str, key: str, columns: Iterable[str], cached_rows: int) -> None:
        self._cursor, self._cached_rows = cursor, cached_rows
        self._select = f"SELECT {', '.join([key, *columns])} FROM {table} WHERE {key} IN "
        self._cache: OrderedDict[Any, Row] = OrderedDict()
        self.asked = 0

    def rows(self, keys: Iterable[Any]) -> dict[Any, Row]:
        """The rows of those keys that have one; a null key has none."""
        cache = self._cache
        rows, missing = {}, []
        wanted = set(keys)
        wanted.discard(None)
        for key in wanted:
            row = cache.get(key)
            if row is None:
                missing.append(key)
            else:
                cache.move_to_end(key)
                rows[key] = row
        if missing:
            self.asked += len(missing)
            self._cursor.execute(f"{self._select}({', '.join(['%s'] * len(missing))})", missing)
            for row in self._cursor.fetchall():
                rows[row[0]] = cache[row[0]] = row
            while len(cache) > self._cached_rows:
                cache.popitem(last=False)
        return rows
