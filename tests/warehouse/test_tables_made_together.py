"""Two jobs that start together on a warehouse without tables: each finds them, whoever made them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from deltalake import DeltaTable

from pipeline.errors import WarehouseRefused
from pipeline.warehouse.tables import open_table
from tests.kit.warehouse_samples import FACTS

JOBS, ROUNDS = 6, 15


def test_a_table_that_several_make_at_once_is_made_once_and_found_by_all(tmp_path: Path) -> None:
    together = Barrier(JOBS)
    for number in range(ROUNDS):
        place = str(tmp_path / f"warehouse {number}" / "facts")

        def start(_: int, place: str = place) -> int:
            together.wait()
            table, missing = open_table(place, FACTS, {})
            assert missing == []
            return table.log.version()

        with ThreadPoolExecutor(JOBS) as jobs:
            assert set(jobs.map(start, range(JOBS))) == {0}
        assert DeltaTable(place).version() == 0


def test_a_log_that_another_job_has_only_begun_is_no_other_ones_file(tmp_path: Path) -> None:
    log = tmp_path / "facts" / "_delta_log"
    log.mkdir(parents=True)
    (log / "_commit_1f.json.tmp").touch()
    table, _ = open_table(str(tmp_path / "facts"), FACTS, {})
    assert table.log.version() == 0


def test_files_of_others_are_refused_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "facts" / "_delta_log").mkdir(parents=True)
    (tmp_path / "facts" / "part-0.parquet").touch()
    with pytest.raises(WarehouseRefused, match=r"not a Delta table: part-0\.parquet is in it"):
        open_table(str(tmp_path / "facts"), FACTS, {})
