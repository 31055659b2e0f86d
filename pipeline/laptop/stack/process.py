"""One server process: started, waited for until it answers, found again by its pid file, ended for good."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

from pipeline.errors import MillraceError
from pipeline.java import downloads
from pipeline.laptop.stack import ports, supervisor

_POLL_SECONDS = 0.05
# What this process started, by pid file: the server itself, or its supervisor. Kept here and not in the Server, because
# the pipe to a supervisor must stay open as long as this process lives, even when the Server is forgotten.
_started: dict[Path, subprocess.Popen[bytes]] = {}


class ServerFailed(MillraceError):
    """A server of the embedded stack did not start, or cannot be used."""


class PortTaken(ServerFailed):
    """Another process has the port."""


class Server(ABC):
    """A server with its data, ports and log below one folder.

    A subclass says how to prepare its files, what to run and how to tell that it answers.
    """

    name: ClassVar[str]
    port_names: ClassVar[tuple[str, ...]] = ("port",)
    start_seconds: ClassVar[float] = 120.0
    stop_seconds: ClassVar[float] = 20.0

    def __init__(self, folder: Path, supervised: bool = False) -> None:
        self.folder = folder.absolute() / self.name
        self.log = folder.absolute() / "logs" / f"{self.name}.log"
        self.supervised = supervised
        self._pid_file = self.folder / "pid.json"
        self._ports_file = self.folder / "ports.json"

    @abstractmethod
    def prepare(self) -> None:
        """Make the data folder if there is none yet. Runs before every start."""

    @abstractmethod
    def command(self) -> list[str]: ...

    @abstractmethod
    def answers(self) -> bool:
        """Whether the server does what it is for, not only whether its port is open."""

    def environment(self) -> dict[str, str]:
        return dict(os.environ)

    @property
    def ports(self) -> dict[str, int]:
        """The server's ports by name, the same from start to start; empty before the first."""
        try:
            return dict(json.loads(self._ports_file.read_text()))
        except FileNotFoundError:
            return {}

    @property
    def port(self) -> int:
        try:
            return self.ports["port"]
        except KeyError:
            raise ServerFailed(f"{self.name}: was never started in {self.folder.parent}. Run `millrace up`.") from None

    @property
    def pid(self) -> int | None:
        """The number of the running server; None if it does not run, even if another process has its number now."""
        try:
            recorded = json.loads(self._pid_file.read_text())
        except FileNotFoundError:
            return None
        pid = int(recorded["pid"])
        return pid if recorded["started"] and supervisor.start_time(pid) == recorded["started"] else None

    @property
    def running(self) -> bool:
        return self.pid is not None

    def start(self) -> None:
        """Start the server on the ports it had before, and return when it answers."""
        if self.running:
            try:
                self._await_answer(log_from=0)
                return
            except ServerFailed:
                # Left over, and no longer of use: for instance its starter was killed and took a folder with it.
                self.stop()
        for folder in (self.folder, self.log.parent):
            folder.mkdir(parents=True, exist_ok=True)
        if not self.ports:
            self.choose_ports()
        self.prepare()
        log_from = self.log.stat().st_size if self.log.exists() else 0
        self._launch()
        try:
            self._await_answer(log_from)
        except BaseException:
            self.kill()
            raise

    def _launch(self) -> None:
        mode = "supervised" if self.supervised else "detached"
        with self.log.open("ab") as log:
            _started[self._pid_file] = subprocess.Popen(
                [sys.executable, "-IS", supervisor.__file__, str(self._pid_file), mode, *self.command()],
                stdin=subprocess.PIPE if self.supervised else subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.environment(),
                start_new_session=True,  # an interrupt from the terminal is for us; we then stop the servers in order
            )

    def stop(self) -> None:
        """Ask the server to end, and end it if it does not."""
        self._end(signal.SIGTERM)
        if not self._gone_within(self.stop_seconds):
            self.kill()
        self._reap()

    def kill(self) -> None:
        """End the server as a crash would, without a chance to tidy up."""
        self._end(signal.SIGKILL)
        self._gone_within(self.stop_seconds)
        self._reap()

    def choose_ports(self) -> None:
        found = ports.choose(len(self.port_names))
        if len(found) < len(self.port_names):
            raise ServerFailed(f"{self.name}: no free port on {ports.LOOPBACK}. End what holds them.")
        chosen = dict(zip(self.port_names, found, strict=True))
        self.folder.mkdir(parents=True, exist_ok=True)
        unfinished = self._ports_file.with_suffix(".partial")
        unfinished.write_text(json.dumps(chosen))
        unfinished.replace(self._ports_file)

    def ports_are_free(self) -> bool:
        return all(ports.is_free(port) for port in self.ports.values())

    @property
    def data(self) -> Path:
        """The data folder."""
        return self.folder / "data"

    @contextlib.contextmanager
    def unfinished_data(self) -> Iterator[Path]:
        """What is made here becomes the data folder when the block ends well.

        So a folder made by halves is never taken for a whole one. Each attempt has its own, because a program that
        makes one may outlive a killed starter and still write.
        """
        for left_over in self.folder.glob(".partial-*"):
            shutil.rmtree(left_over, ignore_errors=True)
        with downloads.scratch(self.folder) as scratch:
            yield scratch / "data"
            (scratch / "data").rename(self.data)

    def run(self, what: str, command: list[str], remedy: str = "", **environment: str) -> None:
        """Run a program that prepares something and ends."""
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            env={**self.environment(), **environment},
        )
        if done.returncode:
            said = _last_lines(done.stdout + done.stderr)
            raise ServerFailed(f"{self.name}: could not {what} ({command[0]} failed).{remedy} It said:\n{said}")

    def await_until(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        """Wait for something to become true of this server."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise ServerFailed(f"{self.name}: {what} not within {seconds:.0f} s. Its log is {self.log}.")
            time.sleep(_POLL_SECONDS)

    def _await_answer(self, log_from: int) -> None:
        def answered_or_died() -> bool:
            if self._starter_has_ended() and not self.running:
                raise self._died(log_from)
            return self.running and self.answers()

        self.await_until(answered_or_died, self.start_seconds, "does not answer,")

    def _starter_has_ended(self) -> bool:
        starter = _started.get(self._pid_file)
        return starter is None or starter.poll() is not None

    def _died(self, log_from: int) -> ServerFailed:
        with self.log.open("rb") as log:
            log.seek(log_from)
            said = log.read().decode("utf-8", "replace")
        taken = "address already in use" in said.lower()
        kind, why = (PortTaken, "its port is taken") if taken else (ServerFailed, "its log says why")
        return kind(f"{self.name} ended while starting; {why}. The last lines of {self.log}:\n{_last_lines(said)}")

    def _end(self, how: signal.Signals) -> None:
        if pid := self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, how)

    def _gone_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self.running:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def _reap(self) -> None:
        if self.running:
            raise ServerFailed(f"{self.name}: process {self.pid} does not end, even when killed. End it by hand.")
        self._pid_file.unlink(missing_ok=True)
        if starter := _started.pop(self._pid_file, None):
            if starter.stdin:
                starter.stdin.close()  # a supervisor then ends the server it may just be starting, and itself
            else:
                starter.kill()  # the server itself, if it had not written its pid file yet
            starter.wait()


def _last_lines(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.strip().splitlines()[-15:]) or "  (nothing)"
