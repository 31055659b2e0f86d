"""What a user does once a day, done each quarter of an hour: a soak of two hours is a week of it.

A table's log keeps its entries for a week, and files that have left a table stay for as long, so without this nothing
on the disk would ever come to rest in two hours. Here both are an hour, the least that `millrace maintain` knows.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from deltalake import DeltaTable

from tests.faults.soak.scene import JAVA_OPTIONS, temporary_in
from tests.kit.running import Job

EVERY = 900.0  # seconds
KEPT_HOURS = 1


class Upkeep:
    """`millrace maintain` beside the running job, whatever faults come meanwhile; one at a time."""

    def __init__(self, job: Job) -> None:
        self._job, self._next, self._log = job, time.monotonic() + EVERY, job.folder / "maintain.log"
        self._running: subprocess.Popen[bytes] | None = None
        self.ended: list[int] = []  # exit codes
        for table in self._tables():
            DeltaTable(str(table)).alter.set_table_properties(
                {"delta.logRetentionDuration": f"interval {KEPT_HOURS} hours"}
            )

    def _tables(self) -> list[Path]:
        return sorted(log.parent for log in Path(self._job.settings["warehouse.path"]).glob("*/_delta_log"))

    def go_on(self) -> None:
        """Note the end of the last one, begin the next when it is time."""
        if self._running is not None and (code := self._running.poll()) is not None:
            self.ended.append(code)
            self._running = None
        if self._running is None and time.monotonic() >= self._next:
            self._next += EVERY
            self._running = self._begun()

    def _begun(self) -> subprocess.Popen[bytes]:
        own = self._job.folder / "of-maintain"
        own.mkdir(exist_ok=True)
        settings = {**self._job.settings, JAVA_OPTIONS: temporary_in(own)}
        words = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
        words += ["--retain-hours", str(KEPT_HOURS)]
        words += [part for table in self._tables() for part in ("--force", table.name)]
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "pipeline.cli", "maintain", *words],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=self._job.folder,
                env={**os.environ, "TMPDIR": str(own)},
                start_new_session=True,
            )

    def close(self) -> None:
        if self._running is not None:
            self._running.wait(120)
            self.go_on()
