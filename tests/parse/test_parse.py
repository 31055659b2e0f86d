"""One message at a time: what is a sale, what is a reject, and with which words."""

from __future__ import annotations

import sys
from datetime import datetime, timezone
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from pipeline.parse import Parser, reasons
from tests.kit.parse_samples import CONTRACT, FIELDS, LIMIT, as_json, message, parse, reason, sale


def test_a_sale_becomes_one_row_of_the_contracts_columns() -> None:
    parsed = parse(message())
    assert parsed.sales.schema.equals(CONTRACT.schema)
    assert parsed.sales.to_pylist() == [
        {
            "sale_id": "S-1",
            "sold_at": datetime(2026, 11, 18, 8, 30, 0, 500_000, timezone.utc),
            "store_code": "ST-7",
            "product_code": "P-4711",
            "customer_number": 42,
            "quantity": 3,
            "unit_price": Decimal("12.34"),
            "currency": "EUR",
        }
    ]
    assert (parsed.valid.tolist(), parsed.rejected.tolist(), len(parsed.reasons)) == ([0], [], 0)


REJECTS = {
    "a tombstone": (None, "empty"),
    "no bytes": (b"", "empty"),
    "white space alone": (b" \r\n\t", "empty"),
    "five megabytes": (message(f'"note":"{"x" * 5_000_000}"'), "too_large"),
    "five megabytes that are no JSON": (b"x" * 5_000_000, "too_large"),
    "not JSON": (b"not json", "not_json"),
    "an object broken off": (message()[:-1], "not_json"),
    "a message broken off in a string": (message()[:-3], "not_json"),
    "two objects": (message() + message(), "not_json"),
    "two objects on two lines": (message() + b"\n" + message(), "not_json"),
    "something behind the object": (message() + b"x", "not_json"),
    "NUL behind the object": (message() + b"\0", "not_json"),
    "a byte order mark": (b"\xef\xbb\xbf" + message(), "not_json"),
    "UTF-16": (message().decode().encode("utf-16"), "not_utf8"),
    "a comma too many": (message()[:-1] + b",}", "not_json"),
    "single quotes": (message().replace(b'"', b"'"), "not_json"),
    "a comment": (message() + b"// no", "not_json"),
    "a raw line break in a string": (message(sale_id='"a\nb"'), "not_json"),
    "a raw NUL in a string": (message(sale_id='"a\0b"'), "not_json"),
    "an unknown escape": (message(sale_id='"\\x41"'), "not_json"),
    "an unknown escape in an ignored field": (message('"note":"\\x41"'), "not_json"),
    "NaN": (message(unit_price="NaN"), "not_json"),
    "Infinity": (message(quantity="Infinity"), "not_json"),
    "-Infinity": (message(quantity="-Infinity"), "not_json"),
    "NaN in an ignored field": (message('"note":NaN'), "not_json"),
    "NaN as a string": (message(unit_price='"NaN"'), "wrong_type"),
    "Infinity as a string": (message(unit_price='"Infinity"'), "wrong_type"),
    "a leading zero": (message(quantity="03"), "not_json"),
    "a plus sign": (message(quantity="+3"), "not_json"),
    "a bare point": (message(unit_price="1."), "not_json"),
    "null": (b"null", "not_an_object"),
    "a number": (b"17", "not_an_object"),
    "a huge number": (b"9" * 5_000, "not_an_object"),
    "a string": (b'"sale"', "not_an_object"),
    "an array": (b"[" + message() + b"]", "not_an_object"),
    "true": (b"true", "not_an_object"),
    "invalid UTF-8 in a string": (message(sale_id='"?"').replace(b"?", b"\xff"), "not_utf8"),
    "invalid UTF-8 in an ignored field": (message('"note":"?"').replace(b"?", b"\xff"), "not_utf8"),
    "invalid UTF-8 in an ignored name": (message('"?":1').replace(b"?", b"\xc3"), "not_utf8"),
    "an overlong encoding in an ignored field": (message('"note":"?"').replace(b"?", b"\xc0\x80"), "not_utf8"),
    "a surrogate in UTF-8": (message('"note":"\ud800"'), "not_utf8"),
    "half a character at the end": (message() + b"\xc3", "not_utf8"),
    "a lone high surrogate": (message(sale_id='"\\ud800"'), "bad_text"),
    "a lone low surrogate": (message(product_code='"a\\udc00b"'), "bad_text"),
    "surrogates in the wrong order": (message(store_code='"\\udc00\\ud800"'), "bad_text"),
    "an escaped NUL in a string": (message(sale_id='"a\\u0000b"'), "bad_text"),
    "a string that is not the pattern": (message(currency='"eur"'), "bad_text"),
    "a line break behind the pattern": (message(currency='"EUR\\n"'), "bad_text"),
    "a string too long": (message(sale_id=f'"{"x" * 65}"'), "out_of_range"),
    "a string too short": (message(sale_id='""'), "out_of_range"),
    "an empty natural key": (message(product_code='""'), "out_of_range"),
    "a number for a string": (message(sale_id="5"), "wrong_type"),
    "an array for a string": (message(sale_id='["S"]'), "wrong_type"),
    "a string for an integer": (message(quantity='"5"'), "wrong_type"),
    "true for an integer": (message(quantity="true"), "wrong_type"),
    "an object for an integer": (message(quantity="{}"), "wrong_type"),
    "1.0 for an integer": (message(quantity="1.0"), "wrong_type"),
    "1e2 for an integer": (message(quantity="1e2"), "wrong_type"),
    "null for an integer that needs one": (message(quantity="null"), "wrong_type"),
    "null for a price": (message(unit_price="null"), "wrong_type"),
    "null for a string that needs one": (message(sale_id="null"), "wrong_type"),
    "30 digits": (message(quantity="9" * 30), "out_of_range"),
    "5,000 digits": (message(quantity="9" * 5_000), "out_of_range"),
    "an int64 too large by one": (message(customer_number=str(1 << 63)), "out_of_range"),
    "an int64 far too small": (message(customer_number="-" + "9" * 19), "out_of_range"),
    "an int64 too small": (message(customer_number=str(-(1 << 63) - 1)), "out_of_range"),
    "an integer below the minimum": (message(customer_number="-1"), "out_of_range"),
    "an integer above the maximum": (message(quantity="1000001"), "out_of_range"),
    "an integer beyond int32": (message(quantity=str(1 << 31)), "out_of_range"),
    "three decimals": (message(unit_price="12.345"), "out_of_range"),
    "three decimals in a string": (message(unit_price='"12.345"'), "out_of_range"),
    "a decimal that a float would round": (message(unit_price="12.3400000000000000000001"), "out_of_range"),
    "seventeen digits before the point": (message(unit_price="1" * 17), "out_of_range"),
    "a price of 1e400": (message(unit_price="1e400"), "out_of_range"),
    "a price of 1e999999999999999999999": (message(unit_price="1e999999999999999999999"), "out_of_range"),
    "a price of 1e-999999999999999999999": (message(unit_price="1e-999999999999999999999"), "out_of_range"),
    "a negative price": (message(unit_price="-0.01"), "out_of_range"),
    "true for a price": (message(unit_price="true"), "wrong_type"),
    "an object for a price": (message(unit_price='{"a":1}'), "wrong_type"),
    "an array for a price": (message(unit_price="[1,2]"), "wrong_type"),
    "an empty string for a price": (message(unit_price='""'), "wrong_type"),
    "the word null for a price": (message(unit_price='"null"'), "wrong_type"),
    "a comma in a price": (message(unit_price='"12,34"'), "wrong_type"),
    "blanks round a price": (message(unit_price='" 12.34"'), "wrong_type"),
    "digits of another script for a price": (message(unit_price='"١٢"'), "wrong_type"),
    "an underscore in a price": (message(unit_price='"1_0"'), "wrong_type"),
    "a leading zero in a price": (message(unit_price='"012.34"'), "wrong_type"),
    "a bare point in a price": (message(unit_price='".5"'), "wrong_type"),
    "a price that is a sign": (message(unit_price='"-"'), "wrong_type"),
    "a price with two points": (message(unit_price='"1.2.3"'), "wrong_type"),
    "a price that ends in a point": (message(unit_price='"12."'), "wrong_type"),
    "an array nested 100,000 levels in an ignored field": (
        message('"note":' + "[" * 100_000 + "]" * 100_000), "too_deep"),
    "100,000 opened arrays in a price": (message(unit_price="[" * 100_000), "too_deep"),
    "100,000 opened objects": (b'{"a":' * 100_000, "too_deep"),
    "100,000 opened arrays alone": (b"[" * 100_000, "too_deep"),
    "a field twice": (message('"quantity":3'), "duplicate_field"),
    "a field twice, once with an escape": (message('"quantit\\u0079":3'), "duplicate_field"),
    "a field twice, once with white space": (message('"quantity" \n:3'), "duplicate_field"),
    "a field twice, first null": (message('"product_code":"P"', product_code="null"), "duplicate_field"),
    "a field twice with an ignored one beside": (message('"quantity":3,"note":1'), "duplicate_field"),
    "a field twice, escaped, with a path beside": (message('"path":"a\\\\b","\\u0071uantity":3'), "duplicate_field"),
}  # fmt: skip


@pytest.mark.parametrize("name", REJECTS)
def test_a_message_that_is_no_sale_is_one_reject_with_its_reason(name: str) -> None:
    given, expected = REJECTS[name]
    assert reason(given) == expected


@pytest.mark.parametrize("field", FIELDS)
def test_every_field_must_be_there_even_where_it_may_be_null(field: str) -> None:
    assert reason(message(**{field: None})) == "missing_field"


@pytest.mark.parametrize("field", ["store_code", "product_code", "customer_number"])
def test_a_natural_key_may_be_null(field: str) -> None:
    assert sale(message(**{field: "null"}))[field] is None


SALES = {
    "pretty-printed": b'{\n  "sale_id" : "S-1",\r\n\t"sold_at" : '
    + message().split(b'"sold_at":')[1].replace(b",", b",\n  ").replace(b"}", b"\n}\n"),
    "white space round the object": b"\n " + message() + b" \r\n",
    "an ignored field": message('"note":"a, \\"b\\": {c}"'),
    "ignored fields that hold the contract's names": message('"a":{"quantity":7},"b":["quantity"]'),
    "an ignored field given twice": message('"note":1,"note":2'),
    "an ignored number beyond any range": message('"note":' + "9" * 5_000 + ',"b":1e999999'),
    "an ignored lone surrogate": message('"note":"\\ud800"'),
    "64 levels": message('"note":' + "[" * 63 + "]" * 63),
    "100 brackets side by side": message('"note":[' + ",".join(["[]"] * 100) + "]"),
    "100 brackets in a string": message('"note":"' + "[" * 100 + '\\\\"'),
    "a name with an escape": message('"quantit\\u0079":3', quantity=None),
    "another order": message('"sale_id":"S-1"', sale_id=None),
    "a price as a string": message(unit_price='"12.34"'),
    "a price with escapes": message(unit_price='"12\\u002e34"'),
    "a price with a zero behind it": message(unit_price="12.340"),
    "a price with an exponent": message(unit_price="1234E-2"),
    "a price with a long exponent": message(unit_price="0.1234e+000000000000002"),
    "escapes in a string": message(sale_id='"\\u0053-\\u0031"'),
}


@pytest.mark.parametrize("name", SALES)
def test_another_way_to_write_the_same_sale_is_the_same_sale(name: str) -> None:
    assert sale(SALES[name]) == sale(message())


def test_the_65th_level_is_too_deep_wherever_it_is_read_from() -> None:
    deep = message('"note":' + "[" * 64 + "]" * 64)

    def from_below(frames: int) -> str | None:
        return from_below(frames - 1) if frames else reason(deep)

    assert reason(deep) == from_below(sys.getrecursionlimit() // 2) == "too_deep"
    shallow = message('"note":' + "[" * 63 + "]" * 63)
    assert reason(shallow) is None


@pytest.mark.parametrize(
    ("written", "price"),
    {"0": "0", "-0": "0", "-0.00": "0", "0.5": "0.50", "7": "7.00", "0e99999999999999": "0", "9999999999999999.99": ""}
    .items(),
)  # fmt: skip
def test_a_price_is_exact(written: str, price: str) -> None:
    assert sale(message(unit_price=written))["unit_price"] == Decimal(price or written)
    assert sale(message(unit_price=f'"{written}"'))["unit_price"] == Decimal(price or written)


def test_integers_reach_their_limits() -> None:
    row = sale(message(customer_number=str((1 << 63) - 1), quantity="-1000000"))
    assert (row["customer_number"], row["quantity"]) == ((1 << 63) - 1, -1_000_000)
    assert sale(message(customer_number="-0"))["customer_number"] == 0


@pytest.mark.parametrize("text", ["x" * 64, "ß" * 64, "😀" * 64, "a\\b", 'say "x":', "tab\t\u2028", "\x7f"])
def test_a_string_is_kept_character_for_character(text: str) -> None:
    assert sale(message(sale_id=as_json(text)))["sale_id"] == text


INSTANTS = {
    "2026-11-18T09:30:00Z": datetime(2026, 11, 18, 9, 30),
    "2026-11-18t09:30:00z": datetime(2026, 11, 18, 9, 30),
    "2026-11-18T09:30:00.1Z": datetime(2026, 11, 18, 9, 30, 0, 100_000),
    "2026-11-18T09:30:00.123456-00:00": datetime(2026, 11, 18, 9, 30, 0, 123_456),
    "2026-11-18T09:30:00+23:59": datetime(2026, 11, 17, 9, 31),
    "2026-12-31T23:30:00.999999-01:00": datetime(2027, 1, 1, 0, 30, 0, 999_999),
    "2024-02-29T00:00:00Z": datetime(2024, 2, 29),
    "1900-02-28T23:59:59Z": datetime(1900, 2, 28, 23, 59, 59),
    "1969-12-31T23:59:59.999999Z": datetime(1969, 12, 31, 23, 59, 59, 999_999),
    "0001-01-01T00:00:00Z": datetime(1, 1, 1),
    "0001-01-01T05:00:00+05:00": datetime(1, 1, 1),
    "9999-12-31T23:59:59.999999Z": datetime(9999, 12, 31, 23, 59, 59, 999_999),
}


@pytest.mark.parametrize("text", INSTANTS)
def test_a_timestamp_becomes_utc_microseconds(text: str) -> None:
    assert sale(message(sold_at=as_json(text)))["sold_at"] == INSTANTS[text].replace(tzinfo=timezone.utc)


NO_INSTANTS = """2026-11-18T09:30:00 2026-11-18 2026-11-18T09:30Z 2026-11-18T09:30:00.Z 2026-11-18T09:30:00.1234567Z
    2026-11-18T09:30:00.1234560Z 2026-11-18T09:30:60Z 2026-11-18T23:59:60Z 2026-11-18T24:00:00Z 2026-11-18T09:60:00Z
    2026-13-01T00:00:00Z 2026-00-01T00:00:00Z 2026-02-29T00:00:00Z 1900-02-29T00:00:00Z 2026-04-31T00:00:00Z
    2026-11-00T00:00:00Z 0000-01-01T00:00:00Z 0001-01-01T00:00:00+00:01 9999-12-31T23:59:59-00:01
    2026-11-18T09:30:00+0100 2026-11-18T09:30:00+01 2026-11-18T09:30:00+24:00 2026-11-18T09:30:00+01:60
    2026-11-18T09:30:00,5Z 2026-11-18_09:30:00Z +2026-11-18T09:30:00Z 02026-11-18T09:30:00Z 2026-11-18T09:30:00ZZ
    2026-11-18T09:30:00X 2026-11-18T09.30.00Z 2026/11/18T09:30:00Z 2026-11-18T9:30:00Z 20261118T093000Z now 0
    2026-11-18T09:30:00,01:00 2026-11-18T09:30:00.12345a+01:00 2026-1a-18T09:30:00Z"""


@pytest.mark.parametrize("text", NO_INSTANTS.split())
def test_a_timestamp_that_is_none_is_a_reject(text: str) -> None:
    for written in (text, f" {text}", f"{text} ", text.replace("T", " "), f"{text}\n", f"{text}\0"):
        assert reason(message(sold_at=as_json(written))) == "bad_timestamp"


def test_digits_of_another_script_are_no_timestamp() -> None:
    assert reason(message(sold_at='"\uff12\uff10\uff12\uff16-11-18T09:30:00Z"')) == "bad_timestamp"


def test_a_message_is_measured_before_it_is_read() -> None:
    given = message()
    assert len(parse(given, limit=len(given)).sales) == 1
    parsed = parse(given, limit=len(given) - 1)
    assert parsed.reasons.to_pylist() == ["too_large"]
    assert parsed.details.to_pylist() == [
        f"the message has {len(given)} bytes; kafka.max_message_bytes is {len(given) - 1}."
    ]


def test_the_detail_names_the_field_what_was_given_and_what_is_needed() -> None:
    details = [parse(given).details[0].as_py() for given in (
        message(unit_price="12.345"), message(quantity='"5"'), message(sale_id=None), message('"quantity":3'),
    )]  # fmt: skip
    assert details == [
        "unit_price: 12.345 is not allowed; "
        "needed: a decimal (number or string) from 0.00 to 9999999999999999.99 with at most 2 decimals.",
        "quantity: '5' is not written as an integer; needed: an integer from -1000000 to 1000000.",
        "sale_id: missing; needed: a string of 1 to 64 characters without NUL.",
        "quantity: given 2 times; needed: once.",
    ]


@pytest.mark.parametrize("name", REJECTS)
def test_a_detail_is_short_printable_and_one_line(name: str) -> None:
    detail = parse(REJECTS[name][0]).details[0].as_py()
    assert detail.endswith(".")
    assert len(detail) < 250
    assert detail.replace("…", "").isascii()
    assert detail.isprintable()


def test_no_message_takes_the_place_of_another() -> None:
    names = list(REJECTS)
    mixed = [given for name in names for given in (message(sale_id=as_json(name)), REJECTS[name][0])]
    parsed = parse(*mixed)
    assert parsed.sales["sale_id"].to_pylist() == names
    assert parsed.valid.tolist() == list(range(0, len(mixed), 2))
    assert parsed.rejected.tolist() == list(range(1, len(mixed), 2))
    assert parsed.reasons.to_pylist() == [REJECTS[name][1] for name in names]


def test_sales_of_both_paths_keep_the_order_of_their_messages() -> None:
    ways = [message(sale_id=f'"{i}"', unit_price="1" if i % 3 else '"1\\u002e0"') for i in range(300)]
    parsed = parse(*ways)
    assert parsed.sales["sale_id"].to_pylist() == [str(i) for i in range(300)]
    assert np.array_equal(parsed.valid, np.arange(300))


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_a_slice_is_counted_from_its_own_first_message(kind: pa.DataType) -> None:
    messages = [b"x", *(message(quantity=str(i)) for i in range(20)), None, b"y", message()]
    parsed = Parser(CONTRACT, LIMIT).parse(pa.array(messages, kind).slice(5, 18))
    assert parsed.sales["quantity"].to_pylist() == list(range(4, 20))
    assert parsed.valid.tolist() == list(range(16))
    assert parsed.rejected.tolist() == [16, 17]


def test_no_messages_are_no_sales_and_no_rejects() -> None:
    for values in (pa.array([], pa.binary()), pa.array([message()], pa.binary()).slice(1)):
        parsed = Parser(CONTRACT, LIMIT).parse(values)
        assert parsed.sales.schema.equals(CONTRACT.schema)
        assert len(parsed.sales) == len(parsed.valid) == len(parsed.rejected) == len(parsed.reasons) == 0


def test_more_messages_than_a_window_are_counted_through() -> None:
    messages = [message(customer_number=str(i)) if i % 7 else b"{}" for i in range(30_000)]
    parsed = parse(*messages)
    assert parsed.sales["customer_number"].to_pylist() == parsed.valid.tolist() == [i for i in range(30_000) if i % 7]
    assert parsed.rejected.tolist() == list(range(0, 30_000, 7))


def test_large_messages_are_read_in_windows_of_bounded_size() -> None:
    messages = [message(f'"note":"{"x" * 900_000}"', customer_number=str(i)) for i in range(12)]
    assert parse(*messages).sales["customer_number"].to_pylist() == list(range(12))


def test_every_reason_has_its_zero_before_a_message_is_rejected_for_it() -> None:
    codes = {code for name, code in vars(reasons).items() if name.isupper() and isinstance(code, str)}
    assert codes == set(reasons.ALL)
    assert len(reasons.ALL) == len(codes) > 10
