"""The doctor on real servers: a healthy job is all well, and each thing that is broken for real has its line."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable

from pipeline import cli
from pipeline.config.settings import load
from pipeline.doctor import kafka, machine, master, stream, warehouse
from pipeline.doctor.examine import examine
from pipeline.doctor.findings import Check, Finding, ok
from pipeline.driver.origin import Origin
from pipeline.driver.progress import Progress
from pipeline.errors import WarehouseRefused
from pipeline.laptop.stack.ports import LOOPBACK
from pipeline.laptop.stack.stack import Stack, StackInfo
from pipeline.plan import Plan, resolve
from pipeline.warehouse.port import Batch
from pipeline.warehouse.warehouse import make_warehouse


@dataclass
class Told:
    """What the doctor said, and how it ended."""

    code: int
    lines: list[dict[str, str]]
    text: str

    def of(self, check: str, level: str) -> str:
        """All that a check found at a level."""
        found = [f"{a['what']}. {a['remedy']}" for a in self.lines if (a["check"], a["level"]) == (check, level)]
        assert found, f"nothing of {check} is {level}:\n{self.text}"
        return "\n".join(found)

    def checks(self, level: str) -> set[str]:
        return {line["check"] for line in self.lines if line["level"] == level}


@dataclass
class Job:
    """The settings of a job that has not run yet."""

    stack: StackInfo
    topic: str
    folder: Path
    capsys: pytest.CaptureFixture[str]
    more: dict[str, str] = field(default_factory=dict)

    @property
    def assignments(self) -> list[str]:
        at, reader = self.stack, self.stack.reader
        own = {
            "kafka.bootstrap": at.bootstrap, "kafka.topics": self.topic,
            "master.host": at.host, "master.port": str(at.port), "master.database": at.database,
            "master.user": reader.user, "master.password": reader.password,
            "job.checkpoint": str(self.folder / "checkpoint"), "warehouse.path": str(self.folder / "warehouse"),
        }  # fmt: skip
        return [f"{name}={value}" for name, value in (own | self.more).items()]

    @property
    def plan(self) -> Plan:
        return resolve(load(None, self.assignments, {}))

    def doctor(self, within: int = 60, **more: str) -> Told:
        """`within`: seconds an answer is waited for; a broker on a loaded machine may need several."""
        self.more |= {name.replace("__", "."): value for name, value in more.items()}
        before = set(snapshot(self.folder).items())
        options = [word for each in self.assignments for word in ("--set", each)]
        self.capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            cli.main(["doctor", "--json", "--within", str(within), *options])
        said = self.capsys.readouterr().out
        assert set(snapshot(self.folder).items()) == before, "something was written"
        assert self.stack.reader.password not in said
        return Told(int(str(left.value.code)), json.loads(said), said)

    def write_a_batch(self, note: dict[str, Any] | None = None) -> None:
        """Tables with batch 0 in them, as a job leaves them."""
        plan = self.plan
        with_it = make_warehouse(plan.settings.warehouse, plan.facts, [plan.rejects], plan.settings.job.name, None)
        with_it.prepare()
        with_it.commit(Batch(0, [], {}, note or {}))
        with_it.close()

    def put_down_a_batch(self, end: int) -> None:
        """A checkpoint whose batch 0 is done and ended before this offset."""
        for name, text in {
            "metadata": '{"id":"c1"}',
            "offsets/0": f'v1\n{{}}\n{{"{self.topic}":{{"0":{end}}}}}',
            "commits/0": 'v1\n{"nextBatchWatermarkMs":0}',
        }.items():
            file = self.folder / "checkpoint" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(file): (file.stat().st_size, file.stat().st_mtime_ns) for file in folder.rglob("*")}


@pytest.fixture
def job(seeded: StackInfo, stack: Stack, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Job:
    stack.kafka.create_topic(topic, 1)
    return Job(seeded, topic, tmp_path, capsys)


@pytest.fixture
def own_tables(job: Job, stack: Stack, master_database: str) -> Callable[..., None]:
    """The job's master tables in a database of its own, which the statements may change."""

    def change(*statements: str) -> None:
        stack.database.execute(*(statement.replace("HERE", master_database) for statement in statements))

    change(*(f"CREATE TABLE HERE.{name} LIKE master.{name}" for name in ("product", "customer", "store")))
    job.more["master.database"] = master_database
    return change


def test_a_healthy_job_is_all_well_before_its_first_start_and_after_it(job: Job) -> None:
    told = job.doctor()
    assert told.checks("ok") == {line["check"] for line in told.lines}, told.text
    assert told.code == 0
    assert "20,000 rows and a unique index on (product_code)" in told.of("dimension product", "ok")
    assert "the first start of millrace" in told.of("checkpoint and tables", "ok")
    job.write_a_batch()
    job.put_down_a_batch(end=0)
    told = job.doctor()
    assert told.code == 0, told.text
    assert "the facts have batch 0" in told.of("checkpoint and tables", "ok")
    assert "Kafka has all that comes next; 0 offsets wait" in told.of("offsets", "ok")


def test_without_json_it_is_a_line_a_finding(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    options = [word for each in job.assignments for word in ("--set", each)]
    with pytest.raises(SystemExit):
        cli.main(["doctor", *options])
    lines = capsys.readouterr().out.splitlines()
    assert all(line.split()[0] in ("ok", "warning") for line in lines)
    assert any(line.startswith("ok           kafka topics ") for line in lines)


def test_settings_that_do_not_fit_together_are_a_failure_and_all_else_is_not_checked(job: Job) -> None:
    told = job.doctor(worker__memory="1 MiB")
    assert told.code == 1
    assert "worker.memory = 1 MiB is too little" in told.of("settings", "failure")
    assert told.checks("not checked") == {"all else"}


def test_servers_that_are_down_are_told_once_and_what_hangs_on_them_is_not_checked(job: Job) -> None:
    told = job.doctor(within=3, kafka__bootstrap=f"{LOOPBACK}:1", master__port="1")
    assert told.code == 1
    assert "no Kafka broker answers at kafka.bootstrap = 127.0.0.1:1 within 3 s" in told.of("kafka topics", "failure")
    assert "It was not tried again. Start the server" in told.of("master server", "failure")
    assert told.checks("failure") == {"kafka topics", "master server"}
    unknown = told.checks("not checked")
    assert {"kafka retention", "offsets", "dimension product", "dimension store", "master rights"} <= unknown
    assert told.of("offsets", "not checked") == "it needs kafka topics, which failed. "
    assert {"table fact_sales", "java", "jars", "checkpoint and tables"} <= told.checks("ok")


def test_a_topic_that_is_not_there_is_a_failure_and_how_to_make_it(job: Job) -> None:
    told = job.doctor(kafka__topics="sales-of-nobody")
    assert told.code == 1
    assert "`millrace topic create sales-of-nobody`" in told.of("kafka topics", "failure")
    assert "master server" in told.checks("ok")


def test_a_topic_that_keeps_messages_for_an_hour_or_by_size_is_a_warning(job: Job, stack: Stack) -> None:
    kept = {"retention.ms": "3600000", "retention.bytes": "1000000", "cleanup.policy": "compact,delete"}
    stack.kafka.create_topic(f"{job.topic}-short", 1, kept)
    told = job.doctor(kafka__topics=f"{job.topic}-short")
    warned = told.of("kafka retention", "warning")
    assert "for 1 hours" in warned
    assert "1,000,000 bytes a partition" in warned
    assert "is compacted" in warned
    assert told.code == 0


def test_a_message_from_the_future_gives_a_clock_away(job: Job) -> None:
    producer = Producer({"bootstrap.servers": job.stack.bootstrap})
    producer.produce(job.topic, b"{}", timestamp=int((time.time() + 600) * 1000))
    assert producer.flush(30) == 0
    assert f"the newest message of {job.topic}/0 was sent" in job.doctor().of("kafka clock", "warning")


def test_messages_that_kafka_deleted_before_they_were_read_are_a_failure_in_the_words_of_run(job: Job) -> None:
    job.write_a_batch()
    job.put_down_a_batch(end=50)
    told = job.doctor()
    assert told.code == 1
    assert "ends at offset 0, but it was read up to 50" in told.of("offsets", "failure")


def test_a_wrong_password_is_a_failure_and_is_not_printed(job: Job) -> None:
    told = job.doctor(master__password="not-the-right-one")
    assert told.code == 1
    assert "Access denied" in told.of("master server", "failure")
    assert "check master.user, its password and grants" in told.of("master server", "failure")
    assert "not-the-right-one" not in told.text
    assert "dimension product" in told.checks("not checked")


def test_an_account_that_may_write_is_a_warning(job: Job) -> None:
    owner = job.stack.owner
    told = job.doctor(master__user=owner.user, master__password=owner.password)
    assert told.code == 0
    assert "may do more than read: ALL PRIVILEGES, GRANT OPTION ON `master`.*" in told.of("master rights", "warning")
    assert owner.password not in told.text


def test_a_feed_that_may_not_be_followed_is_a_warning_and_where_run_needs_it_a_failure(job: Job, stack: Stack) -> None:
    owner = stack.database.accounts.owner  # may do much in its database, and nothing with the server's log
    job.more |= {"master.user": owner.user, "master.password": owner.password}
    told = job.doctor()
    assert "no index that begins with updated_at" in told.of("master change feed", "warning")
    assert "GRANT REPLICATION SLAVE, REPLICATION CLIENT" in told.of("master change feed", "warning")
    told = job.doctor(master__feed="binlog")
    assert "GRANT REPLICATION SLAVE, REPLICATION CLIENT" in told.of("master change feed", "failure")
    assert told.code == 1
    assert "is off" in job.doctor(master__feed="off").of("master change feed", "ok")


def test_more_connections_than_the_server_has_are_a_warning(job: Job) -> None:
    told = job.doctor(master__connections="6400", spark__master="local[100]")
    assert "master.connections = 6400; the server has" in told.of("master connections", "warning")
    told = job.doctor(master__connections="0", spark__master="local[3200]")
    assert "3200 tasks with 2 each make 6400; the server has" in told.of("master connections", "warning")


def test_master_tables_that_are_not_as_the_job_needs_them_are_failures(
    job: Job, own_tables: Callable[..., None]
) -> None:
    own_tables(
        "ALTER TABLE HERE.product DROP COLUMN brand",
        "ALTER TABLE HERE.customer DROP PRIMARY KEY, ADD COLUMN id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY",
        "DROP TABLE HERE.store",
    )
    told = job.doctor(dimensions__customer__algorithm="hybridjoin")
    assert told.code == 1
    assert "names this column, but the table has" in told.of("dimension product", "failure")
    assert "no usable unique index on exactly (customer_number)" in told.of("dimension customer", "failure")
    assert "there is no such table in the database" in told.of("dimension store", "failure")
    told = job.doctor(dimensions__customer__algorithm="auto")
    assert "a key with several rows gives a fact for each" in told.of("dimension customer", "warning")


def test_a_join_without_enough_memory_for_its_table_is_a_failure(job: Job) -> None:
    told = job.doctor(dimensions__product__algorithm="meshjoin", dimensions__product__memory="40 KiB")
    assert told.code == 1
    assert "dimensions.product.memory = 40 KiB: " in told.of("dimension product", "failure")


def test_a_table_with_a_feature_that_the_writer_does_not_know_is_a_failure(job: Job) -> None:
    job.write_a_batch()
    uri = str(job.folder / "warehouse" / "fact_sales")
    DeltaTable(uri).alter.add_constraint({"whole": "quantity > 0"})
    told = job.doctor()
    assert told.code == 1
    assert "the arrow writer cannot honour" in told.of("table fact_sales", "failure")
    assert {"files fact_sales", "checkpoint and tables", "offsets"} <= told.checks("not checked")
    assert "table sales_rejects" in told.checks("ok")


def test_tables_ahead_of_a_lost_checkpoint_are_a_failure_in_the_words_of_run(job: Job) -> None:
    job.write_a_batch()
    told = job.doctor()
    assert told.code == 1
    assert "already has batch 0 of application 'millrace'" in told.of("checkpoint and tables", "failure")
    assert "offsets" in told.checks("not checked")


def test_a_folder_with_other_files_and_a_file_for_a_folder_are_failures(job: Job) -> None:
    (job.folder / "warehouse" / "fact_sales").mkdir(parents=True)
    (job.folder / "warehouse" / "fact_sales" / "notes.txt").write_text("mine")
    (job.folder / "checkpoint").write_text("no folder")
    told = job.doctor()
    assert told.code == 1
    assert "the folder is not empty, but not a Delta table" in told.of("table fact_sales", "failure")
    assert "a file stands where a folder is needed" in told.of("disk job.checkpoint", "failure")


def test_servers_that_are_not_on_loopback_and_speak_in_plain_are_warnings(job: Job) -> None:
    port = job.stack.bootstrap.rpartition(":")[2]
    told = job.doctor(kafka__bootstrap=f"0.0.0.0:{port}", master__host="0.0.0.0")
    assert f"sales are read in plain from 0.0.0.0:{port}" in told.of("kafka encryption", "warning")
    told.of("master encryption", "warning")  # in plain, or with a certificate that nobody has signed
    assert told.code == 0, told.text


class Moving(Progress):
    """The checkpoint of a running job: another batch is done at every look."""

    path = "/moving"

    def __init__(self, batches: int) -> None:
        self.looks, self.batches = 0, batches

    @property
    def done(self) -> int | None:
        self.looks += 1
        return min(self.looks, self.batches)

    def _names(self, folder: str) -> list[str]:
        return []

    def _has(self, name: str) -> bool:
        return False

    def _text(self, name: str) -> str:
        raise AssertionError(name)


def test_what_does_not_fit_while_a_job_runs_is_looked_at_again() -> None:
    def refuse() -> Origin:
        raise WarehouseRefused("they do not fit")

    assert stream.settled(Moving(batches=100), refuse) is None
    with pytest.raises(WarehouseRefused, match="they do not fit"):
        stream.settled(Moving(batches=3), refuse)


def test_a_check_that_never_answers_ends_with_its_time(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(patient: object) -> Iterator[Finding]:
        yield ok("begun")
        time.sleep(60)

    for room in (kafka, master, stream, warehouse):
        monkeypatch.setattr(room, "checks", lambda patient: [])
    monkeypatch.setattr(machine, "checks", lambda patient: [Check("slow", hang), Check("next", hang, ("slow",))])
    lines = list(examine(lambda: load(None, job.assignments, {}), 0.1, str))
    found = [(line.check, line.finding.level.value, line.finding.what) for line in lines[1:]]
    assert found == [
        ("slow", "ok", "begun"),
        ("slow", "failure", "no answer after 0.4 s"),
        ("next", "not checked", "it needs slow, which failed"),
    ]
