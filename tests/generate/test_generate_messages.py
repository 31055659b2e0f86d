"""The messages: valid ones against the contract's own JSON Schema, spoilt ones against a strict reading of it."""

import json
from itertools import islice

import jsonschema
import numpy as np
import pytest

from pipeline.errors import BadSetting
from pipeline.generate import malformed
from pipeline.generate.draws import NEAR, NONE, Drawer, Draws
from pipeline.generate.keys import (
    CUSTOMER,
    DIMENSIONS,
    PRODUCT,
    STORE,
    Sizes,
    customer_numbers,
    product_codes,
    store_codes,
)
from pipeline.generate.sales import Messages, SaleWriter
from pipeline.generate.sent import Sent, SentToTopic
from pipeline.generate.workload import Workload
from tests.kit.strict_reader import CONTRACT, strictly_read

SIZES = Sizes(products=300, customers=200, stores=20)
MIXED = Workload(
    topics={"shops": 3.0, "web": 1.0}, sizes=SIZES, malformed=0.1, unknown=0.1, null_keys=0.1, duplicates=0.2
)


def drawn(workload: Workload, messages: int) -> Draws:
    blocks = list(islice(Drawer(workload), -(-messages // 10_000)))
    draws = blocks[0]
    for block in blocks[1:]:
        draws = draws.followed_by(block)
    return draws.take(slice(messages))


def written(workload: Workload, draws: Draws, pieces: int = 1) -> Messages:
    writer, sold_at = SaleWriter(workload), 1_760_000_000_000_000 + 3 * np.arange(len(draws))
    values, keys = [], []
    for places in np.array_split(np.arange(len(draws)), pieces):
        messages = writer.write(draws.take(places), sold_at[places])
        values += messages.values
        keys += messages.keys or []
    return Messages(values, keys or None)


@pytest.fixture(scope="module")
def mixed() -> tuple[Draws, list[bytes | None]]:
    draws = drawn(MIXED, 30_000)
    return draws, written(MIXED, draws).values


def test_every_well_formed_message_keeps_the_contract(mixed) -> None:
    draws, values = mixed
    for place in np.flatnonzero(draws.malformed == NONE)[:3_000]:
        strictly_read(values[place])


@pytest.mark.parametrize("kind", malformed.NAMES)
def test_every_kind_of_malformed_message_breaks_the_contract(kind: str) -> None:
    workload = Workload(sizes=SIZES)
    [sale] = written(workload, drawn(workload, 1)).values
    spoilt = malformed.spoil(malformed.NAMES.index(kind), sale, oversized_bytes=5_000_000)
    assert spoilt != sale
    strictly_read(sale)
    with pytest.raises((ValueError, jsonschema.ValidationError)):
        strictly_read(spoilt)


def test_an_oversized_message_has_the_size_asked_for_and_is_json() -> None:
    workload = Workload(sizes=SIZES, oversized=1.0, oversized_bytes=2_000_000)
    [message] = written(workload, drawn(workload, 1)).values
    assert len(message) == 2_000_000
    assert set(json.loads(message)) == {*CONTRACT["required"], "padding"}


def test_malformed_messages_go_through_all_kinds_before_one_comes_again(mixed) -> None:
    kinds = mixed[0].malformed[mixed[0].malformed != NONE]
    assert len(kinds) > 2 * len(malformed.CYCLE)
    assert kinds.tolist() == [place % len(malformed.CYCLE) for place in range(len(kinds))]


def test_shares_are_what_was_asked_for(mixed) -> None:
    draws, _ = mixed
    assert (draws.malformed != NONE).mean() == pytest.approx(0.1, abs=0.01)
    assert draws.duplicate.mean() == pytest.approx(0.2, abs=0.01)
    originals = draws.take(draws.original)
    assert (originals.unknown != NONE).sum() / len(draws) == pytest.approx(0.1, abs=0.01)
    assert (originals.null != NONE).sum() / len(draws) == pytest.approx(0.1, abs=0.01)
    assert (draws.topic == 1).mean() == pytest.approx(0.25, abs=0.01)


def test_exactly_the_keys_called_unknown_are_not_in_the_master_tables(mixed) -> None:
    draws, values = mixed
    products, stores = (
        set(codes(np.arange(size)).to_pylist()) for codes, size in ((product_codes, 300), (store_codes, 20))
    )
    masters = (products, set(customer_numbers(np.arange(200)).tolist()), stores)
    fields = ("product_code", "customer_number", "store_code")
    for place in np.flatnonzero(draws.malformed == NONE):
        sale = json.loads(values[place])
        for dimension, (field, master) in enumerate(zip(fields, masters, strict=True)):
            if draws.null[place] == dimension:
                assert sale[field] is None
            else:
                assert (sale[field] in master) == (draws.unknown[place] != dimension)


def test_some_unknown_codes_differ_from_a_known_one_only_as_a_collation_ignores(mixed) -> None:
    draws, values = mixed
    seen = {json.loads(values[place])["product_code"] for place in np.flatnonzero(draws.unknown == PRODUCT)}
    known = set(product_codes(np.arange(300)).to_pylist())
    assert any(code not in known and code.upper() in known for code in seen)
    assert any(code.endswith(" ") and code.rstrip() in known for code in seen)


@pytest.mark.parametrize("dimension", [PRODUCT, CUSTOMER, STORE], ids=DIMENSIONS)
def test_every_dimension_has_its_part_of_unknown_and_of_null_keys(mixed, dimension: int) -> None:
    for column in (mixed[0].unknown, mixed[0].null):
        assert (column == dimension).sum() / (column != NONE).sum() == pytest.approx(1 / 3, abs=0.05)


def test_a_duplicate_is_an_earlier_message_of_its_topic_byte_for_byte(mixed) -> None:
    draws, values = mixed
    for topic in (0, 1):
        originals: list[bytes | None] = []
        for place in np.flatnonzero(draws.topic == topic):
            if draws.duplicate[place]:
                assert values[place] in originals[-NEAR:]
            elif draws.original[place]:
                originals.append(values[place])


def test_only_duplicates_share_a_sale_id(mixed) -> None:
    draws, values = mixed
    ids = [json.loads(values[place])["sale_id"] for place in np.flatnonzero(draws.original)]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("pieces", [7, 1_000])
def test_messages_do_not_depend_on_where_the_stream_is_cut(mixed, pieces: int) -> None:
    draws, values = mixed
    assert written(MIXED, draws, pieces).values == values


def test_the_same_seed_gives_the_same_messages_and_another_seed_others() -> None:
    one, again, other = (
        written(workload, drawn(workload, 500)).values
        for workload in (MIXED, MIXED, Workload(**{**MIXED.__dict__, "seed": 2}))
    )
    assert one == again
    assert not set(one) & set(other) - {malformed.spoil(kind, b"", 0) for kind in range(len(malformed.CYCLE))}


def test_a_run_that_goes_on_has_other_sales_with_numbers_of_their_own() -> None:
    first = written(Workload(sizes=SIZES), drawn(Workload(sizes=SIZES), 1_000)).values
    later = Workload(sizes=SIZES, first_sale=1_000)
    second = written(later, drawn(later, 1_000)).values
    sales = [json.loads(message) for message in (*first, *second)]
    assert len({sale["sale_id"] for sale in sales}) == 2_000
    assert [sale["product_code"] for sale in sales[:1_000]] != [sale["product_code"] for sale in sales[1_000:]]


def test_a_share_turns_messages_and_leaves_the_others_as_they_were() -> None:
    clean = Workload(sizes=SIZES)
    spoilt = Workload(sizes=SIZES, malformed=0.05, null_keys=0.05)
    draws = drawn(spoilt, 2_000)
    untouched = np.flatnonzero((draws.malformed == NONE) & (draws.null == NONE))
    before, after = written(clean, drawn(clean, 2_000)).values, written(spoilt, draws).values
    assert len(untouched) < 2_000
    assert all(before[place] == after[place] for place in untouched)


def test_frequent_products_lie_at_the_beginning_unless_they_are_scattered() -> None:
    sorted_, scattered = (
        drawn(Workload(sizes=Sizes(10_000, 10, 10), skew="80/20", scatter=scatter), 20_000).rows[:, PRODUCT]
        for scatter in (False, True)
    )
    assert (sorted_ < 2_000).mean() == pytest.approx(0.8, abs=0.02)
    assert (scattered < 2_000).mean() < 0.5
    counts = [np.sort(np.bincount(rows, minlength=10_000)) for rows in (sorted_, scattered)]
    assert counts[0].tolist() == counts[1].tolist()


def test_the_kafka_key_is_the_store_as_the_message_has_it() -> None:
    workload = Workload(sizes=SIZES, keyed=True, unknown=0.3, null_keys=0.3)
    messages = written(workload, drawn(workload, 2_000))
    assert messages.keys is not None
    for value, key in zip(messages.values, messages.keys, strict=True):
        assert json.loads(value)["store_code"] == (None if key is None else key.decode())
    assert messages.keys.count(None) > 100


def test_the_report_counts_each_sort_of_message(mixed) -> None:
    draws, values = mixed
    sent = SentToTopic()
    for places in np.array_split(np.arange(len(draws)), 13):
        sent.add(draws.take(places))
    well_formed = [json.loads(values[place]) for place in np.flatnonzero(draws.malformed == NONE)]
    assert (sent.messages, sent.valid) == (30_000, len(well_formed))
    assert sum(sent.malformed.values()) == 30_000 - len(well_formed)
    assert sent.null["store"] == sum(sale["store_code"] is None for sale in well_formed)
    assert sent.duplicates == len(well_formed) - len({sale["sale_id"] for sale in well_formed})


def test_a_report_is_read_back_as_it_was_written(tmp_path, mixed) -> None:
    sent = Sent({"seed": 1}, messages=30_000, topics={"shops": SentToTopic()})
    sent.topics["shops"].add(mixed[0])
    sent.write(tmp_path / "made" / "report.json")
    assert Sent.read(tmp_path / "made" / "report.json") == sent


@pytest.mark.parametrize(
    "wrong",
    [
        {"malformed": 0.6, "duplicates": 0.6},
        {"unknown": -0.1},
        {"topics": {}},
        {"topics": {"sales": 0.0}},
        {"sizes": Sizes(0, 1, 1)},
        {"seed": -1},
    ],
)
def test_a_workload_that_makes_no_sense_is_refused(wrong: dict) -> None:
    with pytest.raises(BadSetting):
        Workload(**wrong)
