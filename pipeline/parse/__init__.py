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

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from pipeline.config.contracts import Field, TopicContract
from pipeline.errors import BadContract
from pipeline.parse import reasons
from pipeline.parse.decimals import Decimal
from pipeline.parse.fast import FastPath
from pipeline.parse.kinds import Kind
from pipeline.parse.numbers import Boolean, Double, Integer
from pipeline.parse.reasons import Reject
from pipeline.parse.strict import Judge
from pipeline.parse.strings import Base64, Text
from pipeline.parse.texts import ByteTexts, Integers
from pipeline.parse.times import Date, Timestamp

__all__ = ["Parsed", "Parser"]

# A window's objects should fit the processor's caches, and its arrays of bytes stay small enough to be reused: above
# about a megabyte each one is new memory from the system, and touching that cost more than the arithmetic.
_WINDOW_MESSAGES = 4_096
_WINDOW_BYTES = 1 << 20

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


Rejects = dict[int, tuple[str, str]]  # by position: reason and detail


@dataclass(frozen=True)
class Parsed:
    """What became of an array of messages; `valid` and `rejected` together are all its positions."""

    sales: pa.Table  # one row per valid message, in their order
    valid: npt.NDArray[np.int64]  # for each row of `sales` the position of its message
    rejected: npt.NDArray[np.int64]  # positions of the messages that are no sale, ascending
    reasons: pa.Array  # for each of them a code
    details: pa.Array  # for each of them a sentence


class Parser:
    """Reads the messages of one topic. It keeps nothing between calls."""

    def __init__(self, contract: TopicContract, max_message_bytes: int) -> None:
        kinds = _kinds(contract)
        self._schema = contract.schema
        self._max_message_bytes = max_message_bytes
        self._fast = FastPath(contract, kinds)
        self._judge = Judge(contract, kinds)

    def parse(self, values: pa.Array) -> Parsed:
        """Sort `values` (binary, possibly null, possibly a slice) into sales and rejects."""
        sales: list[pa.Table] = [self._schema.empty_table()]
        valid: list[Integers] = [np.empty(0, np.int64)]
        rejects: Rejects = {}
        for start, stop in _windows(values):
            window = values.slice(start, stop - start)
            readable = self._readable(window, start, rejects)
            if len(readable) < len(window):
                window = window.take(pa.array(readable - start))
            table, positions = self._parse_readable(window, readable, rejects)
            sales.append(table)
            valid.append(positions)
        rejected = np.array(sorted(rejects), np.int64)
        return Parsed(
            sales=pa.concat_tables(sales).combine_chunks(),
            valid=np.concatenate(valid),
            rejected=rejected,
            reasons=pa.array([rejects[position][0] for position in rejected], pa.string()),
            details=pa.array([rejects[position][1] for position in rejected], pa.string()),
        )

    def _readable(self, window: pa.Array, start: int, rejects: Rejects) -> Integers:
        """Positions of the messages that are worth reading; the others are rejects without being looked into."""
        sizes = ByteTexts.of_array(window).lengths
        nulls = window.is_null().to_numpy(zero_copy_only=False)
        large = sizes > self._max_message_bytes
        readable = ~nulls & (sizes > 0) & ~large
        for i in np.flatnonzero(~readable).tolist():
            if nulls[i]:
                rejects[start + i] = reasons.EMPTY, "the message has no value (a tombstone)."
            elif large[i]:
                detail = f"the message has {sizes[i]:,} bytes; kafka.max_message_bytes is {self._max_message_bytes:,}."
                rejects[start + i] = reasons.TOO_LARGE, detail
            else:
                rejects[start + i] = reasons.EMPTY, "the message has no bytes."
        return start + np.flatnonzero(readable)

    def _parse_readable(self, window: pa.Array, positions: Integers, rejects: Rejects) -> tuple[pa.Table, Integers]:
        """The sales among the messages of `window`, which are at `positions`."""
        if not len(window):
            return self._schema.empty_table(), positions
        messages = window.to_numpy(zero_copy_only=False).tolist()
        quick, sure = self._fast.sales(window, messages)
        if len(sure) == len(window):
            return quick, positions
        rows: list[list[Any]] = []
        judged: list[int] = []
        for i in np.delete(np.arange(len(window)), sure).tolist():
            try:
                rows.append(self._judge.sale(messages[i]))
                judged.append(i)
            except Reject as reject:
                # Not the exception itself: its traceback would keep the message and all that was read from it.
                rejects[int(positions[i])] = reject.reason, reject.detail
        if not rows:
            return quick, positions[sure]
        columns = [
            pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), self._schema, strict=True)
        ]
        both = pa.concat_tables([quick, pa.Table.from_arrays(columns, schema=self._schema)])
        indices = np.concatenate((sure, judged))
        order = np.argsort(indices)
        return both.take(pa.array(order)), positions[indices[order]]


def _windows(values: pa.Array) -> Iterator[tuple[int, int]]:
    """Cut the messages into pieces of a bounded number and, a single large message aside, a bounded size."""
    texts = ByteTexts.of_array(values)
    ends = texts.starts + texts.lengths
    start = 0
    while start < len(values):
        fitting = int(np.searchsorted(ends, texts.starts[start] + _WINDOW_BYTES, side="right"))
        stop = min(len(values), start + _WINDOW_MESSAGES, max(start + 1, fitting))
        yield start, stop
        start = stop


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
