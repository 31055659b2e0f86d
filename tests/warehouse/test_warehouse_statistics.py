"""The statistics of a file: bounds that may be loose and are never wrong."""

import io
import json
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.warehouse import statistics

INSTANT = pa.timestamp("us", tz="UTC")
UTC = timezone.utc


def stats_of(kind: pa.DataType, *windows: list[Any]) -> dict[str, Any]:
    """The statistics of a file with one column `c`, numbers as they are written."""
    schema = pa.schema([("c", kind)])
    floating = statistics.FloatingColumns(schema)
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, schema, store_decimal_as_integer=True, write_statistics=not floating.names) as writer:
        for window in windows:
            rows = pa.table({"c": pa.array(window, kind)}, schema)
            floating.add(rows)
            writer.write_table(rows)
    return json.loads(statistics.of_file(pq.read_metadata(sink), schema, floating), parse_float=str, parse_int=str)


def bounds(kind: pa.DataType, *windows: list[Any]) -> tuple[Any, Any]:
    found = stats_of(kind, *windows)
    return found["minValues"].get("c"), found["maxValues"].get("c")


@pytest.mark.parametrize(
    ("kind", "values", "lowest", "highest"),
    [
        (pa.int64(), [-(2**63), 0, 2**63 - 1], "-9223372036854775808", "9223372036854775807"),
        (pa.int32(), [5, None, -7], "-7", "5"),
        (pa.decimal128(18, 2), [Decimal("9999999999999999.99"), Decimal("-0.05")], "-0.05", "9999999999999999.99"),
        (pa.decimal128(9, 0), [Decimal("-3"), Decimal(12)], "-3", "12"),
        (pa.decimal128(38, 10), [Decimal("1e-10"), Decimal("-1e27")], "-1" + "0" * 27 + "." + "0" * 10, "0.0000000001"),
        (pa.float64(), [0.1, -2.5], "-2.5", "0.1"),
        (pa.date32(), [date(1, 1, 1), date(9999, 12, 31)], "0001-01-01", "9999-12-31"),
        (pa.string(), ["b", "", None], "", "b"),
        (pa.bool_(), [True, False], None, None),
        (pa.binary(), [b"a", b"b"], None, None),
    ],
)
def test_bounds_are_exact_where_delta_can_write_them_exactly(kind, values, lowest, highest):
    assert bounds(kind, values) == (lowest, highest)


def test_a_timestamp_is_rounded_outwards_to_milliseconds_on_both_sides_of_1970():
    moments = [datetime(1969, 12, 31, 23, 59, 59, 999_001, UTC), datetime(2026, 11, 18, 1, 2, 3, 4_001, UTC)]
    assert bounds(INSTANT, moments) == ("1969-12-31T23:59:59.999Z", "2026-11-18T01:02:03.005Z")
    assert bounds(INSTANT, [moments[0]])[1] == "1970-01-01T00:00:00.000Z"


def test_whole_milliseconds_are_not_rounded():
    moment = datetime(2026, 11, 18, 1, 2, 3, 4_000, UTC)
    assert bounds(INSTANT, [moment]) == ("2026-11-18T01:02:03.004Z",) * 2


@pytest.mark.parametrize("micros", [2**63 - 1, -(2**63), 253402300799_999_999])
def test_a_moment_beyond_the_calendar_has_no_upper_bound_and_does_not_fail(micros):
    found = stats_of(INSTANT, pa.array([micros], pa.int64()).cast(INSTANT))
    assert "c" not in found["maxValues"]
    assert found["numRecords"] == "1"


def test_a_day_beyond_the_calendar_has_no_bound_and_does_not_fail():
    assert bounds(pa.date32(), pa.array([3_000_000, 0], pa.int32()).cast(pa.date32())) == ("1970-01-01", None)


def test_the_bounds_of_all_windows_are_merged_and_nulls_are_added_up():
    found = stats_of(pa.int64(), [5, None], [None, None], [-1, 9])
    assert found == {"numRecords": "6", "minValues": {"c": "-1"}, "maxValues": {"c": "9"}, "nullCount": {"c": "3"}}


@pytest.mark.parametrize("precision", [5, 18, 38])
def test_the_bounds_of_decimals_are_merged_as_numbers(precision):
    windows = [[Decimal("0.05")], [Decimal("-0.05")], [Decimal("-7.00"), Decimal("3.00")]]
    assert bounds(pa.decimal128(precision, 2), *windows) == ("-7.00", "3.00")


def test_a_column_of_nulls_has_only_a_null_count():
    assert stats_of(pa.string(), [None], [None]) == {
        "numRecords": "2",
        "minValues": {},
        "maxValues": {},
        "nullCount": {"c": "2"},
    }


def test_infinities_are_no_bounds():
    assert bounds(pa.float64(), [float("-inf"), 1.0, float("inf")]) == (None, None)
    assert bounds(pa.float64(), [1.0, float("inf")]) == ("1.0", None)


def test_a_window_with_nan_leaves_its_column_without_bounds():
    found = stats_of(pa.float64(), [1.0, None], [float("nan"), None], [2.0])
    assert (found["minValues"], found["maxValues"], found["nullCount"]) == ({}, {}, {"c": "2"})


def test_floating_bounds_are_merged_over_windows_of_nulls():
    assert bounds(pa.float64(), [None], [1.5, -2.5], [None], [0.25]) == ("-2.5", "1.5")
    assert bounds(pa.float64(), [None]) == (None, None)


def test_a_long_string_is_cut_to_32_characters_that_bound_it():
    assert bounds(pa.string(), ["a" * 40]) == ("a" * 32, "a" * 31 + "b")


@pytest.mark.parametrize(
    ("text", "highest"),
    [
        ("a" * 31 + "\ud7ff" + "z", "a" * 31 + "\ue000"),
        ("a" * 30 + "b\U0010ffff" + "z", "a" * 30 + "c"),
        ("\U0010ffff" * 33, None),
        ("😀" * 33, "😀" * 31 + "😁"),
    ],
)
def test_the_upper_bound_steps_over_characters_that_have_no_successor(text, highest):
    assert bounds(pa.string(), [text])[1] == highest


def test_a_string_too_long_for_parquet_leaves_the_whole_column_without_bounds():
    assert bounds(pa.string(), ["b"], ["a" * 100_000]) == (None, None)


def test_only_the_first_32_columns_have_statistics():
    schema = pa.schema([(f"c{i}", pa.int64()) for i in range(40)])
    sink = io.BytesIO()
    pq.write_table(pa.table([pa.array([1])] * 40, schema), sink)
    found = json.loads(statistics.of_file(pq.read_metadata(sink), schema, statistics.FloatingColumns(schema)))
    for part in ("minValues", "maxValues", "nullCount"):
        assert list(found[part]) == [f"c{i}" for i in range(32)]


@settings(deadline=None)
@given(st.lists(st.text(max_size=70), min_size=1, max_size=5))
def test_every_string_lies_within_its_bounds(values):
    lowest, highest = bounds(pa.string(), values)
    for value in values:
        assert lowest.encode() <= value.encode()
        assert highest is None or value.encode() <= highest.encode()
    assert len(lowest) <= 32
    assert highest is None or len(highest) <= 32


@settings(deadline=None)
@given(st.lists(st.integers(-62_135_596_800_000_000, 253_402_300_799_999_000), min_size=1, max_size=5))
def test_every_moment_lies_within_its_bounds_and_they_are_close(micros):
    values = pa.array(micros, pa.int64()).cast(INSTANT)
    lowest, highest = (datetime.fromisoformat(bound.replace("Z", "+00:00")) for bound in bounds(INSTANT, values))
    zero = datetime(1970, 1, 1, tzinfo=UTC)
    within = zero + timedelta(microseconds=min(micros)), zero + timedelta(microseconds=max(micros))
    assert timedelta(0) <= within[0] - lowest < timedelta(milliseconds=1)
    assert timedelta(0) <= highest - within[1] < timedelta(milliseconds=1)
