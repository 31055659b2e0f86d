"""What a power cut leaves of a table's log, by hand: the real order of writes is held by tests/faults/power."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from pipeline.warehouse.disk import take_torn_aside

LEFT = {
    "nothing": lambda whole: b"",
    "zeros": lambda whole: b"\0" * len(whole),
    "half": lambda whole: whole[: len(whole) // 2],
}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Four versions of one row each; the log's checkpoint is of the third."""
    for number in range(4):
        write_deltalake(tmp_path / "t", pa.table({"number": [number]}), mode="append")
        if number == 2:
            DeltaTable(tmp_path / "t").create_checkpoint()
    return tmp_path / "t"


def numbers(table: Path) -> list[int]:
    return sorted(DeltaTable(table).to_pyarrow_table()["number"].to_pylist())


def entry(table: Path, version: int) -> Path:
    return table / "_delta_log" / f"{version:020}.json"


@pytest.mark.parametrize("left", LEFT.values(), ids=LEFT)
def test_entries_that_were_never_finished_are_taken_aside_and_the_others_stand(left, table: Path) -> None:
    for version in (2, 3):
        entry(table, version).write_bytes(left(entry(table, version).read_bytes()))
    entry(table, 2).with_suffix(".checkpoint.parquet").unlink()
    take_torn_aside(str(table))
    assert numbers(table) == [0, 1]


@pytest.mark.parametrize("left", LEFT.values(), ids=LEFT)
@pytest.mark.parametrize("which", ["00000000000000000002.checkpoint.parquet", "_last_checkpoint"])
def test_a_checkpoint_that_was_never_finished_is_done_without(which: str, left, table: Path) -> None:
    file = table / "_delta_log" / which
    file.write_bytes(left(file.read_bytes()))
    take_torn_aside(str(table))
    assert not file.exists()
    assert numbers(table) == [0, 1, 2, 3]


def test_a_whole_log_is_left_as_it_is(table: Path) -> None:
    before = sorted(table.rglob("*"))
    take_torn_aside(str(table))
    assert sorted(table.rglob("*")) == before


def test_a_table_that_is_not_there_or_not_on_a_disk_is_none_of_its_business(tmp_path: Path) -> None:
    take_torn_aside(str(tmp_path / "none"))
    take_torn_aside("s3://bucket/table")
