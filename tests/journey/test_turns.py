"""Several dimensions of one window: their joins take turns, and the server works for one while another is probed."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pipeline import columns
from pipeline.config.settings import load
from pipeline.enrich import Dimension, enrich
from pipeline.errors import MasterReadFailed
from pipeline.joins import make
from pipeline.master.memory import MemoryMaster
from pipeline.plan import resolve

NAMES = ("product", "customer", "store")
SALES, MILLION = 3_000, 1_000_000


@dataclass
class Told:
    """A look-up under way that tells when its answer is wanted."""

    name: str
    asked: Any
    events: list[str]

    def answer(self) -> pa.Table:
        self.events.append(f"wait for {self.name}")
        return self.asked.answer()

    def abandon(self) -> None:
        self.events.append(f"abandon {self.name}")


class TellingMaster(MemoryMaster):
    """Tells when it is asked, and when its answers are waited for."""

    name = ""
    events: list[str]

    def begin_lookup(self, keys: pa.Array) -> Told:
        self.events.append(f"ask {self.name}")
        return Told(self.name, super().begin_lookup(keys), self.events)


@pytest.fixture
def events() -> list[str]:
    return []


def dimension(name: str, events: list[str], join: str = "fetch", rows: int = 100, times: int = 1) -> Dimension:
    """So many keys, each with a surrogate key a million higher, or several."""
    contract = resolve(load(environment={})).dimensions[name]
    keys = [n if contract.key_type == pa.int64() else str(n).encode() for n in range(rows)]
    table = {
        "key": pa.array(keys * times, contract.key_type),
        "surrogate_key": pa.array([MILLION * (1 + more) + n for more in range(times) for n in range(rows)], pa.int64()),
        "updated_at": pa.array([0] * rows * times, pa.timestamp("us", tz="UTC")),
        **{attribute: pa.array(["x"] * rows * times) for attribute in contract.attributes},
    }
    master = TellingMaster(pa.table(table), unique=times == 1)
    master.name, master.events = name, events
    return Dimension(contract, make(join, master, 1 << 20))


def sales(count: int = SALES) -> pa.Table:
    """A third of them want a key that no master has."""
    wanted = np.arange(count) % 150
    wanted[wanted >= 100] += MILLION
    texts = pa.array(wanted.astype(str).tolist())
    return pa.table(
        {
            columns.TIMESTAMP: pa.array(np.zeros(count, np.int64), pa.timestamp("us", tz="UTC")),
            columns.of_sale("product_code"): texts,
            columns.of_sale("customer_number"): pa.array(wanted),
            columns.of_sale("store_code"): texts,
        }
    )


def keys_of(table: pa.Table, name: str) -> list[int]:
    return table[columns.of_dimension(name, columns.SURROGATE_KEY)].to_pylist()


def expected(count: int = SALES) -> list[int]:
    return [MILLION + n % 150 if n % 150 < 100 else columns.UNKNOWN_MEMBER for n in range(count)]


def enriched(dimensions: list[Dimension], count: int = SALES) -> list[pa.Table]:
    return list(enrich(sales(count), dimensions, load(environment={}).worker))


@pytest.mark.parametrize("join", ["fetch", "auto"])
def test_all_dimensions_have_asked_before_the_first_waits_for_an_answer(events, join):
    [window] = enriched([dimension(name, events, join, rows=50_000) for name in NAMES])
    waits = [at for at, event in enumerate(events) if event.startswith("wait")]
    assert {f"ask {name}" for name in NAMES} <= set(events[: waits[0]])
    assert [keys_of(window, name) for name in NAMES] == [expected()] * 3


@pytest.mark.parametrize("joins", [("inlj", "fetch", "meshjoin"), ("hybridjoin", "auto", "r-meshjoin")])
@pytest.mark.parametrize("count", [0, 1, SALES])
def test_any_joins_take_turns_and_each_sale_has_the_keys_of_all(events, joins, count):
    dimensions = [dimension(name, events, join) for name, join in zip(NAMES, joins, strict=True)]
    for _ in range(2):  # windows
        [window] = enriched(dimensions, count)
        assert [keys_of(window, name) for name in NAMES] == [expected(count)] * 3
        assert not any(each.join.pending for each in dimensions)


def test_a_dimension_whose_keys_repeat_comes_behind_those_that_took_turns(events):
    repeats = dimension("product", events, "meshjoin", times=3)
    pieces = enriched([repeats, dimension("customer", events), dimension("store", events)])
    window = pa.concat_tables(pieces)
    assert len(window) == sum(3 if key > 0 else 1 for key in expected())
    assert keys_of(window, "customer") == keys_of(window, "store")
    for product, customer in zip(keys_of(window, "product"), keys_of(window, "customer"), strict=True):
        assert product == customer == columns.UNKNOWN_MEMBER or product % MILLION == customer % MILLION
    found = [key for key in expected() if key > 0]
    assert sorted(key for key in keys_of(window, "product") if key > 0) == sorted(
        key + more for key in found for more in (0, MILLION, 2 * MILLION)
    )


def test_when_a_dimension_fails_the_others_questions_are_abandoned(events):
    dimensions = [dimension(name, events, rows=50_000) for name in NAMES]
    dimensions[2].join.master.fail_on = 1
    with pytest.raises(MasterReadFailed, match="lookup number 1 failed"):
        enriched(dimensions)
    del dimensions
    gc.collect()
    asked, ended = events[:3], events[3:]
    assert asked == [f"ask {name}" for name in NAMES]
    assert sorted(ended) == ["abandon customer", "abandon product"]


def test_a_dimension_counts_its_own_time_and_not_the_others(events):
    dimensions = [dimension(name, events) for name in NAMES]
    enriched(dimensions)
    told = [each.answer() for each in dimensions]
    assert all(each.seconds > 0 and each.counts.offered == SALES for each in told)
