"""Small files become few beside the stream: no fact is lost, doubled or changed, whatever is committed meanwhile."""

import threading
from dataclasses import replace
from datetime import date
from pathlib import Path
from random import Random
from urllib.parse import unquote

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from pipeline.errors import BadSetting
from pipeline.warehouse import merging
from pipeline.warehouse.merging import Merging
from pipeline.warehouse.port import Batch
from tests.kit.warehouse_samples import FACTS, batch_of, column, contract, create, fact, warehouse_settings, written
from tests.warehouse.test_warehouse_commit import opened

EARLIER = date(2026, 11, 17)


class Told(list):
    """What merging tells."""

    def __call__(self, files: int, seconds: float, failed: bool) -> None:
        assert seconds >= 0
        self.append((files, failed))


@pytest.fixture
def where(tmp_path):
    created = replace(warehouse_settings(tmp_path / "a lake [1]"), merge_files=5)
    create(created)
    return created


def files_by_partition(where) -> dict[tuple, int]:
    live = pa.table(DeltaTable(f"{where.path}/facts").get_add_actions(flatten=True))
    rows = live.group_by(["partition.day", "partition.shop"]).aggregate([("path", "count")]).to_pylist()
    return {(row["partition.day"], row["partition.shop"]): row["path_count"] for row in rows}


def files_of(where) -> list[Path]:
    return [Path(unquote(file)) for file in DeltaTable(f"{where.path}/facts").file_uris()]


def merged(where, commits: int, files: int = 1) -> Told:
    """What is told when so many commits were noted, one look after the other."""
    told = Told()
    for _ in range(commits):
        at_work = Merging(where, told)
        at_work.committed("facts", files)
        at_work.close()
    return told


def test_many_small_files_become_one_and_every_fact_stays_as_it_was(where):
    warehouse = opened(where)
    for number in range(6):
        warehouse.commit(batch_of(where, number, [10 * number, 10 * number + 1]))
    before = DeltaTable(f"{where.path}/facts").to_pyarrow_table()
    assert merged(where, 1) == [(6, False)]
    assert files_by_partition(where) == {(date(2026, 11, 18), "S1"): 1}
    after = DeltaTable(f"{where.path}/facts").to_pyarrow_table()
    assert after.sort_by("number").equals(before.sort_by("number"))
    [file] = files_of(where)
    sums = 'SELECT count(*), sum(price), max(vast), min("at"), count(DISTINCT raw)'
    assert duckdb.sql(f"{sums} FROM read_parquet('{file}')").fetchall() == duckdb.sql(f"{sums} FROM before").fetchall()


def test_the_job_goes_on_after_a_merge_and_still_knows_its_batches(where):
    warehouse = opened(where)
    for number in range(5):
        warehouse.commit(batch_of(where, number, [number]))
    merged(where, 1)
    assert warehouse.last_batch() == 4
    assert warehouse.note_of(4) == {"offsets": {"sales/0": 4}}
    warehouse.commit(batch_of(where, 5, [5]))
    again = opened(where)
    assert again.last_batch() == 5
    assert again.standings()[0].taken_back is None
    assert column(where, "facts", "number") == [0, 1, 2, 3, 4, 5]


def test_only_crowded_partitions_are_touched_whatever_their_values(where):
    warehouse = opened(where)
    odd = {"day": EARLIER, "shop": "50 % / ü='x'"}
    for number in range(5):
        rows = [fact(number, **odd), fact(number, shop=None), *([fact(number)] if number < 4 else [])]
        warehouse.commit(Batch(number, written(where, FACTS, rows), {}))
    assert merged(where, 1) == [(10, False)]
    assert files_by_partition(where) == {
        (EARLIER, "50 % / ü='x'"): 1,
        (date(2026, 11, 18), None): 1,
        (date(2026, 11, 18), "S1"): 4,
    }
    assert column(where, "facts", "number") == sorted([*range(5)] * 2 + [*range(4)])


def test_a_table_without_partitions_is_merged_too(tmp_path):
    plain = contract(partition_by=())
    where = replace(warehouse_settings(tmp_path), merge_files=3)
    warehouse = opened(where, facts=plain)
    for number in range(3):
        warehouse.commit(Batch(number, written(where, plain, [fact(number)]), {}))
    assert merged(where, 1) == [(3, False)]
    assert len(DeltaTable(f"{where.path}/facts").file_uris()) == 1
    assert column(where, "facts", "number") == [0, 1, 2]


def test_what_merges_have_made_is_merged_again_when_it_is_many(where, monkeypatch):
    warehouse, number, random = opened(where), 0, Random(0)
    monkeypatch.setattr(merging, "_MANY_MIDDLING", 3)
    counts = []
    for _ in range(3):
        for _ in range(5):
            files = written(where, FACTS, [fact(number, raw=random.randbytes(20_000))])
            warehouse.commit(Batch(number, files, {}))
            number += 1
        monkeypatch.setattr(merging, "SMALL", int(5.5 * files[0].size))
        merged(where, 1)
        counts.append(sum(files_by_partition(where).values()))
    assert counts == [1, 2, 1]
    assert column(where, "facts", "number") == [*range(15)]


def test_merges_beside_commits_lose_and_double_nothing_and_no_reader_sees_a_gap(where):
    warehouse, told = opened(where), Told()
    at_work = Merging(where, told)
    stop, seen = threading.Event(), []

    def read() -> None:
        while not stop.is_set():
            seen.append(column(where, "facts", "number"))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(60):
            batch = batch_of(where, number, [number])
            warehouse.commit(batch)
            at_work.committed("facts", len(batch.facts))
    finally:
        at_work.close()
        stop.set()
        reader.join()
    assert column(where, "facts", "number") == [*range(60)]
    assert all(numbers == [*range(len(numbers))] for numbers in seen)
    assert len(told) > 1
    assert not any(failed for _, failed in told)
    for version in range(DeltaTable(f"{where.path}/facts").version() + 1):
        facts = DeltaTable(f"{where.path}/facts", version=version).to_pyarrow_table(columns=["number"])
        assert sorted(facts["number"].to_pylist()) == [*range(len(facts))]


def test_so_many_files_have_to_come_before_it_looks_again(where):
    warehouse, told = opened(where), Told()
    at_work = Merging(where, told)
    for number in range(5):
        warehouse.commit(batch_of(where, number, [number]))
    at_work.committed("facts", 5)
    at_work._under_way.result()
    assert told == [(5, False)]
    for number in range(5, 10):
        warehouse.commit(batch_of(where, number, [number]))
    at_work.committed("facts", 4)
    at_work._under_way.result()
    assert told == [(5, False)]
    at_work.committed("facts", 1)
    at_work.close()
    assert told == [(5, False), (6, False)]  # what the first made is small, too


def test_the_files_that_an_earlier_job_left_count_like_new_ones(where):
    warehouse, told = opened(where), Told()
    for number in range(4):
        warehouse.commit(batch_of(where, number, [number]))
    at_work = Merging(where, told)
    at_work.committed("facts", 1)  # the first look: four files are few
    at_work._under_way.result()
    assert told == []
    warehouse.commit(batch_of(where, 4, [4]))
    at_work.committed("facts", 1)
    at_work.close()
    assert told == [(5, False)]


def test_a_table_whose_first_batch_comes_while_another_is_looked_at_is_looked_at_with_its_next(where, monkeypatch):
    warehouse, told, go_on = opened(where), Told(), threading.Event()
    for number in range(4):
        warehouse.commit(batch_of(where, number, [number]))
    small_files = merging._small_files
    monkeypatch.setattr(merging, "_small_files", lambda *given: go_on.wait(30) and small_files(*given))
    at_work = Merging(where, told)
    at_work.committed("rejects", 1)
    at_work.committed("facts", 1)
    go_on.set()
    at_work._under_way.result()
    at_work.committed("facts", 1)  # four files are few
    at_work._under_way.result()
    assert told == []
    warehouse.commit(batch_of(where, 4, [4]))
    at_work.committed("facts", 1)
    at_work.close()
    assert told == [(5, False)]


@pytest.mark.parametrize("off", [{"merge_files": 0}, {"writer": "spark"}])
def test_it_does_nothing_when_it_is_off_or_another_committer_writes(where, off):
    warehouse = opened(where)
    for number in range(6):
        warehouse.commit(batch_of(where, number, [number]))
    assert merged(replace(where, **off), 2, files=100) == []
    assert sum(files_by_partition(where).values()) == 6


def test_a_merge_that_fails_is_told_and_leaves_the_table_as_it_was(where, caplog):
    warehouse = opened(where)
    for number in range(5):
        warehouse.commit(batch_of(where, number, [number]))
    lost = files_of(where)[2]
    elsewhere = lost.rename(lost.with_suffix(".away"))
    version = DeltaTable(f"{where.path}/facts").version()
    assert merged(where, 1) == [(0, True)]
    assert "small files are not merged" in caplog.text
    assert DeltaTable(f"{where.path}/facts").version() == version
    elsewhere.rename(lost)
    assert merged(where, 1) == [(5, False)]
    assert column(where, "facts", "number") == [*range(5)]


def test_a_number_of_files_that_cannot_be_merged_is_refused(where):
    with pytest.raises(BadSetting, match=r"warehouse\.merge_files.*1.*0 \(never\), or so many"):
        replace(where, merge_files=1)
