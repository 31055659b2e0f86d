"""What a stage of a sale's way cannot do without, in microseconds of one core a sale: see tests/benchmarks/floor.py.

A bound is no goal: it says how far a stage could be brought down by any program, and by what.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer, TopicPartition

from pipeline import columns
from pipeline.compiling import numba
from tests.benchmarks.peers.accounting import DATABASE, processor_seconds
from tests.benchmarks.peers.servers import PARTITIONS, Servers
from tests.benchmarks.peers.task import Task

COPIED = 256 << 20  # bytes: no processor's cache has them
KEYS = 200_000
MESSAGES_A_CALL = 10_000
_QUOTE, _ESCAPE, _COMMA = 34, 92, 44
_TABLE = "keys_wanted"


def measured(
    up: Servers, task: Task, window: pa.Table, rows: pa.Table, products: int, asked: float
) -> dict[str, float]:
    """`asked`: keys a sale."""
    values = window[columns.VALUE].combine_chunks()
    size = values.nbytes / len(values)
    return {
        "bytes a message": size,
        "read: librdkafka, messages thrown away": librdkafka(task),
        "read: a message's bytes copied once": copied() * size,
        "parse: each byte looked at once": looked_at(values),
        "probe: one line of memory that is not in a cache": far_away(),
        "fetch: the server finds a key of its own": asked * own_keys(up, products),
        "write: Parquet as plain bytes, into memory": parquet(rows),
    }


def librdkafka(task: Task) -> float:
    """The same topic by the client in C; of Python there is one object for each message."""
    consumer = Consumer({"bootstrap.servers": task.bootstrap, "group.id": "floor", "enable.auto.commit": False})
    consumer.assign([TopicPartition(task.topic, part, 0) for part in range(PARTITIONS)])
    consumer.consume(1, 30.0)
    began, read = time.process_time(), 0
    while read < task.messages - 1:
        read += len(consumer.consume(MESSAGES_A_CALL, 1.0))
    took = time.process_time() - began
    consumer.close()
    return took / read * 1e6


def copied() -> float:
    """A byte."""
    here, there = np.ones(COPIED, np.uint8), np.zeros(COPIED, np.uint8)
    return _seconds(lambda: np.copyto(there, here)) / COPIED * 1e6


def looked_at(values: pa.Array) -> float:
    """By a scanner that only has to know which bytes stand inside of a text."""
    _, _, data = values.buffers()
    every = np.frombuffer(data, np.uint8)[: values.nbytes]
    return _seconds(lambda: _texts(every)) / len(values) * 1e6


@numba.njit
def _texts(data: Any) -> int:
    inside = escaped = False
    commas = 0
    for byte in data:
        if escaped:
            escaped = False
        elif byte == _ESCAPE:
            escaped = inside
        elif byte == _QUOTE:
            inside = not inside
        elif not inside and byte == _COMMA:
            commas += 1
    return commas


def far_away() -> float:
    """Reads from all over, each of which needs the one before."""
    order = np.random.default_rng(0).permutation(COPIED // 64).astype(np.int64)
    ring = np.empty_like(order)
    ring[order] = np.roll(order, 1)
    return _seconds(lambda: _chased(ring, KEYS)) / KEYS * 1e6


@numba.njit
def _chased(ring: Any, steps: int) -> int:
    at = 0
    for _ in range(steps):
        at = ring[at]
    return at


def own_keys(up: Servers, products: int) -> float:
    """A key that the server has in a table of its own, joined and counted where it is: nothing is sent."""
    with up.stack.database.connect("owner") as connection, connection.cursor() as cursor:
        cursor.execute(
            f"CREATE TEMPORARY TABLE {_TABLE} SELECT product_code AS code FROM product ORDER BY RAND(1) LIMIT {KEYS}"
        )

        def joined() -> None:
            cursor.execute(f"SELECT STRAIGHT_JOIN SUM(product_key) FROM {_TABLE} JOIN product ON product_code = code")
            cursor.fetchall()

        joined()
        before = processor_seconds(up.pids[DATABASE])
        for _ in range(5):
            joined()
        return (processor_seconds(up.pids[DATABASE]) - before) / 5 / KEYS * 1e6


def parquet(rows: pa.Table) -> float:
    def written() -> None:
        sink = pa.BufferOutputStream()
        pq.write_table(rows, sink, compression="none", use_dictionary=False, write_statistics=False, store_schema=False)

    return _seconds(written) / len(rows) * 1e6


def _seconds(work: Callable[[], object]) -> float:
    """The least of five, of all cores together: what disturbs a machine makes it slower."""
    work()
    taken = []
    for _ in range(5):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return min(taken)
