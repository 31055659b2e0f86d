"""Maintenance of real tables: smaller afterwards, and every fact still there."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date, datetime, timezone
from pathlib import Path
from types import SimpleNamespace

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from pipeline import history
from pipeline.config.settings import DimensionSettings, JobSettings, Settings, SparkSettings
from pipeline.driver.session import open_session
from pipeline.errors import BadSetting, WarehouseRefused
from pipeline.history.layout import HistoryLayout
from pipeline.history.record import SyncRecord
from pipeline.history.table import HistoryTable
from pipeline.history.versions import Edit, Version
from pipeline.plan import Plan, resolve
from pipeline.warehouse.maintain import maintain, refuse_what_is_not_safe
from pipeline.warehouse.port import Batch
from pipeline.warehouse.warehouse import TwoStepWarehouse, make_warehouse
from pipeline.warehouse.wishes import Wishes
from tests.kit.warehouse_samples import APPLICATION, FACTS, REJECTS, fact, reject, warehouse_settings, written

CLOSED, OPEN = date(2026, 11, 17), date(2026, 11, 18)
pytestmark = pytest.mark.slow

BATCHES = 6
DAY = 24 * 3600


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = open_session(Settings(spark=SparkSettings(conf={"spark.sql.shuffle.partitions": "1"})))
    yield session
    session.stop()


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    settings = Settings(warehouse=warehouse_settings(tmp_path), job=JobSettings(name=APPLICATION))
    return replace(resolve(Settings()), settings=settings, facts=FACTS, rejects=REJECTS)


@pytest.fixture
def warehouse(spark: SparkSession, plan: Plan) -> TwoStepWarehouse:
    """Six batches: each brings a file for the closed day, one for the open day, and a reject."""
    opened = make_warehouse(plan.settings.warehouse, FACTS, [REJECTS], APPLICATION, spark)
    assert isinstance(opened, TwoStepWarehouse)
    opened.prepare()
    for number in range(BATCHES):
        opened.commit(a_batch(plan, number))
    return opened


def a_batch(plan: Plan, number: int) -> Batch:
    where = plan.settings.warehouse
    rows = [fact(number, day=CLOSED), fact(1000 + number, day=OPEN)]
    return Batch(number, written(where, FACTS, rows), {"rejects": written(where, REJECTS, [reject(f"no {number}")])})


def facts_of(plan: Plan) -> DeltaTable:
    return DeltaTable(f"{plan.settings.warehouse.path}/facts")


def numbers(plan: Plan) -> list[int]:
    return sorted(facts_of(plan).to_pyarrow_table()["number"].to_pylist())


def files_of(plan: Plan, day: date) -> list[Path]:
    return sorted(Path(plan.settings.warehouse.path, "facts").glob(f"day={day}/**/*.parquet"))


def live_files(plan: Plan, day: date) -> int:
    return facts_of(plan).get_add_actions(flatten=True)["partition.day"].to_pylist().count(day)


def said(spark: SparkSession, plan: Plan, **wishes: object) -> list[str]:
    lines: list[str] = []
    maintain(spark, plan, Wishes(today=OPEN, **wishes), lines.append)  # type: ignore[arg-type]
    return lines


EVERYTHING = list(range(BATCHES)) + [1000 + n for n in range(BATCHES)]


def test_a_dry_run_tells_what_it_would_do_and_does_nothing(spark, plan, warehouse) -> None:
    before = sorted(path for path in Path(plan.settings.warehouse.path).rglob("*") if path.suffix != ".crc")
    lines = said(spark, plan, dry_run=True)
    assert "facts: would merge 6 small files of 1 closed partitions into about 1" in lines
    assert "facts: would delete 0 files that left the table more than 168 h ago" in lines
    after = sorted(path for path in Path(plan.settings.warehouse.path).rglob("*") if path.suffix != ".crc")
    assert after == before
    assert facts_of(plan).version() == BATCHES


def test_small_files_of_closed_days_become_one_and_the_open_day_is_left_alone(spark, plan, warehouse) -> None:
    lines = said(spark, plan, steps=("optimize",))
    assert "facts: merge 6 small files of 1 closed partitions into about 1: 6 became 1" in lines
    assert (live_files(plan, CLOSED), live_files(plan, OPEN)) == (1, BATCHES)
    assert numbers(plan) == EVERYTHING


def test_a_second_run_finds_nothing_to_merge(spark, plan, warehouse) -> None:
    said(spark, plan, steps=("optimize",))
    version = facts_of(plan).version()
    assert "facts: merge nothing: no closed partition has two small files" in said(spark, plan, steps=("optimize",))
    assert facts_of(plan).version() == version


def test_a_running_job_goes_on_committing_after_a_merge(spark, plan, warehouse) -> None:
    said(spark, plan)
    warehouse.commit(a_batch(plan, BATCHES))
    assert numbers(plan) == sorted([*EVERYTHING, BATCHES, 1000 + BATCHES])
    assert warehouse.last_batch() == BATCHES


def test_commits_made_during_maintenance_are_all_there_afterwards(spark, plan, warehouse) -> None:
    maintained = threading.Event()
    committed: list[int] = []

    def go_on() -> None:
        over = False
        while not over:
            number = BATCHES + len(committed)
            warehouse.commit(a_batch(plan, number))
            committed.append(number)
            over = maintained.wait(0.3)  # a job's trigger: Spark's own commit, a second long, has to find a gap

    with ThreadPoolExecutor(1) as job:
        running = job.submit(go_on)
        try:
            said(spark, plan)
        finally:
            maintained.set()
        running.result()
    later = [*committed, *(1000 + number for number in committed)]
    assert numbers(plan) == sorted([*EVERYTHING, *later])
    assert warehouse.last_batch() == committed[-1]


def test_vacuum_keeps_what_running_readers_may_still_need(spark, plan, warehouse) -> None:
    said(spark, plan, steps=("optimize", "vacuum"))
    assert len(files_of(plan, CLOSED)) == BATCHES + 1
    assert DeltaTable(facts_of(plan).table_uri, version=BATCHES).to_pyarrow_table().num_rows == len(EVERYTHING)


def test_vacuum_deletes_what_killed_tasks_left_long_ago_and_nothing_younger(spark, plan, warehouse) -> None:
    folder = files_of(plan, CLOSED)[0].parent
    old, young = folder / "old.parquet", folder / "young.parquet"
    for file in (old, young):
        file.write_bytes(b"half a file")
    os.utime(old, times=(time.time() - 8 * DAY,) * 2)
    assert any(line.endswith("old.parquet") for line in said(spark, plan, steps=("vacuum",), dry_run=True))
    assert old.exists()
    said(spark, plan, steps=("vacuum",))
    assert (old.exists(), young.exists()) == (False, True)
    assert numbers(plan) == EVERYTHING


def test_vacuum_spares_what_left_the_table_within_as_many_hours_as_are_said(spark, plan, warehouse) -> None:
    folder = files_of(plan, CLOSED)[0].parent
    for hours in (1, 30):
        (left := folder / f"{hours}.parquet").write_bytes(b"half a file")
        os.utime(left, times=(time.time() - hours * 3600,) * 2)
    said(spark, plan, steps=("vacuum",), retain_hours=24, forced=frozenset({"facts", "rejects"}))
    assert ((folder / "1.parquet").exists(), (folder / "30.parquet").exists()) == (True, False)
    assert numbers(plan) == EVERYTHING


def test_a_shorter_retention_is_refused_unless_the_table_is_named(spark, plan, warehouse) -> None:
    with pytest.raises(WarehouseRefused, match=r"below the 168 h .* --force facts"):
        said(spark, plan, retain_hours=0)
    assert live_files(plan, CLOSED) == BATCHES, "nothing may be done before all is checked"
    with pytest.raises(WarehouseRefused, match="--force rejects"):
        said(spark, plan, retain_hours=0, forced=frozenset({"facts"}))
    said(spark, plan, retain_hours=0, forced=frozenset({"facts", "rejects"}))
    assert len(files_of(plan, CLOSED)) == 1
    assert numbers(plan) == EVERYTHING


def test_forcing_a_table_that_is_not_there_is_a_slip(spark, plan, warehouse) -> None:
    with pytest.raises(BadSetting, match="fcats"):
        said(spark, plan, forced=frozenset({"fcats"}))


def test_expired_log_entries_go_and_every_reader_still_reads_the_table(spark, plan, warehouse) -> None:
    log = Path(plan.settings.warehouse.path, "facts", "_delta_log")
    for entry in log.glob("*"):
        os.utime(entry, times=(time.time() - 8 * DAY,) * 2)
    newest = log / f"{BATCHES:020}.json"
    os.utime(newest)
    lines = said(spark, plan, steps=("log",))
    assert "facts: write a checkpoint of version 6 and drop 6 log entries: 6 dropped (older than 168 h)" in lines
    assert [entry.name for entry in log.glob("*.json")] == [newest.name]
    assert numbers(plan) == EVERYTHING
    assert spark.read.format("delta").load(facts_of(plan).table_uri).count() == len(EVERYTHING)
    assert warehouse.last_batch() == BATCHES - 1


def test_a_batch_whose_rejects_are_not_committed_yet_stops_all_maintenance(spark, plan, warehouse) -> None:
    rejects = Path(plan.settings.warehouse.path, "rejects", "_delta_log")
    (rejects / f"{BATCHES:020}.json").unlink()  # the driver died between the two commits
    with pytest.raises(WarehouseRefused, match=r"batch 5 of .* still has to be committed to rejects. Start that job"):
        said(spark, plan)
    assert facts_of(plan).version() == BATCHES


def test_on_s3_the_jobs_must_be_said_to_be_stopped() -> None:
    logs = {"facts": SimpleNamespace(uri="s3a://lake/facts")}
    with pytest.raises(WarehouseRefused, match="--job-is-stopped"):
        refuse_what_is_not_safe(FACTS, logs, SimpleNamespace(facts=None), Wishes())  # type: ignore[arg-type]


def test_the_script_runs_by_itself_and_says_that_there_is_nothing_yet(tmp_path: Path) -> None:
    script = Path(__file__).resolve().parents[2] / "jobs" / "maintain.py"
    command = [sys.executable, str(script), "--dry-run", "--set", f"warehouse.path={tmp_path}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "fact_sales: there is no such table yet, nothing to do",
        "sales_rejects: there is no such table yet, nothing to do",
    ]


def test_the_histories_of_dimensions_are_maintained_too_and_go_on(spark, plan) -> None:
    settings = replace(plan.settings, dimensions={"store": DimensionSettings(history="type 2")})
    plan = replace(plan, settings=settings)
    table = HistoryTable(HistoryLayout(plan.dimensions["store"], keeps_ended=True), settings.warehouse)
    table.open()
    at = datetime(2026, 11, 19, 12, 0, 0, 250_001, timezone.utc)
    said = SyncRecord("store", 0, "server/log.1:4", 0, "", 1, "server/log.1:4", at, 1, "the history begins")
    for number in range(1, 5):
        version = Version(number, (f"S-{number}", number, at, "Graz", "south"), at, said.epoch_place)
        said = said.next(next_number=number + 1)
        table.commit(Edit(begun={number: version}), said)
    keys = [(f"S-{number}",) for number in range(1, 5)]
    before = sorted(table.present(keys), key=lambda version: version.number)
    lines: list[str] = []
    maintain(spark, plan, Wishes(), lines.append, history.tables(plan))
    assert "dim_store: merge 4 small files of 1 closed partitions into about 1: 4 became 1" in lines
    assert table.newest() == said
    assert sorted(table.present(keys), key=lambda version: version.number) == before
    ended = before[1].ended(at, "server/log.1:9#1")
    table.commit(Edit(changed={2: ended}), said.next())
    assert {version.number for version in table.present(keys)} == {1, 3, 4}
