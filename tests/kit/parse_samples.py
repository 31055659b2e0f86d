"""Messages for the parser's tests."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from pipeline.config.contracts import Contracts, TopicContract
from pipeline.parse import Parsed, Parser

CONTRACT = Contracts().topic("sale.v1")
LIMIT = 1 << 20

FIELDS = {
    "sale_id": '"S-1"',
    "sold_at": '"2026-11-18T09:30:00.5+01:00"',
    "store_code": '"ST-7"',
    "product_code": '"P-4711"',
    "customer_number": "42",
    "quantity": "3",
    "unit_price": "12.34",
    "currency": '"EUR"',
}


def message(extra: str = "", **written: str | None) -> bytes:
    """One sale as JSON; fields are given as they are to be written, None leaves one out."""
    fields = {**FIELDS, **written}
    members = [f'"{name}":{value}' for name, value in fields.items() if value is not None]
    return ("{" + ",".join(members + ([extra] if extra else [])) + "}").encode("utf-8", "surrogatepass")


def parse(*messages: bytes | None, contract: TopicContract = CONTRACT, limit: int = LIMIT) -> Parsed:
    return Parser(contract, limit).parse(pa.array(messages, pa.binary()))


def reason(*messages: bytes | None) -> str | None:
    """The reason of a single message's reject, None if it is a sale."""
    parsed = parse(*messages)
    assert len(parsed.sales) + len(parsed.rejected) == 1
    return parsed.reasons[0].as_py() if len(parsed.rejected) else None


def sale(given: bytes) -> dict[str, Any]:
    """The one sale of a valid message."""
    (row,) = parse(given).sales.to_pylist()
    return dict(row)


def as_json(value: Any) -> str:
    return json.dumps(value)
