"""A history is the master's own: kept by triggers of the database, read from the table by DuckDB, and compared."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake.exceptions import CommitFailedError

from pipeline.config.contracts import DimensionContract, KeyColumn
from pipeline.errors import BadSetting, FeedRefused, MasterReadFailed, WarehouseRefused
from pipeline.history import Wishes, dimension, sync
from pipeline.history.table import HistoryTable
from tests.history.history_world import NAMES, Workload, World
from tests.kit.running import wait_until

pytestmark = pytest.mark.mysql


@pytest.fixture
def world(stack, master_database, tmp_path: Path, monkeypatch) -> World:
    monkeypatch.setattr(dimension, "_PAGE", 7)
    monkeypatch.setattr(dimension, "_ASKED", 5)
    monkeypatch.setattr(dimension, "_MOST_CHANGES", 50)
    world = World(stack, master_database, tmp_path)
    world.make()
    return world


@pytest.fixture
def filled(world: World) -> World:
    """With rows, and a history that has begun."""
    Workload(world, seed=4, keys=20).run(40)
    world.sync()
    return world


def test_a_history_of_type_2_is_the_masters_own_from_a_snapshot_of_a_table_that_changes(world: World) -> None:
    workload, stop = Workload(world, seed=1), threading.Event()
    workload.run(60)
    beside = threading.Thread(target=workload.run, args=(10_000, stop))
    beside.start()
    try:
        world.sync()
    finally:
        stop.set()
        beside.join()
    world.sync()
    assert workload.transactions > 70, "nothing changed beside the snapshot"
    begun = world.behind(world.notes()[0]["epoch_place"])
    assert world.states() == world.kept_by_triggers(begun)


def test_versions_follow_each_other_without_a_gap_and_keep_their_order(filled: World) -> None:
    Workload(filled, seed=5, keys=20).run(60)
    filled.sync()
    ended: dict[str, dict] = {}
    for version in filled.versions():
        before = ended.get(version["product_code"])
        if before:
            assert before["valid_to"] <= version["valid_from"]
            if before["to_position"] == version["from_position"]:
                assert before["valid_to"] == version["valid_from"]
        assert version["is_current"] == (version["valid_to"] is None) == (version["to_position"] is None)
        assert version["valid_to"] is None or version["valid_from"] <= version["valid_to"]
        ended[version["product_code"]] = version
    numbers = [version["version_key"] for version in filled.versions()]
    assert len(set(numbers)) == len(numbers)


def test_a_version_begins_at_the_time_of_its_transaction(filled: World) -> None:
    before = filled.execute("SELECT NOW(6) - INTERVAL 1 SECOND")[0][0]  # MariaDB's log has whole seconds
    filled.execute("INSERT INTO product (product_code, product_key) VALUES ('new', 1)")
    filled.sync()
    after = filled.execute("SELECT NOW(6)")[0][0]
    [version] = [version for version in filled.versions() if version["product_code"] == "new"]
    assert before <= version["valid_from"].replace(tzinfo=None) <= after


def test_type_1_is_the_table_as_it_is(world: World) -> None:
    world.history = "type 1"
    workload = Workload(world, seed=2)
    for _ in range(3):
        workload.run(50)
        world.sync()
        rows = world.execute(f"SELECT {', '.join(f'`{name}`' for name in NAMES)} FROM product")
        assert Counter(world.rows()) == Counter(rows)


def test_a_transaction_larger_than_a_commit_is_there_once_though_the_sync_ends_in_its_middle(
    filled: World, monkeypatch
) -> None:
    monkeypatch.setattr("pipeline.master.mysql.binlog.images._MOST_CHANGES", 20)
    begun = filled.behind_now()
    rows = ", ".join(f"('new {number}', {number})" for number in range(300))
    filled.execute("BEGIN", f"INSERT INTO product (product_code, product_key) VALUES {rows}", "COMMIT")
    filled.execute("BEGIN", "UPDATE product SET stock = 1", "UPDATE product SET stock = 2", "COMMIT")
    commit, left = HistoryTable.commit, iter([True] * 5 + [False] + [True] * 100)

    def breaks(table, edit, said):
        commit(table, edit, said)
        if not next(left):
            raise OSError("the machine is gone")

    monkeypatch.setattr(HistoryTable, "commit", breaks)
    with pytest.raises(OSError, match="gone"):
        filled.sync()
    assert filled.notes()[-1]["changes"] > 0
    filled.sync()
    assert filled.states() == filled.kept_by_triggers(begun)


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("TRUNCATE TABLE product", "it was altered or changed by a statement: TRUNCATE"),
        ("ALTER TABLE product ADD COLUMN other INT NULL FIRST", "table or contract has other columns than before"),
        ("ALTER TABLE product ADD INDEX (stock)", "it was altered or changed by a statement: ALTER"),
        (
            "SET SESSION binlog_format = STATEMENT; UPDATE product SET stock = 4 WHERE product_key % 2",
            "it was altered or changed by a statement: UPDATE",
        ),
    ],
)
def test_after_what_the_log_does_not_tell_a_snapshot_is_compared_and_says_so(
    filled: World, statement: str, reason: str
) -> None:
    known = {key: states for key, states in filled.states().items() if states[-1]}
    filled.execute(*statement.split("; "))
    filled.execute("INSERT INTO product (product_code, product_key) VALUES ('new', 1)")
    filled.sync()
    rows = {row[0]: row for row in filled.execute(f"SELECT {', '.join(f'`{n}`' for n in NAMES)} FROM product")}
    states = filled.states()
    assert {key: found[-1] for key, found in states.items() if found[-1]} == rows
    for key, found in known.items():
        assert states[key] == found or states[key] == [*found, rows.get(key)]
    assert filled.notes()[-1]["reason"].startswith(reason)


def test_where_the_log_is_gone_a_snapshot_is_compared(filled: World) -> None:
    filled.execute("DELETE FROM product WHERE product_key % 2", "UPDATE product SET stock = 5")
    filled.execute("FLUSH BINARY LOGS")
    newest = filled.execute("SHOW BINARY LOGS")[-1][0]

    def purged() -> bool:  # a file is kept as long as somebody reads it
        filled.execute(f"PURGE BINARY LOGS TO '{newest}'")
        return filled.execute("SHOW BINARY LOGS")[0][0] == newest

    wait_until(purged, "the older logs are gone", 30)
    filled.sync()
    rows = filled.execute(f"SELECT {', '.join(f'`{n}`' for n in NAMES)} FROM product")
    assert Counter(states[-1] for states in filled.states().values() if states[-1]) == Counter(rows)
    assert "no longer has what came after" in filled.notes()[-1]["reason"]


def test_what_changes_neither_rows_nor_columns_does_not_break_the_log_off(filled: World) -> None:
    reason, other = filled.notes()[-1]["reason"], f"{filled.database}_other"
    filled.execute(f"CREATE DATABASE {other}", f"USE {other}", "CREATE TABLE product (n INT)", f"DROP DATABASE {other}")
    filled.execute("CREATE INDEX i ON product (stock)", "DROP INDEX i ON product", "ANALYZE TABLE product")
    filled.execute("UPDATE product SET stock = 3")
    filled.sync()
    assert filled.notes()[-1]["reason"] == reason


def test_an_attribute_that_the_contract_names_later_is_added(filled: World) -> None:
    filled.execute("ALTER TABLE product ADD COLUMN color VARCHAR(9) NOT NULL DEFAULT 'red'")
    contract = filled.folder / "contracts" / "dimensions" / "product.toml"
    contract.write_text(contract.read_text() + 'color = "string"\n')
    filled.sync()
    present = [version for version in filled.versions() if version["is_current"]]
    assert present
    assert {version["color"] for version in present} == {"red"}


def test_of_two_syncs_at_once_one_is_refused_and_nothing_is_doubled(filled: World, monkeypatch) -> None:
    begun = filled.behind_now()
    Workload(filled, seed=8, keys=20).run(30)
    write, second = HistoryTable._write, threading.Event()

    def late(table, rows, said):
        if not second.is_set():
            second.set()
            filled.sync()
        write(table, rows, said)

    monkeypatch.setattr(HistoryTable, "_write", late)
    with pytest.raises((WarehouseRefused, CommitFailedError), match=r"another sync|Concurrent"):
        filled.sync()
    assert filled.states() == filled.kept_by_triggers(begun)


def test_nothing_new_is_no_new_version_of_the_table(filled: World) -> None:
    filled.execute("UPDATE product SET stock = 3")
    filled.sync()
    rows = filled.versions()
    filled.execute("UPDATE product SET id = id + 1000")  # a column that the contract does not name
    filled.sync()
    version = filled.table.version()
    filled.sync()
    assert (filled.versions(), filled.table.version()) == (rows, version)


@pytest.mark.parametrize(("column", "named"), [("FLOAT", "weight"), ("JSON", "brand")])
def test_a_type_that_the_log_does_not_tell_as_a_select_does_is_refused_by_name(world: World, column, named) -> None:
    if column == "JSON" and world.stack.database.kind != "mysql":
        column = "VARCHAR(300) COMPRESSED"
    world.execute(f"ALTER TABLE product MODIFY {named} {column}")
    with pytest.raises(FeedRefused, match=rf"product\.{named} .*Leave the column out of the dimension's contract"):
        world.sync()
    assert not (world.folder / "warehouse").exists()


def test_a_row_image_that_is_not_whole_is_refused_at_the_start_and_compared_later(filled: World) -> None:
    filled.execute("SET SESSION binlog_row_image = MINIMAL", "UPDATE product SET stock = 77")
    filled.sync()
    assert {version["stock"] for version in filled.versions() if version["is_current"]} == {77}
    assert "binlog_row_image was not FULL" in filled.notes()[-1]["reason"]
    filled.execute("SET GLOBAL binlog_row_image = MINIMAL")
    try:
        with pytest.raises(FeedRefused, match="binlog_row_image = FULL"):
            filled.sync()
    finally:
        filled.execute("SET GLOBAL binlog_row_image = FULL")


def test_a_table_of_the_other_type_is_refused(filled: World) -> None:
    filled.history = "type 1"
    with pytest.raises(WarehouseRefused, match=r"history of type 2, and dimensions.product.history asks for type 1"):
        filled.sync()


def test_a_key_of_several_columns_of_any_type_has_its_history(world: World) -> None:
    world.execute(
        "CREATE TABLE t (a VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_swedish_ci, b BIGINT UNSIGNED, "
        "c VARBINARY(9), sk BIGINT, changed TIMESTAMP(6) DEFAULT '2026-11-18 10:00:00.25', PRIMARY KEY (c, a, b))"
    )
    world.stack.database.allow_reading(["t"], world.database)
    key = {"a": "string", "b": "uint64", "c": "binary"}
    contract = DimensionContract(
        "product", "t", tuple(KeyColumn(name, name, kind) for name, kind in key.items()), "sk", "changed", {}
    )
    plan = replace(world.plan, dimensions={"product": contract})
    big = 2**64 - 1
    world.execute(
        f"INSERT INTO t (a, b, c, sk) VALUES ('Ré''s', {big}, x'00ff', 1), ('b', 0, x'', 2), ('b', 1, x'', 3)"
    )
    sync(plan, Wishes(), threading.Event(), print)
    world.execute(
        f"UPDATE t SET sk = 4 WHERE b = {big}", "UPDATE t SET a = 'B' WHERE b = 1", "DELETE FROM t WHERE b = 0"
    )
    sync(plan, Wishes(), threading.Event(), print)
    rows = [(v["a"], int(v["b"]), v["c"], v["sk"], v["is_current"]) for v in world.versions()]
    assert rows == [
        ("b", 0, b"", 2, False),
        ("b", 1, b"", 3, False),
        ("Ré's", big, b"\0\xff", 1, False),
        ("Ré's", big, b"\0\xff", 4, True),
        ("B", 1, b"", 3, True),
    ]


def test_a_server_that_does_not_answer_is_waited_for_and_then_told(world: World) -> None:
    world.settings = ("master.port=1", "master.retry_for=300 ms")
    with pytest.raises(MasterReadFailed, match=r"tried for 0\.3 s\. What is committed stays so"):
        world.sync()


def test_a_master_that_keeps_its_own_versions_is_refused(world: World) -> None:
    contract = world.folder / "contracts" / "dimensions" / "product.toml"
    validity = 'validity = {from = "seen", to = "tried", at = "sold_at"}\n'
    contract.write_text(validity + contract.read_text())
    with pytest.raises(BadSetting, match=r"keeps a row for each time itself"):
        world.sync()


def test_without_a_dimension_that_keeps_a_history_the_setting_is_named(world: World) -> None:
    world.history = "off"
    with pytest.raises(BadSetting, match=r"no dimension keeps a history"):
        world.sync()
    with pytest.raises(BadSetting, match=r'Set dimensions.product.history = "type 2"'):
        sync(world.plan, Wishes(("product",)), threading.Event(), print)
