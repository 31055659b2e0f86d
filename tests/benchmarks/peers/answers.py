"""Whether a peer's answer is right: each sale once, with the surrogate keys that the generator's arithmetic gives it.

The right answer is computed here from the messages, with nothing of any peer: row numbers out of the natural keys,
surrogate keys out of the row numbers. A key that is null or beyond the end of its table has none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, TopicPartition

from pipeline.generate.keys import CUSTOMER, DIMENSIONS, PRODUCT, STORE, Sizes, customer_numbers, surrogate_keys
from tests.benchmarks.peers.misses import is_missing
from tests.benchmarks.peers.task import key_of

UNKNOWN = -1
_FIRST, _SECOND = customer_numbers(np.array([0, 1])).tolist()
_NATURAL: dict[int, tuple[str, Callable[[Any], int]]] = {  # the sale's field, and its row in the master table
    PRODUCT: ("product_code", lambda code: int(code[2:]) - 1),
    CUSTOMER: ("customer_number", lambda number: (number - _FIRST) // (_SECOND - _FIRST)),
    STORE: ("store_code", lambda code: int(code[2:]) - 1),
}


class WrongAnswer(Exception):
    """A peer that is not right is not timed."""


def read(bootstrap: str, topic: str, messages: int) -> list[dict[str, Any]]:
    """All sales of a topic."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "answers", "enable.auto.commit": False})
    partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    sales: list[dict[str, Any]] = []
    while len(sales) < messages:
        sales += [json.loads(message.value()) for message in consumer.consume(1_000, 1.0)]
    consumer.close()
    return sales


def right(sales: Sequence[dict[str, Any]], dimensions: Iterable[str], sizes: Sizes, missing: float = 0.0) -> pa.Table:
    """What each sale must have been joined with; `missing`: the share of products that are not there."""
    columns = {"sale_id": pa.array([sale["sale_id"] for sale in sales])}
    for name in dimensions:
        dimension = DIMENSIONS.index(name)
        field, row_of = _NATURAL[dimension]
        size = sizes.by_dimension[dimension]
        rows = np.array([size if sale[field] is None else row_of(sale[field]) for sale in sales])
        if dimension == PRODUCT:
            rows[[is_missing(sale[field] or "", missing) for sale in sales]] = size
        columns[key_of(name)] = pa.array(np.where(rows < size, surrogate_keys(dimension, rows), UNKNOWN))
    return pa.table(columns)


def check(peer: str, answer: pa.Table, expected: pa.Table) -> None:
    """Compare them sale by sale."""
    if len(answer) != len(expected):
        raise WrongAnswer(f"{peer}: {len(answer):,} sales came out, and {len(expected):,} went in.")
    order = [("sale_id", "ascending")]
    given, wanted = answer.sort_by(order), expected.sort_by(order)
    if not given["sale_id"].cast(pa.string()).equals(wanted["sale_id"]):
        raise WrongAnswer(f"{peer}: a sale is missing, and another one came twice.")
    for name in wanted.column_names[1:]:
        keys = pc.fill_null(given[name].cast(pa.int64()), UNKNOWN)
        wrong = pc.indices_nonzero(pc.not_equal(keys, wanted[name]))
        if len(wrong):
            first = wrong[0].as_py()
            raise WrongAnswer(
                f"{peer}: {len(wrong):,} of {len(wanted):,} sales have another {name}. Sale "
                f"{wanted['sale_id'][first]}: {keys[first]}, and right is {wanted[name][first]}."
            )
