"""Messages that are not valid sales, one kind a line. Each is made from the sale it spoils."""

from __future__ import annotations

import re
from collections.abc import Callable

Spoil = Callable[[bytes], bytes | None]


def _field(name: str, json: bytes) -> Spoil:
    """The sale with this text as the field's value. (No value of ours has a comma or a brace in it.)"""
    value = re.compile(rb'(?<="%s":)[^,}]*' % name.encode())
    return lambda sale: value.sub(lambda _: json, sale, count=1)


def _without(name: str) -> Spoil:
    field = re.compile(rb',"%s":[^,}]*' % name.encode())
    return lambda sale: field.sub(b"", sale, count=1)


_KINDS: dict[str, Spoil] = {
    # Not JSON, or not one JSON object.
    "bad_json": lambda sale: sale.replace(b'"quantity":', b'"quantity"=', 1),
    "trailing_comma": lambda sale: sale[:-1] + b",}",
    "truncated": lambda sale: sale[: len(sale) * 2 // 3],
    "empty": lambda _: b"",
    "blank": lambda _: b" \n\t ",
    "no_value": lambda _: None,  # what Kafka calls a tombstone
    "bare_null": lambda _: b"null",
    "bare_number": lambda _: b"42",
    "array": lambda sale: b"[" + sale + b"]",
    "two_objects": lambda sale: sale + sale,
    "two_lines": lambda sale: sale + b"\n" + sale,
    "line_break_in_string": lambda sale: sale.replace(b'"sale_id":"', b'"sale_id":"\n', 1),
    "nul_in_string": lambda sale: sale.replace(b'"sale_id":"', b'"sale_id":"\0', 1),
    "nul_after": lambda sale: sale + b"\0",
    "byte_order_mark": lambda sale: b"\xef\xbb\xbf" + sale,
    "utf16": lambda sale: sale.decode().encode("utf-16"),
    "bad_utf8": lambda sale: sale.replace(b'"sale_id":"', b'"sale_id":"\xff\xfe', 1),
    "lone_surrogate": _field("sale_id", rb'"\ud800"'),
    "not_a_number": _field("unit_price", b"NaN"),
    "infinity": _field("unit_price", b"Infinity"),
    "deep_nesting": _field("quantity", b"[" * 5_000 + b"]" * 5_000),
    "deep_unclosed": lambda _: b"[" * 100_000,
    # JSON, but not what the contract says.
    "duplicate_field": lambda sale: sale[:-1] + b',"quantity":7}',
    "missing_field": _without("currency"),
    "null_where_required": _field("quantity", b"null"),
    "text_for_number": _field("quantity", b'"two"'),
    "number_for_text": _field("sale_id", b"17"),
    "object_for_text": _field("store_code", b'{"code":"S-00001"}'),
    "boolean_for_number": _field("customer_number", b"true"),
    "fraction_for_integer": _field("quantity", b"1.5"),
    "out_of_range": _field("quantity", b"1000001"),
    "thirty_digits": _field("customer_number", b"123456789012345678901234567890"),
    "beyond_64_bits": _field("customer_number", b"9223372036854775808"),
    "negative_key": _field("customer_number", b"-1"),
    "third_decimal": _field("unit_price", b"12.345"),
    "negative_price": _field("unit_price", b"-0.01"),
    "seventeen_digit_price": _field("unit_price", b"10000000000000000.00"),
    "not_a_time": _field("sold_at", b'"yesterday"'),
    "no_offset": _field("sold_at", b'"2026-11-18T09:30:00"'),
    "day_32": _field("sold_at", b'"2026-01-32T09:30:00Z"'),
    "lower_case_currency": _field("currency", b'"eur"'),
    "empty_text": _field("sale_id", b'""'),
    "long_text": _field("product_code", b'"P-' + b"9" * 31 + b'"'),
}

CYCLE = tuple(_KINDS)
OVERSIZED = len(CYCLE)  # its place in NAMES: sent only when asked for, since it is large
NAMES = (*CYCLE, "oversized")


def spoil(kind: int, sale: bytes, oversized_bytes: int) -> bytes | None:
    """The malformed message of this kind that is made from a valid one."""
    if kind == OVERSIZED:
        opening = sale[:-1] + b',"padding":"'
        return opening + b"x" * max(0, oversized_bytes - len(opening) - 2) + b'"}'
    return _KINDS[CYCLE[kind]](sale)
