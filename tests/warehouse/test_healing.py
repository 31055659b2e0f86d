"""A healing commit beside others: nothing is lost, doubled or healed twice, whoever commits first."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from pipeline import columns
from pipeline.config.contracts import TableColumn, TableContract
from pipeline.config.settings import WarehouseSettings
from pipeline.errors import WarehouseRefused
from pipeline.warehouse import healing
from pipeline.warehouse.files import table_files
from pipeline.warehouse.log import TableLog
from pipeline.warehouse.port import Batch
from pipeline.warehouse.record import HealingRecord
from pipeline.warehouse.warehouse import TwoStepWarehouse, make_warehouse
from tests.kit.warehouse_samples import APPLICATION, REJECTS, warehouse_settings

SOURCES = {
    "Key": ("thing.surrogate_key", pa.int64()),
    "colour": ("thing.colour", pa.string()),
    "other": ("other.surrogate_key", pa.int64()),
    "topic": ("message.topic", pa.string()),
    "partition": ("message.partition", pa.int32()),
    "offset": ("message.offset", pa.int64()),
    "application": ("job.application", pa.string()),
    "batch": ("job.batch", pa.int64()),
    "weight": ("sale.weight", pa.float64()),
    "shop": ("sale.shop", pa.string()),
}
FACTS = TableContract("facts", tuple(TableColumn(n, t, s, "") for n, (s, t) in SOURCES.items()), ("shop",))
SHOPS = ["a'b %/ü", None, ""]
EACH = 6  # facts of a batch; every second one is unknown


@dataclass
class Lake:
    settings: WarehouseSettings

    def __post_init__(self) -> None:
        self.warehouse: TwoStepWarehouse = make_warehouse(self.settings, FACTS, [REJECTS], APPLICATION, None)  # type: ignore
        self.warehouse.prepare()

    @property
    def uri(self) -> str:
        return f"{self.settings.path}/facts"

    @property
    def log(self) -> TableLog:
        return TableLog(self.uri, {})

    def append(self, batch: int) -> None:
        files = table_files(self.settings, FACTS, APPLICATION, "1")
        files.write(pa.Table.from_pylist([row(EACH * batch + i, batch) for i in range(EACH)], FACTS.schema))
        self.warehouse.commit(Batch(batch, files.close(), {}))

    def heal(self, offsets: range, log: TableLog | None = None) -> int:
        return healing.heal(log or self.log, FACTS, found(offsets), HealingRecord(APPLICATION, {"thing": 1}))

    def rows(self) -> list[dict[str, Any]]:
        return DeltaTable(self.uri).to_pyarrow_table().sort_by("offset").to_pylist()


def row(offset: int, batch: int) -> dict[str, Any]:
    return {
        "Key": -1 if offset % 2 else offset,
        "colour": None,
        "other": -1 if offset == 1 else 7,
        "topic": "t'1",
        "partition": offset % 3,
        "offset": offset,
        "application": APPLICATION,
        "batch": batch,
        "weight": -0.0,
        "shop": SHOPS[offset % 3],
    }


def found(offsets: range, other: int = -1) -> pa.Table:
    """What a repair hands over: a master row for each of these, of the other dimension too if there is one."""
    rows = [row(offset, offset // EACH) for offset in offsets]
    table = pa.Table.from_pylist(rows, FACTS.schema).rename_columns([source for source, _ in SOURCES.values()])
    table = table.drop_columns(
        ["sale.weight", "sale.shop", "thing.surrogate_key", "thing.colour", "other.surrogate_key"]
    )
    keys = pa.array([10_000 + offset for offset in offsets])
    table = table.append_column("thing.surrogate_key", keys).append_column("thing.colour", keys.cast(pa.string()))
    return table.append_column("other.surrogate_key", pa.array([other] * len(offsets)))


def after(facts: range, healed: range) -> list[dict[str, Any]]:
    """The table with these facts, of which these are healed."""
    expected = []
    for offset in facts:
        now = {"Key": 10_000 + offset, "colour": str(10_000 + offset)} if offset in healed and offset % 2 else {}
        expected.append({**row(offset, offset // EACH), "shop": SHOPS[offset % 3] or None, **now})
    return expected


@pytest.fixture
def lake(tmp_path) -> Lake:
    filled = Lake(warehouse_settings(tmp_path / "a lake [1]"))
    for batch in range(4):
        filled.append(batch)
    return filled


def test_only_unknown_facts_are_touched_in_partitions_of_whatever_value(lake: Lake) -> None:
    assert lake.heal(range(3, 9)) == 3
    assert repr(lake.rows()) == repr(after(range(24), range(3, 9)))


def test_a_fact_that_is_known_by_now_is_left_alone(lake: Lake) -> None:
    lake.heal(range(24))
    version = DeltaTable(lake.uri).version()
    changed = healing.heal(lake.log, FACTS, _other_keys(found(range(24))), HealingRecord(APPLICATION, {}))
    assert changed == 0
    assert lake.rows() == after(range(24), range(24))
    live = DeltaTable(lake.uri).get_add_actions()
    assert pa.table(live).equals(pa.table(DeltaTable(lake.uri, version=version).get_add_actions()))


def _other_keys(healed: pa.Table) -> pa.Table:
    place = healed.column_names.index("thing.surrogate_key")
    return healed.set_column(place, "thing.surrogate_key", pa.array([5] * len(healed)))


class Beside(TableLog):
    """A log whose reader is overtaken: something is committed between its look at the table and its own commit."""

    def __init__(self, lake: Lake, *meanwhile: Any) -> None:
        super().__init__(lake.uri, {})
        self.meanwhile, self.looks = list(meanwhile), 0

    def refresh(self) -> None:
        super().refresh()
        self.looks += 1
        if self.meanwhile and self.looks % 2:  # after a failure it looks once more for its own commit
            self.meanwhile.pop(0)()


def test_an_append_meanwhile_does_not_stop_it(lake: Lake) -> None:
    log = Beside(lake, lambda: lake.append(4))
    assert lake.heal(range(24), log) == 12
    assert log.looks == 1, "it went through at the first attempt"
    assert lake.rows() == after(range(30), range(24))


def test_a_merging_meanwhile_lets_it_begin_again(lake: Lake) -> None:
    log = Beside(lake, DeltaTable(lake.uri).optimize.compact)
    assert lake.heal(range(24), log) == 12
    assert log.looks > 1
    assert lake.rows() == after(range(24), range(24))


def test_another_repair_meanwhile_is_not_done_again(lake: Lake) -> None:
    log = Beside(lake, lambda: lake.heal(range(12)))
    assert lake.heal(range(24), log) == 6
    assert lake.rows() == after(range(24), range(24))


def test_of_two_repairs_the_first_gives_a_fact_its_row_and_the_second_only_what_is_left(lake: Lake) -> None:
    """Both have looked at a fact that is unknown in two dimensions; the first knows one of them."""
    lake.heal(range(1, 2))
    changed = _other_keys(found(range(1, 2), other=8))
    assert healing.heal(lake.log, FACTS, changed, HealingRecord(APPLICATION, {})) == 1
    [fact] = [fact for fact in lake.rows() if fact["offset"] == 1]
    assert (fact["Key"], fact["colour"], fact["other"]) == (10_001, "10001", 8)


def test_an_append_among_the_same_offsets_of_another_partition_does_not_stop_it(lake: Lake) -> None:
    def append() -> None:
        files = table_files(lake.settings, FACTS, APPLICATION, "1")
        files.write(pa.Table.from_pylist([row(1, 4) | {"partition": 2}, row(900, 4)], FACTS.schema))
        lake.warehouse.commit(Batch(4, files.close(), {}))

    log = Beside(lake, append)
    assert lake.heal(range(24), log) == 12
    assert log.looks == 1, "it went through at the first attempt"
    assert len(lake.rows()) == 26


def test_the_job_appends_over_a_repair_that_came_meanwhile(lake: Lake) -> None:
    lake.heal(range(24))  # the job's committer has not looked at the log since
    lake.append(4)
    assert lake.warehouse.last_batch() == 4
    assert lake.rows() == after(range(30), range(24))


def test_a_merging_that_a_repair_overtakes_leaves_the_healed_facts_as_they_are(lake: Lake) -> None:
    merging = DeltaTable(lake.uri)
    lake.heal(range(24))
    with pytest.raises(CommitFailedError):
        merging.optimize.compact()
    DeltaTable(lake.uri).optimize.compact()
    assert lake.rows() == after(range(24), range(24))


def test_it_gives_up_in_words_when_others_never_stop(lake: Lake) -> None:
    for batch in range(4, 8):
        lake.append(batch)
    DeltaTable(lake.uri).optimize.compact()
    others = [partial(lake.heal, range(offset, offset + 4)) for offset in range(0, 40, 4)]
    with pytest.raises(WarehouseRefused, match=r"48 facts are not healed after 10 attempts.*run it again"):
        lake.heal(range(48), Beside(lake, *others))
    assert lake.rows() == after(range(48), range(40))


def test_an_answer_that_was_lost_is_found_in_the_log(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    execute = healing._Merge.execute

    def lost(self: Any, log: TableLog, said: str) -> dict[str, Any]:
        execute(self, log, said)
        raise OSError("the connection was reset")

    monkeypatch.setattr(healing._Merge, "execute", lost)
    assert lake.heal(range(24)) == 12
    assert lake.rows() == after(range(24), range(24))


def test_a_failure_of_the_store_is_told_and_not_tried_again(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> dict[str, Any]:
        raise OSError("no space")

    monkeypatch.setattr(healing._Merge, "execute", broken)
    with pytest.raises(OSError, match="no space"):
        lake.heal(range(24))


def test_a_message_that_is_several_facts_is_healed_in_all_of_them(lake: Lake) -> None:
    """Another master's keys repeat: each of its rows is a fact of the same message."""
    files = table_files(lake.settings, FACTS, APPLICATION, "1")
    files.write(pa.Table.from_pylist([row(25, 4)] * 3, FACTS.schema))
    lake.warehouse.commit(Batch(4, files.close(), {}))
    twice = pa.concat_tables([found(range(25, 26))] * 3)
    assert healing.heal(lake.log, FACTS, twice, HealingRecord(APPLICATION, {})) == 3
    assert [fact["Key"] for fact in lake.rows()[-3:]] == [10_025] * 3


def test_beside_a_job_that_appends_and_merges_nothing_is_lost_or_doubled(lake: Lake) -> None:
    most, told = 40, []

    def job() -> None:
        for batch in range(4, most):
            lake.append(batch)
            if batch % 10 == 0:
                try:
                    DeltaTable(lake.uri).optimize.compact()
                except CommitFailedError as overtaken:
                    told.append(overtaken)

    appending = threading.Thread(target=job)
    appending.start()
    healed = 0
    while appending.is_alive():
        there = len(pa.table(DeltaTable(lake.uri).to_pyarrow_table(columns=["offset"])))
        healed += lake.heal(range(healed * 2, there)) if there > healed * 2 else 0
    appending.join()
    healed += lake.heal(range(EACH * most))
    assert healed == EACH * most / 2
    assert lake.rows() == after(range(EACH * most), range(EACH * most))
    assert lake.warehouse.last_batch() == most - 1
    assert columns.UNKNOWN_MEMBER not in [fact["Key"] for fact in lake.rows()]
