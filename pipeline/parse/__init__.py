"""Messages to sales: each one becomes exactly one row of columns or one reject, never both, never neither.

Two paths lead there. The *fast path* (`fast.py`) decodes most messages, a column at a time, and gives no answer
to what it is not sure of. The *strict path* (`strict.py`) takes those one by one, decides, and finds the reason. The
strict path alone says what is valid; tests hold the fast one to it.

A message is one JSON object (RFC 8259) in UTF-8, without a byte order mark; white space may be anywhere JSON has it,
line breaks too. Fields that the contract does not name are ignored, but they are JSON, in UTF-8, and not nested deeper
than 64 levels. What a field's value may be is said where its type is read: `numbers.py`, `decimals.py`, `strings.py`,
`times.py`. A required field must be there, even where it may be null; an optional one that is missing is null.

| reason | what is wrong |
|---|---|
| `empty` | no value (a tombstone), no bytes, or nothing but white space |
| `too_large` | more bytes than `kafka.max_message_bytes`; not looked into |
| `not_utf8` | bytes that are not UTF-8, anywhere in the message |
| `not_json` | not one JSON text: broken off, NaN, a byte order mark, something behind the object |
| `too_deep` | more than 64 levels of arrays and objects |
| `not_an_object` | an array, a number, a string, true, false or null |
| `duplicate_field` | a field of the contract is given more than once, however its name is written |
| `missing_field` | a required field is not there |
| `wrong_type` | not the JSON type of the field; null where it may not be null |
| `out_of_range` | too small, too large, too long, too many digits or decimals, not among the allowed values |
| `bad_text` | NUL, a lone surrogate, not the pattern, not base64 |
| `bad_timestamp` | not an RFC 3339 timestamp or date that exists |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from pipeline.config.contracts import Field, TopicContract
from pipeline.errors import BadContract
from pipeline.parse import reasons
from pipeline.parse.decimals import Decimal
from pipeline.parse.fast import FastPath
from pipeline.parse.kinds import Integers, Kind
from pipeline.parse.numbers import Boolean, Double, Integer
from pipeline.parse.reasons import Reject
from pipeline.parse.strict import Judge
from pipeline.parse.strings import Base64, Text
from pipeline.parse.times import Date, Timestamp

__all__ = ["Parsed", "Parser"]

_KINDS = (
    (pat.is_string, Text),
    (pat.is_integer, Integer),
    (pat.is_decimal, Decimal),
    (pat.is_timestamp, Timestamp),
    (pat.is_date, Date),
    (pat.is_boolean, Boolean),
    (pat.is_floating, Double),
    (pat.is_binary, Base64),
)


@dataclass(frozen=True)
class Parsed:
    """What became of an array of messages; `valid` and `rejected` together are all its positions."""

    sales: pa.Table  # one row per valid message, in their order
    valid: Integers  # for each row of `sales` the position of its message
    rejected: Integers  # positions of the messages that are no sale, ascending
    reasons: pa.Array  # for each of them a code
    details: pa.Array  # for each of them a sentence


class Parser:
    """Reads the messages of one topic. It keeps nothing between calls."""

    def __init__(self, contract: TopicContract, max_message_bytes: int) -> None:
        kinds = _kinds(contract)
        self._schema = contract.schema
        self._max_message_bytes = max_message_bytes
        self._fast = FastPath(contract, kinds, max_message_bytes)
        self._judge = Judge(contract, kinds)

    def parse(self, values: pa.Array) -> Parsed:
        """Sort `values` (binary, possibly null, possibly a slice) into sales and rejects."""
        values = values.cast(pa.binary())
        sales, valid = self._fast.sales(values)
        rows: list[list[Any]] = []
        judged: list[int] = []
        rejects: dict[int, tuple[str, str]] = {}
        for i in _others(valid, len(values)):
            try:
                rows.append(self._judged(values[i]))
                judged.append(i)
            except Reject as reject:
                # Not the exception itself: its traceback would keep the message and all that was read from it.
                rejects[i] = reject.reason, reject.detail
        if rows:
            sales, valid = _together(sales, valid, self._table(rows), np.array(judged))
        return Parsed(
            sales=sales,
            valid=valid,
            rejected=np.fromiter(rejects, np.int64, len(rejects)),
            reasons=pa.array([reason for reason, _ in rejects.values()], pa.string()),
            details=pa.array([detail for _, detail in rejects.values()], pa.string()),
        )

    def _judged(self, message: pa.Scalar) -> list[Any]:
        """A message's values by the strict path; raises `Reject`."""
        if not message.is_valid:
            raise Reject(reasons.EMPTY, "the message has no value (a tombstone).")
        size = message.as_buffer().size
        if size == 0:
            raise Reject(reasons.EMPTY, "the message has no bytes.")
        if size > self._max_message_bytes:
            detail = f"the message has {size:,} bytes; kafka.max_message_bytes is {self._max_message_bytes:,}."
            raise Reject(reasons.TOO_LARGE, detail)
        return self._judge.sale(message.as_py())

    def _table(self, rows: list[list[Any]]) -> pa.Table:
        columns = zip(zip(*rows, strict=True), self._schema, strict=True)
        return pa.Table.from_arrays([pa.array(column, field.type) for column, field in columns], schema=self._schema)


def _others(positions: Integers, count: int) -> list[int]:
    """The positions that are not among these, ascending."""
    if len(positions) == count:
        return []
    others = np.ones(count, bool)
    others[positions] = False
    return np.flatnonzero(others).tolist()


def _together(sales: pa.Table, at: Integers, more: pa.Table, more_at: Integers) -> tuple[pa.Table, Integers]:
    """Sales of both paths in the order of their messages; each path's are in order."""
    places = np.searchsorted(at, more_at)
    pieces, before = [], 0
    for run in np.split(np.arange(len(places)), np.flatnonzero(np.diff(places)) + 1):
        place = int(places[run[0]])
        pieces += [sales.slice(before, place - before), more.slice(int(run[0]), len(run))]
        before = place
    return pa.concat_tables([*pieces, sales.slice(before)]).combine_chunks(), np.insert(at, places, more_at)


def _kinds(contract: TopicContract) -> list[Kind]:
    """How each field of the contract is read; refuses a contract that cannot be kept."""
    columns = [field.column for field in contract.fields]
    if doubled := sorted({column for column in columns if columns.count(column) > 1}):
        raise BadContract(f"topic contract {contract.name}: several fields become the column {', '.join(doubled)}.")
    return [_kind(contract, field) for field in contract.fields]


def _kind(contract: TopicContract, field: Field) -> Kind:
    if '"' in field.name or "\\" in field.name or not field.name.isprintable():
        raise BadContract(
            f"topic contract {contract.name}: the field name {field.name!r} needs escapes in JSON. Rename the field."
        )
    for accepts, kind in _KINDS:
        if accepts(field.type):
            return kind(field)
    raise BadContract(
        f"topic contract {contract.name}: field {field.name} has the type {field.type}, which is not read."
    )
