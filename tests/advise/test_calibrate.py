"""`millrace calibrate` and `millrace explain` on a real server."""

import re

import pytest
from typer.testing import CliRunner

from pipeline.cli import app
from pipeline.errors import BadSetting
from pipeline.joins import JOINS
from pipeline.joins.cost import costs_file as costs
from pipeline.joins.cost.inlj import PER_TUPLE


@pytest.fixture
def assignments(seeded, stack, topic, tmp_path) -> list[str]:
    stack.kafka.create_topic(topic, 1)
    settings = {
        "kafka.bootstrap": seeded.bootstrap,
        "kafka.topics": topic,
        "master.host": seeded.host,
        "master.port": seeded.port,
        "master.user": seeded.reader.user,
        "master.password": seeded.reader.password,
        "master.database": seeded.database,
        "master.costs": str(tmp_path / "costs.toml"),
    }
    return [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]


@pytest.mark.slow
def test_calibrate_measures_each_dimension_and_explain_goes_by_it(assignments, tmp_path):
    before = CliRunner().invoke(app, ["explain", *assignments])
    assert before.exit_code == 0, before.output
    assert "built in" in before.stdout
    done = CliRunner().invoke(app, ["calibrate", *assignments])
    assert done.exit_code == 0, done.output
    measured = costs.load(str(tmp_path / "costs.toml"))
    assert set(measured) == {"product", "customer", "store"}
    for unit in (measured["product"].lookup, measured["product"].page, measured["product"].scan):
        assert unit.request > 0 < unit.item < 1e-3
    assert {name for name, _ in measured["product"].loops} <= {*JOINS, PER_TUPLE}
    after = CliRunner().invoke(app, ["explain", *assignments])
    assert "measured by `millrace calibrate`" in after.stdout


def test_calibrate_does_not_measure_the_waits_for_a_cap():
    told = CliRunner().invoke(app, ["calibrate", "--set", "master.rows_per_second=500"])
    assert isinstance(told.exception, BadSetting)
    assert "--set master.rows_per_second=0" in str(told.exception)


def test_explain_shows_every_join_side_by_side_and_marks_the_chosen_one(assignments):
    chosen = ["--set", "dimensions.product.algorithm=hybridjoin", "--set", "dimensions.product.memory=2 MiB"]
    told = CliRunner().invoke(app, ["explain", "--rate", "50000", *assignments, *chosen]).stdout
    table = told[told.index("product: 20,000 rows") : told.index("customer: 10,000 rows")]
    for name in JOINS:
        assert re.search(rf"^[* ] {re.escape(name)} +[\d,]+ ", table, re.MULTILINE), (name, table)
    assert re.findall(r"^\* (\S+)", table, re.MULTILINE) == ["hybridjoin"]
    assert re.search(
        r"takes (look-ups|a scan): for [\d,]+ sales that wait look-ups take [\d.]+ s, the scan [\d.]+ s", table
    )


def test_explain_offline_reads_nothing(tmp_path):
    nowhere = ["--set", "master.port=1", "--set", f"master.costs={tmp_path / 'none'}"]
    told = CliRunner().invoke(app, ["explain", "--offline", *nowhere])
    assert told.exit_code == 0
    assert "sales/s" not in told.stdout
