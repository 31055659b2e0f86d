"""The worker's side of the warehouse: rows into files that a commit can name."""

import json
import subprocess
import sys
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import BadContract
from pipeline.warehouse import partitions, storage
from pipeline.warehouse.files import TableFiles
from tests.kit.warehouse_samples import FACTS, contract, fact, rows_of

SMALL = contract("small", ["shop"], shop=pa.string(), number=pa.int64())


def small(*rows: tuple[str | None, int]) -> pa.Table:
    return pa.Table.from_pylist([{"shop": shop, "number": number} for shop, number in rows], SMALL.schema)


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_windows_of_one_partition_become_row_groups_of_one_file(tmp_path):
    files = TableFiles(str(tmp_path), SMALL, {}, "snappy", "7")
    for number in range(3):
        files.write(small(("a", number)))
    [action] = files.close()
    stored = pq.ParquetFile(tmp_path / action.path)
    assert stored.num_row_groups == 3
    assert stored.schema_arrow.names == ["number"]
    assert action.size == (tmp_path / action.path).stat().st_size
    assert (action.rows, action.partition_values) == (3, {"shop": "a"})
    assert json.loads(action.stats)["maxValues"] == {"number": 2}


def test_a_window_is_divided_by_partition_and_keeps_its_order(tmp_path):
    files = TableFiles(str(tmp_path), SMALL, {}, "zstd", "7")
    files.write(small(("a", 3), (None, 1), ("b", 5), ("a", 2), (None, 0)))
    found = {a.partition_values["shop"]: pq.read_table(tmp_path / a.path)["number"].to_pylist() for a in files.close()}
    assert found == {"a": [3, 2], None: [1, 0], "b": [5]}


def test_no_rows_make_no_file(tmp_path):
    files = TableFiles(str(tmp_path), SMALL, {}, "snappy", "7")
    files.write(small())
    assert files.close() == []
    assert files_in(tmp_path) == []


def test_an_aborted_attempt_leaves_nothing(tmp_path):
    files = TableFiles(str(tmp_path), SMALL, {}, "snappy", "7", most_open=1)
    files.write(small(("a", 1), ("b", 1)))
    assert len(files_in(tmp_path)) == 2
    files.abort()
    assert files_in(tmp_path) == []


def test_files_can_be_deleted_after_they_were_closed(tmp_path):
    files = TableFiles(str(tmp_path), SMALL, {}, "snappy", "7")
    files.write(small(("a", 1)))
    files.close()
    files.abort()
    assert files_in(tmp_path) == []


def test_two_attempts_of_the_same_name_never_share_a_file(tmp_path):
    paths = set()
    for _ in range(2):
        files = TableFiles(str(tmp_path), SMALL, {}, "snappy", "same")
        files.write(small(("a", 1)))
        paths |= {action.path for action in files.close()}
    assert len(paths) == 2


def test_many_partitions_never_hold_more_files_open_than_allowed(tmp_path):
    files = TableFiles(str(tmp_path), SMALL, {}, "snappy", "7", most_open=4)
    for window in range(2):
        files.write(small(*((f"s{shop}", window) for shop in range(10))))
        assert len(files._open) == 4
    actions = files.close()
    assert len(actions) == 20  # none was still open when its partition came again
    assert sum(action.rows for action in actions) == 20


def test_the_partition_used_most_recently_stays_open(tmp_path):
    files = TableFiles(str(tmp_path), SMALL, {}, "snappy", "7", most_open=2)
    for shop in ("a", "b", "a", "c", "a"):
        files.write(small((shop, 1)))
    assert sorted(action.partition_values["shop"] for action in files.close()) == ["a", "b", "c"]


def test_rows_of_another_form_are_refused(tmp_path):
    files = TableFiles(str(tmp_path), SMALL, {}, "snappy", "7")
    with pytest.raises(TypeError, match="number"):
        files.write(pa.table({"shop": ["a"], "number": pa.array([1], pa.int32())}))


def test_a_file_has_every_type_and_keeps_every_value(tmp_path):
    rows = rows_of(FACTS, [fact(1), {**dict.fromkeys(FACTS.schema.names), "day": date(2026, 11, 18), "shop": "S1"}])
    files = TableFiles(str(tmp_path), FACTS, {}, "snappy", "7")
    files.write(rows)
    [action] = files.close()
    inside = [name for name in FACTS.schema.names if name not in FACTS.partition_by]
    assert pq.ParquetFile(tmp_path / action.path).read().equals(rows.select(inside))


def test_a_floating_column_has_bounds_for_delta_and_none_inside_the_file(tmp_path):
    files = TableFiles(str(tmp_path), FACTS, {}, "snappy", "7")
    files.write(rows_of(FACTS, [fact(1, weight=2.0)]))
    files.write(rows_of(FACTS, [fact(2, weight=None), fact(3, weight=-1.0)]))
    [action] = files.close()
    found = json.loads(action.stats)
    assert (found["minValues"]["weight"], found["maxValues"]["weight"], found["nullCount"]["weight"]) == (-1, 2, 1)
    stored = pq.read_metadata(tmp_path / action.path)
    for group in range(stored.num_row_groups):
        columns = [stored.row_group(group).column(i) for i in range(stored.num_columns)]
        [weight] = [column for column in columns if column.path_in_schema == "weight"]
        assert weight.statistics is None
        assert not weight.has_dictionary_page


def test_columns_that_repeat_get_a_dictionary_and_others_do_not(tmp_path):
    rows = pa.table({"shop": ["x"] * 4000, "number": range(4000), "few": [i % 7 for i in range(4000)]})
    table = contract("t", ["shop"], shop=pa.string(), number=pa.int64(), few=pa.int64())
    files = TableFiles(str(tmp_path), table, {}, "snappy", "7")
    files.write(rows)
    group = pq.read_metadata(tmp_path / files.close()[0].path).row_group(0)
    assert [group.column(i).has_dictionary_page for i in range(2)] == [False, True]


@pytest.mark.parametrize("value", ["a/b", "..", ".", "a=b:c%d", "ü 🌲", "'\"\\", "\x00\n", "x" * 5000, "ä" * 300])
def test_any_text_can_be_a_partition(tmp_path, value):
    files = (
        TableFiles(str(tmp_path / "root"), SMALL, {}, "snappy", "7") if (tmp_path / "root").mkdir() is None else None
    )
    files.write(small((value, 1)))
    [action] = files.close()
    assert action.partition_values == {"shop": value}
    assert files_in(tmp_path) == [f"root/{action.path}"]


def test_partitions_with_names_cut_short_do_not_share_a_folder():
    assert partitions.escaped("ä" * 300) != partitions.escaped("ä" * 301)


def test_partition_values_have_deltas_own_form():
    table = contract("t", ["d", "n", "b", "e"], d=pa.date32(), n=pa.int32(), b=pa.bool_(), e=pa.string(), v=pa.int64())
    rows = pa.table([[date(33, 1, 2)], pa.array([-5], pa.int32()), [True], [""], [1]], table.schema)
    [(values, _)] = partitions.divided(rows, table.partition_by)
    assert values == {"d": "0033-01-02", "n": "-5", "b": "true", "e": None}


def test_a_partition_column_without_an_exact_text_is_refused():
    with pytest.raises(BadContract, match="partition column weight is double"):
        partitions.check(contract("t", ["weight"], weight=pa.float64(), number=pa.int64()))


def test_a_table_of_partition_columns_only_is_refused():
    with pytest.raises(BadContract, match="at least one column"):
        partitions.check(contract("t", ["number"], number=pa.int64()))


def test_the_worker_imports_no_spark():
    program = "import sys, pipeline.warehouse.files; assert not {'pyspark', 'py4j', 'delta'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(storage.__file__).parents[2])
