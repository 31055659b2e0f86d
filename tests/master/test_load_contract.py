"""The load contract by arithmetic, over a simulated clock: no second of the server's sees more than was agreed, however
long answers take, batches follow each other and tasks fail."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from pipeline.config.settings import MasterData, load
from pipeline.driver.load import Load
from pipeline.errors import BadSetting
from pipeline.joins.cost.caps import Caps
from pipeline.master.mysql.allowance import Allowance
from pipeline.master.share import Contract, Share, Used
from pipeline.plan import resolve
from tests.kit.running import wait_until


class Simulated:
    """A job whose tasks ask as much as they may. The server counts a statement, and sends its rows, at any moment from
    the question to the answer."""

    def __init__(self, contract: Contract, slots: int, seed: int, heals: bool = False) -> None:
        self.contract, self.rng, self.now = contract, np.random.default_rng(seed), 0.0
        tasks = (contract.without_lent if heals else contract).tasks(slots)
        self.load = Load(contract, tasks, slots, lambda: self.now)
        self.heals, self.lease, self.heals_until = heals, None, 0.0
        self.counted: list[tuple[float, int, int]] = []  # by the server: when, statements, rows

    def batch(self) -> None:
        tasks = int(self.rng.integers(1, self.load.tasks + 1))
        self.begins_to_heal()
        began, ended, used = self.now, self.now, []
        for share in self.load.shares(tasks):
            at, statements = began, int(self.rng.integers(0, 60))
            if self.rng.random() < 0.2:  # this attempt dies without a word
                at, _ = self.task(share, at, statements // 2)
                share = share.spent
            at, told = self.task(share, at, statements)
            used, ended = used + told, max(ended, at)
        self.ends_healing(began, ended)
        self.now = ended + float(self.rng.exponential(0.1))
        self.load.told(used)

    def begins_to_heal(self) -> None:
        """Between two batches, and goes on beside those that follow."""
        if self.heals and self.lease is None and self.rng.random() < 0.6:
            self.lease = self.load.lent(is_over=lambda: False)
            part = self.lease.__enter__()
            self.heals_until, _ = self.task(part, self.now, int(self.rng.integers(1, 40)))

    def ends_healing(self, began: float, ended: float) -> None:
        """At any moment of a batch."""
        if self.lease is not None and self.heals_until <= ended:
            self.now = max(began, self.heals_until)
            self.lease.__exit__(None, None, None)
            self.lease = None

    def task(self, share: Share, at: float, statements: int) -> tuple[float, list[Used]]:
        clock = [at]
        allowance = Allowance(share, lambda: clock[0])
        under_way: list[tuple[float, int, object]] = []

        def settle() -> None:
            answered, rows, taken = under_way.pop(0)
            clock[0] = max(clock[0], answered)
            taken.answered(rows)

        for _ in range(statements):
            bound = int(self.rng.integers(1, min(share.largest_read, 400) + 1))
            while early := allowance.early(bound):
                if early == float("inf"):
                    settle()
                else:
                    clock[0] += early
            takes, rows = float(self.rng.exponential(0.03)), int(bound * self.rng.random())
            self.counted.append((clock[0] + takes * self.rng.random(), 1, rows))
            under_way.append((clock[0] + takes, rows, allowance.take(bound)))
            if len(under_way) == 2:
                settle()
        while under_way:
            settle()
        return clock[0], allowance.used()


def most_in_a_second(counted: Sequence[tuple[float, int, int]], seconds: float = 1.0) -> tuple[int, int]:
    times, statements, rows = map(np.array, zip(*sorted(counted), strict=True))
    first = np.searchsorted(times, times - seconds, side="right")
    sums = [np.concatenate([[0], np.cumsum(numbers)]) for numbers in (statements, rows)]
    most_statements, most_rows = (int((each[1:] - each[first]).max()) for each in sums)
    return most_statements, most_rows


@pytest.mark.parametrize("heals", [False, True])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("contract", "slots"),
    [
        (Contract(statements=40, rows=10_000), 4),
        (Contract(statements=7), 3),
        (Contract(rows=1_000), 2),
        (Contract(statements=2, rows=300), 8),
    ],
)
def test_in_no_second_the_job_asks_for_more_than_the_contract_and_it_uses_most_of_it(contract, slots, seed, heals):
    job = Simulated(contract, slots, seed, heals)
    for _ in range(40):
        job.batch()
    statements, rows = most_in_a_second(job.counted)
    assert statements <= (contract.statements or statements)
    assert rows <= (contract.rows or rows)
    assert statements == contract.statements or rows > 0.5 * contract.rows > 0


def test_a_part_is_lent_from_the_next_batch_on_and_dealt_out_again_when_it_no_longer_counts():
    now, granted, done = [0.0], threading.Event(), threading.Event()
    load = Load(Contract(statements=40), 1, 1, lambda: now[0])
    assert load.shares(tasks=1)[0].statements == 40

    def heal() -> None:
        with load.lent(is_over=lambda: False) as part:
            assert part.used == (Used(0.0, 10, 0),)  # of what was asked before it was lent it knows nothing
            granted.set()
            done.wait(30)

    thread = threading.Thread(target=heal)
    thread.start()
    wait_until(lambda: load._is_wanted, "it is wanted", 30)
    assert not granted.is_set(), "tasks have all of it"
    assert load.shares(tasks=1)[0].statements == 30
    assert granted.wait(30)
    done.set()
    thread.join()
    now[0] = 0.9
    assert load.shares(tasks=1)[0].statements == 30
    now[0] = 1.1
    assert load.shares(tasks=1)[0].statements == 40


def test_who_waits_for_a_part_ends_with_the_job():
    load = Load(Contract(statements=40), 1, 1)
    load.shares(tasks=1)
    with pytest.raises(InterruptedError), load.lent(is_over=lambda: True):
        pass


def test_less_than_a_statement_a_second_is_one_in_so_many_seconds():
    contract = Contract.of(MasterData(queries_per_second=0.25))
    job = Simulated(contract, 4, seed=1)
    for _ in range(5):
        job.batch()
    assert most_in_a_second(job.counted, seconds=4.0)[0] == 1


@pytest.mark.parametrize("tasks", range(1, 9))
@pytest.mark.parametrize("connections", [1, 2, 5, 8, 13])
def test_connections_of_running_tasks_and_of_idle_workers_are_together_no_more_than_agreed(connections, tasks):
    contract, workers = Contract(connections=connections), 8
    shares = contract.deal(min(tasks, contract.tasks(workers)), workers)
    idle = workers - len(shares)
    assert sum(share.connections for share in shares) + idle * shares[0].kept <= connections
    assert min(share.connections for share in shares) >= 1


def test_what_one_batch_has_used_is_taken_from_the_next_ones_shares_of_which_none_is_negative():
    used = [Used(0.9, 3, 100), Used(0.1, 4, 333), Used(0.5, 2, 67)]
    contract = Contract(statements=10, rows=500)
    for tasks in range(1, 6):
        shares = contract.deal(tasks, tasks, used)
        for oldest in (0.1, 0.5, 0.9):
            young = [[one for one in share.used if one.ago <= oldest] for share in shares]
            for what, whole in (("statements", 10), ("rows", 500)):
                before = sum(getattr(one, what) for one in used if one.ago <= oldest)
                own = [sum(getattr(one, what) for one in some) for some in young]
                left = [getattr(share, what) - mine for share, mine in zip(shares, own, strict=True)]
                assert min(left) >= 0
                assert sum(left) <= whole - before


def test_a_read_is_never_as_large_as_a_seconds_share_nor_so_small_that_its_statements_do_not_suffice():
    assert replace(Share(), rows=1_000).largest_read == 125
    assert replace(Share(), rows=1_000, statements=2).largest_read == 500
    assert Share().largest_read > 1 << 60


def test_a_statement_that_waits_for_the_cap_costs_that_wait_and_so_does_a_row():
    caps = Caps(queries=10, rows=1_000, read=100)
    assert caps.seconds(queries=50, rows=100) == 5
    assert caps.seconds(queries=1, rows=5_000) == 5
    assert replace(caps, rows=1e6).seconds(queries=1, rows=5_000) == 5  # of 50 reads


@pytest.mark.parametrize("rows", [-1, 1, 99])
def test_rows_with_which_no_task_could_work_are_refused(rows):
    with pytest.raises(BadSetting, match=r"master\.rows_per_second"):
        MasterData(rows_per_second=rows)


def test_tasks_that_run_twice_are_refused_beside_a_cap():
    twice = ["spark.conf.spark.speculation=true"]
    resolve(load(assignments=twice, environment={}))
    with pytest.raises(BadSetting, match=r"spark\.speculation.*twice at once"):
        resolve(load(assignments=[*twice, "master.rows_per_second=1000"], environment={}))
