"""The warehouse with a real Spark: its tables beside Spark's own, both writers, and readers that skip files."""

import random
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from delta.tables import DeltaTable as SparksTable
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from pipeline.config.contracts import Contracts, TableColumn, TableContract
from pipeline.config.settings import Settings, SparkSettings
from pipeline.driver.session import open_session
from pipeline.errors import WarehouseRefused
from pipeline.warehouse import tables
from pipeline.warehouse.log import TableLog
from pipeline.warehouse.port import Batch
from pipeline.warehouse.warehouse import TwoStepWarehouse, make_warehouse
from tests.kit.committers import SparkOnCue
from tests.kit.warehouse_samples import (
    APPLICATION,
    FACTS,
    REJECTS,
    UTC,
    batch_of,
    column,
    contract,
    fact,
    reject,
    rows_of,
    warehouse_settings,
    written,
)

WRITERS = ("arrow", "spark")


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    conf = {
        "spark.sql.session.timeZone": "Asia/Kolkata",  # nothing may depend on it
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "1",  # VACUUM makes 10 000 tasks otherwise
    }
    session = open_session(Settings(spark=SparkSettings(conf=conf)))
    yield session
    session.stop()


@pytest.fixture
def opened(spark, tmp_path) -> Callable[..., TwoStepWarehouse]:
    def make(writer: str, facts: TableContract = FACTS, application: str = APPLICATION) -> TwoStepWarehouse:
        where = lake(tmp_path, writer)
        warehouse = make_warehouse(where, facts, [REJECTS], application, spark)
        warehouse.prepare()
        return warehouse

    return make


def opened_with(spark: SparkSession, where, **cues: Callable[[str], None]) -> TwoStepWarehouse:
    warehouse = TwoStepWarehouse(
        where, FACTS, [REJECTS], APPLICATION, spark, SparkOnCue(spark, where, APPLICATION, **cues)
    )
    warehouse.prepare()
    return warehouse


def lake(folder: Path, writer: str):
    return warehouse_settings(folder / "a lake [1] {x}", writer)


def read(spark: SparkSession, folder: Path, table: str = "facts"):
    """As Spark reads it from a folder it has not seen: from the log's files, not from its cache."""
    fresh = Path(shutil.copytree(f"{lake(folder, 'arrow').path}/{table}", folder / random.randbytes(4).hex()))
    return spark.read.format("delta").load(str(fresh))


def rows_read(frame, table: TableContract) -> list[Any]:
    found = pa.table(frame.toArrow().columns, frame.columns).select(table.schema.names).cast(table.schema)
    return sorted(found.to_pylist(), key=repr)


def test_a_table_is_created_as_its_contract_says(tmp_path):
    shipped = Contracts().table("fact_sales")
    table, missing = tables.open_table(str(tmp_path / "fact_sales"), shipped, {})
    assert missing == []
    found = table.log.describe()
    assert found.partition_by == ("received_on",)
    assert {name: c.type for name, c in found.columns.items()} == {
        c.name: tables.delta_type(c.type) for c in shipped.columns
    }
    assert {name: c.metadata["comment"] for name, c in found.columns.items()} == {
        c.name: c.meaning for c in shipped.columns
    }
    assert found.properties == tables.PROPERTIES


def test_a_created_table_is_the_one_that_spark_would_create(spark, tmp_path):
    shipped = Contracts().table("fact_sales")
    tables.open_table(str(tmp_path / "ours"), shipped, {})
    theirs = SparksTable.create(spark).location(str(tmp_path / "theirs"))
    for each in shipped.columns:
        theirs = theirs.addColumn(each.name, tables.sql_type(each.type), comment=each.meaning)
    for name, value in tables.PROPERTIES.items():
        theirs = theirs.property(name, value)
    theirs.partitionedBy(*shipped.partition_by).execute()
    ours, made_by_spark = (TableLog(str(tmp_path / name), {}) for name in ("ours", "theirs"))
    assert ours.describe() == made_by_spark.describe()
    assert ours.table.protocol() == made_by_spark.table.protocol()
    seen, known = (spark.read.format("delta").load(str(tmp_path / name)).schema for name in ("ours", "theirs"))
    assert seen.json() == known.json()


@pytest.mark.parametrize("name", ["a b", "a,b", "a=b", "a(b", "a\tb"])
def test_a_column_name_that_spark_could_not_read_again_is_refused(tmp_path, name):
    odd = contract(partition_by=["day"], **{name: pa.int64(), "day": pa.date32()})
    with pytest.raises(WarehouseRefused, match="Delta cannot create facts: column"):
        tables.open_table(str(tmp_path / "t"), odd, {})


def test_a_folder_full_of_other_files_is_refused(tmp_path):
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "notes.parquet").write_text("not a table")
    with pytest.raises(WarehouseRefused, match=r"Delta cannot create facts: .*not a Delta table"):
        tables.open_table(str(tmp_path / "t"), FACTS, {})


def some_batches(where) -> list[Batch]:
    """Two days, a null partition and awkward names; windows, nulls, extremes; a batch with nothing at all."""
    nothing = dict.fromkeys(FACTS.schema.names)
    extremes = fact(
        2**63 - 1,
        price=Decimal("9999999999999999.99"),
        text="a" * 31 + "\U0010ffff" * 9,
        at=datetime(2026, 11, 18, 23, 59, 59, 999_999, UTC),
        born=date(1, 1, 1),
        weight=float("-inf"),
    )
    facts = written(
        where,
        FACTS,
        [fact(1), fact(2, shop="a/b=c %41"), fact(-(2**63), shop=None)],
        [nothing, extremes, fact(3, day=date(2026, 11, 19), shop="ü 🌲")],
    )
    rejects = written(where, REJECTS, [reject("bad"), reject("worse")])
    return [
        Batch(0, facts, {"rejects": rejects}, {"offsets": {"sales/0": 6}}),
        Batch(7, [], {"rejects": []}, {"offsets": {}}),
    ]


def test_both_writers_leave_the_same_table(spark, opened, tmp_path):
    left = {}
    for writer in WRITERS:
        folder = tmp_path / writer
        warehouse = make_warehouse(lake(folder, writer), FACTS, [REJECTS], APPLICATION, spark)
        warehouse.prepare()
        for batch in some_batches(lake(folder, writer)):
            version = warehouse.commit(batch)
        by_spark = read(spark, folder)
        by_deltalake = DeltaTable(f"{lake(folder, writer).path}/facts")
        left[writer] = {
            "version": version,
            "schema": by_spark.schema.json(),
            "described": TableLog(f"{lake(folder, writer).path}/facts", {}).describe(),
            "facts by Spark": rows_read(by_spark, FACTS),
            "facts by deltalake": sorted(by_deltalake.to_pyarrow_table().to_pylist(), key=repr),
            "rejects": column(lake(folder, writer), "rejects", "reason"),
            "partitions": sorted(repr(sorted(values.items())) for values in by_deltalake.partitions()),
            "last batch": warehouse.last_batch(),
            "note": warehouse.last_note(),
            "rejects' last batch": warehouse.standings()[1].batch,
        }
    assert left["arrow"] == left["spark"]
    assert left["arrow"]["last batch"] == 7
    assert left["arrow"]["rejects' last batch"] == 0
    assert len(left["arrow"]["facts by Spark"]) == 6
    assert [row for row in left["arrow"]["facts by Spark"] if row["number"] == 1] == [fact(1)]
    assert left["arrow"]["facts by Spark"] == sorted(left["arrow"]["facts by deltalake"], key=repr)


def test_the_spark_writer_leaves_nothing_staged(opened, tmp_path):
    where = lake(tmp_path, "spark")
    warehouse = opened("spark")
    written(where, FACTS, [fact(99)])  # of an attempt that failed
    warehouse.commit(batch_of(where, 1, [1], ["bad"]))
    staged = [path for path in Path(where.path, "_staging").rglob("*") if path.is_file()]
    assert len(staged) == 1
    opened("spark")
    assert not staged[0].exists()
    assert column(where, "facts", "number") == [1]


def test_a_crash_of_the_spark_writer_between_facts_and_rejects_is_mended(spark, opened, tmp_path):
    where = lake(tmp_path, "spark")
    interrupted = []

    def interrupt_once(table: str) -> None:
        if table == "rejects" and not interrupted:
            interrupted.append(table)
            raise KeyboardInterrupt

    warehouse = opened_with(spark, where, before=interrupt_once)
    with pytest.raises(KeyboardInterrupt):
        warehouse.commit(batch_of(where, 3, [1], ["bad"]))
    assert (warehouse.last_batch(), column(where, "rejects", "reason")) == (3, [])
    again = opened("spark")
    for _ in range(2):
        again.finish(3)
        warehouse.finish(3)
    assert column(where, "rejects", "reason") == ["bad"]
    assert column(where, "facts", "number") == [1]
    with pytest.raises(WarehouseRefused, match=r"two jobs run as job\.name"):
        again.commit(batch_of(where, 3, [2]))


def test_of_two_spark_writers_at_once_one_is_refused(spark, tmp_path):
    where = lake(tmp_path, "spark")
    refused, together = [], threading.Barrier(2)

    def wait_for_the_other(_: str) -> None:
        together.wait(30)  # both have looked at the log and seen that the batch is free

    drivers = [opened_with(spark, where, before=wait_for_the_other) for _ in range(2)]
    batches = [batch_of(where, 1, [number]) for number in (10, 20)]

    def commit(driver: TwoStepWarehouse, batch: Batch) -> None:
        try:
            driver.commit(batch)
        except WarehouseRefused as error:
            refused.append(error)

    threads = [threading.Thread(target=commit, args=pair) for pair in zip(drivers, batches, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(refused) == 1
    assert column(where, "facts", "number") in ([10], [20])


def test_a_new_dimension_adds_its_columns(spark, opened, tmp_path):
    where = lake(tmp_path, "arrow")
    opened("arrow").commit(batch_of(where, 1, [1]))
    wider = replace(FACTS, columns=(*FACTS.columns, TableColumn("ne`w-ü", pa.int64(), "x.y", "It's \\ new.")))
    warehouse = opened("arrow", wider)
    facts = written(where, wider, [fact(2, **{"ne`w-ü": 5})])
    warehouse.commit(Batch(2, facts))
    found = {row["number"]: row["ne`w-ü"] for row in rows_read(read(spark, tmp_path), wider)}
    assert found == {1: None, 2: 5}
    described = TableLog(f"{where.path}/facts", {}).describe()
    assert described.columns["ne`w-ü"].metadata["comment"] == "It's \\ new."


def properties(**values: Any) -> str:
    return "TBLPROPERTIES (" + ", ".join(f"'{n.replace('__', '.')}' = '{v}'" for n, v in values.items()) + ")"


SMALL = contract("facts", [], number=pa.int64(), text=pa.string())
PLAIN = "(number BIGINT, text STRING) USING delta"


APPENDED_ONLY = {"delta__appendOnly": "true", "delta__enableChangeDataFeed": "true", "delta__checkpointPolicy": "v2"}


@pytest.mark.parametrize(
    ("definition", "delete"),
    [
        (f"{PLAIN} {properties(**APPENDED_ONLY)}", False),
        (f"{PLAIN} {properties(delta__minReaderVersion=1, delta__minWriterVersion=4)}", False),
        (
            "(number BIGINT NOT NULL, text STRING, later TIMESTAMP_NTZ) USING delta "
            + properties(delta__enableDeletionVectors="true"),
            True,
        ),
    ],
    ids=["append only, change data feed, v2 checkpoints", "writer version 4", "not null, ntz, deletion vectors"],
)
def test_tables_with_these_features_take_what_the_arrow_writer_appends(spark, opened, tmp_path, definition, delete):
    where = lake(tmp_path, "arrow")
    uri = f"delta.`{where.path}/facts`"
    spark.sql(f"CREATE TABLE {uri} {definition}")
    spark.sql(f"INSERT INTO {uri} (number, text) SELECT /*+ REPARTITION(1) */ * FROM VALUES (0, 'here'), (-1, 'gone')")
    if delete:
        spark.sql(f"DELETE FROM {uri} WHERE number = -1")
        assert DeltaTable(f"{where.path}/facts").deletion_vectors().read_all().num_rows == 1
    warehouse = opened("arrow", SMALL)
    warehouse.commit(Batch(1, written(where, SMALL, [{"number": 1, "text": "a"}])))
    DeltaTable(f"{where.path}/facts").create_checkpoint()
    assert sorted(row.number for row in read(spark, tmp_path).collect()) == ([0, 1] if delete else [-1, 0, 1])
    if "ChangeDataFeed" in definition:
        changes = spark.read.option("readChangeFeed", "true").option("startingVersion", 2)
        [change] = changes.format("delta").load(f"{where.path}/facts").collect()
        assert (change.number, change._change_type) == (1, "insert")


@pytest.mark.parametrize(
    ("definition", "name"),
    [
        (f"{PLAIN} {properties(delta__columnMapping__mode='name')}", "column mapping by name"),
        ("(number BIGINT, text STRING, twice BIGINT GENERATED ALWAYS AS (number * 2)) USING delta", "column twice"),
        (
            "(number BIGINT, text STRING, id BIGINT GENERATED ALWAYS AS IDENTITY, other INT) USING delta",
            "feature identityColumns",
        ),
        (f"{PLAIN} {properties(delta__enableRowTracking='true')}", "feature rowTracking"),
        (
            f"{PLAIN} {properties(delta__enableIcebergCompatV2='true', delta__columnMapping__mode='name')}",
            "feature icebergCompatV2",
        ),
        (
            "(number BIGINT, text STRING, other INT DEFAULT 5) USING delta "
            + properties(delta__feature__allowColumnDefaults="supported"),
            "feature allowColumnDefaults",
        ),
        (f"{PLAIN} {properties(delta__enableInCommitTimestamps='true')}", "feature inCommitTimestamp"),
        (f"{PLAIN} CLUSTER BY (number)", "feature clustering"),
        (
            f"{PLAIN} {properties(delta__feature__materializePartitionColumns='supported')}",
            "feature materializePartitionColumns",
        ),
        ("(number BIGINT, text STRING, short VARCHAR(3)) USING delta", "length limit of column short"),
    ],
    ids=lambda value: value if "USING" not in value else "",
)
def test_tables_that_demand_more_are_refused_by_name(spark, opened, tmp_path, definition, name):
    spark.sql(f"CREATE TABLE delta.`{lake(tmp_path, 'arrow').path}/facts` {definition}")
    with pytest.raises(WarehouseRefused, match=rf"cannot honour.* {name}.*warehouse\.writer = spark"):
        opened("arrow", SMALL)


def test_a_check_constraint_is_refused_by_one_writer_and_kept_by_the_other(spark, opened, tmp_path):
    where = lake(tmp_path, "spark")
    uri = f"delta.`{where.path}/facts`"
    spark.sql(f"CREATE TABLE {uri} {PLAIN} {properties(delta__columnMapping__mode='name')}")
    spark.sql(f"ALTER TABLE {uri} ADD CONSTRAINT positive CHECK (number > 0)")
    with pytest.raises(WarehouseRefused, match="CHECK constraint positive"):
        opened("arrow", SMALL)
    warehouse = opened("spark", SMALL)
    with pytest.raises(Exception, match=r"(?i)positive"):
        warehouse.commit(Batch(1, written(where, SMALL, [{"number": -1, "text": "a"}])))
    assert warehouse.last_batch() is None
    warehouse.commit(Batch(1, written(where, SMALL, [{"number": 1, "text": "a"}])))
    assert [row.number for row in read(spark, tmp_path).collect()] == [1]


def test_spark_optimises_and_vacuums_between_our_commits(spark, opened, tmp_path):
    where = lake(tmp_path, "arrow")
    warehouse = opened("arrow")
    uri = f"delta.`{where.path}/facts`"
    for batch in range(2):
        warehouse.commit(batch_of(where, batch, [batch]))
    assert spark.sql(f"OPTIMIZE {uri}").first().metrics.numFilesRemoved == 2
    assert warehouse.last_note() == {"offsets": {"sales/0": 1}}
    in_flight = batch_of(where, 2, [2])
    spark.sql(f"VACUUM {uri}")
    warehouse.commit(in_flight)
    assert column(where, "facts", "number") == [0, 1, 2]
    assert sorted(row.number for row in read(spark, tmp_path).collect()) == [0, 1, 2]


def random_fact(draw: random.Random) -> dict[str, Any]:
    def perhaps(value: Any) -> Any:
        return value if draw.random() > 0.2 else None

    moment = datetime(2026, 11, 18, tzinfo=UTC) + timedelta(microseconds=draw.randrange(-(10**7), 10**7))
    return fact(
        perhaps(draw.choice([-(2**63), 2**63 - 1, draw.randrange(-5, 5)])),
        price=perhaps(Decimal(draw.randrange(-(10**17), 10**17)).scaleb(-2)),
        vast=perhaps(Decimal(draw.randrange(-(10**20), 10**20)).scaleb(-10)),
        weight=perhaps(draw.choice([float("nan"), float("inf"), -0.0, draw.uniform(-5, 5)])),
        text=perhaps("".join(draw.choices("az\u07ff\ud7ff\ue000😀\U0010ffff", k=draw.choice([1, 31, 32, 33, 40])))),
        at=perhaps(moment),
        born=perhaps(date(1, 1, 1) + timedelta(days=draw.randrange(3_000_000))),
        day=date(2026, 11, 18) + timedelta(days=draw.randrange(2)),
        shop=draw.choice(["a/b", "%", None]),
    )


def test_spark_finds_every_row_by_the_statistics(spark, opened, tmp_path):
    draw = random.Random(18)
    where = lake(tmp_path, "arrow")
    warehouse = opened("arrow")
    everything = []
    for batch in range(8):
        rows = [random_fact(draw) for _ in range(3)]
        everything += rows
        warehouse.commit(Batch(batch, written(where, FACTS, rows)))
    table = spark.read.format("delta").load(f"{where.path}/facts")
    unskipped = spark.createDataFrame(rows_of(FACTS, everything))  # the same rows, where nothing can be skipped
    conditions = []
    for name in ("number", "price", "vast", "weight", "text", "at", "born", "shop"):
        value = draw.choice([row[name] for row in everything if row[name] is not None])
        value = F.lit(str(value)).cast(tables.sql_type(FACTS.schema.field(name).type))
        conditions.append(draw.choice([F.col(name) == value, F.col(name) >= value, F.col(name) <= value]))
    # Where pyarrow's statistics, inside the file, differ from Spark's order.
    conditions += [F.expr(f"weight {condition}") for condition in ("> 1", "= double('NaN')", "= 0", ">= double('inf')")]
    found = [table.filter(condition).count() for condition in conditions]
    assert found == list(unskipped.select(*(F.count_if(condition) for condition in conditions)).first())
    assert all(found)


def test_spark_reads_only_the_files_that_can_match(spark, opened, tmp_path):
    where = lake(tmp_path, "arrow")
    warehouse = opened("arrow")
    for batch in range(6):
        day = date(2026, 11, 18) + timedelta(days=batch // 3)
        at = datetime(2026, 11, 18, 12, batch, 0, 1, UTC)
        rows = [fact(batch * 10 + i, day=day, price=Decimal(batch), text=f"{batch}{'x' * 50}", at=at) for i in range(4)]
        warehouse.commit(Batch(batch, written(where, FACTS, rows)))
    table = spark.read.format("delta").load(f"{where.path}/facts")
    for condition, files, rows in [
        ("number = 23", 1, 1),
        ("price >= 3.5", 2, 8),
        (f"text = '4{'x' * 50}'", 1, 4),
        ("at = TIMESTAMP '2026-11-18 12:05:00.000001Z'", 1, 4),
        ("day = DATE '2026-11-18'", 3, 12),
        ("number > 1000", 0, 0),
    ]:
        assert table.filter(condition).count() == rows
        assert files_read(table.filter(condition)) == files, condition


def files_read(frame) -> int:
    """The number of files Spark opened, by its own count."""
    frame.collect()
    plan = frame._jdf.queryExecution().executedPlan()
    plan = plan.executedPlan() if plan.nodeName() == "AdaptiveSparkPlan" else plan
    metric = plan.collectLeaves().head().metrics().get("numFiles")
    return metric.get().value() if metric.isDefined() else 0
