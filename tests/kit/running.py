"""A running job for integration and fault tests: a real process, watched from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from pipeline.laptop.stack.stack import StackInfo


def wait_until(holds: Callable[[], bool], what: str, limit: float = 120.0, every: float = 0.05) -> None:
    """Poll a condition; fail with its name when it does not come true in time."""
    deadline = time.monotonic() + limit
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"after {limit:g} s still not: {what}")
        time.sleep(every)


class Job:
    """`millrace run` as a process of its own."""

    def __init__(self, folder: Path, stack: StackInfo, topic: str, **settings: str) -> None:
        self.folder = folder
        self.log = folder / "job.log"
        self.settings = {
            "kafka.bootstrap": stack.bootstrap,
            "kafka.topics": topic,
            "master.host": stack.host,
            "master.port": str(stack.port),
            "master.user": stack.reader.user,
            "master.password": stack.reader.password,
            "master.database": stack.database,
            "job.checkpoint": str(folder / "checkpoint"),
            "job.trigger": "100 ms",
            "warehouse.path": str(folder / "warehouse"),
            "metrics.port": "0",
            # A test's job lives for seconds: the JVM's second compiler would take the cores and never pay back.
            "spark.conf.spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            **{name.replace("__", "."): value for name, value in settings.items()},
        }
        self.command = [sys.executable, "-m", "pipeline.cli", "run"]
        self.process: subprocess.Popen[bytes] | None = None
        self.environment: dict[str, str] = {}  # beside ours
        self._counted: dict[str, tuple[tuple[str, ...], int]] = {}  # by table: the files of its log, and its rows then

    @property
    def assignments(self) -> list[str]:
        return [f"{name}={value}" for name, value in self.settings.items()]

    def start(self) -> Job:
        arguments = [part for assignment in self.assignments for part in ("--set", assignment)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self.command, *arguments],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=self.folder,
                env={**os.environ, **self.environment},
                start_new_session=True,
            )
        return self

    def wait(self, limit: float = 180.0) -> int:
        assert self.process
        return self.process.wait(limit)

    def kill(self) -> None:
        """The driver and its JVM die at once, as when the machine goes; workers die with their pipes."""
        assert self.process
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)

    def stop(self) -> int:
        assert self.process
        self.process.terminate()
        return self.process.wait(60)

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def workers(self) -> list[int]:
        """The Python workers of this job: grandchildren of the JVM, forked by PySpark's daemon."""
        assert self.process
        daemons = {pid for pid in descendants(self.process.pid) if "pyspark.daemon" in command_line(pid)}
        return sorted(pid for pid in daemons if _parent(pid) in daemons)  # numbers start anew: order tells nothing

    def committed(self, table: str = "fact_sales") -> int:
        """Rows in the table by its log, without reading a file.

        A log of a hundred commits takes longer to read than to poll, on the cores that the job works with: so it is
        read when it has changed.
        """
        log = Path(self.settings["warehouse.path"], table, "_delta_log")
        files = tuple(sorted(os.listdir(log))) if log.is_dir() else ()  # an object store's is read each time
        if not files or self._counted.get(table, ((), 0))[0] != files:
            self._counted[table] = files, self._rows(table)
        return self._counted[table][1]

    def _rows(self, table: str) -> int:
        begin = "warehouse.storage_options."
        options = {name.removeprefix(begin): value for name, value in self.settings.items() if name.startswith(begin)}
        try:
            found = DeltaTable(f"{self.settings['warehouse.path']}/{table}", storage_options=options)
            actions = found.get_add_actions(flatten=True)
        except TableNotFoundError:
            return 0
        return sum(actions.column("num_records").to_pylist())

    def wait_for(self, messages: int, limit: float = 180.0) -> None:
        """Until facts and rejects together are as many as the messages."""

        def arrived() -> bool:
            if not self.running:
                raise AssertionError(f"the job ended with {self.process and self.process.returncode}:\n{self.tail()}")
            return self.committed() + self.committed("sales_rejects") >= messages

        try:
            wait_until(arrived, f"{messages} messages committed", limit)
        except AssertionError as error:
            raise AssertionError(f"{error}; there are {self.committed()} facts\n{self.tail()}") from error

    def tail(self, lines: int = 40) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def __enter__(self) -> Job:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self.running:
            self.kill()


def descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for line in subprocess.check_output(["ps", "-eo", "pid=,ppid="], text=True).splitlines():
        child, parent = map(int, line.split())
        children.setdefault(parent, []).append(child)
    found, todo = [], [pid]
    while todo:
        todo += (born := children.get(todo.pop(), []))
        found += born
    return sorted(found)


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


def age(pid: int) -> float:
    """Seconds since the process was started; 0 if it is gone."""
    try:
        started = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19])
    except OSError:
        return 0.0
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started / os.sysconf("SC_CLK_TCK")


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
