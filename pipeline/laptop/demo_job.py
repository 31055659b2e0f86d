"""The job as the demo runs it: a process of its own that never outlives the demo."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pipeline
from pipeline.config.sources import OTHERS, PREFIX
from pipeline.errors import MillraceError
from pipeline.laptop.stack import supervisor
from pipeline.watch.scrape import NoAnswer, Scrape, scrape

_LISTEN = 0.2  # seconds between looks
_STARTS_WITHIN = 240.0
_STOPS_WITHIN = 120.0
_TAIL = 15  # lines of the log that an error shows


class JobTrouble(MillraceError):
    """The job did not start, ended by itself, or did not end when told to."""


class JobProcess:
    """`millrace run` with a settings file; what it says goes to a log."""

    def __init__(self, settings_file: Path, log: Path) -> None:
        self.log = log
        self.url = ""
        self._pid_file = settings_file.with_name("job.pid")
        self._ready_file = settings_file.with_name("job.ready")
        ready = ["--ready-file", str(self._ready_file)]
        run = [sys.executable, "-m", "pipeline.cli", "run", "--config", str(settings_file), *ready]
        # The supervisor ends the job when this process dies, however it dies.
        supervised_run = [sys.executable, "-IS", supervisor.__file__, str(self._pid_file), "supervised", *run]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                supervised_run,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=settings_file.parent,
                env=_environment(),
                start_new_session=True,  # Ctrl-C goes to the demo alone, which then stops the job before the servers
            )

    def await_ready(self) -> None:
        """Return when the job waits for sales; from then on `url` says where its metrics are."""
        deadline = time.monotonic() + _STARTS_WITHIN
        while not self._is_ready():
            self.check_running()
            if time.monotonic() > deadline:
                raise self.trouble(f"is not ready after {_STARTS_WITHIN:.0f} s")
            time.sleep(_LISTEN)

    def metrics(self) -> Scrape | None:
        """What its endpoint says now; None while it does not answer."""
        try:
            return scrape(self.url)
        except NoAnswer:
            return None

    def check_running(self) -> None:
        if self._process.poll() is not None:
            raise self.trouble(f"ended by itself with exit code {self._process.returncode}")

    def stop(self) -> None:
        """Ask it to finish the batch in hand and end; anything but a clean end is an error."""
        self.check_running()
        os.kill(json.loads(self._pid_file.read_text())["pid"], signal.SIGTERM)
        try:
            code = self._process.wait(_STOPS_WITHIN)
        except subprocess.TimeoutExpired:
            self.kill()
            raise self.trouble(f"did not end within {_STOPS_WITHIN:.0f} s of SIGTERM and was killed") from None
        if code != 0:
            raise self.trouble(f"was told to stop and ended with exit code {code}")

    def kill(self) -> None:
        """End it, whatever it does."""
        if self._process.stdin:
            self._process.stdin.close()  # the sign for the supervisor to end the job, by force if need be
        self._process.wait()

    def _is_ready(self) -> bool:
        try:
            self.url = json.loads(self._ready_file.read_text())["metrics"]
        except FileNotFoundError:
            return False
        return True

    def trouble(self, what: str) -> JobTrouble:
        lines = self.log.read_text("utf-8", "replace").splitlines()[-_TAIL:]
        last = "\n".join(f"  {line}" for line in lines) or "  (nothing)"
        return JobTrouble(f"the job {what}. The last lines of its log, {self.log}:\n{last}")


def _environment() -> dict[str, str]:
    """Ours without the user's settings, which are for another job; and with this very package, installed or not."""
    ours = {PREFIX + name for name in OTHERS if name != "CONFIG"}
    kept = {n: v for n, v in os.environ.items() if n in ours or not n.startswith(PREFIX)}
    here = str(Path(pipeline.__file__).resolve().parent.parent)
    return {**kept, "PYTHONPATH": os.pathsep.join([here, *filter(None, [kept.get("PYTHONPATH")])])}
