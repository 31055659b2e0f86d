"""The loop that a good engineer writes in an evening: consume, parse, look up in batches, have a row for each sale.

confluent-kafka gives 10 000 messages at a time, msgspec parses them into a typed struct, `LookUp` has an LRU cache of
rows for each dimension and asks for the others in one `IN` list by PyMySQL. The update time stays text, which spares
PyMySQL most of its work. What the loop does not have: a sink, offsets that are kept, a retry, an age of cached rows,
a second core.
"""

from __future__ import annotations

import sys
import time
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pymysql
from confluent_kafka import Consumer, KafkaException, TopicPartition
from pymysql.constants import FIELD_TYPE
from pymysql.converters import conversions

from tests.benchmarks.look_up import LookUp
from tests.benchmarks.peers import progress
from tests.benchmarks.peers.task import Peer, Task, key_of

BATCH = 10_000


class Sale(msgspec.Struct, gc=False):
    sale_id: str
    sold_at: str
    store_code: str | None
    product_code: str | None
    customer_number: int | None
    quantity: int
    unit_price: float | str
    currency: str


Joined = tuple[Any, ...]  # the sale, and the row of each dimension or None


class Loop:
    def __init__(self, task: Task) -> None:
        self._consumer = consumer(task)
        self._decode = msgspec.json.Decoder(Sale).decode
        cursor = connect(task).cursor()
        self._look_ups = [
            (attrgetter(contract.natural_key[0].field), LookUp(
                cursor, contract.table, contract.natural_key[0].column,
                [contract.surrogate_key, contract.updated_at, *contract.attributes], task.cached_rows,
            ))
            for contract in task.contracts
        ]  # fmt: skip

    def next(self) -> list[Joined]:
        """The next sales with their rows; none if nothing came for a while."""
        sales = [self._decode(value_of(message)) for message in self._consumer.consume(BATCH, 0.2)]
        if not sales:
            return []
        rows = []
        for field, look_up in self._look_ups:
            keys = list(map(field, sales))
            rows.append(map(look_up.rows(keys).get, keys))
        return list(zip(sales, *rows, strict=True))


def consumer(task: Task) -> Any:
    """From the beginning of all partitions, without a group."""
    made = Consumer({"bootstrap.servers": task.bootstrap, "group.id": "peers", "enable.auto.commit": False})
    partitions = made.list_topics(task.topic, timeout=30).topics[task.topic].partitions
    made.assign([TopicPartition(task.topic, partition, 0) for partition in partitions])
    return made


def value_of(message: Any) -> bytes:
    if error := message.error():
        raise KafkaException(error)
    return bytes(message.value())


def connect(task: Task) -> Any:
    as_text = {**conversions, FIELD_TYPE.TIMESTAMP: str}
    return pymysql.connect(
        host=task.host, port=task.port, user=task.user, password=task.password, database=task.database,
        ssl_disabled=True, autocommit=True, conv=as_text,
    )  # fmt: skip


def kept(joined: list[Joined], dimensions: tuple[str, ...]) -> pa.Table:
    """What an answer has of them: a row's second column is its surrogate key."""
    columns: dict[str, list[Any]] = {"sale_id": [sale.sale_id for sale, *_ in joined]}
    for place, dimension in enumerate(dimensions, start=1):
        columns[key_of(dimension)] = [row and row[1] for row in (entry[place] for entry in joined)]
    types = {key_of(dimension): pa.int64() for dimension in dimensions}
    return pa.table({name: pa.array(values, types.get(name, pa.string())) for name, values in columns.items()})


def main(task: Task) -> None:
    loop, done, parts = Loop(task), 0, []
    with progress.open_progress(task.folder) as told:
        while done < task.messages:
            joined = loop.next()
            done += len(joined)
            if task.keep:
                parts.append(kept(joined, task.dimensions))
                if done == task.messages:
                    pq.write_table(pa.concat_tables(parts), task.folder / "answer.parquet")
            if joined:
                told.write(f"{done}\n")
        while True:  # until it is ended: what it has used is looked at from outside
            time.sleep(60)


def answer(task: Task) -> pa.Table:
    return pq.read_table(task.folder / "answer.parquet")


PEER = Peer("loop", __name__, lambda task: progress.told(task.folder), answer)

if __name__ == "__main__":
    main(Task.read(sys.argv[1]))
