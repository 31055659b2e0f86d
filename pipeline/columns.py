"""The names and types of the columns of a sale's journey, once.

All columns of a message, and of the sale or reject it becomes, live in one table, named by where they come from:
`message.offset`, `sale.quantity`, `product.surrogate_key`, `reject.reason`, `job.batch`. The contract of a warehouse
table picks from them by these names.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

# What Kafka gives, in its own names.
KAFKA = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("value", pa.binary()),
    ]
)
TOPIC, PARTITION, OFFSET, TIMESTAMP, VALUE = (f"message.{name}" for name in KAFKA.names)
DATE = "message.date"  # of the timestamp, in UTC
REASON, DETAIL = "reject.reason", "reject.detail"
APPLICATION, BATCH = "job.application", "job.batch"
HEALED_AT = "fact.healed_at"  # when a fact of the unknown member was given a master row; null: never
HEALED_BY = "fact.healed_by"  # the place in the master's log up to which changes were known then; null: nobody told it

SURROGATE_KEY, UPDATED_AT = "surrogate_key", "updated_at"  # of every dimension, beside its attributes
UNKNOWN_MEMBER = -1  # the surrogate key of a sale that has no master row

MESSAGE = dict(zip((TOPIC, PARTITION, OFFSET, TIMESTAMP, VALUE), KAFKA.types, strict=True))
STAMPED = MESSAGE | {DATE: pa.date32()}  # what a table's contract may have of a message
REJECT = {REASON: pa.string(), DETAIL: pa.string()}
JOB = {APPLICATION: pa.string(), BATCH: pa.int64()}
FACT = {HEALED_AT: pa.timestamp("us", tz="UTC"), HEALED_BY: pa.string()}

OTHERS = ("sale", "message", "job", "reject", "fact")  # where columns come from that come from no dimension


def of_sale(field: str) -> str:
    """
    >>> of_sale("quantity")
    'sale.quantity'
    """
    return f"sale.{field}"


def of_dimension(dimension: str, column: str) -> str:
    """
    >>> of_dimension("product", SURROGATE_KEY)
    'product.surrogate_key'
    """
    return f"{dimension}.{column}"


def origin(column: str) -> str:
    """Where a column comes from: the sale, the message, a dimension.

    >>> origin("product.surrogate_key")
    'product'
    """
    return column.partition(".")[0]


def sale_columns(schemas: Iterable[pa.Schema]) -> dict[str, pa.DataType]:
    """The columns of the sales of some topics."""
    return {of_sale(field.name): field.type for schema in schemas for field in schema}


def dimension_columns(dimension: str, schema: pa.Schema) -> dict[str, pa.DataType]:
    """What a dimension adds to a sale."""
    return {of_dimension(dimension, field.name): field.type for field in schema}
