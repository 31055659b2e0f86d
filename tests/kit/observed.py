"""What the observability test looks at: two jobs over the same sales, their tables, and what was scraped of them."""

from __future__ import annotations

import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import duckdb
from deltalake import DeltaTable

from pipeline.generate.keys import Sizes
from pipeline.generate.run import generate
from pipeline.generate.sent import Sent
from pipeline.generate.workload import Workload
from pipeline.laptop.stack.stack import StackInfo
from pipeline.watch import families
from pipeline.watch.scrape import NoAnswer, scrape
from tests.kit.prometheus import Prometheus
from tests.kit.running import Job, wait_until

FIRST, REST, RATE = 2_000, 48_000, 1_000.0  # the first start everything, and give the counters something to grow from
MESSAGES = FIRST + REST
TOPIC = "observed-sales"
_MOST_KILLS = 40
_ADDRESS = re.compile(r"metrics on (http://[\w.:]+/metrics)")


@dataclass
class Observed:
    """Two finished runs over the same messages, with all that was scraped of them."""

    prometheus: Prometheus
    jobs: dict[str, Job]  # by address of their metrics, which is Prometheus's label `instance`
    sent: list[Sent]
    start: float
    end: float
    password: str

    def value(self, query: str) -> float:
        """The one number a query has at the end."""
        [series] = self.prometheus.query(query, self.end)
        return float(series["value"][1])

    def by(self, query: str, *labels: str, at: float | None = None) -> dict[tuple[str, ...], float]:
        """The numbers a query has, at the end or at another time, by these labels."""
        found = self.prometheus.query(query, at or self.end)
        return {tuple(series["metric"][label] for label in labels): float(series["value"][1]) for series in found}

    def over_time(self, query: str) -> list[dict]:
        return self.prometheus.query_range(query, self.start, self.end, step=1)

    def growth(self, counters: str) -> float:
        """From the first to the last sample, without Prometheus's arithmetic."""
        [series] = self.over_time(counters)
        return float(series["values"][-1][1]) - float(series["values"][0][1])

    def empty_ones(self, queries: list[str]) -> list[str]:
        """Those that had no number at any time of the run."""
        return [query for query in queries if not _numbers(self.over_time(query))]

    @property
    def first(self) -> tuple[str, Job]:
        return next(iter(self.jobs.items()))


def _numbers(series: list[dict]) -> bool:
    return any(math.isfinite(float(value)) for one in series for _, value in one["values"])


def sql(job: Job, table: str, query: str) -> list[tuple]:
    """Ask DuckDB about the rows of a job's table; the table is called `t`."""
    files = DeltaTable(str(job.folder / "warehouse" / table)).file_uris()
    return duckdb.sql(query.replace("FROM t", f"FROM read_parquet({files!r})")).fetchall()


def url_of(job: Job) -> str:
    found = _ADDRESS.findall(job.log.read_text())
    return found[-1] if found else ""


def is_ready(job: Job) -> bool:
    assert job.running, job.tail()
    try:
        return bool(url_of(job)) and scrape(url_of(job)).total(families.READY) > 0
    except NoAnswer:
        return False


def commits_of(job: Job) -> dict[int, float]:
    """The moment of each batch's commit, by the log of the facts."""
    history = DeltaTable(str(job.folder / "warehouse" / "fact_sales")).history()
    ours = [(json.loads(commit.get("userMetadata") or "{}"), commit["timestamp"] / 1e3) for commit in history]
    return {said["batch"]: moment for said, moment in ours if "batch" in said}


def ages_of(job: Job) -> list[float]:
    """Commit minus Kafka timestamp of every message, ascending."""
    commits = ", ".join(f"({batch}, {moment!r})" for batch, moment in commits_of(job).items())
    query = f"""SELECT moment - epoch_us(kafka_timestamp) / 1e6
                FROM t JOIN (VALUES {commits}) AS commits(batch, moment) USING (batch)"""
    return sorted(float(age) for table in ("fact_sales", "sales_rejects") for (age,) in sql(job, table, query))


def make_job(folder: Path, stack: StackInfo, **settings: str) -> Job:
    folder.mkdir()
    return Job(folder, stack, TOPIC, job__trigger="1 s", worker__window_sales="20000", **settings)


@contextmanager
def synced(folder: Path, stack: StackInfo) -> Iterator[str]:
    """A `millrace sync --follow` of the products; where its metrics are."""
    folder.mkdir()
    reader, log = stack.reader, folder / "sync.log"
    given = {
        "master.host": stack.host, "master.port": str(stack.port), "master.database": stack.database,
        "master.user": reader.user, "master.password": reader.password, "metrics.sync_port": "0",
        "warehouse.path": str(folder / "warehouse"), "dimensions.product.history": "type 2",
    }  # fmt: skip
    words = [word for name, value in given.items() for word in ("--set", f"{name}={value}")]
    with log.open("wb") as said:
        command = [sys.executable, "-m", "pipeline.cli", "sync", "--follow", *words]
        process = subprocess.Popen(command, stdout=said, stderr=said)
    try:
        wait_until(lambda: bool(_ADDRESS.findall(log.read_text())), "the sync serves its metrics", 60)
        yield _ADDRESS.findall(log.read_text())[-1].split("/")[2]
    finally:
        process.terminate()
        assert process.wait(60) == 0, log.read_text()


def run(prometheus: Prometheus, jobs: dict[str, Job], stack: StackInfo, sizes: Sizes) -> Observed:
    """Send sales in bursts, and return when both jobs have committed all and Prometheus has seen it."""
    known = "millrace_backlog_messages"
    wait_until(lambda: len(prometheus.query(known)) == len(jobs), "the backlog of both jobs is known", 60)
    start = time.time()
    sent = [send(stack, sizes, FIRST, first_sale=0, rate=None)]
    for job in jobs.values():
        job.wait_for(FIRST)
    with ThreadPoolExecutor(1) as thread:
        rest = thread.submit(send, stack, sizes, REST, first_sale=sent[0].next_sale, rate=RATE)
        _lose_a_task(next(iter(jobs.values())))
        sent.append(rest.result())
    for job in jobs.values():
        job.wait_for(MESSAGES)
    wait_until(lambda: _seen(prometheus, jobs), "Prometheus has seen the last commit and no backlog", 60)
    end = time.time()
    # Rules run every second like the scrapes, and look at what was scraped before: until they have seen the end, too.
    settled = "min(timestamp(millrace:backlog:messages))"
    wait_until(lambda: float(prometheus.query(settled)[0]["value"][1]) > end, "the rules have seen it", 60)
    return Observed(prometheus, jobs, sent, start, time.time(), stack.reader.password)


def _lose_a_task(job: Job) -> None:
    """Kill workers until one dies in the midst of its work and Spark tries a task again: nothing may count twice."""
    moments = random.Random(1)

    def is_lost() -> bool:
        return "Lost task" in job.log.read_text()

    for _ in range(_MOST_KILLS):
        assert job.running, job.tail()
        time.sleep(moments.uniform(0, 1))  # the length of a batch: a kill between two of them changes nothing
        for worker in job.workers():
            with suppress(ProcessLookupError):  # Spark may have ended it meanwhile
                os.kill(worker, signal.SIGKILL)
        with suppress(AssertionError):
            return wait_until(is_lost, "Spark has noticed", 1.5)
    raise AssertionError(f"{_MOST_KILLS} kills, and none hit a task at work\n{job.tail()}")


def send(stack: StackInfo, sizes: Sizes, messages: int, first_sale: int, rate: float | None) -> Sent:
    untidy = {"malformed": 0.02, "unknown": 0.03, "null_keys": 0.01}
    workload = Workload(topics={TOPIC: 1.0}, sizes=sizes, first_sale=first_sale, **untidy)
    return generate(
        bootstrap=stack.bootstrap, workload=workload, messages=messages, rate=rate, bursty=bool(rate), progress=False
    )


def _seen(prometheus: Prometheus, jobs: dict[str, Job]) -> bool:
    counted = prometheus.query(f"sum by (instance) (millrace_messages_total) == {MESSAGES}")
    done = prometheus.query("sum by (instance) (millrace_backlog_messages) == 0")
    return len(counted) == len(done) == len(jobs)
