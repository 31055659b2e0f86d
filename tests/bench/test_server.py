"""The tables of the experiments on a real server: they hold what is computed, and a small pool is small."""

import time

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from pipeline import joins
from pipeline.bench.point.points import Point
from pipeline.bench.server.database import BenchServer
from pipeline.bench.server.real_time import RealTrial
from pipeline.bench.server.target import OnServer
from pipeline.bench.workload import sources
from pipeline.bench.workload.stream import Sales
from pipeline.generate.zipf import ZipfDraw
from pipeline.joins import inlj
from pipeline.master.computed import ComputedRows
from pipeline.master.memory import MemoryMaster
from tests.kit.master_fixtures import Server

ON_DISK = {
    "each key once": ComputedRows(9_000),
    "narrow": ComputedRows(700, 32),
    "narrowest": ComputedRows(300, 24),
    "keys repeat, rows anywhere": ComputedRows(5_100, 120, ZipfDraw(900, 0.7), scattered=True),
    "keys repeat, in their order": ComputedRows(500, 47, ZipfDraw(900, 1.0)),
    "weather": sources.of("weather-like", rows=4_000).rows,
}


@pytest.fixture
def server(stack, master_database) -> Server:
    return Server(stack, master_database)


def every_row(master) -> pa.Table:
    position, read = None, []
    while not read or position is not None:
        scan = master.scan(position, 2_000)
        position = scan.position
        read.append(scan.rows)
    return pa.concat_tables(read)


@pytest.mark.mysql
@pytest.mark.parametrize("rows", ON_DISK.values(), ids=ON_DISK.keys())
@pytest.mark.parametrize("indexed", [True, False], ids=["", "no index"])
def test_a_table_has_the_rows_that_are_computed_where_they_lie(server, rows, indexed):
    with BenchServer(server.settings).master(rows, indexed) as master:
        assert (master.unique, master.indexed) == (rows.unique and indexed, indexed)
        found = every_row(master)
        assert master.statistics().row_bytes == pytest.approx(rows.row_bytes, abs=1.2)
        if indexed:
            key = int(rows.keys_at(np.array([rows.rows // 3]))[0])
            looked_up = master.lookup(pa.array([key, key + 1]))
            first, end = rows.first_at(np.array([key]))[0], rows.behind(np.array([key]))[0]
            assert sorted(looked_up["surrogate_key"].to_pylist()) == list(range(first + 1, end + 1))
    there = rows.numbers_at(np.arange(rows.rows))
    assert found["key"].to_pylist() == rows.keys_at(there).tolist()
    assert found["surrogate_key"].to_pylist() == (there + 1).tolist()


@pytest.mark.mysql
def test_a_table_is_filled_once_and_another_one_is_another(server):
    on = BenchServer(server.settings)

    def tables() -> int:
        return len(server.execute("SHOW TABLES"))

    with on.master(ComputedRows(50)), on.master(ComputedRows(50, scattered=True)):
        assert tables() == 1  # which rows are wanted is the sales' affair
    server.execute(f"DELETE FROM {server.execute('SHOW TABLES')[0][0]} LIMIT 1")
    with BenchServer(server.settings).master(ComputedRows(50)) as master:  # left by halves
        assert len(every_row(master)) == 50
    for other in (ComputedRows(51), ComputedRows(50, 90), ComputedRows(50, law=ZipfDraw(50, 1.0))):
        before = tables()
        with on.master(other):
            assert tables() == before + 1
    with on.master(ComputedRows(50), indexed=False):
        assert tables() == 5


@pytest.mark.mysql
@pytest.mark.slow
def test_behind_a_small_pool_the_device_is_read():
    server = BenchServer(pool=6 << 20)
    try:
        rows = ComputedRows(120_000)
        with server.master(rows) as master:
            assert int(server.variables()["innodb_buffer_pool_size"]) == 6 << 20
            assert server.variables()["innodb_flush_method"] == "O_DIRECT"
            every_row(master)
            before = server.counters()
            every_row(master)
            read = {name: count - before[name] for name, count in server.counters().items()}
        assert read["disk_bytes"] > 0.8 * rows.rows * rows.row_bytes
        assert read["device_bytes"] == pytest.approx(read["disk_bytes"], rel=0.1)  # not from the file system's cache
    finally:
        server.close()


@pytest.mark.mysql
@pytest.mark.slow
def test_a_point_is_measured_beside_what_calibrated_models_say_of_it(server):
    target = OnServer(server.settings)
    usual = {"machine": "cmeshjoin-cikm2013", "R": {"rows": 30_000, "scattered": True}, "accounting": "as measured"}
    for join, reads in (("meshjoin", "scan_queries"), ("inlj", "lookup_queries")):
        seen = target.measure(msgspec.convert(usual | {"join": join, "memory": "0.8 MB"}, Point), seed=1)
        assert seen.refused == ""
        assert seen.numbers["rate"] == seen.numbers["sales"] / seen.numbers["seconds"] > 1_000
        assert seen.numbers["matched"] > 0 == seen.numbers["unmatched"]
        assert seen.numbers[reads] == seen.numbers["queries"] > 0
        assert seen.numbers["pool_requests"] > 0
        assert 0.2 < seen.predicted["rate"] / seen.numbers["rate"] < 5  # how near, is for a quiet machine
    small = target.measure(msgspec.convert(usual | {"join": "meshjoin", "memory": 100}, Point), seed=1)
    assert "needs" in small.refused
    target.close()


@pytest.mark.mysql
def test_what_needs_a_clock_that_waits_for_nobody_is_refused_on_a_server(server):
    arrivals = {"arrivals": {"rate": 10.0, "seconds": 5.0}, "join": "inlj", "memory": 100_000}
    point = msgspec.convert({"machine": "hybridjoin-2011", "R": {"rows": 100}, **arrivals}, Point)
    assert "always wait" in OnServer(server.settings).measure(point, seed=1).refused


@pytest.mark.parametrize(("join", "fillings"), [("inlj", 4), ("meshjoin", 1), ("hybridjoin", 4)])
def test_what_counts_in_real_time_begins_when_the_join_has_settled(join, fillings):
    rows = ComputedRows(20_000)
    sales = Sales(rows, ZipfDraw(20_000, 1.0), 0.0, 1)
    few = joins.Options(settings={"inlj": inlj.Settings(batch=50)})  # at once, so that most go on waiting
    master = MemoryMaster(rows.table(np.arange(20_000)))
    trial = RealTrial(joins.make(join, master, 700_000, few), sales.next(100_000))
    trial.warm_up(0.0, 60.0)
    assert trial.join.statistics.offered - trial.join.pending > fillings * trial.join.pending > 0


@pytest.mark.parametrize("bounded", [False, True], ids=["endless", "in windows"])
def test_a_rate_in_real_time_is_sales_by_seconds_and_littles_law_holds(bounded):
    rows = ComputedRows(3_000)
    sales = Sales(rows, ZipfDraw(3_000, 1.0), 0.0, 1)
    master = MemoryMaster(pa.table({name: rows.table(np.arange(3_000))[name] for name in ("key", "surrogate_key")}))
    trial = RealTrial(joins.make("inlj", master, 300_000), sales.next(10_000), bounded)
    trial.warm_up(0.01, 5.0)
    served, began = trial.join.statistics.offered - trial.join.pending, time.perf_counter()
    for _ in range(4):
        trial.run(0.02)
    took = time.perf_counter() - began
    assert trial.sales == trial.join.statistics.offered - trial.join.pending - served > 0
    assert 0.08 <= trial.seconds <= took
    assert trial.rate == trial.sales / trial.seconds
    assert len(trial.rates) == 4
    assert trial.reads.total.queries == trial.reads.by_kind["lookup"].queries > 0
    if not bounded:  # it is full at each step, and half-way between the steps
        room = trial.join.pending + trial.join.algorithm.room
        assert 0 < trial.processing_time <= room / trial.rate * 1.01
