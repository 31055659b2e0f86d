"""What the doctor says of histories, on a real server whose log is turned off, narrowed and purged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.doctor import history
from pipeline.doctor.findings import Finding, Level, Patient
from pipeline.errors import BadSetting, FeedRefused, WarehouseRefused
from tests.history.history_world import World
from tests.kit.running import wait_until

pytestmark = pytest.mark.mysql


@pytest.fixture
def world(stack, master_database, tmp_path: Path) -> Iterator[World]:
    world = World(stack, master_database, tmp_path)
    world.make()
    world.execute("INSERT INTO product (product_code, product_key) VALUES ('a', 1)")
    yield world
    world.execute("SET GLOBAL binlog_expire_logs_seconds = 2592000")


def found(world: World) -> list[Finding]:
    patient = Patient(world.plan.settings, world.plan, 5.0)
    return [finding for check in history.checks(patient) for finding in check.ask(patient)]


def warned(world: World) -> str:
    return " ".join(f"{each.what}. {each.remedy}" for each in found(world) if each.level is not Level.OK)


def test_all_is_well_before_the_first_sync_and_after_it_and_nothing_is_made(world: World) -> None:
    said = [each.what for each in found(world)]
    assert said[0] == "the log tells every change of product, with all columns of the row"
    assert "the next sync begins with a snapshot" in said[1]
    assert not (world.folder / "warehouse").exists()
    world.sync()
    version = world.table.version()
    assert "the server still has what comes next" in found(world)[1].what
    assert world.table.version() == version


def test_where_nothing_is_kept_nothing_is_said(world: World) -> None:
    world.history = "off"
    assert found(world) == []


def test_an_account_that_may_not_read_the_log_is_a_failure(world: World) -> None:
    world.execute("DROP USER IF EXISTS plain", "CREATE USER plain IDENTIFIED BY 'known'")
    world.execute("GRANT SELECT ON product TO plain")
    world.settings = ("master.user=plain", "master.password=known")
    with pytest.raises(FeedRefused, match="GRANT REPLICATION SLAVE, REPLICATION CLIENT"):
        found(world)


def test_a_log_without_whole_rows_is_a_failure(world: World) -> None:
    world.execute("SET GLOBAL binlog_row_image = MINIMAL")
    try:
        with pytest.raises(FeedRefused, match="SET GLOBAL binlog_row_image = FULL"):
            found(world)
    finally:
        world.execute("SET GLOBAL binlog_row_image = FULL")


def test_a_log_that_was_purged_or_will_be_soon_is_a_warning(world: World) -> None:
    world.sync()
    assert warned(world) == ""
    world.execute("SET GLOBAL binlog_expire_logs_seconds = 3600", "FLUSH BINARY LOGS")
    assert "keeps its log for 3600 s" in warned(world)
    newest = world.execute("SHOW BINARY LOGS")[-1][0]

    def purged() -> bool:  # a file is kept as long as somebody reads it
        world.execute(f"PURGE BINARY LOGS TO '{newest}'")
        return world.execute("SHOW BINARY LOGS")[0][0] == newest

    wait_until(purged, "the older logs are gone", 30)
    assert "no longer has what came after" in warned(world)
    assert "new snapshot" in warned(world)


def test_a_master_table_that_was_altered_is_a_warning_and_a_table_of_the_other_type_a_failure(world: World) -> None:
    world.sync()
    world.execute("ALTER TABLE product ADD COLUMN other INT NULL FIRST")
    assert "table or contract has other columns than before" in warned(world)
    world.history = "type 1"
    with pytest.raises(WarehouseRefused, match="history of type 2"):
        found(world)


def test_a_master_that_keeps_its_own_versions_is_a_failure(world: World) -> None:
    contract = world.folder / "contracts" / "dimensions" / "product.toml"
    contract.write_text('validity = {from = "seen", to = "tried", at = "sold_at"}\n' + contract.read_text())
    with pytest.raises(BadSetting, match=r"keeps a row for each time itself"):
        found(world)
