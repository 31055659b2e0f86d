"""`millrace explain` ends with the verdict of `millrace run`, and says of each join why it cannot work on a table."""

import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from pipeline.cli import app
from pipeline.config.contracts import Contracts
from pipeline.joins import JOINS

PRODUCT, CUSTOMER, STORE = (Contracts().ddl(name) for name in ("product", "customer", "store"))
NO_KEY = STORE.replace("PRIMARY KEY (store_code)", "id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, KEY (store_code)")


@pytest.fixture
def own(stack, master_database, topic, tmp_path):
    """Makes the three tables in a database of their own, and gives the settings that name them."""

    def make(*ddl: str) -> dict[str, str]:
        with stack.database.connect("owner", master_database) as connection, connection.cursor() as cursor:
            for statement in ddl:
                cursor.execute(statement)
        stack.kafka.create_topic(topic, partitions=1)
        info = stack.info()
        return {
            "kafka.bootstrap": info.bootstrap,
            "kafka.topics": topic,
            "master.host": info.host,
            "master.port": str(info.port),
            "master.user": info.reader.user,
            "master.password": info.reader.password,
            "master.database": master_database,
            "master.costs": str(tmp_path / "none.toml"),
            "metrics.port": "0",
        }

    return make


def explain(settings: dict[str, str], **changed: str):
    return CliRunner().invoke(app, ["explain", *_assignments(settings, changed)])


def run(settings: dict[str, str], **changed: str) -> str:
    """What `millrace run` says, that refuses to start."""
    command = [sys.executable, "-m", "pipeline.cli", "run", *_assignments(settings, changed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done.stderr
    return done.stderr[done.stderr.index("millrace: ") + len("millrace: ") :].strip()


def _assignments(settings: dict[str, str], changed: dict[str, str]) -> list[str]:
    named = settings | {name.replace("__", "."): value for name, value in changed.items()}
    return [part for key, value in named.items() for part in ("--set", f"{key}={value}")]


def table_of(dimension: str, told: str) -> str:
    return re.search(rf"^{dimension}: [\d,]+ rows.*?\n\n", told, re.MULTILINE | re.DOTALL)[0]


def test_where_everything_fits_the_verdict_is_that_run_would_start(own):
    done = explain(own(PRODUCT, CUSTOMER, STORE))
    assert done.exit_code == 0, done.output
    assert "verdict      `millrace run` would start" in done.stdout
    assert "looking at master table product" in done.stderr  # nobody waits in silence
    # And what no join could do better on this table.
    store = table_of("store", done.stdout)
    assert re.search(r"whatever rows are kept: 32 MiB of those most wanted serve \d+% of the sales at most", store)
    assert re.search(r"for the rate, the least memory is [\d.]+ \w+ if the others are scanned, by SSBJ's rule", store)


def test_without_a_unique_index_a_join_that_needs_one_is_refused_as_run_refuses_it_and_each_says_why(own):
    settings = own(PRODUCT, CUSTOMER, NO_KEY) | {"dimensions.store.algorithm": "hybridjoin"}
    done = explain(settings)
    assert done.exit_code == 2
    assert run(settings) in done.stdout
    store = table_of("store", done.stdout)
    for name in JOINS:
        can = name in ("auto", "inlj", "meshjoin", "r-meshjoin", "cmeshjoin")
        assert bool(re.search(rf"^[* ] {re.escape(name)} +[\d,]+ ", store, re.MULTILINE)) == can, (name, store)
        impossible = rf"^[* ] {re.escape(name)} +not on this table: it has no unique index on \(store_code\)"
        assert bool(re.search(impossible, store, re.MULTILINE)) != can, (name, store)


@pytest.mark.parametrize("join", ["auto", "inlj", "meshjoin", "cmeshjoin", "front stage + r-meshjoin"])
def test_without_a_unique_index_the_scans_work_behind_a_front_stage_too_and_what_it_means_is_told(own, join):
    settings = own(PRODUCT, CUSTOMER, NO_KEY)
    stage = str(join.startswith("front stage")).lower()
    done = explain(settings, dimensions__store__algorithm=join.split(" + ")[-1], dimensions__store__front_stage=stage)
    assert done.exit_code == 0, done.output
    assert re.search(rf"^\* {re.escape(join)} +[\d,]+ ", table_of("store", done.stdout), re.MULTILINE)
    assert "a key with several rows gives a fact for each" in done.stdout


def test_without_any_index_on_the_key_look_ups_are_refused(own):
    settings = own(PRODUCT, CUSTOMER, NO_KEY, "ALTER TABLE store DROP INDEX store_code")
    done = explain(settings, dimensions__store__algorithm="inlj")
    assert done.exit_code == 2
    assert run(settings | {"dimensions.store.algorithm": "inlj"}) in done.stdout
    assert re.search(r"^\* inlj +not on this table", table_of("store", done.stdout), re.MULTILINE)


def test_a_budget_too_small_is_refused_as_run_refuses_it(own):
    wide = f"INSERT INTO product VALUES ('P-1', 1, '', '{'x' * 40}', '{'y' * 40}', NOW(6))"
    small = {"dimensions.product.memory": "11 KiB", "dimensions.product.algorithm": "meshjoin"}  # enough if empty
    settings = own(PRODUCT, CUSTOMER, STORE, wide) | small
    done = explain(settings)
    assert done.exit_code == 2
    assert run(settings) in done.stdout
    assert re.search(r"^\* meshjoin +needs at least [\d.]+ KiB of memory", done.stdout, re.MULTILINE)


def test_a_topic_that_is_not_there_and_a_table_that_is_not_as_its_contract_are_both_told(own):
    settings = own(PRODUCT, CUSTOMER, STORE.replace("region", "area")) | {"kafka.topics": "nowhere"}
    done = explain(settings)
    assert done.exit_code == 2
    assert run(settings) in done.stdout  # which ends with the first
    assert "kafka.topics names nowhere" in done.stdout
    assert "the contract of dimension store names this column" in done.stdout


def test_a_database_that_does_not_answer_is_one_sentence(own):
    done = explain(own(), master__port="1")
    assert done.exit_code == 2
    assert done.stdout.count("would refuse") == 1
    assert "Traceback" not in done.output


def test_a_job_that_stops_when_all_is_worked_off_can_be_explained(own):
    assert explain(own(PRODUCT, CUSTOMER, STORE), job__trigger="available-now").exit_code == 0
