"""The parts of the reconciliation that need no server: decoding, choosing a sample, finding gaps, the verdict."""

from __future__ import annotations

import io
import random
from datetime import datetime, timezone
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from pipeline.config.contracts import Contracts
from pipeline.reconcile.broker import Extent, Place
from pipeline.reconcile.messages import RUN, SAMPLE, choose, decode
from pipeline.reconcile.offsets import missing_between
from pipeline.reconcile.verdict import Check, Verdict

SALE = Contracts().topic("sale.v1")
MESSAGE = (
    b'{"sale_id":"a-1","sold_at":"%s","store_code":null,"product_code":"P-1","customer_number":9223372036854775807,'
    b'"quantity":-2,"unit_price":%s,"currency":"EUR"}'
)


def test_a_sale_is_decoded_without_a_float_in_between() -> None:
    sale = decode(SALE, MESSAGE % (b"2026-11-18T09:30:00Z", b"9999999999999999.99"))
    assert sale["sale.unit_price"] == Decimal("9999999999999999.99")
    assert sale["sale.customer_number"] == 2**63 - 1
    assert sale["sale.store_code"] is None
    assert sale["sale.quantity"] == -2


@pytest.mark.parametrize("price", [b"12.30", b'"12.30"', b"12.3", b"1230e-2"])
def test_a_price_is_the_same_however_it_is_written(price: bytes) -> None:
    assert decode(SALE, MESSAGE % (b"2026-11-18T09:30:00Z", price))["sale.unit_price"] == Decimal("12.30")


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        (b"2026-11-18T09:30:00Z", 0),
        (b"2026-11-18T11:00:00.5+01:30", 500_000),
        (b"2026-11-18T00:30:00.000001-09:00", 1),
        (b"2026-11-18t09:30:00.120z", 120_000),
    ],
)
def test_an_instant_is_the_same_in_every_zone(text: bytes, micros: int) -> None:
    expected = datetime(2026, 11, 18, 9, 30, 0, micros, tzinfo=timezone.utc)
    assert decode(SALE, MESSAGE % (text, b"1"))["sale.sold_at"] == expected


NOON = b"2026-11-18T12:00:00Z"


@pytest.mark.parametrize(
    "value",
    [
        *(None, b"", b"null", b"[1]", b"\xff", b"{}", b'{"a":1}{"b":2}'),
        *(MESSAGE % (NOON, price) for price in (b"12.345", b"NaN", b"")),
        *(MESSAGE % (when, b"1") for when in (b"yesterday", b"2026-02-30T09:30:00Z", b"2026-11-18T12:00:00")),
    ],
)
def test_what_is_no_sale_cannot_be_decoded(value: bytes | None) -> None:
    with pytest.raises((ValueError, TypeError)):
        decode(SALE, value)


@given(st.sets(st.integers(0, 60)), st.integers(0, 30), st.integers(0, 30))
@settings(max_examples=100, deadline=None)
def test_gaps_are_all_offsets_that_are_not_there(present: set[int], first: int, length: int) -> None:
    found = missing_between(np.array(sorted(present), np.int64), first, first + length)
    assert found.tolist() == [offset for offset in range(first, first + length) if offset not in present]


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 3_000)), min_size=1, max_size=5), st.integers())
@settings(max_examples=50, deadline=None)
def test_a_sample_is_large_enough_and_reads_no_message_twice(sizes: list[tuple[int, int]], seed: int) -> None:
    extents = {Place("t", p): Extent(first, first + length) for p, (first, length) in enumerate(sizes)}
    runs = choose(extents, random.Random(seed))
    offsets = {
        (place, offset)
        for place, start in runs
        for offset in range(start, min(start + RUN, extents[place].end))
        if start >= extents[place].first
    }
    lengths = sum(length for _, length in sizes)
    assert len(offsets) >= min(SAMPLE, lengths)
    assert len(set(runs)) == len(runs)


def test_a_verdict_holds_only_if_every_check_does() -> None:
    right = Check.equal("facts", 5, 5, "")
    assert Verdict((right,), 0.1).ok
    assert not Verdict((right, Check.equal("rejects", 5, 4, "")), 0.1).ok
    assert not Verdict((), 0.1).ok  # nothing checked is nothing proved


def test_a_failed_check_says_what_was_expected_and_found_and_where_to_look() -> None:
    lost = Check.none("lost", [f"t/0@{n}" for n in range(5)], "1,000", "See the log.", 1_234)
    verdict = Verdict((Check.equal("facts", 1_000, 1_000, "never shown"), lost), 0.1)
    drawn = io.StringIO()
    Console(file=drawn, width=200).print(verdict)
    for text in (str(verdict), drawn.getvalue()):
        assert "1,234 among 1,000" in text
        assert "t/0@0; t/0@1" in text
        assert "and 1,229 more" in text
        assert "See the log." in text
        assert "1 of 2 checks failed" in text
        assert "never shown" not in text
