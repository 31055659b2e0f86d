"""A contract with a field of every type and every rule, and for each field what it takes and what it does not."""

from __future__ import annotations

import json
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.config.contracts import Contracts, TopicContract
from pipeline.parse import Parsed, Parser
from pipeline.parse.fast import FastPath
from tests.kit.parse_samples import LIMIT

EVERYTHING: dict[str, dict[str, Any]] = {
    "code": {"type": "string", "x-type": "string", "x-column": "shop_code", "minLength": 2, "maxLength": 4},
    "ort": {"type": ["string", "null"], "x-type": "string", "enum": ["Linz", "Wien", "Gmünd"]},
    "kind": {"type": "string", "x-type": "string", "const": "sale"},
    "tag": {"type": "string", "x-type": "string", "pattern": "^[a-z]+(-[a-z]+)*$"},
    "small": {"type": "integer", "x-type": "int32"},
    "dozen": {"type": ["integer", "null"], "x-type": "int64", "multipleOf": 12, "exclusiveMinimum": 0},
    "level": {"type": "integer", "x-type": "int32", "enum": [1, 2, 4]},
    "wide": {"type": ["number", "string", "null"], "x-type": "decimal(38,10)"},
    "fine": {"type": "number", "x-type": "decimal(20,20)"},
    "cents": {"type": "string", "x-type": "decimal(9,2)", "multipleOf": 0.05, "exclusiveMaximum": 100},
    "steps": {"type": "number", "x-type": "decimal(6,0)", "enum": [1, 2.0, 100]},
    "at": {"type": ["string", "null"], "format": "date-time", "x-type": "timestamp", "pattern": "Z$"},
    "when": {"type": ["string", "null"], "format": "date-time", "x-type": "timestamp", "maxLength": 30},
    "day": {"type": "string", "format": "date", "x-type": "date"},
    "paid": {"type": ["boolean", "null"], "x-type": "boolean"},
    "ratio": {"type": "number", "x-type": "double", "minimum": -1, "exclusiveMaximum": 1},
    "grid": {"type": "number", "x-type": "double", "multipleOf": 0.1},
    "photo": {"type": ["string", "null"], "contentEncoding": "base64", "x-type": "binary", "maxLength": 12},
    "seal": {"type": ["string", "null"], "x-type": "binary", "pattern": "=$", "enum": ["aGk=", "aA==", "AAEC"]},
    "holiday": {"type": "string", "x-type": "date", "enum": ["2026-12-25", "2026-12-26"]},
    "huge": {"type": ["integer", "string", "null"], "x-type": "uint64"},
    "füll": {"type": "integer", "x-type": "int64"},
}


# Fields whose values are all left to the strict path,
LEFT = {"fine": "more than 19 decimals", "grid": "multipleOf on a double"}
BEYOND = ["5e-324", "1e-400", "1e2", "9999999999999999999999999999.9999999999"]  # and these values

GOOD: dict[str, list[tuple[str, Any]]] = {
    "code": [('"ab"', "ab"), ('"äöüß"', "äöüß"), ('"😀😀😀😀"', "😀😀😀😀")],
    "ort": [('"Gmünd"', "Gmünd"), ('"Gm\\u00fcnd"', "Gmünd"), ("null", None)],
    "kind": [('"sale"', "sale")],
    "tag": [('"a"', "a"), ('"ab-cd"', "ab-cd")],
    "small": [("-2147483648", -(1 << 31)), ("2147483647", (1 << 31) - 1)],
    "dozen": [("12", 12), ("9223372036854775800", 9223372036854775800), ("null", None)],
    "level": [("4", 4)],
    "wide": [
        ("-1", Decimal("-1")),
        ('"0.0000000001"', Decimal("1e-10")),
        ("9999999999999999999999999999.9999999999", Decimal("9999999999999999999999999999.9999999999")),
        ("12345678.0123456789", Decimal("12345678.0123456789")),
        ("-123456789.25", Decimal("-123456789.25")),
        ("null", None),
    ],
    "fine": [("0.00000000000000000001", Decimal("1e-20")), ("-0.5", Decimal("-0.5"))],
    "cents": [('"99.95"', Decimal("99.95")), ('"-1234567.05"', Decimal("-1234567.05"))],
    "steps": [("2", Decimal(2)), ("1e2", Decimal(100))],
    "at": [('"2026-11-18T09:30:00Z"', datetime(2026, 11, 18, 9, 30, tzinfo=timezone.utc)), ("null", None)],
    "when": [
        ('"2024-02-29t23:59:59z"', datetime(2024, 2, 29, 23, 59, 59, tzinfo=timezone.utc)),
        ('"1600-03-01T00:00:00.0001-23:59"', datetime(1600, 3, 1, 23, 59, 0, 100, tzinfo=timezone.utc)),
        ('"2026-12-31T23:00:00+00:30"', datetime(2026, 12, 31, 22, 30, tzinfo=timezone.utc)),
        ("null", None),
    ],
    "day": [('"2026-11-18"', date(2026, 11, 18)), ('"0001-01-01"', date.min), ('"9999-12-31"', date.max)],
    "paid": [("true", True), ("false", False), ("null", None)],
    "ratio": [("-1", -1.0), ("0.1", 0.1), ("5e-324", 5e-324), ("1e-400", 0.0), ("-0.0", 0.0)],
    "grid": [("0.3", 0.3), ("7", 7.0)],
    "photo": [('"aGk="', b"hi"), ('""', b""), ('"AAEC"', b"\0\1\2"), ("null", None)],
    "seal": [('"aGk="', b"hi"), ('"\\u0061A=="', b"h"), ("null", None)],
    "holiday": [('"2026-12-25"', date(2026, 12, 25))],
    "huge": [
        ("0", Decimal(0)),
        ("18446744073709551615", Decimal(2**64 - 1)),
        ('"9223372036854775808"', Decimal(2**63)),
        ("null", None),
    ],
    "füll": [("1", 1)],
}
BAD: dict[str, list[tuple[str, str]]] = {
    "code": [('"a"', "out_of_range"), ('"abcde"', "out_of_range"), ('"a\\u0000b"', "bad_text"), ("null", "wrong_type")],
    "ort": [('"linz"', "out_of_range"), ('""', "out_of_range"), ("1", "wrong_type")],
    "kind": [('"return"', "out_of_range"), ("null", "wrong_type")],
    "tag": [('"A"', "bad_text"), ('"a-"', "bad_text"), ('"a\\n"', "bad_text"), ('"a\\u0000"', "bad_text")],
    "small": [("2147483648", "out_of_range"), ("-2147483649", "out_of_range"), ("0.0", "wrong_type")],
    "dozen": [("0", "out_of_range"), ("13", "out_of_range"), ("-12", "out_of_range"), ('"12"', "wrong_type")],
    "level": [("3", "out_of_range"), ("true", "wrong_type")],
    "wide": [("1e28", "out_of_range"), ("1e-11", "out_of_range"), ('"12.3.4"', "wrong_type"), ('"null"', "wrong_type")],
    "fine": [("1", "out_of_range"), ("1e-21", "out_of_range"), ('"0.5"', "wrong_type")],
    "cents": [('"100"', "out_of_range"), ('"0.01"', "out_of_range"), ("0.05", "wrong_type"), ('"null"', "wrong_type")],
    "steps": [("3", "out_of_range"), ("1.5", "out_of_range"), ("null", "wrong_type")],
    "at": [('"2026-11-18T09:30:00+00:00"', "bad_text"), ('"Z"', "bad_timestamp"), ("0", "wrong_type")],
    "when": [('"2026-11-18T09:30:00.123456+00:00"', "out_of_range"), ('"2026-11-18T09:30:00.Z"', "bad_timestamp")],
    "day": [('"2026-02-29"', "bad_timestamp"), ('"2026-11-18Z"', "bad_timestamp"), ('"2026/11/18"', "bad_timestamp")],
    "paid": [("0", "wrong_type"), ('"true"', "wrong_type")],
    "ratio": [("1", "out_of_range"), ("-1.01", "out_of_range"), ("1e400", "out_of_range"), ('"0"', "wrong_type")],
    "grid": [("0.25", "out_of_range"), ("1e400", "out_of_range"), ("null", "wrong_type")],
    "photo": [('"aGk"', "bad_text"), ('"aGl="', "bad_text"), ('"aG k"', "bad_text"), ('"aG-_"', "bad_text")],
    "seal": [('"aGo="', "out_of_range"), ('"AAEC"', "bad_text"), ('""', "bad_text"), ("1", "wrong_type")],
    "holiday": [('"2026-12-24"', "out_of_range"), ('"2026-12-25 "', "out_of_range"), ("null", "wrong_type")],
    "huge": [("18446744073709551616", "out_of_range"), ("-1", "out_of_range"), ("0.5", "out_of_range")],
    "füll": [("1.5", "wrong_type")],
}  # fmt: skip


def contract(folder: Path, properties: dict[str, Any], required: list[str] | None = None) -> TopicContract:
    (folder / "topics").mkdir(exist_ok=True)
    document = {"type": "object", "properties": properties, "required": required or []}
    (folder / "topics" / "any.json").write_text(json.dumps(document), "utf-8")
    return Contracts(str(folder)).topic("any")


class NoFastPath(FastPath):
    """Sure of nothing."""

    def sales(self, values: pa.Array) -> tuple[pa.Table, Any]:
        return self._schema.empty_table(), np.empty(0, np.int64)


def strict_parser(made: TopicContract, limit: int = LIMIT) -> Parser:
    parser = Parser(made, limit)
    parser._fast.__class__ = NoFastPath
    return parser


def parsed_alike(made: TopicContract, values: pa.Array, limit: int = LIMIT) -> Parsed:
    """What becomes of the messages, which is the same without the fast path, and has a place for each."""
    parsed, strict = Parser(made, limit).parse(values), strict_parser(made, limit).parse(values)
    parsed.sales.validate(full=True)
    assert parsed.sales.schema.equals(made.schema)
    assert parsed.rejected.tolist() == strict.rejected.tolist()
    assert parsed.reasons.equals(strict.reasons)
    assert parsed.details.equals(strict.details)
    assert parsed.valid.tolist() == strict.valid.tolist()
    assert parsed.sales.equals(strict.sales)
    assert sorted([*parsed.valid, *parsed.rejected]) == list(range(len(values)))
    return parsed
