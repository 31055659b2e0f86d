"""A master table in MySQL or MariaDB, read over its indexes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline import keys as natural_keys
from pipeline.config.contracts import DimensionContract
from pipeline.config.settings import MasterData
from pipeline.errors import BadContract, MillraceError
from pipeline.master import order
from pipeline.master.mysql import keytable
from pipeline.master.mysql import rows as rows_of
from pipeline.master.mysql.asked import AskedKeys, AskedPage, AskedScan
from pipeline.master.mysql.capped import PageAndKeys, PageInPieces, ScanInPieces
from pipeline.master.mysql.catalogue import Catalogue
from pipeline.master.mysql.drivers import as_rows
from pipeline.master.mysql.fitting import no_scan_index, no_unique_index, notes, violations, without_unique_index
from pipeline.master.mysql.literals import Part
from pipeline.master.mysql.pieces import Pieces
from pipeline.master.mysql.pool import Pool
from pipeline.master.mysql.reading import Reader
from pipeline.master.mysql.size import SAMPLE, size_of
from pipeline.master.mysql.sql import Statements
from pipeline.master.order import Collation
from pipeline.master.port import KEY, MasterStatistics, Scan, UnderWay

_KEYS_A_QUERY = 100_000  # of a list of borders: few round trips, a few megabytes


class MySqlMaster:
    """The port over one table of a server. Opens a connection at the first read, in the process that reads.

    Two keys are equal when their bytes are. The server may think otherwise (case, accents, trailing spaces), and then
    returns more rows than were asked for; those are dropped here. It cannot return fewer.
    """

    def __init__(
        self,
        settings: MasterData,
        dimension: DimensionContract,
        pool: Pool | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._dimension = dimension
        self._reader = Reader(pool or Pool.shared(settings), dimension, clock)
        self.reads = self._reader.reads
        self._types = [part.type for part in dimension.natural_key]
        self._schema = rows_of.schema(dimension)
        self._known: Statements | None = None
        self._collations: list[Collation] | None = None

    @property
    def key_type(self) -> pa.DataType:
        return self._dimension.key_type

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def unique(self) -> bool:
        return self._statements().unique

    @property
    def indexed(self) -> bool:
        return self._statements().key_index is not None

    def verify(self, needs_unique_index: bool = True) -> list[str]:
        """Compare the table with the contract: fails with every violation, returns what is worth knowing.

        An algorithm that only scans needs no index on the natural key, but one in whose order it can scan.
        """
        catalogue = Catalogue.read(self._reader.describe, self._dimension.table)
        broken = violations(catalogue, self._dimension)
        if catalogue.columns:
            broken += (no_unique_index if needs_unique_index else no_scan_index)(catalogue, self._dimension)
        if broken:
            raise BadContract("\n".join(broken))
        self._know(catalogue)
        return notes(catalogue, self._dimension) + without_unique_index(catalogue, self._dimension)

    def collations(self) -> dict[str, str]:
        return {part.name: part.collation for part in self._statements().key if part.form == "string"}

    def lookup(self, keys: pa.Array) -> pa.Table:
        """One query, unless its text would exceed the server's `max_allowed_packet`, or its rows the load contract."""
        return self.begin_lookup(keys).answer()

    def begin_lookup(self, keys: pa.Array) -> AskedKeys:
        keys, columns = rows_of.possible(keytable.in_order(keys), self._types)
        if not len(keys):
            return AskedKeys(self._reader, keys, self._schema)
        most = self._reader.pool.largest_read
        if len(keys) > most:
            return self._begin_with(keys, most)
        statements = self._by_key("lookup")
        statement = statements.lookup(columns)
        if len(statement.encode()) > self._reader.pool.largest_statement and len(keys) > 1:
            return self._begin_with(keys, len(keys) // 2)
        request = self._reader.send("lookup", statement, len(keys))
        return AskedKeys(self._reader, keys, self._schema, request, statements.unique)

    def _begin_with(self, keys: pa.Array, number: int) -> AskedKeys:
        asked = self.begin_lookup(keys[:number])
        asked.later.append(partial(self.lookup, keys[number:]))
        return asked

    def lookup_from(self, keys: pa.Array, position: bytes | None, rows: int) -> Scan:
        keys = rows_of.possible(keys, self._types)[0]
        if not len(keys):
            return Scan(self._schema.empty_table(), None, True)
        self._by_key("lookup")
        rows = min(rows, self._reader.pool.largest_read)
        return Pieces(self._reader, self._scannable(), self._types).next(keys, position, rows)

    def scan(self, position: bytes | None, rows: int, until: bytes | None = None) -> Scan:
        return self.begin_scan(position, rows, until).answer()

    def begin_scan(self, position: bytes | None, rows: int, until: bytes | None = None) -> UnderWay[Scan]:
        return self._ask_for_scan("scan", position, rows, until)

    def borders(self, rows: int) -> pa.Array:
        statements = self._by_key("borders")
        borders, behind, next_border = [], None, 0
        while True:
            most = min(_KEYS_A_QUERY, self._reader.pool.largest_read)
            key = self._keys("describe", behind, most)
            borders.append(key.take(pa.array(np.arange(next_border, len(key), rows))))
            next_border = (next_border - len(key)) % rows
            if len(key) < most:
                every = pa.concat_arrays(borders)
                return every if statements.unique else every.unique()
            behind = self._place(key[len(key) - 1 :])

    def keys(self, behind: Any | None, rows: int) -> pa.Array:
        place = None if behind is None else self._place(pa.array([behind], self.key_type))
        return self._keys("keys", place, min(rows, self._reader.pool.largest_read))

    def _keys(self, kind: str, behind: Sequence[pa.Array] | None, rows: int) -> pa.Array:
        raw = self._reader.read(kind, self._by_key("keys").keys(behind, rows), rows)
        keys = natural_keys.pack(rows_of.natural_key(raw, self._dimension))
        self.reads.by_kind[kind].bytes += keys.nbytes
        return keys

    def page(self, first: Any | None, until: Any | None, rows: int, also: pa.Array | None = None) -> pa.Table:
        return self.begin_page(first, until, rows, also).answer()

    def begin_page(
        self, first: Any | None, until: Any | None, rows: int, also: pa.Array | None = None
    ) -> UnderWay[pa.Table]:
        most = self._reader.pool.largest_read
        others = None if also is None else rows_of.possible(also, self._types)[0]
        if others is None or not len(others):
            asked = self._ask_for_page(first, until, min(rows, most), None)
            return asked if rows <= most else PageInPieces(asked, partial(self._rest_of_page, until), rows, most)
        if rows + len(others) <= most:
            return self._ask_for_page(first, until, rows, others)
        return PageAndKeys(self.begin_page(first, until, rows), partial(self.lookup, others), others)

    def _ask_for_page(self, first: Any | None, until: Any | None, rows: int, others: pa.Array | None) -> AskedPage:
        statements = self._by_key("page")
        low, high = (None if key is None else self._place(pa.array([key], self.key_type)) for key in (first, until))
        columns = None if others is None else natural_keys.unpack(others, self._types)
        most = rows + (0 if others is None else len(others))
        return AskedPage(
            self._reader, self._reader.send("page", statements.page(low, high, rows, columns), most), others
        )

    def _rest_of_page(self, until: Any | None, behind: Any, rows: int) -> pa.Table:
        """From a row that was read on, without it."""
        found = self._ask_for_page(behind, until, rows, None).answer()
        return found.filter(pc.not_equal(found[KEY], pa.scalar(behind, self.key_type)))

    def order(self, keys: pa.Array) -> npt.NDArray[Any]:
        if pa.types.is_integer(self.key_type):
            return order.of_integers(*natural_keys.unpack(keys, self._types))
        statements = self._by_key("order")
        if self._collations is None:
            assert statements.key_index is not None
            self._collations = [self._collation(statements, part) for part in statements.key_index.parts]
        columns = natural_keys.unpack(keys, [kind if kind.endswith("int64") else "binary" for kind in self._types])
        return order.of_columns([columns[i] for i in statements.key_order], self._collations)

    def statistics(self) -> MasterStatistics:
        """Exact for tables of up to a million rows; the server's own estimate beyond, which a count would read whole.

        The widths are those of the first rows of a scan, or of the narrowest possible row of an empty table.
        """
        sample = self._ask_for_scan("describe", None, SAMPLE, None).answer()
        return size_of(self._reader.describe, self._dimension.table, sample, self._statements().count())

    def close(self) -> None:
        self._reader.pool.close()

    def _ask_for_scan(self, kind: str, position: bytes | None, rows: int, until: bytes | None) -> UnderWay[Scan]:
        """In pieces, where the load contract allows only shorter reads."""
        most = self._reader.pool.largest_read
        asked = self._ask_for_piece(kind, until, position, min(rows, most))
        if rows <= most:
            return asked
        return ScanInPieces(asked, partial(self._piece, kind, until), rows - most, most)

    def _piece(self, kind: str, until: bytes | None, position: bytes | None, rows: int) -> Scan:
        return self._ask_for_piece(kind, until, position, rows).answer()

    def _ask_for_piece(self, kind: str, until: bytes | None, position: bytes | None, rows: int) -> AskedScan:
        statements = self._scannable()
        behind, bound = (None if place is None else statements.place_in_scan(place) for place in (position, until))
        request = self._reader.send(kind, statements.scan(behind, bound, rows), rows)
        return AskedScan(self._reader, kind, request, statements, rows, until)

    def _scannable(self) -> Statements:
        statements = self._statements()
        if statements.scan_index is None:
            self.verify(needs_unique_index=False)  # which says what is missing
        return statements

    def _collation(self, statements: Statements, part: Part) -> Collation:
        if part.form != "string":
            return order.BYTES
        [weights] = as_rows(self._reader.read("describe", statements.weights(part)))
        return Collation.weighed(weights, folds_accents=not part.collation.endswith("_bin"))

    def _statements(self) -> Statements:
        if self._known is not None and not self._reader.doubtful:
            return self._known
        self._reader.doubtful = False
        catalogue = Catalogue.read(self._reader.describe, self._dimension.table)
        if broken := violations(catalogue, self._dimension):
            raise BadContract("\n".join(broken))
        return self._know(catalogue)

    def _know(self, catalogue: Catalogue) -> Statements:
        self._known = catalogue.statements(self._dimension, keytable.is_read(self._reader.describe))
        self._collations = None
        return self._known

    def _by_key(self, what: str) -> Statements:
        statements = self._statements()
        if statements.key_index is None:
            self._known = None  # an index may be added; ask again next time
            columns = ", ".join(part.column for part in self._dimension.natural_key)
            raise MillraceError(
                f"{what} in {self._dimension.table} needs an index on ({columns}), and there is none: it would read "
                "the whole table. Add one, or choose an algorithm that only scans, such as meshjoin."
            )
        return statements

    def _place(self, key: pa.Array) -> list[pa.Array]:
        """A key as a place in its index."""
        columns = natural_keys.unpack(key, self._types)
        return [columns[i] for i in self._by_key("page").key_order]
