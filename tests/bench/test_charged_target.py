"""What one run of a point tells: by the laws that its numbers keep among each other, and by the law of its sales."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from pipeline.bench.charged.target import Charged, predict
from pipeline.bench.equations import EQUATIONS
from pipeline.bench.point.points import Arrivals, Curve, Point, Sales, WarmUp
from pipeline.generate.zipf import ZipfDraw

HERE = Point(
    machine="hybridjoin-2011",
    R={"rows": 5_000, "scattered": True},
    sales=Sales(skew=0.9),
    join="hybridjoin",
    memory="1 MB",
    length=4_000,
)


def but(**parts: object) -> Point:
    return msgspec.structs.replace(HERE, **parts)


def test_numbers_of_a_run_agree_with_each_other():
    tells = Charged().measure(HERE, seed=1)
    n = tells.numbers
    assert n["rate"] == pytest.approx(n["sales"] / n["seconds"])
    assert n["sales"] == n["matched"] + n["unmatched"] >= 4_000
    assert n["queries"] == n["page_queries"] + n["lookup_queries"] + n["scan_queries"] > 0
    assert n["sales_a_query"] == pytest.approx(n["rate"] * n["c_loop"])
    assert n["queries_a_second"] == pytest.approx(1 / n["c_loop"])
    assert n["disk_seconds"] < n["seconds"]
    assert tells.predicted == predict(HERE)
    assert {"rate", "processing_time", "c_loop"} <= set(tells.predicted)


def test_the_same_seed_tells_the_same_and_another_one_does_not():
    charged = Charged()
    first = charged.measure(HERE, seed=1)
    assert charged.measure(HERE, seed=1) == first
    assert charged.measure(HERE, seed=2).numbers["rate"] != first.numbers["rate"]


def test_memory_is_counted_as_its_paper_counts_it_or_as_it_is_taken():
    published, measured = (
        Charged().measure(but(join="meshjoin", buffer="12 kB", accounting=how), seed=1).numbers["h_S"]
        for how in ("as published", "as measured")
    )
    assert published == pytest.approx((1_000_000 - 12_000) / 32, rel=1e-3)  # 20 + 12 bytes a sale
    assert measured < published / 2


def test_a_buffer_is_rows_of_its_bytes():
    numbers = Charged().measure(but(join="meshjoin", buffer="12 kB"), seed=1).numbers
    assert numbers["b"] == 100
    assert numbers["rows_read"] / numbers["scan_queries"] == pytest.approx(100, rel=0.03)


def test_what_a_join_refuses_is_an_answer():
    assert "cycle over 5,000 rows" in Charged().measure(but(join="meshjoin", memory=1_000), seed=1).refused


def test_with_arrivals_it_tells_of_queues_and_little_knows_their_length():
    arrivals = Arrivals(rate=400.0, seconds=8, warm_up=2, law="even")
    n = Charged().measure(but(arrivals=arrivals), seed=1).numbers
    assert n["arrived"] == pytest.approx(400 * n["seconds"], abs=2)
    assert n["queued"] == pytest.approx(n["arrived"] / n["seconds"] * n["waiting_time"], rel=0.05, abs=0.5)
    assert n["pending"] == pytest.approx(n["served"] / n["seconds"] * n["processing_time"], rel=0.05)


def test_a_curve_of_the_use_of_rows_is_the_law_of_the_sales():
    at = (0, 10, 100, 1_000)
    curve = Curve(of="use of rows", at=at)
    here = but(join="", R={"rows": 5_000}, curve=curve, length=200_000)
    told = np.array(Charged().measure(here, seed=1).curve)
    shares = ZipfDraw(5_000, 0.9).shares_of_first(np.array([*at, 5_000]))
    assert told == pytest.approx(np.diff(shares) / np.diff([*at, 5_000]), rel=0.03)


def test_a_curve_of_arrivals_is_their_rate_over_time():
    here = but(
        join="",
        curve=Curve(of="arrivals", at=(0, 1, 3)),
        arrivals=Arrivals(rate=500.0, seconds=7, law="even"),
    )
    assert Charged().measure(here, seed=1).curve == pytest.approx([500, 500, 500], rel=0.01)
    bursty = msgspec.structs.replace(here, arrivals=Arrivals(rate=500.0, seconds=7, streams=6))
    assert len(set(Charged().measure(bursty, seed=1).curve)) == 3


def test_the_papers_equations_answer_for_points():
    here = Point(
        machine="meshjoin-default-vs-optimal-2010",
        R={"rows": 3_500_000},
        join="meshjoin",
        memory="20 MB",
        buffer="0.93 MB",
        warm_up=WarmUp(cycles=1),
    )
    without = msgspec.structs.replace(here, buffer=0)
    rate, best = EQUATIONS["meshjoin rate"], EQUATIONS["meshjoin best buffer"](without)
    assert best == pytest.approx(0.93e6, rel=0.02)
    assert 0.999 < rate(here) / rate(without) <= 1
    assert rate(here) == pytest.approx(Charged().measure(here, seed=1).numbers["rate"], rel=0.01)
    published = Charged().measure(msgspec.structs.replace(here, settings={"published": True}), seed=1)
    assert EQUATIONS["meshjoin c_loop"](here) == pytest.approx(published.numbers["c_loop"], rel=0.01)


def test_where_keys_repeat_the_equations_charge_for_each_result():
    here = Point(
        machine="meshjoin-icde2007",
        R={"of": "repeating", "rows": 20_000, "domain": 4_000, "skew_of_R": 0.8},
        sales=Sales(skew=0.5),
        join="meshjoin",
        settings={"published": True},
        memory="1 MB",
        warm_up=WarmUp(cycles=2),
    )
    tells = Charged().measure(here, seed=1)
    assert tells.numbers["matched"] > 5 * tells.numbers["sales"]
    assert EQUATIONS["meshjoin rate"](here) == pytest.approx(tells.numbers["rate"], rel=0.03)
