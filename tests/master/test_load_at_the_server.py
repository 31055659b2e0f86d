"""The load contract as the server counts it: two workers, batch after batch, each asking for as much as it may."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from pipeline.config.settings import Settings, WarehouseSettings
from pipeline.driver.load import Load
from pipeline.master.mysql.master import MySqlMaster
from pipeline.master.mysql.pool import Pool
from pipeline.master.share import Contract, Share, Used
from tests.kit.master_fixtures import Server, dimension, every_key, found
from tests.kit.server_load import ServerLoad

pytestmark = pytest.mark.mysql

CONTRACT = dimension({"n": "int64"})
ROWS, CAP, ROW_CAP = 2_000, 60, 4_000


@pytest.fixture
def server(stack, master_database) -> Server:
    server = Server(stack, master_database)
    server.table("n INT", [[n] for n in range(ROWS)])
    return server


class Worker:
    def __init__(self, server: Server, **caps: float) -> None:
        self.pool = Pool(replace(server.settings, **caps))
        self.master = MySqlMaster(self.pool._settings, CONTRACT, self.pool)
        self.used: list[Used] = []

    def task(self, share: Share, reads: Iterator[int]) -> None:
        """All kinds of reads; the larger ones would be more than a second's share."""
        self.pool.begin(share)
        for kind in reads:
            if kind == 0:
                assert self.master.scan(None, 1_500).rows.num_rows == 1_500
            elif kind == 1:
                assert found(self.master.page(100, None, 900, also=pa.array([7, 5_000]))) == {
                    n: n + 1 for n in [7, *range(100, 1_000)]
                }
            elif kind == 2:
                begun = [self.master.begin_lookup(pa.array(range(first, first + 20))) for first in range(0, 400, 20)]
                assert [len(asked.answer()) for asked in begun] == [20] * 20
            else:
                assert len(self.master.lookup(pa.array(range(-3_000, 300)))) == 300
        self.used = self.pool.end()


@contextmanager
def healing(load: Load, healer: Worker, is_on: bool) -> Iterator[None]:
    """A thread beside the tasks, which asks as much as it may; its batch is as short as theirs."""
    over, turns = threading.Event(), []

    def heal() -> None:
        with suppress(InterruptedError):
            while not over.is_set():
                with load.lent(over.is_set) as part:
                    healer.task(part, iter([2]))
                turns.append(part)

    thread = threading.Thread(target=heal if is_on else turns.clear)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        assert bool(turns) == is_on


@pytest.mark.parametrize("heals", [False, True])
def test_no_second_of_the_server_sees_more_statements_rows_or_sessions_than_agreed(server, stack, heals):
    caps = {"queries_per_second": CAP, "rows_per_second": ROW_CAP, "connections": 3}
    rng, warehouse = np.random.default_rng(5), WarehouseSettings(heal_rows_per_minute=int(heals))
    contract = Contract.of_workers(Settings(master=replace(server.settings, **caps), warehouse=warehouse))
    load, (*workers, healer) = Load(contract, contract.tasks(2), 2), (Worker(server, **caps) for _ in range(3))
    with ServerLoad(stack, server.name) as seen, healing(load, healer, heals):
        for tasks in (2, 1, 2, 1, 2):  # short ones: the borders between them are what is tried
            chosen = [workers[i] for i in rng.permutation(2)[:tasks]]
            threads = [
                threading.Thread(target=worker.task, args=(share, iter(rng.integers(0, 4, 2).tolist())))
                for worker, share in zip(chosen, load.shares(tasks), strict=True)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            load.told([used for worker in chosen for used in worker.used])
    statements, rows = seen.most_in_a_second()
    assert 0.5 * CAP < statements <= 1.05 * CAP
    assert 0.5 * ROW_CAP < rows <= 1.05 * ROW_CAP
    assert 2 <= seen.most_sessions <= 3


class ShortReads(Share):
    """Time is no matter here."""

    largest_read = 70


def test_a_read_in_pieces_brings_what_it_would_bring_at_once(server):
    whole, pieces = server.master(CONTRACT), server.master(CONTRACT)
    pieces._reader.pool.begin(ShortReads())
    for rows in (1, 70, 71, 140, 500):
        assert found(pieces.page(3, 400, rows)) == found(whole.page(3, 400, rows))
        assert found(pieces.page(None, None, rows, also=pa.array([9, 9_999]))) == found(
            whole.page(None, None, rows, also=pa.array([9, 9_999]))
        )
        assert pieces.scan(None, rows) == whole.scan(None, rows)
        bound = whole.scan(None, 200).position
        assert pieces.scan(None, rows, bound) == whole.scan(None, rows, bound)
    assert found(pieces.lookup(pa.array(range(-100, 300)))) == {n: n + 1 for n in range(300)}
    assert pieces.borders(11) == whole.borders(11)
    assert every_key(pieces, 300) == every_key(whole, 300) == list(range(ROWS))
    assert pieces.statistics().rows == ROWS
    assert pieces.reads.by_kind["lookup"].queries == 6 + 4
