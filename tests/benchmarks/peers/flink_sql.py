"""Flink's look-up join in SQL, as its manual has it: a LEFT JOIN each, `FOR SYSTEM_TIME AS OF` the processing time."""

from __future__ import annotations

import pyarrow as pa

from pipeline.config.contracts import DimensionContract
from tests.benchmarks.peers.drivers import driver
from tests.benchmarks.peers.task import Task

_TYPES = {"string": "STRING", "int64": "BIGINT", "int32": "INT", "decimal128(18, 2)": "DECIMAL(18, 2)"}
SINK = "joined"


def statements(task: Task) -> list[str]:
    """All that is run, the query last."""
    columns = chosen(task)
    into = ", ".join(f"{column.replace('.', '_')} {kind}" for column, kind in columns.items())
    tables = [look_up(task, contract) for contract in task.contracts]
    joins = " ".join(
        f"LEFT JOIN {contract.table} FOR SYSTEM_TIME AS OF sales.came_at "
        f"ON sales.{contract.natural_key[0].field} = {contract.table}.{contract.natural_key[0].column}"
        for contract in task.contracts
    )
    sink = f"CREATE TABLE {SINK} ({into}) WITH ({options(sink_options(task))})"
    return [source(task), *tables, sink, f"INSERT INTO {SINK} SELECT {', '.join(columns)} FROM sales {joins}"]


def source(task: Task) -> str:
    fields = ", ".join(f"{field.name} {kind}" for field, kind in zip(task.sale.schema, sale_types(task), strict=True))
    given = {
        "connector": "kafka", "topic": task.topic, "properties.bootstrap.servers": task.bootstrap,
        "scan.startup.mode": "earliest-offset", "format": "json", "json.timestamp-format.standard": "ISO-8601",
        **({"scan.bounded.mode": "latest-offset"} if task.keep else {}),
    }  # fmt: skip
    return f"CREATE TABLE sales ({fields}, came_at AS PROCTIME()) WITH ({options(given)})"


def look_up(task: Task, contract: DimensionContract) -> str:
    """A master table, with the columns that the job of Millrace reads, too."""
    jdbc = driver(task)
    fields = ", ".join(f"{name} {kind}" for name, kind in columns_of(contract).items())
    given = {
        "connector": "jdbc", "url": jdbc.url, "driver": jdbc.name, "username": task.user, "password": task.password,
        "table-name": contract.table, "lookup.cache": "PARTIAL", "lookup.partial-cache.max-rows": task.cached_rows,
    }  # fmt: skip
    key = contract.natural_key[0].column
    return f"CREATE TABLE {contract.table} ({fields}, PRIMARY KEY ({key}) NOT ENFORCED) WITH ({options(given)})"


def sink_options(task: Task) -> dict[str, object]:
    if task.keep:
        return {"connector": "filesystem", "path": task.folder / "answer", "format": "csv"}
    return {"connector": "blackhole"}


def chosen(task: Task) -> dict[str, str]:
    """Columns that the query gives out, with their types: the answer, or all there are but the keys twice."""
    if task.keep:
        return {"sales.sale_id": "STRING"} | {f"{c.table}.{c.surrogate_key}": "BIGINT" for c in task.contracts}
    sale = {f"sales.{field.name}": kind for field, kind in zip(task.sale.schema, sale_types(task), strict=True)}
    rows = [
        (f"{contract.table}.{name}", kind)
        for contract in task.contracts
        for name, kind in list(columns_of(contract).items())[1:]
    ]
    return sale | dict(rows)


def sale_types(task: Task) -> list[str]:
    # To Flink an ISO-8601 timestamp with a Z is one with a local time zone.
    return ["TIMESTAMP_LTZ(6)" if pa.types.is_timestamp(t) else _TYPES[str(t)] for t in task.sale.schema.types]


def columns_of(contract: DimensionContract) -> dict[str, str]:
    """The key first."""
    [key] = contract.natural_key
    keys = {key.column: _TYPES[key.type], contract.surrogate_key: "BIGINT", contract.updated_at: "TIMESTAMP(6)"}
    return keys | {name: _TYPES[str(kind)] for name, kind in contract.attributes.items()}


def options(given: dict[str, object]) -> str:
    return ", ".join(f"'{name}' = '{value}'" for name, value in given.items())
