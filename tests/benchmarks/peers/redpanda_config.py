"""Redpanda Connect's configuration: an enrichment a dimension, as the cookbook in its manual has them.

Where the other side takes several documents in one request, the cookbook has `branch` around `archive` and `unarchive`.
A database takes several keys in one query.
"""

from __future__ import annotations

from typing import Any

from pipeline.config.contracts import DimensionContract
from pipeline.laptop.stack import ports
from tests.benchmarks.peers.task import Task, key_of

ANSWER = "answer.jsonl"
COUNTER = "output_sent"
# Of a partition at a time: as large as its buffer, as the manual advises where much is to go through.
_BATCH = "1MB"
_IN_SQL = {"string": "VARCHAR(255) CHARACTER SET utf8mb4", "int64": "BIGINT"}


def configuration(task: Task, port: int) -> dict[str, Any]:
    """All of it; its counter is told at the port."""
    return {
        "http": {"address": f"{ports.LOOPBACK}:{port}"},
        "logger": {"level": "WARN"},
        "metrics": {"json_api": {}, "mapping": f'root = if this != "{COUNTER}" {{ deleted() }}'},
        "input": {"redpanda": source(task)},
        "pipeline": {
            "threads": task.cores,
            "processors": [*(joined(task, contract) for contract in task.contracts), *kept(task)],
        },
        # A sale whose look-up failed is tried again; else it would go out without its row.
        "output": {"reject_errored": sink(task)},
    }


def source(task: Task) -> dict[str, Any]:
    """All partitions from their beginning, in a group of its own: without one it wants to be told each partition."""
    return {
        "seed_brokers": [task.bootstrap],
        "topics": [task.topic],
        "consumer_group": task.folder.name,
        "start_offset": "earliest",
        "max_yield_batch_bytes": _BATCH,
    }


def joined(task: Task, contract: DimensionContract) -> dict[str, Any]:
    """The sales of a batch get their rows of a dimension; those without a key are let by."""
    [key] = contract.natural_key
    asked = f'{{"key": this.{key.field}}}'
    ask = {
        "driver": "mysql",
        # Arguments are put into the query's text, which spares a round trip that prepares it.
        "dsn": f"{task.user}:{task.password}@tcp({task.host}:{task.port})/{task.database}?interpolateParams=true",
        "query": query(contract),
        "args_mapping": "root = [content().string()]",
    }
    return {
        "branch": {
            "request_map": f"root = if this.{key.field} == null {{ deleted() }} else {{ {asked} }}",
            "processors": [
                {"archive": {"format": "json_array"}},
                {"sql_raw": ask},
                {"unarchive": {"format": "json_array"}},
            ],
            "result_map": f"root.{contract.name} = this",
        }
    }


def query(contract: DimensionContract) -> str:
    """As many rows as keys, in their order; nulls where the table has none."""
    [key] = contract.natural_key
    columns = ", ".join(
        f"{contract.table}.{name}" for name in (contract.surrogate_key, contract.updated_at, *contract.attributes)
    )
    wanted = f"JSON_TABLE(?, '$[*]' COLUMNS (place FOR ORDINALITY, k {_IN_SQL[key.type]} PATH '$.key')) AS wanted"
    matches = f"{contract.table}.{key.column} = wanted.k"
    return f"SELECT {columns} FROM {wanted} LEFT JOIN {contract.table} ON {matches} ORDER BY wanted.place"


def kept(task: Task) -> list[dict[str, str]]:
    """What an answer has of a sale."""
    if not task.keep:
        return []
    keys = [f"root.{key_of(c.name)} = this.{c.name}.{c.surrogate_key} | null" for c in task.contracts]
    return [{"mapping": "\n".join(["root.sale_id = this.sale_id", *keys])}]


def sink(task: Task) -> dict[str, Any]:
    if task.keep:
        return {"file": {"path": str(task.folder / ANSWER), "codec": "lines"}}
    return {"drop": {}}
