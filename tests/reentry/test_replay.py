"""Rejects that are valid by the contract of today become facts, once each, whatever comes between: on real servers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable

from pipeline import cli
from pipeline.errors import BadContract, BadSetting, WarehouseRefused
from pipeline.reconcile.broker import Place
from pipeline.reconcile.why import why
from pipeline.reentry import replay as replaying
from pipeline.reentry.entrance import Entrance
from pipeline.reentry.rejects import Wanted, groups
from tests.reentry.reentry_world import World, before, offsets, sale

VALUES = [
    sale(0), sale(1, currency="eur"), b"{", sale(3, currency="usd"), sale(4), b"\xff\xfe", None, sale(7, currency="x"),
]  # fmt: skip
MENDED = {"currency": {"pattern": "^[A-Za-z]{3}$"}}


@pytest.fixture
def rejected(world: World) -> World:
    """Eight messages of two batches; of the six rejects 1 and 3 are valid sales where currencies may be small."""
    world.send(*VALUES)
    world.batch(0, 0, 4)
    world.batch(1, 4, 8)
    assert (offsets(world.facts), offsets(world.rejects)) == ([0, 4], [1, 2, 3, 5, 6, 7])
    return world


def test_rejects_that_a_mended_contract_takes_become_facts_with_their_offsets_and_master_rows(rejected: World) -> None:
    world = rejected.mended(**MENDED)
    done = world.replay(why="shops may write it small")
    assert done.valid == {"bad_format": 2} or done.valid.total() == 2
    assert (offsets(world.facts), offsets(world.rejects)) == ([0, 1, 3, 4], [2, 5, 6, 7])
    known, entered = world.facts[0], world.facts[1]
    same = ("product_key", "product_category", "customer_key", "store_key", "topic", "partition", "application")
    assert [entered[name] for name in same] == [known[name] for name in same]
    assert entered["product_key"] != -1
    assert (entered["sale_id"], entered["currency"], entered["batch"]) == ("s-1", "eur", -1)
    verdict = world.verdict()
    assert verdict.ok, str(verdict)


def test_twice_is_the_same_as_once(rejected: World) -> None:
    world = rejected.mended(**MENDED)
    world.replay()
    facts, version = world.facts, DeltaTable(f"{world.folder}/warehouse/fact_sales").version()
    assert world.replay().valid.total() == 0
    assert (world.facts, DeltaTable(f"{world.folder}/warehouse/fact_sales").version()) == (facts, version)


def test_a_dry_run_tells_what_would_be_valid_and_why_the_others_stay_and_changes_nothing(rejected: World) -> None:
    world = rejected.mended(**MENDED)
    told = world.replay(dry_run=True)
    assert (told.valid.total(), told.stay.total()) == (2, 4)
    assert offsets(world.rejects) == [1, 2, 3, 5, 6, 7]
    assert "2 rejects would become facts" in str(told)
    assert world.replay().stay == told.stay


def test_a_limit_and_a_choice_leave_the_others(rejected: World) -> None:
    world = rejected.mended(**MENDED)
    assert world.replay(limit=1).limited
    assert offsets(world.rejects) == [2, 3, 5, 6, 7]
    assert world.replay(wanted=Wanted(topic="another")).valid.total() == 0
    with pytest.raises(BadSetting, match="--limit 0 must be at least 1"):
        world.replay(limit=0)


def test_killed_between_facts_and_rejects_it_is_completed_by_the_next_one(rejected: World) -> None:
    world = rejected.mended(**MENDED)
    program = (
        "import os, signal, sys\n"
        "from pipeline import cli\n"
        "from pipeline.reentry import replay\n"
        "replay._take_away = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "cli.main(sys.argv[1:])\n"
    )
    words = [word for assignment in world.assignments for word in ("--set", assignment)]
    killed = subprocess.run([sys.executable, "-c", program, "rejects", "replay", *words], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert (offsets(world.facts), offsets(world.rejects)) == ([0, 1, 3, 4], [1, 2, 3, 5, 6, 7])
    done = world.replay()
    assert (done.finished, done.valid.total()) == (2, 0)
    assert (offsets(world.facts), offsets(world.rejects)) == ([0, 1, 3, 4], [2, 5, 6, 7])
    assert world.verdict().ok


@pytest.mark.parametrize("moment", ["walk", "enter"])
def test_of_two_at_once_one_begins_again_and_finds_nothing_left(
    rejected: World, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    world = rejected.mended(**MENDED)
    with before(monkeypatch, Entrance, moment, world.replay):
        assert world.replay().valid.total() == 0
    assert offsets(world.facts) == [0, 1, 3, 4]
    assert world.verdict().ok


def test_the_job_may_append_to_both_tables_at_any_moment_of_it(
    rejected: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    rejected.send(sale(8), b"}", sale(10), b"]")
    world = rejected.mended(**MENDED)
    job = world.warehouse()
    with (
        before(monkeypatch, Entrance, "enter", lambda: world.batch(2, 8, 10, job)),
        before(monkeypatch, replaying, "_take_away", lambda: world.batch(3, 10, 12, job)),
    ):
        assert world.replay().valid.total() == 2
    assert (offsets(world.facts), offsets(world.rejects)) == ([0, 1, 3, 4, 8, 10], [2, 5, 6, 7, 9, 11])
    assert world.verdict().ok


def test_why_tells_how_a_fact_came_in_later(rejected: World) -> None:
    world = rejected.mended(**MENDED)
    world.replay(why="small letters")
    told = str(why(world.plan, Place(world.topic, 0), 3))
    assert "later, by rejects replay, small letters, " in told
    assert "1 of 'millrace: re-entry'" in told


def test_tables_that_do_not_keep_the_bytes_are_refused_with_the_remedy(rejected: World) -> None:
    folder = rejected.folder / "contracts" / "tables"
    folder.mkdir(parents=True)
    columns = [("topic", "string", "topic"), ("partition", "int32", "partition"), ("offset", "int64", "offset")]
    lines = [f'{{name = "{name}", type = "{kind}", from = "message.{of}"}},' for name, kind, of in columns]
    (folder / "sales_rejects.toml").write_text("\n".join(['name = "sales_rejects"', "column = [", *lines, "]"]))
    with pytest.raises(BadContract, match=r"no column from 'message.timestamp', 'message.value'"):
        rejected.under(f"contracts.folder={folder.parent}").replay()


def test_rejects_that_may_not_leave_are_refused_before_a_fact_is_written(rejected: World) -> None:
    world = rejected.mended(**MENDED)
    table = DeltaTable(f"{world.folder}/warehouse/sales_rejects")
    table.alter.set_table_properties({"delta.appendOnly": "true"})
    with pytest.raises(WarehouseRefused, match=r"delta\.appendOnly is set"):
        world.replay()
    assert offsets(world.facts) == [0, 4]


def test_the_rejects_are_listed_by_reason_and_shown_one_by_one(
    rejected: World, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    found = groups(rejected.plan, Wanted())
    assert sum(group.rejects for group in found) == 6
    words = [word for assignment in rejected.assignments for word in ("--set", assignment)]

    def said(*command: str) -> tuple[bytes, int]:
        with pytest.raises(SystemExit) as left:
            cli.main(["rejects", *command, *words])
        return capsysbinary.readouterr().out, int(left.value.code or 0)

    listed, code = said("list", "--json")
    assert code == 0
    assert {row["reason"]: row["rejects"] for row in json.loads(listed)} == {g.reason: g.rejects for g in found}
    assert said("show", rejected.topic, "0", "5", "--raw") == (b"\xff\xfe", 0)
    shown = json.loads(said("show", rejected.topic, "0", "5", "--json")[0])
    assert (shown["base64"], shown["batch"]) == ("//4=", 1)
    assert b'"currency": "eur"' in said("show", rejected.topic, "0", "1")[0]
    assert said("show", rejected.topic, "0", "0")[1] == 1
    assert Path(rejected.folder / "warehouse").is_dir()
