"""The mounted configurations and the health checks of docker-compose.yml, with the real programs."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.java import jars
from pipeline.laptop.stack.kafka import KafkaBroker
from pipeline.laptop.stack.ports import choose
from pipeline.laptop.stack.stack import Stack, StackInfo
from pipeline.watch.publish import Metrics
from tests.deploy.compose import COMPOSE, ROOT, health_check, mounts

pytestmark = pytest.mark.slow


class ComposeBroker(KafkaBroker):
    """The embedded broker with the properties that are mounted into the container, its places put into them."""

    port_names = ("port", "controller", "external")

    def _properties(self, data: Path) -> str:
        [folder] = [source for source in mounts("kafka").values() if source.startswith("./")]
        text = (ROOT / folder / "server.properties").read_text()
        for place, port in {
            "9092": self.port,
            "9093": self.ports["controller"],
            "29092": self.ports["external"],
        }.items():
            text = re.sub(rf"(//[\w.]*|@kafka):{place}\b", rf"\g<1>:{port}", text)
        return text.replace("kafka:", "127.0.0.1:").replace("/var/lib/kafka/data", str(data))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComposeBroker]:
    server = ComposeBroker(tmp_path_factory.mktemp("compose"), supervised=True)
    server.start()
    yield server
    server.stop()


def test_the_broker_runs_with_the_mounted_properties_as_they_are(broker: ComposeBroker) -> None:
    def names(properties: Path) -> list[str]:
        lines = properties.read_text().splitlines()
        return [line.partition("=")[0] for line in lines if not line.startswith("#")]

    assert names(broker.folder / "server.properties") == names(ROOT / "deploy" / "kafka" / "server.properties")
    broker.create_topic("sales", 4)
    assert broker.topics() == {"sales": 4}


def kafka_health(broker: ComposeBroker, folder: Path, port: int, limit: float) -> subprocess.CompletedProcess[str]:
    """kafka-configs.sh is a script around one class, and that class is in the broker's jars."""
    program = folder / "kafka-configs.sh"
    java = broker._java("kafka.admin.ConfigCommand")
    program.write_text("#!/bin/sh\nexec " + " ".join(f"'{word}'" for word in java) + ' "$@"\n')
    program.chmod(0o755)
    shell, option, command = health_check("kafka")
    command = command.replace("/opt/kafka/bin/kafka-configs.sh", str(program)).replace(
        "kafka:9092", f"127.0.0.1:{port}"
    )
    return subprocess.run([shell, option, command], capture_output=True, text=True, timeout=limit, check=False)


def test_the_broker_s_health_check_knows_a_running_broker(broker: ComposeBroker, tmp_path: Path) -> None:
    done = kafka_health(broker, tmp_path, broker.port, 60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "configs for broker 1" in done.stdout


def test_the_broker_s_health_check_fails_where_none_runs(broker: ComposeBroker, tmp_path: Path) -> None:
    # The engine, too, takes a check that does not end for a failed one.
    with contextlib.suppress(subprocess.TimeoutExpired):
        assert kafka_health(broker, tmp_path, choose(1)[0], 10).returncode != 0


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which `mysql` is a client of this machine, or the one in MariaDB's jar."""
    folder = tmp_path_factory.mktemp("client")
    found = shutil.which("mysql")
    if not found:
        with zipfile.ZipFile(jars.fetch("database")[0]) as jar:
            [member] = [name for name in jar.namelist() if name.endswith("/bin/mariadb")]
            (folder / "mysql").write_bytes(jar.read(member))
        (folder / "mysql").chmod(0o755)
        (folder / ".my.cnf").write_text("[client]\nskip-ssl\n")
    return {"PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(folder)}


def mysql_health(info: StackInfo, client: dict[str, str], folder: Path, port: int, database: str) -> int:
    secret = folder / "mysql_reader"
    secret.write_text(info.reader.password)
    command = [word.replace("/run/secrets/mysql_reader", str(secret)) for word in health_check("mysql")]
    command = [word.replace("--database=master", f"--database={database}") for word in command]
    done = subprocess.run(
        command, env={**client, "MYSQL_TCP_PORT": str(port)}, capture_output=True, text=True, check=False
    )
    print(done.stdout, done.stderr)
    return done.returncode


def test_the_database_s_health_check_means_the_job_s_account_and_tables(
    stack: Stack, seeded: StackInfo, master_database: str, client: dict[str, str], tmp_path: Path
) -> None:
    assert mysql_health(seeded, client, tmp_path, seeded.port, "master") == 0
    assert mysql_health(seeded, client, tmp_path, seeded.port, master_database) != 0  # a database without the tables
    assert mysql_health(seeded, client, tmp_path, choose(1)[0], "master") != 0


def test_the_job_s_health_check_waits_until_it_is_ready() -> None:
    metrics = Metrics()
    port = metrics.serve("127.0.0.1", 0)
    command = [word.replace("127.0.0.1:9464", f"127.0.0.1:{port}") for word in health_check("job")]
    try:
        assert subprocess.run(command, capture_output=True, check=False).returncode != 0
        metrics.ready()
        assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    finally:
        metrics.close()
    assert subprocess.run(command, capture_output=True, check=False).returncode != 0


def test_the_passwords_are_made_once_and_can_be_read_by_the_containers_only(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    environment = {**os.environ, "MILLRACE_SECRETS": str(folder)}
    script = [str(ROOT / "deploy" / "docker" / "secrets.sh")]
    subprocess.run(script, env=environment, check=True, capture_output=True)
    made = {file.name: file.read_text() for file in folder.iterdir()}
    assert set(made) == set(COMPOSE["secrets"])
    assert len(set(made.values())) == len(made)
    assert all(re.fullmatch(r"[0-9a-f]{36}", password) for password in made.values())
    assert folder.stat().st_mode & 0o777 == 0o700
    subprocess.run(script, env=environment, check=True, capture_output=True)
    assert {file.name: file.read_text() for file in folder.iterdir()} == made


def test_prepare_fills_empty_tables_and_makes_the_topics_and_the_second_time_leaves_them_alone(
    stack: Stack, master_database: str, topic: str, tmp_path: Path
) -> None:
    info = stack.info()
    for name, account in {"owner": info.owner, "reader": info.reader}.items():
        (tmp_path / name).write_text(f"{account.password}\n")
    with stack.database.connect("owner", master_database) as connection, connection.cursor() as cursor:
        for table in ("product", "customer", "store"):
            cursor.execute((ROOT / "schemas" / "master" / f"{table}.sql").read_text())
    environment = {
        **os.environ,
        "MILLRACE_OWNER": info.owner.user,
        "MILLRACE_OWNER_PASSWORD_FILE": str(tmp_path / "owner"),
        "MILLRACE_SIZES": "3000,200,10",
        "MILLRACE_CONFIG": str(ROOT / "deploy" / "docker" / "millrace.toml"),
        "MILLRACE_KAFKA__BOOTSTRAP": info.bootstrap,
        "MILLRACE_KAFKA__TOPICS": topic,
        "MILLRACE_MASTER__HOST": info.host,
        "MILLRACE_MASTER__PORT": str(info.port),
        "MILLRACE_MASTER__DATABASE": master_database,
    }
    command = [sys.executable, str(ROOT / "deploy" / "docker" / "prepare.py")]

    def prepare() -> str:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "product: 3,000 rows" in prepare()
    assert stack.kafka.topics()[topic] == 4
    assert "rows" not in prepare()
    with stack.database.connect("owner", master_database) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT (SELECT COUNT(*) FROM product), (SELECT COUNT(*) FROM customer)")
        assert cursor.fetchone() == (3000, 200)
