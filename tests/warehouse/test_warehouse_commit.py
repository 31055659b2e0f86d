"""One batch, one commit: on real Delta tables, without Spark."""

import json
import os
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from urllib.parse import unquote

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.config.settings import Settings
from pipeline.errors import BadContract, BadSetting, StorageFailed, WarehouseRefused
from pipeline.warehouse import log, places
from pipeline.warehouse.log import TableLog
from pipeline.warehouse.warehouse import TwoStepWarehouse, make_warehouse
from tests.kit.committers import ArrowOnCue
from tests.kit.warehouse_samples import (
    APPLICATION,
    FACTS,
    REJECTS,
    batch_of,
    column,
    contract,
    create,
    fact,
    reject,
    rows_of,
    warehouse_settings,
    written,
)


@pytest.fixture
def where(tmp_path):
    created = warehouse_settings(tmp_path / "a lake [1]")
    create(created)
    return created


def opened(where, application: str = APPLICATION, facts=FACTS) -> TwoStepWarehouse:
    warehouse = make_warehouse(where, facts, [REJECTS], application, spark=None)
    warehouse.prepare()
    return warehouse


def opened_with(where, committer: ArrowOnCue) -> TwoStepWarehouse:
    warehouse = TwoStepWarehouse(where, FACTS, [REJECTS], APPLICATION, None, committer)
    warehouse.prepare()
    return warehouse


def versions(where, table: str = "facts") -> int:
    return DeltaTable(f"{where.path}/{table}").version()


def test_a_batch_adds_its_rows_to_all_tables(where):
    warehouse = opened(where)
    assert warehouse.last_batch() is None
    assert warehouse.last_note() is None
    assert warehouse.commit(batch_of(where, 0, [1, 2], ["bad"])) == 1
    assert column(where, "facts", "number") == [1, 2]
    assert column(where, "rejects", "reason") == ["bad"]
    assert warehouse.last_batch() == 0
    assert warehouse.last_note() == {"offsets": {"sales/0": 0}}


def test_a_batch_without_facts_is_recorded_too(where):
    warehouse = opened(where)
    warehouse.commit(batch_of(where, 4, [], ["bad"]))
    assert opened(where).last_batch() == 4
    assert column(where, "rejects", "reason") == ["bad"]


def test_a_batch_without_rejects_leaves_the_rejects_alone(where):
    warehouse = opened(where)
    warehouse.commit(batch_of(where, 1, [1]))
    assert versions(where, "rejects") == 0


def test_a_batch_is_never_committed_twice(where):
    warehouse = opened(where)
    warehouse.commit(batch_of(where, 1, [1]))
    for again in (1, 0):
        with pytest.raises(WarehouseRefused, match=r"two jobs run as job\.name"):
            warehouse.commit(batch_of(where, again, [99]))
    assert column(where, "facts", "number") == [1]


def test_the_second_of_two_drivers_is_refused_whatever_it_saw_before(where):
    first = opened(where)
    prepared = batch_of(where, 1, [99], ["lost"])
    # The first commits when the second has looked at the log and found that the batch is free.
    second = opened_with(where, ArrowOnCue(before=lambda _: first.commit(batch_of(where, 1, [1]))))
    with pytest.raises(WarehouseRefused, match=r"two jobs run as job\.name"):
        second.commit(prepared)
    assert column(where, "facts", "number") == [1]
    assert column(where, "rejects", "reason") == []


def test_applications_do_not_stand_in_each_others_way(where):
    one, other = opened(where, "one"), opened(where, "other")
    one.commit(batch_of(where, 1, [1]))
    other.commit(batch_of(where, 1, [2]))
    assert column(where, "facts", "number") == [1, 2]
    assert (one.last_batch(), other.last_batch()) == (1, 1)


def test_a_lost_answer_is_no_second_commit(where):
    """The commit is in the log, but the driver sees an error: a connection breaks when the store has written."""

    def lose_the_answer(_):
        raise OSError("connection reset")

    warehouse = opened_with(where, ArrowOnCue(after=lose_the_answer))
    assert warehouse.commit(batch_of(where, 1, [1])) == 1
    assert column(where, "facts", "number") == [1]


def test_a_store_that_fails_fails_the_commit(where):
    def fail(_):
        raise OSError("no space left")

    warehouse = opened_with(where, ArrowOnCue(before=fail))
    with pytest.raises(StorageFailed, match="no space left"):
        warehouse.commit(batch_of(where, 1, [1]))
    assert opened(where).last_batch() is None


class Crash(BaseException):
    """The driver dies here."""


def crash_between_facts_and_rejects(where, batch) -> None:
    def die(table):
        if table == "rejects":
            raise Crash

    warehouse = opened_with(where, ArrowOnCue(before=die))
    with pytest.raises(Crash):
        warehouse.commit(batch)


def test_a_crash_between_facts_and_rejects_is_mended_by_finish(where):
    warehouse = opened(where)  # looked at the tables before the crash
    crash_between_facts_and_rejects(where, batch_of(where, 3, [1], ["bad", "worse"]))
    assert column(where, "rejects", "reason") == []
    assert warehouse.last_batch() == 3
    for _ in range(3):
        warehouse.finish(3)
    assert column(where, "rejects", "reason") == ["bad", "worse"]
    assert versions(where, "rejects") == 1
    assert column(where, "facts", "number") == [1]


def test_a_crash_between_facts_and_rejects_is_mended_by_the_next_start(where):
    crash_between_facts_and_rejects(where, batch_of(where, 0, [1], ["bad"]))
    opened(where)
    assert column(where, "rejects", "reason") == ["bad"]
    opened(where).commit(batch_of(where, 1, [2], ["next"]))
    assert column(where, "rejects", "reason") == ["bad", "next"]


def test_two_drivers_may_finish_the_same_batch(where):
    other = opened(where)
    one = opened_with(where, ArrowOnCue(before=lambda _: other.finish(3)))  # when one has seen that it is to be done
    crash_between_facts_and_rejects(where, batch_of(where, 3, [1], ["bad"]))
    one.finish(3)
    assert column(where, "rejects", "reason") == ["bad"]


def test_finish_finds_the_batch_below_many_commits_of_others(where):
    crash_between_facts_and_rejects(where, batch_of(where, 3, [1], ["bad"]))
    table = DeltaTable(f"{where.path}/facts")
    for _ in range(12):
        table.create_write_transaction([], "append", table.schema())
        table.update_incremental()
    opened(where).finish(3)
    assert column(where, "rejects", "reason") == ["bad"]


def test_finish_refuses_a_batch_that_is_not_committed(where):
    with pytest.raises(WarehouseRefused, match="its facts are not committed"):
        opened(where).finish(0)


def test_finish_refuses_when_the_log_has_forgotten_the_batch(where):
    warehouse = opened(where)
    warehouse.commit(batch_of(where, 1, [1]))
    table = DeltaTable(f"{where.path}/facts")
    table.create_write_transaction([], "append", table.schema())
    DeltaTable(f"{where.path}/facts").create_checkpoint()
    (Path(where.path) / "facts/_delta_log/00000000000000000001.json").unlink()
    again = opened(where)
    assert (again.last_batch(), again.last_note()) == (1, None)
    with pytest.raises(WarehouseRefused, match="has left the log"):
        again.finish(1)


def test_a_batch_half_done_by_the_other_writer_names_it(where):
    batch = batch_of(where, 3, [1], ["bad"])
    crash_between_facts_and_rejects(where, batch)
    with pytest.raises(WarehouseRefused, match=r"warehouse.writer = arrow"):
        opened(replace(where, writer="spark"))


def test_the_writer_may_change_when_no_batch_is_half_done(where):
    opened(where).commit(batch_of(where, 3, [1], ["bad"]))
    opened(replace(where, writer="spark")).finish(3)
    assert column(where, "rejects", "reason") == ["bad"]


def test_side_tables_nobody_knows_are_refused_before_anything_is_committed(where):
    warehouse = opened(where)
    with pytest.raises(WarehouseRefused, match="are no side tables"):
        warehouse.commit(replace(batch_of(where, 1, [1]), sides={"elsewhere": []}))
    assert versions(where) == 0


def test_a_commit_goes_through_beside_appends_compaction_and_new_properties(where):
    uri = f"{where.path}/facts"
    opened(where).commit(batch_of(where, 1, [1]))
    opened(where).commit(batch_of(where, 2, [2]))
    others = [
        lambda: DeltaTable(uri).optimize.compact(),
        lambda: DeltaTable(uri).alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 9 days"}),
        lambda: opened(where, "other").commit(batch_of(where, 1, [100])),
    ]

    def others_come_between(_):
        if others:
            others.pop()()

    warehouse = opened_with(where, ArrowOnCue(before=others_come_between))
    for batch in (3, 4, 5):
        warehouse.commit(batch_of(where, batch, [batch]))
    assert not others
    assert column(where, "facts", "number") == [1, 2, 3, 4, 5, 100]


@pytest.mark.parametrize(("seconds", "looks"), [(60.0, 1), (0.0, 2)])
def test_a_commit_looks_at_the_log_once_if_the_last_one_was_a_moment_ago(where, monkeypatch, seconds, looks):
    seen = []
    monkeypatch.setattr(TableLog, "refresh", lambda log, refresh=TableLog.refresh: (seen.append(log.uri), refresh(log)))
    monkeypatch.setattr(log, "_RECENTLY", seconds)
    warehouse = opened(where)
    for number in range(3):
        del seen[:]
        warehouse.commit(batch_of(where, number, [number]))
        assert len(seen) == looks
    assert column(where, "facts", "number") == [0, 1, 2]


def test_a_demand_that_comes_while_the_job_runs_is_refused(where):
    warehouse = opened(where)
    warehouse.commit(batch_of(where, 1, [1]))
    DeltaTable(f"{where.path}/facts").alter.add_constraint({"positive": "number > 0"})
    with pytest.raises(WarehouseRefused, match=r"CHECK constraint positive .*warehouse.writer = spark"):
        warehouse.commit(batch_of(where, 2, [-2]))
    assert column(where, "facts", "number") == [1]


def test_nulls_in_a_column_that_takes_none_are_refused(tmp_path):
    where = warehouse_settings(tmp_path)
    strict = FACTS.schema.set(2, pa.field("number", pa.int64(), nullable=False))
    DeltaTable.create(f"{where.path}/facts", strict, partition_by=list(FACTS.partition_by))
    create(where, REJECTS)
    warehouse = opened(where)
    with pytest.raises(WarehouseRefused, match="column number is NOT NULL"):
        warehouse.commit(batch_of(where, 1, [1, None]))
    warehouse.commit(batch_of(where, 1, [1, 2]))
    assert column(where, "facts", "number") == [1, 2]


def test_the_log_gets_checkpoints_that_remember_the_batch(where, tmp_path):
    where = warehouse_settings(tmp_path / "often")
    create(where, **{"delta.checkpointInterval": "5"})
    warehouse = opened(where)
    for batch in range(12):
        warehouse.commit(batch_of(where, batch, [batch]))
    log = tmp_path / "often/facts/_delta_log"
    assert len(list(log.glob("*.checkpoint.parquet"))) >= 2
    for old in sorted(log.glob("*.json"))[:9]:
        old.unlink()  # a reader has to rely on the checkpoint
    assert opened(where).last_batch() == 11
    assert column(where, "facts", "number") == list(range(12))


def test_old_log_files_are_cleaned_up_and_the_batch_stays_known(where, tmp_path, monkeypatch):
    monkeypatch.setattr("pipeline.warehouse.arrow._COMMITS_BETWEEN_CLEAN_UPS", 6)
    where = warehouse_settings(tmp_path / "old")
    create(where, **{"delta.checkpointInterval": "2", "delta.logRetentionDuration": "interval 1 days"})
    log = tmp_path / "old/facts/_delta_log"
    warehouse = opened(where)
    for batch in range(5):
        warehouse.commit(batch_of(where, batch, [batch]))
    yesterday = (log / "00000000000000000000.json").stat().st_mtime - timedelta(days=3).total_seconds()
    for file in log.iterdir():
        os.utime(file, (yesterday, yesterday))
    warehouse.commit(batch_of(where, 5, [5]))
    assert not (log / "00000000000000000000.json").exists()
    assert opened(where).last_batch() == 5
    assert column(where, "facts", "number") == list(range(6))


def test_another_type_is_refused_by_name(where):
    wrong = contract(**{**{c.name: c.type for c in FACTS.columns}, "price": pa.decimal128(20, 2)})
    with pytest.raises(WarehouseRefused, match=r"column price is decimal\(18,2\), .* needs decimal\(20,2\)"):
        opened(where, facts=wrong)


def test_another_partitioning_is_refused(where):
    with pytest.raises(WarehouseRefused, match=r"partitioned by \(day, shop\), .* needs \(day\)"):
        opened(where, facts=contract(partition_by=["day"]))


def test_a_name_in_other_letters_is_refused(where):
    wrong = contract(**{c.name.replace("price", "Price"): c.type for c in FACTS.columns})
    with pytest.raises(WarehouseRefused, match="column price, the contract Price"):
        opened(where, facts=wrong)


def test_a_table_that_forgets_transactions_is_refused(tmp_path):
    where = warehouse_settings(tmp_path)
    create(where, **{"delta.setTransactionRetentionDuration": "interval 1 days"})
    with pytest.raises(WarehouseRefused, match="would forget which batches"):
        opened(where)


def test_a_folder_that_deltalake_cannot_read_is_refused(tmp_path):
    with pytest.raises(BadSetting, match="folder with a % in its name"):
        places.refuse_unusable(Settings(warehouse=warehouse_settings(tmp_path / "50%")))


def test_a_partition_column_that_cannot_be_one_is_refused(where):
    with pytest.raises(BadContract, match="partition column weight"):
        make_warehouse(where, contract(partition_by=["weight"]), [], APPLICATION, spark=None)


def test_a_lost_table_starts_again_from_nothing(where, tmp_path):
    warehouse = opened(where)
    warehouse.commit(batch_of(where, 1, [1]))
    os.rename(f"{where.path}/facts", tmp_path / "gone")
    create(where, FACTS)
    again = opened(where)
    assert again.last_batch() is None
    again.commit(batch_of(where, 1, [1]))
    assert column(where, "facts", "number") == [1]


VALUES = st.fixed_dictionaries(
    {
        "number": st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3),
        "price": st.none() | st.decimals(-(10**15), 10**15, places=2, allow_nan=False),
        "vast": st.none() | st.decimals(-(10**9), 10**9, places=10, allow_nan=False),
        "weight": st.none() | st.floats(allow_nan=False),
        "text": st.none() | st.text(max_size=40) | st.sampled_from(["a" * 31 + "\U0010ffff" + "z", "a" * 33]),
        "at": st.none() | st.datetimes(timezones=st.just(fact(1)["at"].tzinfo)),
        "born": st.none() | st.dates(),
        "shop": st.none() | st.sampled_from(["a/b", "c d", "%", "ü"]),
    }
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(VALUES, min_size=1, max_size=4), min_size=1, max_size=4), st.data())
def test_filtering_through_the_tables_statistics_finds_every_row(tmp_path, batches, data):
    where = warehouse_settings(tmp_path / os.urandom(4).hex())
    create(where, FACTS)
    create(where, REJECTS)
    warehouse = opened(where)
    everything = []
    for batch, values in enumerate(batches):
        rows = [fact(**row) for row in values]
        everything += rows
        files = written(where, FACTS, rows[:2], rows[2:])
        warehouse.commit(replace(batch_of(where, batch, []), facts=files))
    table = rows_of(FACTS, [{**row, "shop": row["shop"] or None} for row in everything])
    dataset = DeltaTable(f"{where.path}/facts").to_pyarrow_dataset()
    for name in ("number", "price", "vast", "text", "at", "born", "shop"):
        value = data.draw(st.sampled_from(everything))[name]
        if value is None:
            continue
        literal = pa.scalar(value, FACTS.schema.field(name).type)
        for condition in (ds.field(name) == literal, ds.field(name) >= literal, ds.field(name) <= literal):
            assert dataset.count_rows(filter=condition) == table.filter(condition).num_rows, (name, value)


def test_deltalake_and_duckdb_read_only_the_files_that_can_match(where):
    warehouse = opened(where)
    for batch in range(6):
        day = date(2026, 11, 18) + timedelta(days=batch // 3)
        rows = [fact(batch * 10 + i, day=day, text=f"{batch}-{i}") for i in range(10)]
        warehouse.commit(replace(batch_of(where, batch, []), facts=written(where, FACTS, rows)))
    table = DeltaTable(f"{where.path}/facts")
    dataset = table.to_pyarrow_dataset()
    for condition, files in [
        (ds.field("number") == 25, 1),
        (ds.field("text") >= "4", 2),
        (ds.field("day") == date(2026, 11, 18), 3),
        (ds.field("number") > 1000, 0),
    ]:
        assert len(list(dataset.get_fragments(filter=condition))) == files
    pruned = [unquote(uri) for uri in table.file_uris(file_pruning_predicate="number between 25 and 31")]
    assert len(pruned) == 2
    assert duckdb.read_parquet(pruned).filter("number between 25 and 31").shape[0] == 7
    counted = duckdb.sql("select count(*), sum(number) from dataset where number between 25 and 31").fetchall()
    assert counted == [(7, sum(range(25, 32)))]


def test_the_commit_is_marked_for_people_too(where):
    opened(where).commit(batch_of(where, 1, [1], ["bad"]))
    said = json.loads(DeltaTable(f"{where.path}/facts").history(1)[0]["userMetadata"])
    assert (said["application"], said["batch"], said["writer"]) == (APPLICATION, 1, "arrow")
    assert [file["rows"] for file in said["sides"]["rejects"]] == [1]
    assert reject("bad")["reason"] in said["sides"]["rejects"][0]["stats"]
