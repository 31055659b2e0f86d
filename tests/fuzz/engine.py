"""Runs one target over many inputs, in a process of its own, since what is tried may kill it or never come back.

Each input is laid down in a file before it is tried, so that whoever dies of it leaves it behind.
"""

from __future__ import annotations

import importlib
import mmap
import os
import random
import re
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TARGETS = ["kafka_batches", "mysql_answers", "mysql_log", "sale_messages", "settings_files", "contract_files"]
ROOT = Path(__file__).parents[2]
_LAID_DOWN = 1 << 16
_HEAD = struct.Struct("<QQQ")  # how many were tried, how many of them were accepted, the length of the input
TOO_LONG = 10.0  # seconds of processor with one input
_ASLEEP = 12  # times as long by the clock: it may wait for something, or others have the processor
_START = 60.0  # seconds more for the first input


@dataclass(frozen=True)
class Run:
    """What came of it; `defect` says what went wrong, if anything."""

    target: str
    seed: int
    executions: int
    accepted: int
    seconds: float
    defect: str = ""
    found: bytes = b""


def module_of(target: str) -> Any:
    return importlib.import_module(f"tests.fuzz.{target}")


def sample(target: str, seed: int, number: int) -> bytes:
    """One input, the same each time."""
    made: bytes = module_of(target).made(random.Random(f"{target}/{seed}/{number}"))
    return made


def seeded(target: str, seed: int, seconds: float = float("inf"), most: int = 1 << 62) -> Run:
    """Inputs of the target's own making until the time is over."""
    return _watched(target, seed, ["seeded", str(seconds), str(most)], {})


def guided(target: str, seed: int, seconds: float) -> Run:
    """Inputs that atheris makes of the target's own by what they reach in the code (`READS`). Compiled loops run as
    plain Python."""
    return _watched(target, seed, ["guided", str(seconds), "0"], {"NUMBA_DISABLE_JIT": "1"})


def _watched(target: str, seed: int, how: list[str], environment: dict[str, str]) -> Run:
    with tempfile.TemporaryDirectory(prefix="millrace-fuzz-") as folder:
        laid_down, said = Path(folder) / "input", Path(folder) / "said"
        laid_down.write_bytes(bytes(_LAID_DOWN))
        command = [sys.executable, "-X", "faulthandler", "-m", "tests.fuzz.engine", target, str(seed), folder, *how]
        started = time.monotonic()
        with said.open("wb") as out:
            process = subprocess.Popen(command, cwd=ROOT, env=dict(os.environ) | environment, stdout=out, stderr=out)
            try:
                stuck = _wait(process, laid_down)
            finally:
                process.kill()
                process.wait()
        seconds = time.monotonic() - started
        tried, accepted, length = _HEAD.unpack_from(laid_down.read_bytes())
        told = said.read_text("utf-8", "replace")
        if done := re.search(r"^Done (\d+) runs", told, re.MULTILINE):
            tried = int(done[1])
        if not stuck and process.returncode == 0:
            return Run(target, seed, tried, accepted, seconds)
        found = laid_down.read_bytes()[_HEAD.size : _HEAD.size + length]
        why = "is not through with one input" if stuck else f"ends with {process.returncode}"
        return Run(target, seed, tried, accepted, seconds, f"{why}\n{told[-6_000:]}", found)


def _wait(process: subprocess.Popen[bytes], laid_down: Path) -> bool:
    """Until it ends, or is stuck: then True."""
    tried, since, worked = -1, time.monotonic(), 0.0
    while process.poll() is None:
        now, _, _ = _HEAD.unpack(laid_down.read_bytes()[: _HEAD.size])
        clock, work = time.monotonic(), _worked(process.pid)
        more = 0.0 if now else _START
        if now != tried:
            tried, since, worked = now, clock, work
        elif work - worked > TOO_LONG + more or clock - since > _ASLEEP * TOO_LONG + more:
            return True
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.2)
    return False


def _worked(process: int) -> float:
    """Seconds of processor; where the system has no such file, by the clock."""
    try:
        told = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return time.monotonic()
    return (int(told[11]) + int(told[12])) / os.sysconf("SC_CLK_TCK")


class _Ledger:
    """Where the input is laid down, and what came of those before it."""

    def __init__(self, folder: str, target: str) -> None:
        with (Path(folder) / "input").open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _LAID_DOWN)
        self._try = module_of(target).tried
        self.tried = self._accepted = 0

    def __call__(self, data: bytes) -> None:
        data = data[: _LAID_DOWN - _HEAD.size]
        self._memory[: _HEAD.size] = _HEAD.pack(self.tried, self._accepted, len(data))
        self._memory[_HEAD.size : _HEAD.size + len(data)] = data
        self._accepted += bool(self._try(data))
        self.tried += 1
        self._memory[: _HEAD.size] = _HEAD.pack(self.tried, self._accepted, len(data))


def _seeded(target: str, seed: int, ledger: _Ledger, seconds: float, most: int) -> None:
    until = time.monotonic() + seconds
    while ledger.tried < most and time.monotonic() < until:
        ledger(sample(target, seed, ledger.tried))


def _guided(target: str, seed: int, folder: str, seconds: float) -> None:
    import atheris

    reads = module_of(target).READS
    for name in [name for name in sys.modules if name.startswith(("tests.fuzz", "pipeline"))]:
        del sys.modules[name]  # to be loaded again, and looked into
    with atheris.instrument_imports(include=reads):
        module = module_of(target)
        ledger = _Ledger(folder, target)
    mended = getattr(module, "mended", None)
    corpus = Path(folder) / "corpus"
    corpus.mkdir()
    for number in range(300):
        (corpus / str(number)).write_bytes(sample(target, seed, number))

    def one(data: bytes) -> None:
        try:
            ledger(mended(data) if mended else data)
        except Exception:  # noqa: BLE001 any one is a defect; atheris would lose the input
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)

    limits = [f"-max_total_time={seconds:.0f}", f"-seed={seed}", "-max_len=8000", "-timeout=30", "-rss_limit_mb=3000"]
    atheris.Setup([sys.argv[0], *limits, f"-artifact_prefix={folder}/", str(corpus)], one)
    atheris.Fuzz()


def main(target: str, seed: str, folder: str, how: str, seconds: str, most: str) -> None:
    if how == "guided":
        _guided(target, int(seed), folder, float(seconds))
    else:
        _seeded(target, int(seed), _Ledger(folder, target), float(seconds), int(most))


if __name__ == "__main__":
    main(*sys.argv[1:])
