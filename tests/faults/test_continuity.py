"""A start that would leave sales out, or write them twice, is refused: on what a real job left behind."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from pipeline.config.settings import Settings, load
from pipeline.driver import continuity
from pipeline.driver.checkpoint import Checkpoint
from pipeline.driver.origin import Origin
from pipeline.driver.progress import SeenProgress
from pipeline.driver.session import open_session
from pipeline.driver.topics import Topics
from pipeline.errors import TopicChanged, WarehouseRefused
from pipeline.generate.keys import Sizes
from pipeline.generate.run import generate
from pipeline.generate.workload import Workload
from pipeline.laptop.stack.stack import Stack, StackInfo
from pipeline.plan import resolve
from pipeline.warehouse import places
from pipeline.warehouse.warehouse import make_warehouse
from tests.kit.running import Job

SALES = 6_000
TOPIC = "sales-continuity"


@dataclass(frozen=True)
class Stream:
    """Checkpoint and tables of a job that has ended, copied for one test."""

    folder: Path
    settings: Settings

    def log_of(self, table: str) -> list[Path]:
        return sorted((self.folder / "warehouse" / table / "_delta_log").glob("*.json"))

    def note(self, kind: str, batch: int) -> Path:
        return self.folder / "checkpoint" / kind / str(batch)

    @property
    def last(self) -> int:
        return max(int(file.name) for file in (self.folder / "checkpoint" / "commits").glob("[0-9]*"))

    def forget(self, kind: str, batch: int) -> None:
        self.note(kind, batch).unlink()


@pytest.fixture(scope="session")  # a worker that steals tests may come back to this module
def ended(tmp_path_factory: pytest.TempPathFactory, seeded: StackInfo, seeded_sizes: Sizes) -> Job:
    """Three batches, each with facts and rejects."""
    workload = Workload(topics={TOPIC: 1.0}, sizes=seeded_sizes, malformed=0.1)
    generate(bootstrap=seeded.bootstrap, workload=workload, messages=SALES, partitions=2, progress=False)
    limits = {"job.max_offsets_per_trigger": "2000", "job.trigger": "available-now"}
    job = Job(tmp_path_factory.mktemp("ended"), seeded, TOPIC, **limits)
    job.start()
    assert job.wait() == 0, job.tail()
    assert job.committed() + job.committed("sales_rejects") == SALES
    return job


@pytest.fixture
def stream(ended: Job, tmp_path: Path) -> Stream:
    shutil.copytree(ended.folder, tmp_path, dirs_exist_ok=True)
    own = {"job.checkpoint": str(tmp_path / "checkpoint"), "warehouse.path": str(tmp_path / "warehouse")}
    return Stream(tmp_path, load(None, [f"{name}={value}" for name, value in (ended.settings | own).items()], {}))


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = open_session(Settings())
    yield session
    session.stop()


@pytest.fixture
def start(spark: SparkSession) -> Callable[[Settings], Origin]:
    """What `millrace run` asks before its first batch."""

    def ask(settings: Settings) -> Origin:
        plan = resolve(settings)
        warehouse = make_warehouse(settings.warehouse, plan.facts, [plan.rejects], settings.job.name, spark)
        checkpoint = Checkpoint(spark, settings.job.checkpoint)
        seen = SeenProgress(places.checkpoint(settings))  # what `millrace doctor` goes by
        assert (seen.done, seen.planned, seen.id()) == (checkpoint.done, checkpoint.planned, checkpoint.id())
        assert seen.ends(seen.done) == checkpoint.ends(seen.done)
        origin = continuity.require(checkpoint, settings, warehouse)
        continuity.require_topics(checkpoint, warehouse, Topics(settings.kafka), origin)
        return origin

    return ask


def facts_deleted(stream: Stream) -> None:
    shutil.rmtree(stream.folder / "warehouse" / "fact_sales")


def both_tables_deleted(stream: Stream) -> None:
    shutil.rmtree(stream.folder / "warehouse")


def both_tables_one_batch_older(stream: Stream) -> None:
    for table in ("fact_sales", "sales_rejects"):
        stream.log_of(table)[-1].unlink()


def facts_one_batch_older(stream: Stream) -> None:
    stream.log_of("fact_sales")[-1].unlink()


def facts_restored_by_delta(stream: Stream) -> None:
    table = DeltaTable(str(stream.folder / "warehouse" / "fact_sales"))
    table.restore(table.version() - 1)


def rejects_deleted(stream: Stream) -> None:
    shutil.rmtree(stream.folder / "warehouse" / "sales_rejects")


def rejects_two_batches_older(stream: Stream) -> None:
    for entry in stream.log_of("sales_rejects")[-2:]:
        entry.unlink()


def rejects_restored_by_delta(stream: Stream) -> None:
    table = DeltaTable(str(stream.folder / "warehouse" / "sales_rejects"))
    table.restore(1)


def checkpoint_deleted(stream: Stream) -> None:
    shutil.rmtree(stream.folder / "checkpoint")


def checkpoint_two_batches_older(stream: Stream) -> None:
    last = stream.last
    for batch in (last, last - 1):
        for kind in ("commits", "offsets"):
            stream.forget(kind, batch)


def checkpoint_with_a_hole(stream: Stream) -> None:
    last = stream.last
    for batch in (last, last - 1):
        stream.forget("commits", batch)


def checkpoint_of_another_stream(stream: Stream) -> None:
    identity = stream.folder / "checkpoint" / "metadata"
    identity.write_text(json.dumps({"id": "00000000-0000-0000-0000-000000000000"}))


def checkpoint_whose_last_batch_another_job_put_down(stream: Stream) -> None:
    planned = stream.note("offsets", stream.last)
    *head, ends = planned.read_text().splitlines()
    shorter = {topic: {part: end - 7 for part, end in parts.items()} for topic, parts in json.loads(ends).items()}
    planned.write_text("\n".join([*head, json.dumps(shorter)]))


def rejects_of_another_stream(stream: Stream) -> None:
    identity = json.loads((stream.folder / "checkpoint" / "metadata").read_text())["id"]
    newest = stream.log_of("sales_rejects")[-1]
    newest.write_text(newest.read_text().replace(identity, "00000000-0000-0000-0000-000000000000"))


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (rejects_of_another_stream, "sales_rejects was last written by .* two streams under one name"),
        (checkpoint_whose_last_batch_another_job_put_down, "ends that batch before .*two jobs have used it"),
        (both_tables_deleted, "has none of its batches.*millrace rewind"),
        (both_tables_one_batch_older, "has them only up to 1.*millrace rewind"),
        (facts_deleted, "sales_rejects has batch 2.*fact_sales only up to none"),
        (facts_one_batch_older, "sales_rejects has batch 2.*fact_sales only up to 1"),
        (facts_restored_by_delta, "RESTORE to version 2 in version 4"),
        (rejects_deleted, "sales_rejects lacks batch 1"),
        (rejects_two_batches_older, "sales_rejects lacks batch 1"),
        (rejects_restored_by_delta, "sales_rejects: RESTORE to version 1"),
        (checkpoint_deleted, "already has batch 2.*the checkpoint .* is empty.*kafka.starting_offsets = '{\"sales"),
        (checkpoint_two_batches_older, "knows batches up to 0 only"),
        (checkpoint_with_a_hole, "done up to 0, but planned up to 2"),
        (checkpoint_of_another_stream, "two streams under one name"),
    ],
)
def test_a_start_that_would_leave_sales_out_is_refused_with_the_way_on(damage, says: str, stream, start) -> None:
    assert start(stream.settings).ends.keys() == {TOPIC}
    damage(stream)
    with pytest.raises(WarehouseRefused, match=says):
        start(stream.settings)


def test_another_job_name_on_the_same_checkpoint_is_refused(stream, start) -> None:
    renamed = replace(stream.settings, job=replace(stream.settings.job, name="another"))
    with pytest.raises(WarehouseRefused, match=r"has none of its batches.*job\.name"):
        start(renamed)


def last_batch_committed_but_not_noted_as_done(stream: Stream) -> None:
    stream.forget("commits", stream.last)


def last_batch_planned_only(stream: Stream) -> None:
    both_tables_one_batch_older(stream)
    stream.forget("commits", stream.last)


def last_rejects_not_yet_committed(stream: Stream) -> None:
    stream.log_of("sales_rejects")[-1].unlink()


def facts_restored_and_brought_back(stream: Stream) -> None:
    table = DeltaTable(str(stream.folder / "warehouse" / "fact_sales"))
    version = table.version()
    table.restore(version - 1)
    table.restore(version)


@pytest.mark.parametrize(
    "state",
    [
        last_batch_committed_but_not_noted_as_done,
        last_batch_planned_only,
        last_rejects_not_yet_committed,
        facts_restored_and_brought_back,
    ],
)
def test_what_a_crash_leaves_behind_is_gone_on_from(state, stream, start) -> None:
    state(stream)
    assert start(stream.settings).ends.keys() == {TOPIC}


def test_a_topic_that_was_deleted_and_created_again_is_refused_by_its_two_ids(
    stream, start, stack: Stack, seeded: StackInfo, seeded_sizes: Sizes
) -> None:
    known = start(stream.settings).topics[TOPIC]
    again = f"{TOPIC}-again"
    stack.kafka.create_topic(again, 2)
    other = Topics(replace(stream.settings.kafka, topics=(again,))).ids()[again]
    assert known != other
    origin = start(stream.settings)
    with pytest.raises(
        TopicChanged, match=f"deleted and created again.*id {re.escape(other)}.*now has id {re.escape(known)}"
    ):
        continuity.topic_checks.require_same(Topics(stream.settings.kafka), _with_id(origin, other))


def _with_id(origin: Origin, topic_id: str) -> Origin:
    origin.topics = {TOPIC: topic_id}
    return origin


def test_without_ids_the_newest_message_read_tells_one_topic_from_another(stream, start, monkeypatch) -> None:
    monkeypatch.setattr(Topics, "ids", lambda self: {})  # a broker older than topic ids
    origin = start(stream.settings)
    place, newest = next(iter(origin.newest.items()))
    origin.newest[place] = replace_sent(newest, newest.sent + 1_000)
    with pytest.raises(TopicChanged, match=f"its message at {place}@{newest.offset} was sent at .* the broker's at"):
        continuity.topic_checks.require_same(Topics(stream.settings.kafka), origin)


def replace_sent(newest, sent: int):
    return type(newest)(newest.offset, sent)


def test_a_topic_that_lost_its_newest_messages_is_refused(stream, start) -> None:
    origin = start(stream.settings)
    beyond = {TOPIC: {part: end + 5 for part, end in origin.ends[TOPIC].items()}}
    with pytest.raises(TopicChanged, match="was read up to"):
        continuity.topic_checks.require_present(Topics(stream.settings.kafka), beyond, origin)
