"""A job that has secrets, works and then fails: nobody who may not know one finds it anywhere."""

from __future__ import annotations

import base64
import json
import tarfile
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark import cloudpickle

from pipeline import cli
from pipeline.config.settings import load
from pipeline.driver import readers, worker
from pipeline.kafka.ranges import Range
from pipeline.laptop.stack.ports import choose
from pipeline.laptop.stack.stack import Stack, StackInfo
from pipeline.news import News
from pipeline.plan import resolve
from pipeline.watch.scrape import of_settings, scrape
from tests.kafka.test_secure import PASSWORD as KAFKA_PASSWORD
from tests.kafka.test_secure import PLAIN, TRUSTED, SecureBroker
from tests.kafka.test_secure import broker as broker  # the fixture
from tests.kit.parse_samples import message
from tests.kit.running import Job, descendants

MYSQL_PASSWORD, STORE_KEY, TOKEN = "mysql-pw-7f3Kq", "store-key-9dXw2m", "metrics-token-4hGz8v1"
JAAS = f'{PLAIN} required username="shop" password="${{file:kafka.password}}";'
ROLES = {"MySQL": MYSQL_PASSWORD, "the store": STORE_KEY, "Kafka": KAFKA_PASSWORD, "metrics": TOKEN}


def forms(secret: str) -> list[bytes]:
    """As it is, as JSON and JAAS write it, and in base64, wherever in it that begins."""
    plain = {secret, json.dumps(secret)[1:-1], secret.replace('"', "&quot;")}
    inner = [base64.b64encode(b"x" * lead + secret.encode())[4 if lead else 0 : -4] for lead in range(3)]
    return [*(text.encode() for text in plain), *inner]


def who_tells(where: str, data: bytes) -> list[str]:
    return [
        f"{where} has the secret of {whose}"
        for whose, secret in ROLES.items()
        if any(form in data for form in forms(secret))
    ]


def files_below(folder: Path) -> Iterator[tuple[str, bytes]]:
    """And in archives."""
    for path in folder.rglob("*"):
        if not path.is_file() or path.parent.name == "given":
            continue
        yield str(path), path.read_bytes()
        if path.suffixes[-2:] == [".tar", ".gz"]:
            with tarfile.open(path) as archive:
                yield from ((f"{path}/{m.name}", archive.extractfile(m).read()) for m in archive if m.isfile())
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as zipped:
                yield from ((f"{path}/{name}", zipped.read(name)) for name in zipped.namelist())


def given(folder: Path, bootstrap: str, port: int, reader: str = "direct", ui: int = 0) -> Path:
    """A settings file; the secrets are in files beside it, but for the store's, which has no file."""
    own = folder / "given"
    own.mkdir()
    for name, secret in (("mysql", MYSQL_PASSWORD), ("kafka", KAFKA_PASSWORD), ("metrics", TOKEN)):
        (own / f"{name}.password").write_text(f"{secret}\n")
    (own / "authority.pem").write_text(TRUSTED["ssl.truststore.certificates"])
    file = own / "my.toml"
    file.write_text(f"""
[job]
checkpoint = "{folder}/checkpoint"
trigger = "100 ms"
[kafka]
bootstrap = "{bootstrap}"
topics = ["secret-sales-{reader}"]
reader = "{reader}"
[kafka.client]
"security.protocol" = "SASL_SSL"
"sasl.mechanism" = "PLAIN"
[kafka.client_java]
"ssl.truststore.type" = "PEM"
"ssl.truststore.location" = "{own}/authority.pem"
"sasl.jaas.config" = '{JAAS}'
[kafka.client_librdkafka]
"sasl.username" = "shop"
"sasl.password" = "${{file:kafka.password}}"
"ssl.ca.location" = "{own}/authority.pem"
[master]
host = "127.0.0.1"
port = {port}
user = "secretive"
password_file = "mysql.password"
database = "master"
retry_for = "1 s"
[dimensions.product]
max_staleness = "10 ms"
absent_staleness = "10 ms"
[dimensions.customer]
[dimensions.store]
[warehouse]
path = "{folder}/warehouse"
storage_options = {{AWS_SECRET_ACCESS_KEY = "{STORE_KEY}"}}
[metrics]
port = {choose(1)[0]}
token_file = "metrics.password"
[spark.conf]
"spark.eventLog.enabled" = "true"
"spark.eventLog.dir" = "{folder}/events"
"spark.ui.enabled" = "true"
"spark.ui.port" = "{ui}"
"spark.local.dir" = "{folder}/spark"
""")
    (folder / "events").mkdir()
    return file


def test_what_is_sent_to_the_workers_has_no_secret_that_stands_in_a_file(tmp_path: Path) -> None:
    settings = load(given(tmp_path, "kafka:1", 3306), environment={})
    work = worker.work_of(resolve(settings), 0, News(), [])
    fetched = partial(readers._fetched, [[Range("t", 0, 0, 1)]], settings.kafka, settings.worker)
    assert who_tells("it", cloudpickle.dumps([work, fetched])) == ["it has the secret of the store"]  # and of no other
    assert not who_tells("a line of them", repr(settings.master).encode() + repr(settings.metrics).encode())


def test_what_a_worker_remembers_a_join_by_has_no_secret() -> None:
    plan = resolve(load(None, [f"master.password={MYSQL_PASSWORD}"], {}))
    key = worker.shape(plan, plan.dimensions["product"], News())
    assert "product" in key
    assert not who_tells("the key", key.encode())


def answers_of(port: int) -> Iterator[tuple[str, bytes]]:
    """All pages of Spark's own server that show settings, plans or errors."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def page(path: str) -> bytes:
        with opener.open(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return answer.read()

    [application] = json.loads(page("/api/v1/applications"))
    of = f"/api/v1/applications/{application['id']}"
    for path in (
        "/environment/",
        "/jobs/",
        "/stages/",
        "/executors/",
        "/SQL/",
        "/StreamingQuery/",
        f"{of}/environment",
    ):
        yield f"Spark's page {path}", page(path)
    yield "Spark's page of queries", page(f"{of}/sql?details=true&planDescription=true")


def commands(file: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[tuple[str, bytes]]:
    """What they print; the bundle has the doctor's lines and the metrics."""
    bundle = ["bundle", str(folder / "bundle.tar.gz")]
    why = ["why", "secret-sales-direct", "0", "0"]
    for words in (["status", "--json", "--over", "0"], ["explain", "--offline"], why, bundle):
        with suppress(SystemExit):
            cli.main([*words, "--config", str(file)])
        said = capsys.readouterr()
        yield f"millrace {words[0]}", (said.out + said.err).encode()


@pytest.mark.slow
@pytest.mark.parametrize("reader", ["direct", "spark"])
def test_a_job_that_works_and_fails_tells_no_secret_to_anybody(
    broker: SecureBroker,
    stack: Stack,
    seeded: StackInfo,
    tmp_path: Path,
    reader: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic, ui = f"secret-sales-{reader}", choose(1)[0]
    file = given(tmp_path, broker.at("sasl"), seeded.port, reader, ui)
    broker.create_topic(topic, 1)
    producer = Producer({"bootstrap.servers": broker.bootstrap})

    def send(product: str) -> None:
        for number in range(20):
            producer.produce(topic, message(sale_id=f'"{product}-{number}"', product_code=f'"{product}-{number}"'))
        assert producer.flush(30) == 0

    def sql(*statements: str) -> None:
        with stack.database.connect("admin") as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    sql(
        "DROP USER IF EXISTS 'secretive'@'%'",
        f"CREATE USER 'secretive'@'%' IDENTIFIED BY '{MYSQL_PASSWORD}'",
        *(f"GRANT SELECT ON master.{table} TO 'secretive'@'%'" for table in ("product", "customer", "store")),
    )
    job = Job(tmp_path, seeded, topic)
    job.command += ["--config", str(file)]
    job.settings = {"warehouse.path": f"{tmp_path}/warehouse"}
    job.start()
    try:
        send("before")
        job.wait_for(20)
        processes = [job.process.pid, *descendants(job.process.pid)]
        assert len(processes) >= 3  # the driver, Spark, workers
        looked = [*answers_of(ui), *(commands(file, tmp_path, capsys) if reader == "direct" else ())]
        for process in processes:
            for name in ("cmdline", "environ"):
                with suppress(OSError):  # a worker that has ended
                    looked.append((f"{name} of a process", Path(f"/proc/{process}/{name}").read_bytes()))
        url, access = of_settings(load(file, environment={}).metrics)
        looked.append(("metrics", repr(scrape(url, access)).encode()))
        sql("ALTER USER 'secretive'@'%' IDENTIFIED BY 'another'", *killed(stack))
        send("after")
        assert job.wait(120) == 2, job.tail()
    finally:
        if job.running:
            job.kill()
    looked += files_below(tmp_path)
    assert "Access denied for user 'secretive'" in job.log.read_text()
    assert {"Spark's page /environment/", "metrics", str(job.log)} <= {where for where, _ in looked}
    told_of = ["events", "checkpoint/offsets", "warehouse/fact_sales/_delta_log"]
    for part in told_of + (["millrace status", "bundle.tar.gz/"] if reader == "direct" else []):
        assert any(part in where for where, _ in looked), part
    told = [found for where, data in looked for found in who_tells(where, data)]
    assert not told


def killed(stack: Stack) -> list[str]:
    with stack.database.connect("admin") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id FROM information_schema.PROCESSLIST WHERE user = 'secretive'")
        return [f"KILL {number}" for (number,) in cursor.fetchall()]
