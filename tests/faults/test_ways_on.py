"""What a stream cannot go on from by itself, by real processes: refused in one sentence that names the way on."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from deltalake import DeltaTable

from pipeline.generate.keys import Sizes
from pipeline.generate.run import generate
from pipeline.generate.sent import Sent
from pipeline.generate.workload import Workload
from pipeline.laptop.stack.stack import Stack, StackInfo
from tests.kit.running import Job, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def send(seeded: StackInfo, seeded_sizes: Sizes, topic: str):
    def send(messages: int, first_sale: int = 0, to: str = topic) -> Sent:
        workload = Workload(topics={to: 1.0}, sizes=seeded_sizes, malformed=0.05, first_sale=first_sale)
        return generate(bootstrap=seeded.bootstrap, workload=workload, messages=messages, partitions=2, progress=False)

    return send


@pytest.fixture
def job(tmp_path: Path, seeded: StackInfo, topic: str) -> Job:
    return Job(tmp_path, seeded, topic, job__trigger="available-now", job__max_offsets_per_trigger="1000")


def works_off(job: Job) -> None:
    job.start()
    assert job.wait() == 0, job.tail()


def refuses(job: Job) -> str:
    """The one sentence with which it ends."""
    said_before = len(job.log.read_text().splitlines()) if job.log.exists() else 0
    job.start()
    assert job.wait() == 2, job.tail()
    said = job.log.read_text().splitlines()[said_before:]
    assert not [line for line in said if line.startswith("Traceback")], job.tail()
    assert said[-1].startswith("millrace: "), job.tail()
    return said[-1]


def millrace(job: Job, *arguments: str) -> str:
    settings = [part for assignment in job.assignments for part in ("--set", assignment)]
    done = subprocess.run(
        [sys.executable, "-m", "pipeline.cli", *arguments, *settings], capture_output=True, text=True, cwd=job.folder
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def facts_of(job: Job) -> list[tuple[str, int, int]]:
    rows = DeltaTable(str(job.folder / "warehouse" / "fact_sales")).to_pyarrow_table(
        columns=["topic", "partition", "offset"]
    )
    return [tuple(row.values()) for row in rows.to_pylist()]


def test_tables_put_back_to_an_older_state_are_refused_and_after_a_rewind_nothing_is_lost(
    job: Job, send, reconciled
) -> None:
    first = send(2_000)
    works_off(job)
    shutil.copytree(job.folder / "warehouse", job.folder / "copy")
    send(3_000, first.next_sale)
    works_off(job)
    shutil.rmtree(job.folder / "warehouse")
    (job.folder / "copy").rename(job.folder / "warehouse")
    assert "`millrace rewind`" in refuses(job)
    assert "the checkpoint stands at the end of batch 1" in millrace(job, "rewind")
    works_off(job)
    reconciled(job, None)
    assert "nothing to do" in millrace(job, "rewind")


def test_a_table_that_is_deleted_while_the_job_runs_ends_it_with_a_sentence(job: Job, send) -> None:
    first = send(500)
    job.settings["job.trigger"] = "100 ms"
    with job:
        job.wait_for(500)
        shutil.rmtree(job.folder / "warehouse" / "fact_sales")
        send(500, first.next_sale)
        assert job.wait() == 2, job.tail()
    assert "was deleted" in job.tail(1)
    assert not (job.folder / "warehouse" / "fact_sales" / "_delta_log").exists()


def test_a_topic_that_is_created_again_with_as_many_messages_is_refused_and_read_under_another_name(
    job: Job, send, reader: str, stack: Stack, topic: str
) -> None:
    job.settings["kafka.reader"] = reader
    send(2_000)
    works_off(job)
    before = facts_of(job)
    create_again(stack, topic)
    send(4_000)
    said = refuses(job)
    assert f"topic {topic} was deleted and created again" in said
    assert sorted(facts_of(job)) == sorted(before)
    job.settings |= {"job.name": "anew", "job.checkpoint": str(job.folder / "anew")}
    works_off(job)
    assert job.committed() + job.committed("sales_rejects") == 6_000


def test_a_topic_that_is_created_again_while_the_job_runs_ends_it_before_anything_of_it_is_committed(
    job: Job, send, reader: str, stack: Stack, topic: str
) -> None:
    job.settings["kafka.reader"] = reader
    send(1_000)
    # A trigger so long that the new topic is as long as the old one when it comes.
    job.settings["job.trigger"] = "15 s"
    with job:
        job.wait_for(1_000)
        create_again(stack, topic)
        send(3_000)
        assert job.wait() == 2, job.tail()
    assert "was deleted and created again" in job.tail(1)
    assert job.committed() + job.committed("sales_rejects") == 1_000


def create_again(stack: Stack, topic: str) -> None:
    stack.kafka.delete_topic(topic)
    wait_until(lambda: topic not in stack.kafka.topics(), "the topic is gone", 30)


def delete_messages(stack: Stack, topic: str, before: int) -> None:
    """As retention does: the log then begins at this offset."""
    admin = AdminClient({"bootstrap.servers": stack.kafka.bootstrap})
    for future in admin.delete_records([TopicPartition(topic, partition, before) for partition in (0, 1)]).values():
        future.result(30)


def test_messages_deleted_before_they_were_read_are_told_by_offset_and_skipped_only_on_demand(
    job: Job, send, reader: str, stack: Stack, topic: str
) -> None:
    job.settings["kafka.reader"] = reader
    first = send(2_000)
    works_off(job)
    second = send(2_000, first.next_sale)
    at = {p: first.topics[topic].partitions[p].last_offset + 101 for p in (0, 1)}
    begin = min(at.values())
    delete_messages(stack, topic, begin)
    gone = sum(max(0, begin - end + 100) for end in at.values())
    said = refuses(job)
    assert f"{gone:,} offsets in all" in said
    assert "sent after 20" in said
    assert "failOnDataLoss" not in said
    assert f"skipped offsets {at[0] - 100:,} to {begin - 1:,}" in millrace(
        job, "skip", "--topic", topic, "--to", "earliest", "--reason", "restored from the shop's own log"
    )
    works_off(job)
    assert job.committed() + job.committed("sales_rejects") == first.messages + second.messages - gone
    notes = [
        json.loads(c["userMetadata"])["note"]
        for c in DeltaTable(str(job.folder / "warehouse/fact_sales")).history()
        if "userMetadata" in c
    ]
    [gaps] = [note["gaps"] for note in notes if "gaps" in note]
    assert {(gap["topic"], gap["reason"]) for gap in gaps} == {(topic, "restored from the shop's own log")}
    assert sum(gap["last"] - gap["first"] + 1 for gap in gaps) == notes[0]["skipped"][topic] == gone
    job.settings["job.trigger"] = "1 s"
    with job:
        wait_until(lambda: told_as_skipped(job) == gone, "the metric tells the gap", 90)
        assert job.stop() == 0, job.tail()


def told_as_skipped(job: Job) -> float | None:
    [*_, address] = re.findall(r"http://\S+/metrics", job.log.read_text()) or [""]
    try:
        page = urllib.request.urlopen(address, timeout=10).read().decode()
    except (OSError, ValueError):
        return None
    told = re.findall(r"^millrace_skipped_messages_total\{.*\} (\S+)$", page, re.MULTILINE)
    return float(told[0]) if told else None


def test_a_second_job_on_the_same_checkpoint_is_refused_and_the_first_goes_on(
    job: Job, send, tmp_path: Path, seeded: StackInfo, topic: str, reconciled
) -> None:
    first = send(1_000)
    job.settings["job.trigger"] = "100 ms"
    with job:
        job.wait_for(1_000)
        (tmp_path / "second").mkdir()
        second = Job(tmp_path / "second", seeded, topic)
        second.settings |= {name: job.settings[name] for name in ("job.checkpoint", "warehouse.path")}
        assert "is in use by another job" in refuses(second)
        send(1_000, first.next_sale)
        job.wait_for(2_000)
        assert job.stop() == 0, job.tail()
    reconciled(job, None)


def test_two_jobs_of_one_name_that_start_together_on_one_table_do_not_take_each_others_batches_for_their_own(
    job: Job, send, tmp_path: Path, seeded: StackInfo, topic: str
) -> None:
    """Each has a topic and a checkpoint of its own, and neither finds the other's commits when it starts."""
    other_topic = f"{topic}-other"
    send(2_000)
    send(2_000, to=other_topic)
    (tmp_path / "other").mkdir()
    other = Job(tmp_path / "other", seeded, other_topic, **{"warehouse.path": job.settings["warehouse.path"]})
    for each in (job, other):
        each.settings["job.trigger"] = "100 ms"
    with job, other:
        wait_until(lambda: not (job.running and other.running), "one of them is refused", 120)
        stays, refused = (job, other) if job.running else (other, job)
        assert "under one job.name" in refused.tail(1) or "Either two jobs run as" in refused.tail(1)
        wait_until(lambda: topics_of(job).get(stays.settings["kafka.topics"], 0) == 2_000, "the other goes on", 90)
        assert stays.stop() == 0, stays.tail()
    # What the refused one had not written is still there for it to read, under a name of its own.
    refused.settings |= {"job.name": "other", "job.checkpoint": str(tmp_path / "of-its-own")}
    refused.settings["job.trigger"] = "available-now"
    written = topics_of(job).get(refused.settings["kafka.topics"], 0)
    assert written in (0, 1_000, 2_000)
    if not written:
        works_off(refused)
        assert topics_of(job) == {topic: 2_000, other_topic: 2_000}


def topics_of(job: Job) -> dict[str, int]:
    found: dict[str, int] = {}
    for table in ("fact_sales", "sales_rejects"):
        place = Path(job.settings["warehouse.path"]) / table
        rows = DeltaTable(str(place)).to_pyarrow_table(columns=["topic"])["topic"].to_pylist() if place.exists() else []
        for name in rows:
            found[name] = found.get(name, 0) + 1
    return found


@pytest.mark.parametrize(("after", "to_group"), [(0.5, False), (2.0, True), (4.0, False), (6.0, True)])
def test_a_sigterm_while_it_starts_ends_it_with_one_sentence(job: Job, send, after: float, to_group: bool) -> None:
    send(100)
    job.settings["job.trigger"] = "100 ms"
    with job:
        process = job.process
        assert process is not None
        wait_until(lambda: age(process.pid) > after, "so much of its start is over", 60)
        (os.killpg if to_group else os.kill)(process.pid, signal.SIGTERM)
        assert job.wait(60) in (0, -signal.SIGTERM, 128 + signal.SIGTERM), job.tail()
    wait_until(lambda: not group_of(process.pid), "nothing of it is left, Spark's Java neither", 30)
    assert "Traceback" not in job.log.read_text(), job.tail()
    said = [line for line in job.log.read_text().splitlines() if "stopp" in line]
    assert said or process.returncode == -signal.SIGTERM, job.tail()  # within the first imports nobody listens yet


def test_a_sigterm_to_the_whole_group_ends_a_running_job_with_one_sentence_and_nothing_is_lost(
    job: Job, send, reconciled
) -> None:
    """As systemd does it: Spark and the workers get the signal too, in the middle of a batch."""
    sent = send(20_000)
    job.settings["job.trigger"] = "10 ms"
    with job:
        wait_until(lambda: job.committed() > 3_000, "some batches", 90)
        assert job.process is not None
        os.killpg(job.process.pid, signal.SIGTERM)
        assert job.wait(60) == 0, job.tail()
    assert "Traceback" not in job.log.read_text(), job.tail()
    assert "stopp" in job.tail(5)
    job.settings["job.trigger"] = "available-now"
    works_off(job)
    reconciled(job, sent)


def group_of(leader: int) -> list[str]:
    """The processes of a group that still run."""
    listed = subprocess.run(["ps", "-eo", "pgid=,stat=,pid="], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if line.split()[0] == str(leader) and "Z" not in line.split()[1]]


def age(pid: int) -> float:
    started = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]) / os.sysconf("SC_CLK_TCK")
    return float(Path("/proc/uptime").read_text().split()[0]) - started
