"""The database of docker-compose.yml: a real MySQL with the mounted settings, initialised by the mounted files."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pymysql
import pytest

from pipeline.laptop.stack import database_programs
from pipeline.laptop.stack.database import MASTER, Database
from pipeline.laptop.stack.database_programs import DatabaseProgram
from tests.deploy.compose import ROOT, mounts
from tests.kit.mysql_server import real_mysql

pytestmark = pytest.mark.slow

PASSWORD = "it's a \\ secret"
INIT = "/docker-entrypoint-initdb.d/"


@pytest.fixture(scope="module")
def mysql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    folder = tmp_path_factory.mktemp("mysql")
    [mounted] = [source for place, source in mounts("mysql").items() if place.startswith("/etc/mysql/conf.d/")]

    def with_the_mounted_settings() -> DatabaseProgram:
        program = real_mysql()
        # The server refuses a settings file with a name it does not know, or that others may write.
        (folder / "millrace.cnf").write_text((ROOT / mounted).read_text())
        (folder / "millrace.cnf").chmod(0o644)
        option = f"--defaults-file={folder / 'millrace.cnf'}"
        swapped = {
            part: tuple(option if word == "--no-defaults" else word for word in getattr(program, part))
            for part in ("server", "initialise")
        }
        assert option in swapped["server"]
        return replace(program, **swapped)

    server = Database(folder, supervised=True, program=with_the_mounted_settings)
    server.start()
    # This account is the embedded stack's own, and would be taken for the one that is to be made.
    server.execute(f"DROP USER '{server.accounts.reader.user}'@'127.0.0.1'")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def initialised(mysql: Database, tmp_path_factory: pytest.TempPathFactory) -> Database:
    """As the image's entry point does it: in the order of the names, .sql to the client, .sh sourced."""
    secret = tmp_path_factory.mktemp("secret") / "mysql_reader"
    secret.write_text(f"{PASSWORD}\n")
    files = sorted((place, ROOT / source) for place, source in mounts("mysql").items() if place.startswith(INIT))
    for _, file in files:
        sql = file.read_text() if file.suffix == ".sql" else said_by(file, secret)
        statements = [statement for statement in sql.split(";\n") if statement.strip()]
        mysql.execute(*statements, role="admin", database=MASTER)
    return mysql


def said_by(script: Path, secret: Path, executable: bool = False) -> str:
    """What a script gives to the client: run if it is executable, else sourced, as the entry point does it."""
    own = secret.parent / script.name
    own.write_text(script.read_text())
    own.chmod(0o755 if executable else 0o644)
    (secret.parent / "mysql").write_text("#!/bin/sh\ncat\n")
    (secret.parent / "mysql").chmod(0o755)
    way = "" if executable else ". "
    command = f'set -eo pipefail; shopt -s nullglob; {way}"{own}"; shopt -po nounset >&2 || true; set >&2'
    environment = {"MYSQL_READER_PASSWORD_FILE": str(secret), "PATH": f"{secret.parent}:/usr/bin:/bin"}
    done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "set +o nounset" in done.stderr  # of the entry point, whose shell it is
    assert "password=" not in done.stderr
    return done.stdout


def test_the_script_says_the_same_executed_as_sourced_and_a_failure_ends_the_set_up(tmp_path: Path) -> None:
    [script] = [ROOT / source for place, source in mounts("mysql").items() if place.endswith(".sh")]
    secret = tmp_path / "secret"
    secret.write_text(f"{PASSWORD}\n")
    said = said_by(script, secret)
    assert "IDENTIFIED BY 'it''s a \\\\ secret';" in said
    assert said_by(script, secret, executable=True) == said
    for executable in (True, False):
        with pytest.raises(AssertionError, match="No such file"):
            said_by(script, tmp_path / "missing", executable)


def test_the_server_takes_every_mounted_setting(mysql: Database) -> None:
    asked = [*mysql._program.server, *database_programs.as_root(), "--verbose", "--help"]
    listed = subprocess.run(asked, check=True, capture_output=True, text=True).stdout
    values = dict(re.findall(r"^([a-z-]+) {2,}(\S+)$", listed, re.MULTILINE))
    assert values["max-connections"] == "200"
    assert int(values["innodb-buffer-pool-size"]) == 512 << 20
    assert int(values["max-allowed-packet"]) == 64 << 20
    assert (values["local-infile"], values["skip-name-resolve"]) == ("FALSE", "TRUE")
    assert values["character-set-server"] == "utf8mb4"
    assert "MariaDB" not in listed


def test_the_job_s_account_reads_the_three_tables_and_nothing_else(initialised: Database) -> None:
    connection = pymysql.connect(
        host="127.0.0.1",
        port=initialised.port,
        user="millrace_reader",
        password=PASSWORD,
        database=MASTER,
        ssl={"check_hostname": False},
    )
    with connection, connection.cursor() as cursor:
        for table in ("product", "customer", "store"):
            cursor.execute(f"SELECT {table}_key FROM {table}")
        for forbidden in (
            "DELETE FROM product",
            "CREATE TABLE mine (a INT)",
            "SELECT user FROM mysql.user",
            "DROP TABLE store",
        ):
            with pytest.raises(pymysql.MySQLError, match="denied"):
                cursor.execute(forbidden)
