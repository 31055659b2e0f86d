"""What a broker may say of a partition, where a real one cannot be made to say it on demand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pipeline.errors import BadSetting, CorruptMessages, TopicChanged
from pipeline.kafka.client import client_of
from pipeline.kafka.cluster import Cluster
from pipeline.kafka.fetches import NotYet, Rest, request, taken
from pipeline.kafka.ranges import Range
from tests.kit import record_batches as made


def said(records: bytes | None = None, **more: object) -> SimpleNamespace:
    usual = {"error_code": 0, "log_start_offset": 0, "high_watermark": 100, "last_stable_offset": 90}
    return SimpleNamespace(**{**usual, "records": records, "aborted_transactions": None, **more})


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(client_of("kafka:1", {}))


@pytest.fixture
def rest() -> Rest:
    return Rest(Range("sales", 3, 40, 60), 50)


def test_a_log_that_begins_later_by_now_is_a_loss_even_if_the_broker_gives_what_comes_then(cluster, rest) -> None:
    behind = made.batch(55, [(0, 1, b"x")])
    with pytest.raises(TopicChanged, match="sales/3 offsets 50 to 54"):
        taken(rest, said(behind, log_start_offset=55), cluster)


def test_what_the_broker_finds_damaged_or_does_not_allow_is_told_at_once(cluster, rest) -> None:
    with pytest.raises(CorruptMessages, match=r"sales/3: the broker itself finds .* offset 50 on damaged"):
        taken(rest, said(error_code=2), cluster)
    with pytest.raises(BadSetting, match="does not let this client read topic sales"):
        taken(rest, said(error_code=29), cluster)


@pytest.mark.parametrize("code", [3, 5, 6, 9, 56, 74, 75, 76, 78, 999])
def test_a_leader_that_is_none_any_more_is_looked_for_again(cluster, rest, code: int) -> None:
    with pytest.raises(NotYet, match="sales/3: ") as error:
        taken(rest, said(error_code=code), cluster)
    assert not error.value.leads
    assert rest.first == 50


def test_an_answer_in_which_others_took_the_room_is_no_trouble(cluster, rest) -> None:
    assert taken(rest, said(), cluster) is None
    assert rest.ends_at is None


def test_what_is_not_committed_yet_is_not_there_for_who_reads_only_that(rest) -> None:
    committed = Cluster(client_of("kafka:1", {"isolation.level": "read_committed"}))
    assert request([rest], committed, 1 << 20).isolation_level == 1
    with pytest.raises(NotYet, match="ends at offset 45"):
        taken(rest, said(last_stable_offset=45), committed)
    assert rest.ends_at == 45
    everything = Cluster(client_of("kafka:1", {}))
    assert taken(rest, said(last_stable_offset=45), everything) is None


def test_batches_that_end_before_what_was_asked_for_would_never_end(cluster, rest) -> None:
    with pytest.raises(CorruptMessages, match="ends before it"):
        taken(rest, said(made.batch(40, [(0, 1, b"x")])), cluster)


def test_what_came_moves_the_rest_on_and_tells_how_much_to_ask_for(cluster, rest) -> None:
    records = made.batch(50, [(n, 1, bytes(10_000)) for n in range(5)])
    came = taken(rest, said(records), cluster)
    assert came is not None
    assert (came.first, came.end, rest.first) == (50, 60, 55)
    [[part]] = [topic.partitions for topic in request([rest], cluster, 1 << 20).topics]
    assert part.fetch_offset == 55
    assert 50_000 < part.partition_max_bytes < 80_000
    [[bounded]] = [
        topic.partitions for topic in request([Rest(Range("sales", 3, 0, 1 << 40), 55)], cluster, 1 << 20).topics
    ]
    assert bounded.partition_max_bytes == 1 << 20
