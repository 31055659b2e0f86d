"""A range read again brings what the tables lack, once, and never what the job has still to write: on real servers."""

from __future__ import annotations

import json
from datetime import datetime, timezone

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from pipeline.errors import BadSetting, TopicChanged, WarehouseRefused
from pipeline.laptop.stack.stack import Stack
from pipeline.reentry.entrance import Entrance
from pipeline.warehouse.log import TableLog
from pipeline.warehouse.warehouse import TwoStepWarehouse
from tests.reentry.reentry_world import World, before, offsets, sale


@pytest.fixture
def full(world: World) -> World:
    """Ten messages, two of them no sales, of which the job has committed eight."""
    world.send(*(b"{" if n in (2, 6) else sale(n) for n in range(10)))
    world.batch(0, 0, 4)
    world.batch(1, 4, 8)
    return world


def from_offset(world: World, offset: int) -> str:
    return json.dumps({world.topic: {"0": offset}})


def test_facts_that_were_deleted_come_again_with_their_master_rows_and_nothing_else_does(full: World) -> None:
    before_, rejects = full.facts, full.rejects
    full.delete_facts("offset = 1 OR offset = 5")
    said = full.backfill()
    assert said == [f"{full.topic}/0 offsets 0 to 7: 2 in neither table, 2 facts and 0 rejects written"]
    assert full.facts == [row | {"batch": -1} if row["offset"] in (1, 5) else row for row in before_]
    assert full.rejects == rejects
    assert full.backfill() == [f"{full.topic}/0 offsets 0 to 7: 0 in neither table, 0 facts and 0 rejects written"]


def test_what_the_job_never_read_before_its_beginning_becomes_facts_and_rejects(world: World) -> None:
    world.send(*(b"{" if n in (2, 6) else sale(n) for n in range(8)))
    world.batch(0, 4, 8)
    assert offsets(world.facts) == [4, 5, 7]
    world.backfill()
    assert (offsets(world.facts), offsets(world.rejects)) == ([0, 1, 3, 4, 5, 7], [2, 6])
    verdict = world.verdict()
    assert verdict.ok, str(verdict)


def test_a_range_is_given_by_offsets_or_moments_and_ends_where_the_job_does(full: World) -> None:
    full.delete_facts("true")
    full.backfill(from_offset(full, 3), until=from_offset(full, 5), dry_run=True)
    assert offsets(full.facts) == []
    full.backfill(from_offset(full, 3), until=from_offset(full, 5))
    assert offsets(full.facts) == [3, 4]
    late = datetime.now(timezone.utc).isoformat()
    assert full.backfill(late) == ["nothing to read: the job has committed nothing of that range"]
    full.backfill("2026-01-01", until=late)
    assert offsets(full.facts) == [0, 1, 3, 4, 5, 7]
    full.backfill(from_offset(full, 0), until=from_offset(full, 10))
    assert offsets(full.facts) == [0, 1, 3, 4, 5, 7], "8 and 9 are the job's"


def test_of_a_batch_whose_rejects_are_still_to_be_committed_nothing_is_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.send(*(b"{" if n in (2, 6) else sale(n) for n in range(8)))
    world.batch(0, 0, 4)
    job = world.warehouse()
    with monkeypatch.context() as dying:
        dying.setattr(TwoStepWarehouse, "_complete", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            world.batch(1, 4, 8, job)
    assert (offsets(world.facts), offsets(world.rejects)) == ([0, 1, 3, 4, 5, 7], [2])
    world.backfill()
    assert offsets(world.rejects) == [2]
    world.warehouse()  # the next start completes it
    assert offsets(world.rejects) == [2, 6]
    assert world.verdict().ok


def test_killed_between_facts_and_rejects_the_next_one_completes_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.send(*(b"{" if n in (2, 6) else sale(n) for n in range(8)))
    world.batch(0, 7, 8)
    with monkeypatch.context() as dying:
        dying.setattr(TwoStepWarehouse, "_complete", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            world.backfill()
    assert offsets(world.rejects) == []
    world.backfill()
    assert (offsets(world.facts), offsets(world.rejects)) == ([0, 1, 3, 4, 5, 7], [2, 6])
    assert world.verdict().ok


def test_ended_after_some_pieces_it_goes_on_with_the_others(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.send(*(sale(n) for n in range(9)))
    world.batch(0, 8, 9)
    small = world.under("worker.window_sales=3")
    walk, walked = Entrance.walk, []

    def second_dies(self: Entrance, turn, messages):
        walked.append(len(messages))
        if len(walked) == 2:
            raise KeyboardInterrupt
        return walk(self, turn, messages)

    with monkeypatch.context() as dying:
        dying.setattr(Entrance, "walk", second_dies)
        with pytest.raises(KeyboardInterrupt):
            small.backfill()
    assert offsets(world.facts) == [0, 1, 2, 8]
    small.backfill()
    assert offsets(world.facts) == list(range(9))


@pytest.mark.parametrize("moment", ["walk", "enter"])
def test_of_two_at_once_each_message_is_written_by_one(
    full: World, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    full.delete_facts("offset < 6")
    with before(monkeypatch, Entrance, moment, full.backfill):
        full.backfill()
    assert offsets(full.facts) == [0, 1, 3, 4, 5, 7]


def test_a_reject_that_becomes_a_fact_while_both_tables_are_looked_at_is_not_taken_for_absent(
    full: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    full.send(sale(10, currency="eur"))
    full.batch(2, 8, 11)
    world = full.mended(currency={"pattern": "^[A-Za-z]{3}$"})
    refresh, looks = TableLog.refresh, []

    def late(log: TableLog) -> None:
        if log.uri.endswith("sales_rejects"):
            looks.append(log)
            if len(looks) == 2:  # the first is to see how far the job is; now the facts have been looked at
                world.replay()
        refresh(log)

    with monkeypatch.context() as between:
        between.setattr(TableLog, "refresh", late)
        world.backfill(from_offset(world, 9))
    assert offsets(world.facts) == [0, 1, 3, 4, 5, 7, 8, 9, 10]


def test_what_neither_tables_nor_kafka_have_is_refused_with_its_offsets(full: World, stack: Stack) -> None:
    full.delete_facts("offset = 1 OR offset = 5")
    admin = AdminClient({"bootstrap.servers": stack.kafka.bootstrap})
    next(iter(admin.delete_records([TopicPartition(full.topic, 0, 3)]).values())).result(30)
    with pytest.raises(TopicChanged, match=r"offsets 1 to 1 are in neither table, and Kafka has deleted all before 3"):
        full.backfill(from_offset(full, 0))
    assert offsets(full.facts) == [0, 3, 4, 7]
    full.backfill()  # the earliest there is
    assert offsets(full.facts) == [0, 3, 4, 5, 7]


def test_wishes_that_cannot_be_met_are_refused_by_name(full: World) -> None:
    for given, what in (
        ("yesterday", "--from 'yesterday' must be a moment"),
        ('{"t": {"0": -1}}', "none of them negative"),
        ('{"other": {"0": 1}}', "other: the job millrace has committed nothing of it"),
    ):
        with pytest.raises(BadSetting, match=what):
            full.backfill(given)
    with pytest.raises(WarehouseRefused, match="it has no batch of it"):
        full.under("job.name=another").backfill()
