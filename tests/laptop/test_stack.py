"""The embedded stack: it answers when it says so, it can be found again, and it leaves nothing behind."""

from __future__ import annotations

import json
import os
import random
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import pymysql
import pytest
from confluent_kafka import Producer
from kafka import KafkaConsumer, TopicPartition

from pipeline import cli
from pipeline.config.settings import load
from pipeline.laptop.stack import supervisor
from pipeline.laptop.stack.ports import LOOPBACK
from pipeline.laptop.stack.process import ServerFailed
from pipeline.laptop.stack.stack import Stack

_LISTENING = "0A"


@pytest.fixture
def own_stack(tmp_path: Path) -> Iterator[Stack]:
    """A stack that a test may maltreat; not started, and stopped whatever the test did."""
    stack = Stack(tmp_path / "stack", supervised=True)
    yield stack
    stack.down()


def test_a_second_up_changes_nothing(stack: Stack) -> None:
    before = stack.status()
    assert Stack(stack.folder).up() == stack.info()
    assert stack.status() == before
    assert None not in before.values()


def test_the_settings_file_points_a_job_at_the_stack(stack: Stack) -> None:
    info = stack.info()
    settings = load(info.settings_file, environment={})
    assert settings.kafka.bootstrap == info.bootstrap
    given = (settings.master.host, settings.master.port, settings.master.user, settings.master.password)
    assert given == (info.host, info.port, info.reader.user, info.reader.password)
    assert settings.master.database == info.database
    kept = (settings.job.checkpoint, settings.warehouse.path, settings.master.costs)
    assert kept == tuple(str(stack.folder / name) for name in ("checkpoint", "warehouse", "costs.toml"))
    assert info.settings_file.stat().st_mode & 0o077 == 0, "others can read the password"


def test_up_prints_what_a_person_with_own_tables_needs(
    stack: Stack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    contract = tmp_path / "own" / "dimensions" / "tariff.toml"
    contract.parent.mkdir(parents=True)
    contract.write_text(
        'table = "tariff"\nsurrogate_key = "sk"\nupdated_at = "changed"\n'
        '[[natural_key]]\ncolumn = "code"\nfield = "product_code"\ntype = "string"\n'
    )
    own = tmp_path / "own.toml"
    own.write_text('[contracts]\nfolder = "own"\n[dimensions.tariff]\n')
    with pytest.raises(SystemExit) as left:
        cli.main(["up", "--folder", str(stack.folder), "--config", str(own)])
    assert left.value.code == 0
    said = capsys.readouterr().out
    own.write_text(f"{own.read_text()}\n{said.partition('these lines:')[2]}")
    loaded = load(own, (), {})
    assert (loaded.kafka.bootstrap, loaded.master.port) == (stack.kafka.bootstrap, stack.database.port)

    owner = re.search(r"mysql --host=(\S+) --port=(\d+) --user=(\S+) --password=(\S+) (\S+)", said)
    assert owner
    host, port, user, password, database = owner.groups()
    transport = stack.database._transport
    with (
        pymysql.connect(
            host=host, port=int(port), user=user, password=password, database=database, **transport
        ) as owned,
        owned.cursor() as cursor,
    ):
        cursor.execute("CREATE TABLE tariff (code VARCHAR(9) PRIMARY KEY, sk BIGINT, changed TIMESTAMP(6))")
    try:
        with stack.database.connect("reader") as connection, connection.cursor() as cursor:
            assert cursor.execute("SELECT * FROM tariff") == 0  # it may, though the table is younger than the grant
    finally:
        _execute(stack, "master", "DROP TABLE tariff")


def test_all_ports_are_bound_to_loopback_only(stack: Stack) -> None:
    ports = {port for server in stack.servers for port in server.ports.values()}
    bound = {port: address for address, port in _listening() if port in ports}
    assert bound == dict.fromkeys(ports, LOOPBACK)


def test_a_message_of_five_megabytes_arrives_whole(stack: Stack, topic: str) -> None:
    stack.kafka.create_topic(topic, partitions=1)
    message = random.Random(5).randbytes(5 << 20)
    _send(stack, topic, 0, message)
    [arrived] = _messages(stack, topic, 0)
    assert (len(arrived), sha256(arrived).digest()) == (len(message), sha256(message).digest())


def test_a_partition_that_was_added_can_be_written_at_once(stack: Stack, topic: str) -> None:
    stack.kafka.create_topic(topic, partitions=2, config={"retention.ms": "60000"})
    stack.kafka.add_partitions(topic, 3)
    assert stack.kafka.topics()[topic] == 3
    _send(stack, topic, 2, b"in the new one")
    assert _messages(stack, topic, 2) == [b"in the new one"]


def test_a_topic_nobody_created_does_not_come_into_being(stack: Stack, topic: str) -> None:
    with pytest.raises(AssertionError, match="UNKNOWN_TOPIC"):
        _send(stack, topic, 0, b"lost")
    assert topic not in stack.kafka.topics()


def test_the_reading_account_reads_the_named_tables_and_does_nothing_else(stack: Stack, master_database: str) -> None:
    _execute(stack, master_database, "CREATE TABLE product (id INT)", "CREATE TABLE salary (id INT)")
    with stack.database.connect("reader", master_database) as connection, connection.cursor() as cursor:
        assert cursor.execute("SELECT * FROM product") == 0
        for refused in ("INSERT INTO product VALUES (1)", "SELECT * FROM salary", "CREATE TABLE store (id INT)"):
            with pytest.raises(pymysql.MySQLError, match="denied"):
                cursor.execute(refused)


def test_text_that_does_not_fit_is_refused_and_every_character_is_kept(stack: Stack, master_database: str) -> None:
    _execute(stack, master_database, "CREATE TABLE product (name VARCHAR(3))")
    with pytest.raises(pymysql.MySQLError, match="too long"):
        _execute(stack, master_database, "INSERT INTO product VALUES ('four')")
    _execute(stack, master_database, "INSERT INTO product VALUES ('é🥖漢')")
    assert _names(stack, master_database) == ["é🥖漢"]


@pytest.mark.mysql
def test_the_database_is_the_one_that_was_asked_for(stack: Stack) -> None:
    asked = os.environ.get("MILLRACE_DATABASE") or stack.database.kind
    with stack.database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT VERSION()")
        [version] = cursor.fetchone()
    assert ("mariadb" if "MariaDB" in version else "mysql") == asked


@pytest.mark.mysql
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_database_that_was_ended_comes_back_on_its_port_with_its_rows(
    stack: Stack, master_database: str, end: str
) -> None:
    _execute(stack, master_database, "CREATE TABLE product (name VARCHAR(9))", "INSERT INTO product VALUES ('bun')")
    port = stack.database.port
    getattr(stack.database, end)()
    assert not stack.database.answers()
    assert not stack.database.running
    stack.database.start()
    assert stack.database.port == port
    assert _names(stack, master_database) == ["bun"]


def test_a_killed_broker_comes_back_on_its_port_with_its_messages(stack: Stack, topic: str) -> None:
    stack.kafka.create_topic(topic, partitions=1)
    _send(stack, topic, 0, b"kept")
    port = stack.kafka.port
    stack.kafka.kill()
    assert not stack.kafka.answers()
    stack.kafka.start()
    assert stack.kafka.port == port
    assert _messages(stack, topic, 0) == [b"kept"]


def test_supervised_servers_do_not_outlive_a_starter_killed_with_minus_nine(own_stack: Stack) -> None:
    starter = _up_in_another_process(own_stack, supervised=True)
    assert None not in own_stack.status().values()
    starter.kill()
    _until(lambda: set(own_stack.status().values()) == {None}, "the servers are gone")
    assert own_stack.kafka.ports_are_free()


def test_detached_servers_outlive_their_starter_and_the_next_up_finds_them(own_stack: Stack) -> None:
    starter = _up_in_another_process(own_stack, supervised=False)
    before = own_stack.status()
    starter.kill()
    starter.wait()
    own_stack.up()
    assert own_stack.status() == before
    assert None not in before.values()
    Stack(own_stack.folder).down()
    assert set(own_stack.status().values()) == {None}


def test_an_up_killed_at_any_moment_is_mended_by_the_next(own_stack: Stack) -> None:
    moments = random.Random(9)
    for _ in range(4):
        starter = _up_in_another_process(own_stack, supervised=False, wait=False)
        with pytest.raises(subprocess.TimeoutExpired):
            starter.wait(moments.uniform(0.4, 2.5))
        starter.kill()
        starter.wait()
    own_stack.up()
    assert own_stack.kafka.answers()
    assert own_stack.database.answers()
    own_stack.down()
    mine = [command for command in _commands() if str(own_stack.folder) in command]
    assert mine == [], "left behind"


def test_a_process_that_only_has_the_servers_old_number_is_left_alone(own_stack: Stack) -> None:
    bystander = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        own_stack.database.folder.mkdir(parents=True)
        recorded = {"pid": bystander.pid, "started": f"{supervisor.start_time(bystander.pid)}0"}
        (own_stack.database.folder / "pid.json").write_text(json.dumps(recorded))
        own_stack.down()
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_stack_runs_below_a_folder_with_blanks_accents_and_percent_signs_in_any_locale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    stack = Stack(tmp_path / "5 % für Zoé" / "stäck", supervised=True)
    starter = _up_in_another_process(stack, supervised=True)
    try:
        assert stack.kafka.answers()
        assert stack.database.answers()
        assert (stack.kafka.data / "meta.properties").is_file()
        assert [path.name for path in tmp_path.iterdir()] == ["5 % für Zoé"], "a stray folder was left beside it"
        assert load(stack.info().settings_file, (), {}).warehouse.path == str(stack.folder / "warehouse")
    finally:
        starter.kill()
        starter.wait()
        _until(lambda: set(stack.status().values()) == {None}, "the servers are gone")


def test_a_server_that_dies_while_starting_says_why(own_stack: Stack) -> None:
    broker = own_stack.kafka
    broker.choose_ports()
    broker.prepare()
    (broker.folder / "data" / "meta.properties").write_text("node.id=none\n")
    with pytest.raises(ServerFailed, match=r"(?s)kafka ended while starting.*kafka\.log:.*node ID not found"):
        broker.start()
    assert not broker.running


def test_a_port_that_was_taken_meanwhile_is_given_up_for_another(own_stack: Stack) -> None:
    own_stack.database.choose_ports()
    with socket.socket() as squatter:
        squatter.bind((LOOPBACK, own_stack.database.port))
        squatter.listen()
        taken = own_stack.database.port
        info = own_stack.up()
    assert info.port == own_stack.database.port != taken


def _up_in_another_process(stack: Stack, supervised: bool, wait: bool = True) -> subprocess.Popen[str]:
    program = (
        "import sys; from pipeline.laptop.stack.stack import Stack; "
        f"Stack({str(stack.folder)!r}, supervised={supervised}).up(); print('up', flush=True); sys.stdin.read()"
    )
    pipe = subprocess.PIPE
    starter = subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, text=True)
    if wait:
        assert starter.stdout
        assert starter.stdout.readline() == "up\n"
    return starter


def _until(condition: Callable[[], bool], what: str, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.05)


def _execute(stack: Stack, database: str, *statements: str) -> None:
    stack.database.execute(*statements, role="owner", database=database)


def _names(stack: Stack, database: str) -> list[str]:
    with stack.database.connect("owner", database) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT name FROM product")
        return [name for (name,) in cursor.fetchall()]


def _send(stack: Stack, topic: str, partition: int, message: bytes) -> None:
    failed = []
    limits = {"message.max.bytes": 16 << 20, "message.timeout.ms": 10_000, "topic.metadata.propagation.max.ms": 1_000}
    producer = Producer({"bootstrap.servers": stack.kafka.bootstrap, "log_level": 0, **limits})
    producer.produce(topic, message, partition=partition, on_delivery=lambda error, _: failed.append(error))
    producer.flush(20)
    assert failed == [None], failed[0].name() if failed[0] else "not delivered"


def _messages(stack: Stack, topic: str, partition: int) -> list[bytes]:
    """What the partition holds, read by a client that shares nothing with the producer."""
    place = TopicPartition(topic, partition)
    consumer = KafkaConsumer(bootstrap_servers=stack.kafka.bootstrap, max_partition_fetch_bytes=16 << 20)
    try:
        consumer.assign([place])
        consumer.seek_to_beginning(place)
        end, found = consumer.end_offsets([place])[place], []
        while consumer.position(place) < end:
            found += [record.value for records in consumer.poll(1_000).values() for record in records]
        return found
    finally:
        consumer.close()


def _listening() -> Iterator[tuple[str, int]]:
    """The addresses and ports this machine listens on, as the kernel lists them."""
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            address, state = line.split()[1], line.split()[3]
            host, _, port = address.partition(":")
            if state == _LISTENING:
                packed = bytes.fromhex(host)[::-1]
                yield socket.inet_ntoa(packed) if table == "tcp" else host, int(port, 16)


def _commands() -> list[str]:
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:  # it ended while we looked
            continue
    return found
