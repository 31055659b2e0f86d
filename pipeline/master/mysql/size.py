"""How large a master table is."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.master.mysql.drivers import Query
from pipeline.master.mysql.literals import text
from pipeline.master.port import KEY, MasterStatistics, Scan

SAMPLE = 1_000  # rows whose mean width is taken for that of all rows
_COUNTED_EXACTLY = 1_000_000  # rows up to which COUNT(*) costs the server well under a second


def size_of(describe: Query, table: str, sample: Scan, count: str) -> MasterStatistics:
    """By the first rows of a scan; and counted, where that is not all and a count does not read too much."""
    [(estimate,)] = describe(
        "SELECT TABLE_ROWS FROM information_schema.TABLES "
        f"WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = {text(table)}",
        f"estimating the rows of {table}",
    )
    number = int(estimate or 0)
    if sample.position is None:
        number = len(sample.rows)
    elif number <= _COUNTED_EXACTLY:
        [(counted,)] = describe(count, f"counting the rows of {table}")
        number = int(counted or 0)
    if not len(sample.rows):
        return MasterStatistics(number, 8.0 * sample.rows.num_columns, 0)
    keys = sample.rows[KEY]
    longest = 8 if pa.types.is_integer(keys.type) else pc.max(pc.binary_length(keys)).as_py()
    return MasterStatistics(number, sample.rows.nbytes / len(sample.rows), longest)
