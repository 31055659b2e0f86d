"""`millrace demo`: everything at once, from nothing to the proof that it adds up, below one folder.

A broker and a database of its own, master data, the job as a process, bursty sales of which some are malformed, or
have an unknown or null key, or are sent twice, the live panel, and at the end the reconciliation.
"""

from __future__ import annotations

import fcntl
import shutil
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

from rich.console import Console

from pipeline.config import settings, toml
from pipeline.errors import MillraceError
from pipeline.generate.keys import Sizes
from pipeline.generate.run import generate
from pipeline.generate.seed import seed
from pipeline.generate.sent import Sent
from pipeline.generate.workload import Workload
from pipeline.java import jars
from pipeline.laptop.demo_job import JobProcess
from pipeline.laptop.demo_result import show
from pipeline.laptop.stack.stack import Stack, StackInfo, settings_of
from pipeline.plan import resolve
from pipeline.reconcile import reconcile
from pipeline.watch import families
from pipeline.watch.panel import Panel

TOPIC = "sales"
SIZES = Sizes(products=200_000, customers=100_000, stores=500)

_MARK = "made-by-millrace-demo"  # a file in a folder that a demo may remove
_STALLS_AFTER = 120.0  # seconds without a commit while messages wait
_EXIT_WRONG, _EXIT_INTERRUPTED = 1, 130


class DemoFailed(MillraceError):
    """The demo cannot go on."""


class Steps:
    """Says each step in one line, with the time it took, and knows which one failed."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.current = ""

    @contextmanager
    def step(self, name: str, spinner: bool = True) -> Iterator[list[str]]:
        """The block may append to the list what is worth saying about the step."""
        self.current = name
        said: list[str] = []
        began = time.monotonic()
        with self.console.status(name) if spinner else nullcontext():
            yield said
        self.say(f"{time.monotonic() - began:6.1f} s  {name}{': ' if said else ''}{', '.join(said)}")

    def say(self, line: str) -> None:
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)


def demo(folder: Path | str = ".millrace", seconds: float = 60, rate: float = 5_000, sizes: Sizes = SIZES) -> int:
    """Run the demo; the exit code is 0 only if everything holds."""
    steps = Steps(Console(stderr=True))
    began = time.monotonic()
    try:
        with ExitStack() as to_end:
            try:
                holds = _run(Path(folder).absolute() / "demo", seconds, rate, sizes, steps, to_end)
            except KeyboardInterrupt:
                steps.say(f"interrupted at: {steps.current}; stopping what the demo started")
                raise
    except KeyboardInterrupt:
        return _EXIT_INTERRUPTED
    except MillraceError as error:
        steps.say(f"FAILED at: {steps.current}\n{error}")
        return _EXIT_WRONG
    steps.say(f"{time.monotonic() - began:6.1f} s  in all; exit code {0 if holds else _EXIT_WRONG}")
    return 0 if holds else _EXIT_WRONG


def _run(folder: Path, seconds: float, rate: float, sizes: Sizes, steps: Steps, to_end: ExitStack) -> bool:
    with steps.step("folder") as said:
        to_end.enter_context(_fresh(folder))
        said.append(str(folder))
    with steps.step("jars"):
        jars.fetch("kafka")
        jars.fetch("spark")
    with steps.step("servers") as said:
        stack = Stack(folder, supervised=True)
        to_end.callback(stack.down)
        info = stack.up()
        said += [f"Kafka at {info.bootstrap}", f"{stack.database.kind} at {info.host}:{info.port}"]
    with steps.step("master data") as said, stack.database.connect("owner") as connection:
        said += [f"{table.rows:,} rows in {table.table}" for table in seed(connection, sizes, progress=False)]
    with steps.step("topic") as said:
        stack.kafka.create_topic(TOPIC, partitions=4)
        said.append(f"{TOPIC}, 4 partitions")
    settings_file = _write_settings(folder, info)
    plan = resolve(settings.load(settings_file, environment={}))
    with steps.step("job") as said:
        job = JobProcess(settings_file, folder / "logs" / "job.log")
        to_end.callback(job.kill)
        job.await_ready()
        said += [f"metrics at {job.url}", f"log in {job.log}"]
    sent = _sales_flow(job, info, sizes, seconds, rate, steps)
    with steps.step("job stopped"):
        job.stop()
    with steps.step("reconciliation"):
        verdict = reconcile(plan, sent)
    show(plan, verdict, settings_file)
    return verdict.ok


def _sales_flow(job: JobProcess, info: StackInfo, sizes: Sizes, seconds: float, rate: float, steps: Steps) -> Sent:
    """Send sales for a while with the panel beside it, then wait until the last one is committed."""
    workload = Workload({TOPIC: 1.0}, sizes, malformed=0.02, unknown=0.03, null_keys=0.01, duplicates=0.01)
    stop = threading.Event()
    with ThreadPoolExecutor(1, "generator") as thread:
        sending = thread.submit(
            generate,
            bootstrap=info.bootstrap,
            workload=workload,
            seconds=seconds,
            rate=rate,
            bursty=True,
            progress=False,
            stop=stop,
        )
        try:
            caught_up = _CaughtUp(job, sending)
            flowing = f"sales for {seconds:g} s, in bursts, {rate:,.0f} a second on average"
            with steps.step(flowing, spinner=False) as said:
                Panel(job.url, steps.console).run(until=caught_up)
                said.append(f"{sending.result().messages:,} messages sent, all committed")
        finally:
            stop.set()
    return sending.result()


class _CaughtUp:
    """Whether every message that was sent is committed. Notices a job that has ended, or no longer gets on."""

    def __init__(self, job: JobProcess, sending: Future[Sent]) -> None:
        self._job = job
        self._sending = sending
        self._committed = -1.0
        self._moved_at = time.monotonic()

    def __call__(self) -> bool:
        self._job.check_running()
        if not self._sending.done():
            self._moved_at = time.monotonic()
            return False
        sent = self._sending.result().messages
        seen = self._job.metrics()
        committed = seen.total(families.MESSAGES) if seen else self._committed
        if committed > self._committed:
            self._committed, self._moved_at = committed, time.monotonic()
        if time.monotonic() - self._moved_at > _STALLS_AFTER:
            raise self._job.trouble(f"has committed {committed:,.0f} of {sent:,} messages and stands still")
        return seen is not None and committed >= sent and seen.total(families.BACKLOG) == 0


@contextmanager
def _fresh(folder: Path) -> Iterator[None]:
    """An empty folder for this demo alone. One that an earlier demo made is removed, any other is left alone."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise DemoFailed(
                f"another demo is running in {folder}. Wait for it, or give this one another --folder."
            ) from error
        if folder.exists() and not (folder / _MARK).exists():
            raise DemoFailed(
                f"{folder} was not made by a demo, so it is left alone. Give another --folder, or move it away."
            )
        # The servers of an earlier demo that was killed may still be ending.
        Stack(folder).down()
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "logs").mkdir(parents=True)
        (folder / _MARK).touch()
        yield


def _write_settings(folder: Path, info: StackInfo) -> Path:
    servers = settings_of(info)
    tables: toml.Tables = {
        "job": {"name": "demo", "trigger": "1 s", "checkpoint": str(folder / "checkpoint")},
        "kafka": {**servers["kafka"], "topics": [TOPIC]},
        "master": servers["master"],
        "warehouse": {"path": str(folder / "warehouse")},
        "metrics": {"port": 0},
    }
    file = folder / "demo.toml"
    toml.write_private(file, "Written by `millrace demo`.", tables)
    return file
