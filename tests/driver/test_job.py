"""The job on real parts, as the README starts it."""

import json
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from deltalake import DeltaTable

from pipeline.generate.keys import Sizes
from pipeline.generate.run import generate
from pipeline.generate.sent import Sent
from pipeline.generate.workload import Workload
from pipeline.java.runtime import java_home
from pipeline.laptop.stack.stack import StackInfo
from tests.kit.object_store import object_store
from tests.kit.running import Job, wait_until


def send(stack: StackInfo, sizes: Sizes, topic: str, messages: int, **workload) -> Sent:
    return generate(
        bootstrap=stack.bootstrap,
        workload=Workload(topics={topic: 1.0}, sizes=sizes, **workload),
        messages=messages,
        partitions=2,
        progress=False,
    )


def run_to_the_end(job: Job) -> None:
    job.settings["job.trigger"] = "available-now"
    job.start()
    assert job.wait() == 0, job.tail()


def metrics(job: Job) -> str:
    address = re.findall(r"http://\S+/metrics", job.log.read_text())[-1]
    with urllib.request.urlopen(address, timeout=10) as answer:
        return answer.read().decode()


@pytest.mark.mysql
@pytest.mark.parametrize("writer", ["arrow", pytest.param("spark", marks=pytest.mark.slow)])
def test_both_writers_and_both_readers_bring_every_sale_to_the_warehouse_once(
    writer: str, reader: str, tmp_path: Path, seeded: StackInfo, seeded_sizes: Sizes, topic: str, reconciled
) -> None:
    untidy = {"malformed": 0.02, "unknown": 0.03, "null_keys": 0.01, "duplicates": 0.01, "oversized": 0.0002}
    sent = send(seeded, seeded_sizes, topic, 20_000, **untidy)  # oversized: four messages of 5 MB
    job = Job(tmp_path, seeded, topic, warehouse__writer=writer, kafka__reader=reader)
    job.settings["job.max_offsets_per_trigger"] = "8000"
    # A name that only one of the clients knows reaches that one alone: the other would refuse it, or warn.
    job.settings["kafka.client_java.metadata.max.idle.ms"] = "60000"
    job.settings["kafka.client_librdkafka.topic.metadata.refresh.sparse"] = "true"
    run_to_the_end(job)
    reconciled(job, sent)


@pytest.mark.slow
def test_spark_submit_runs_the_same_job_with_the_jars_that_its_settings_ask_for(
    tmp_path: Path, seeded: StackInfo, seeded_sizes: Sizes, topic: str, reconciled, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = send(seeded, seeded_sizes, topic, 5_000, malformed=0.02, unknown=0.03)
    monkeypatch.setenv("JAVA_HOME", str(java_home()))
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    with object_store(tmp_path) as store:
        job = Job(tmp_path, seeded, topic, **store.settings(store.create_bucket("shop")))
        where = f"warehouse.path={job.settings['warehouse.path']}"
        asked = [sys.executable, "-m", "pipeline.cli", "jars", "--set", where]
        jars = subprocess.check_output(asked, text=True).strip()
        bin_folder = str(Path(sys.executable).parent)
        monkeypatch.setenv("PATH", bin_folder, prepend=":")  # as in an activated environment
        submit = f"{bin_folder}/spark-submit"
        script = str(Path(__file__).parents[2] / "jobs" / "enrich_sales.py")
        job.command = [submit, "--master", "local[2,4]", "--jars", jars, script]
        run_to_the_end(job)
        reconciled(job, sent)


@pytest.mark.slow
def test_a_replayed_batch_is_finished_from_its_commit_and_not_written_again(
    tmp_path: Path, seeded: StackInfo, seeded_sizes: Sizes, topic: str, reconciled
) -> None:
    sent = send(seeded, seeded_sizes, topic, 6_000, malformed=0.1)
    job = Job(tmp_path, seeded, topic, job__max_offsets_per_trigger="2000")
    run_to_the_end(job)
    rejects = DeltaTable(str(tmp_path / "warehouse" / "sales_rejects"))
    last_batch = max(int(file.name) for file in (tmp_path / "checkpoint" / "commits").glob("[0-9]*"))
    # The moment after the facts' commit: neither the rejects' nor Spark's own note of the batch is there yet.
    (tmp_path / "warehouse" / "sales_rejects" / "_delta_log" / f"{rejects.version():020}.json").unlink()
    for note in (tmp_path / "checkpoint" / "commits").glob(f"*{last_batch}*"):
        note.unlink()
    assert job.committed("sales_rejects") < sum(sent.topics[topic].malformed.values())
    run_to_the_end(job)
    reconciled(job, sent)


@pytest.mark.slow
def test_sales_of_a_partition_added_while_the_job_runs_arrive(
    tmp_path: Path, reader: str, stack, seeded: StackInfo, seeded_sizes: Sizes, topic: str, reconciled
) -> None:
    first = send(seeded, seeded_sizes, topic, 2_000)
    with Job(tmp_path, seeded, topic, **{"kafka.client.metadata.max.age.ms": "1000", "kafka.reader": reader}) as job:
        job.wait_for(2_000)
        stack.kafka.add_partitions(topic, 5)
        second = send(seeded, seeded_sizes, topic, 5_000, first_sale=first.next_sale)
        assert len(second.topics[topic].partitions) == 5
        job.wait_for(7_000)
        assert job.stop() == 0, job.tail()
    reconciled(job, None)


def test_a_worker_stays_within_the_memory_the_settings_allow(
    tmp_path: Path, reader: str, seeded: StackInfo, seeded_sizes: Sizes, topic: str
) -> None:
    send(seeded, seeded_sizes, topic, 200_000)
    limit = 700 << 20
    tight = {"worker.memory": str(limit), "worker.window_bytes": "32 MiB", "worker.window_sales": "100000"}
    with Job(tmp_path, seeded, topic, **tight, job__max_offsets_per_trigger="200000", kafka__reader=reader) as job:
        job.wait_for(200_000)
        told = re.compile(r"^millrace_worker_peak_bytes(?:\{.*\})? (\S+)$", re.MULTILINE)
        # The commit can be seen before the driver has told of its batch.
        wait_until(lambda: bool(told.search(metrics(job))), "the peak is told", 30)
        [peak] = told.findall(metrics(job))
        assert 50 << 20 < float(peak) <= limit


@pytest.mark.slow
def test_a_lost_checkpoint_is_refused_with_the_way_out(
    tmp_path: Path, seeded: StackInfo, seeded_sizes: Sizes, topic: str
) -> None:
    send(seeded, seeded_sizes, topic, 1_000)
    job = Job(tmp_path, seeded, topic)
    run_to_the_end(job)
    (tmp_path / "checkpoint").rename(tmp_path / "lost")
    job.start()
    assert job.wait() == 2
    assert "Restore the checkpoint" in job.tail()
    assert job.committed() == 1_000


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ({"dimensions.product.memory": "1 KiB"}, "Raise the dimension's memory to at least"),
        ({"master.password": "wrong"}, "denied"),
        ({"kafka.topics": "no-such-topic"}, "no-such-topic"),
    ],
)
def test_what_cannot_work_is_refused_before_the_first_batch(
    setting: dict[str, str], says: str, tmp_path: Path, stack, seeded: StackInfo, topic: str
) -> None:
    stack.kafka.create_topic(topic, 1)
    job = Job(tmp_path, seeded, topic, **setting)
    job.start()
    assert job.wait() == 2
    last_line = job.tail(1)
    assert last_line.startswith("millrace: ")
    assert says in last_line
    assert "hunter" not in last_line


@pytest.mark.slow
def test_a_new_dimension_and_a_new_topic_are_configuration_and_a_contract_file(
    tmp_path: Path, stack, seeded: StackInfo, seeded_sizes: Sizes, topic: str
) -> None:
    with stack.database.connect("owner") as connection, connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE IF NOT EXISTS money (code CHAR(3) PRIMARY KEY, money_key BIGINT NOT NULL, "
            "name VARCHAR(40), changed TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6))"
        )
        cursor.execute("REPLACE INTO money (code, money_key, name) VALUES ('EUR', 7, 'euro'), ('NZD', 8, 'dollar')")
        connection.commit()
    stack.database.allow_reading(["money"], seeded.database)
    contracts = write_contracts(tmp_path / "contracts")
    send(seeded, seeded_sizes, topic, 100)
    job = Job(tmp_path, seeded, topic)
    run_to_the_end(job)  # the table is there without the new columns

    returns = f"{topic}-returns"
    stack.kafka.create_topic(returns, 1)
    produce(seeded.bootstrap, returns, {"return_id": "r1", "returned_at": "2026-01-02T03:04:05Z", "currency": "NZD"})
    job.settings |= {
        "kafka.topics": f"{topic},{returns}",
        f"kafka.contracts.{returns}": "return.v1",
        "contracts.folder": str(contracts),
        **{f"dimensions.{name}.memory": "4 MiB" for name in ("product", "customer", "store", "money")},
        "job.checkpoint": str(tmp_path / "second"),
        "job.name": "with-money",
    }
    run_to_the_end(job)
    facts = DeltaTable(str(tmp_path / "warehouse" / "fact_sales")).to_pyarrow_table().to_pylist()
    [came_back] = [row for row in facts if row["topic"] == returns]
    assert (came_back["sale_id"], came_back["money_key"], came_back["money_name"]) == ("r1", 8, "dollar")
    assert (came_back["product_key"], came_back["quantity"]) == (-1, None)
    assert all(row["money_key"] is None for row in facts if row["application"] == "millrace")


def write_contracts(folder: Path) -> Path:
    from pipeline.config import resources

    (folder / "topics").mkdir(parents=True)
    (folder / "dimensions").mkdir()
    (folder / "tables").mkdir()
    returned = {
        "properties": {
            "return_id": {"type": "string", "x-type": "string", "x-column": "sale_id"},
            "returned_at": {"type": "string", "format": "date-time", "x-type": "timestamp", "x-column": "sold_at"},
            "currency": {"type": "string", "x-type": "string"},
        },
        "required": ["return_id", "returned_at", "currency"],
    }
    (folder / "topics" / "return.v1.json").write_text(json.dumps(returned))
    (folder / "dimensions" / "money.toml").write_text(
        'table = "money"\nsurrogate_key = "money_key"\nupdated_at = "changed"\n'
        '[[natural_key]]\ncolumn = "code"\nfield = "currency"\ntype = "string"\n[attributes]\nname = "string"\n'
    )
    facts = (resources.schemas() / "tables" / "fact_sales.toml").read_text()
    facts += '\n[[column]]\nname = "money_key"\ntype = "int64"\nfrom = "money.surrogate_key"\nmeaning = "Currency."\n'
    facts += '\n[[column]]\nname = "money_name"\ntype = "string"\nfrom = "money.name"\nmeaning = "Its name."\n'
    (folder / "tables" / "fact_sales.toml").write_text(facts)
    return folder


def produce(bootstrap: str, topic: str, *messages: dict) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for message in messages:
        producer.send(topic, json.dumps(message).encode()).get(30)
    producer.close()


def test_the_metrics_and_the_backlog_follow_the_sales(
    tmp_path: Path, seeded: StackInfo, seeded_sizes: Sizes, topic: str
) -> None:
    send(seeded, seeded_sizes, topic, 3_000, malformed=0.1)
    ready_file = tmp_path / "ready.json"
    job = Job(tmp_path, seeded, topic)
    job.command += ["--ready-file", str(ready_file)]
    with job:
        wait_until(ready_file.exists, "the job says that it runs", 90)
        told = json.loads(ready_file.read_text())
        assert told["pid"] == job.process.pid
        assert told["metrics"] in job.log.read_text()
        job.wait_for(3_000)
        zero = f'millrace_backlog_messages{{topic="{topic}"}} 0.0'
        wait_until(lambda: zero in metrics(job), "the backlog is zero", 30)
        page = metrics(job)
        facts = job.committed()
        served = sum(
            float(n) for n in re.findall(r'^millrace_served_sales_total\{.*dimension="product".*\} (\S+)$', page, re.M)
        )
        assert served == facts
        assert job.stop() == 0
    assert not ready_file.exists()
