"""Placeholder rows in a real master: once a key, by an account of their own, noted, and healed to like any late row."""

from __future__ import annotations

import contextlib
import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from pipeline import cli
from pipeline.doctor import placeholders
from pipeline.doctor.findings import Finding, Level, Patient
from pipeline.errors import BadContract, BadSetting
from pipeline.laptop.stack.stack import Stack
from pipeline.repair import inferred
from pipeline.repair.allowance import Allowance
from tests.repair.repair_world import World, fact, known

pytestmark = pytest.mark.mysql

NOW = datetime.now(timezone.utc).replace(microsecond=0)
CONTRACT = """
table = "product"
surrogate_key = "product_key"
updated_at = "updated_at"
[[natural_key]]
column = "product_code"
field = "product_code"
type = "string"
[attributes]
category = "string"
brand = "string"
[inferred]
name = "it's not known yet"
category = "unknown"
brand = "unknown"
is_inferred = true
"""


@pytest.fixture
def world(stack: Stack, master_database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> World:
    """Products that count themselves, and an account that may insert what `millrace grants` prints for it."""
    made = World(stack, master_database, tmp_path)
    made.execute("ALTER TABLE product ADD UNIQUE (product_key), ADD COLUMN is_inferred BOOLEAN NOT NULL DEFAULT FALSE")
    made.execute("ALTER TABLE product MODIFY product_key BIGINT NOT NULL AUTO_INCREMENT, AUTO_INCREMENT = 500")
    contract = tmp_path / "contracts" / "dimensions" / "product.toml"
    contract.parent.mkdir(parents=True)
    contract.write_text(CONTRACT)
    (tmp_path / "inferrer.password").write_text("known")
    made = made.under(
        f"contracts.folder={tmp_path / 'contracts'}", "inferred.user=inferrer",
        f"inferred.password_file={tmp_path / 'inferrer.password'}",
    )  # fmt: skip
    made.execute("DROP USER IF EXISTS inferrer@'127.0.0.1'")
    made.execute("CREATE USER inferrer@'127.0.0.1' IDENTIFIED BY 'known'")
    words = [
        word for assignment in (*made.settings, f"master.database={master_database}") for word in ("--set", assignment)
    ]
    with contextlib.suppress(SystemExit):
        cli.main(["grants", "mysql", "--account-host", "127.0.0.1", *words])
    granted = [line for line in capsys.readouterr().out.splitlines() if "inferrer" in line]
    assert len(granted) == 1
    made.execute(granted[0])
    return made


def old(offset: int, product: str | None, **values: Any) -> dict[str, Any]:
    return fact(offset, product, kafka_timestamp=NOW - timedelta(days=2), **values)


def products(world: World) -> list[tuple]:
    with (
        world.stack.database.connect("admin", world.database, charset="utf8mb4") as connection,
        connection.cursor() as c,
    ):
        c.execute("SELECT product_code, name, category, is_inferred, product_key FROM product ORDER BY product_code")
        return list(c.fetchall())


def noted(world: World) -> list[str]:
    rows = DeltaTable(str(world.folder / "warehouse" / "inferred_members")).to_pyarrow_table().to_pylist()
    assert {row["dimension"] for row in rows} <= {"product"}
    assert all(abs(row["inferred_at"] - datetime.now(timezone.utc)) < timedelta(minutes=5) for row in rows)
    return sorted(json.loads(row["natural_key"])[0] for row in rows)


def keys(world: World) -> list[int]:
    return [row["product_key"] for row in world.facts()]


def test_each_key_that_is_lacking_gets_one_row_and_its_facts_are_healed_to_it(world: World) -> None:
    world.write([old(0, "A"), old(2, "B'"), old(4, "A"), old(6, None), known(8)])
    said = world.repair(infer=True)
    assert said[0] == "product: 2 placeholder rows inserted into product"
    rows = products(world)
    assert [row[:4] for row in rows] == [(code, "it's not known yet", "unknown", 1) for code in ("A", "B'")]
    by_code = {row[0]: row[4] for row in rows}
    assert min(by_code.values()) >= 500
    assert keys(world) == [by_code["A"], by_code["B'"], by_code["A"], -1, 9]
    assert noted(world) == ["A", "B'"]


def test_a_second_run_and_a_row_of_the_owners_change_nothing(world: World) -> None:
    world.write([old(0, "A"), old(2, "B")])
    world.execute("INSERT INTO product (product_code, name, category, brand) VALUES ('B', 'real', 'tea', 'own')")
    assert "1 placeholder rows" in world.repair(infer=True)[0]
    world.execute("UPDATE product SET name = 'real too', is_inferred = FALSE WHERE product_code = 'A'")
    before, healed = products(world), keys(world)
    assert "0 placeholder rows" in world.repair(infer=True)[0]
    assert (products(world), keys(world), noted(world)) == (before, healed, ["A"])


def test_a_key_that_the_server_takes_for_another_is_left_alone(world: World) -> None:
    world.execute("INSERT INTO product (product_code, name, category, brand) VALUES ('a', 'real', 'tea', 'own')")
    world.write([old(0, "A")])
    before = products(world)
    assert "1 keys have a row there that the server takes for theirs" in world.repair(infer=True)[0]
    assert (products(world), keys(world)) == (before, [-1])


def test_a_key_that_does_not_fit_is_refused_by_name_and_not_cut_and_the_others_are_inserted(world: World) -> None:
    world.write([old(0, "x" * 33), old(2, "B")])
    [line, *_] = world.repair(infer=True)
    assert "1 placeholder rows inserted" in line
    assert "1 refused by the server" in line
    assert "product_code" in line
    assert [row[0] for row in products(world)] == ["B"]


def test_a_young_fact_is_waited_for_and_a_dry_run_only_counts(world: World) -> None:
    world.write([old(0, "A"), old(2, "A"), fact(4, "C", kafka_timestamp=NOW)])
    assert "1 keys have no row in product" in world.repair(infer=True, dry_run=True)[0]
    assert products(world) == []
    assert not (world.folder / "warehouse" / "inferred_members").exists()
    world.repair(infer=True)
    assert [row[0] for row in products(world)] == ["A"]


def test_without_being_asked_a_repair_inserts_nothing(world: World) -> None:
    world.write([old(0, "A")])
    world.repair()
    assert products(world) == []


def test_no_row_is_there_that_is_not_noted_though_the_run_ends_in_between(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write([old(offset, f"P-{offset}") for offset in range(0, 8, 2)])
    insert, left = inferred._Run._insert, iter([True, True, False])

    def breaks(*given: Any) -> None:
        if not next(left):
            raise OSError("the machine is gone")
        insert(*given)

    with monkeypatch.context() as patched:
        patched.setattr(inferred._Run, "_insert", breaks)
        with pytest.raises(OSError, match="gone"):
            world.repair(infer=True)
    assert {row[0] for row in products(world)} < set(noted(world))
    world.repair(infer=True)
    assert sorted(row[0] for row in products(world)) == sorted(set(noted(world)))
    assert -1 not in keys(world)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("MODIFY product_key BIGINT NOT NULL", r"product_key gets no value by itself.*AUTO_INCREMENT"),
        ("ADD COLUMN color VARCHAR(9) NOT NULL", r"product\.color is NOT NULL.*Name it in \[inferred\]"),
        ("DROP COLUMN is_inferred", r"\[inferred\] names is_inferred, which product does not have"),
        ("DROP PRIMARY KEY, ADD INDEX (product_code)", r"no unique index on its natural key"),
    ],
)  # fmt: skip
def test_a_table_that_cannot_have_placeholders_is_refused_with_the_remedy(world: World, change: str, said: str) -> None:
    world.write([old(0, "A")])
    world.execute(f"ALTER TABLE product {change}")
    with pytest.raises(BadContract, match=said):
        world.repair(infer=True)


def test_who_may_not_insert_and_who_reads_are_refused(world: World) -> None:
    world.write([old(0, "A")])
    reader = world.stack.database.accounts.reader.user
    with pytest.raises(BadSetting, match=r"not master\.user, which reads"):
        world.under(*world.settings, f"inferred.user={reader}").repair(infer=True)
    with pytest.raises(BadSetting, match=r"inferred.user = '' must name an account"):
        world.under(*world.settings, "inferred.user=").repair(infer=True)
    world.execute("REVOKE ALL PRIVILEGES, GRANT OPTION FROM inferrer@'127.0.0.1'")
    world.execute(f"GRANT INSERT ON {world.database}.customer TO inferrer@'127.0.0.1'")
    with pytest.raises(BadSetting, match=r"may not insert into product.*millrace grants mysql"):
        world.repair(infer=True)
    assert products(world) == []


def test_a_server_that_only_reads_is_refused_before_anything_is_noted(world: World) -> None:
    world.write([old(0, "A")])
    world.execute("SET GLOBAL read_only = ON")
    try:
        with pytest.raises(BadSetting, match=r"no placeholder row can be inserted into product: .*read.only"):
            world.repair(infer=True)
    finally:
        world.execute("SET GLOBAL read_only = OFF")
    assert not (world.folder / "warehouse" / "inferred_members").exists()


def doctor(world: World) -> Finding:
    patient = Patient(world.plan.settings, world.plan, 5.0)
    [check] = placeholders.checks(patient)
    [finding] = check.ask(patient)
    return finding


def test_the_doctor_says_beforehand_what_a_repair_would_refuse_and_inserts_nothing(world: World) -> None:
    well = doctor(world)
    assert (well.level, well.what) == (
        Level.OK, "inferrer may insert placeholder rows into product, and [inferred] fits its columns",
    )  # fmt: skip
    reader = world.stack.database.accounts.reader.user
    assert "not master.user, which reads" in doctor(world.under(*world.settings, f"inferred.user={reader}")).what
    world.execute("ALTER TABLE product ADD COLUMN color VARCHAR(9) NOT NULL")
    assert "product.color is NOT NULL" in doctor(world).what
    world.execute("ALTER TABLE product DROP COLUMN color")
    world.execute("REVOKE ALL PRIVILEGES, GRANT OPTION FROM inferrer@'127.0.0.1'")
    refused = doctor(world)
    assert refused.level is Level.WARNING
    assert "millrace grants mysql" in refused.what
    assert products(world) == []


def test_no_minute_sees_more_rows_than_the_setting_says(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.write([old(offset, f"P-{offset}") for offset in range(0, 12, 2)])
    now = [0.0]
    monkeypatch.setattr(inferred, "Allowance", lambda a_minute: Allowance(a_minute, lambda: now[0]))
    slept: list[tuple[float, int]] = []

    def sleep(seconds: float) -> None:
        now[0] += seconds
        slept.append((now[0], len(products(world))))

    monkeypatch.setattr(inferred.time, "sleep", sleep)
    monkeypatch.setattr(inferred, "_LOOKS", 20.0)
    world.under(*world.settings, "inferred.rows_per_minute=4").repair(infer=True)
    assert slept == [(20.0, 4), (40.0, 4), (60.0, 4)]
    assert len(products(world)) == 6
