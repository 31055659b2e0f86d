"""Processes whose memory the kernel limits, and ends when they want more: by a memory cgroup of the first version."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from pathlib import Path

from tests.kit.running import wait_until

_ROOT = Path("/sys/fs/cgroup/memory")
_NOTHING_MORE = 64 << 10  # bytes; what a process has when it is taken in is not counted
_NO_LIMIT = "-1"


def refusal() -> str:
    """Why there can be none here; nothing: there can."""
    own = _own()
    if own is None:
        return f"memory cannot be limited here: it takes memory cgroups of version 1, and {_ROOT} has none"
    if not os.access(own, os.W_OK):
        return f"memory cannot be limited here: {own} may not be written by this user; run it as root"
    return ""


class MemoryCgroup:
    """Below this process' own, and gone when the block ends; who is left in it then is back where it was."""

    def __enter__(self) -> MemoryCgroup:
        own = _own()
        assert own is not None, refusal()
        self._own, self._folder = own, Path(tempfile.mkdtemp(prefix="millrace-", dir=own))
        return self

    def __exit__(self, *_: object) -> None:
        self.relieve()
        wait_until(self._is_gone, f"{self._folder} gone", 30)

    def hold(self, pid: int) -> None:
        _move(pid, self._folder)

    def press(self) -> None:
        """Hardly a page more for all of them together."""
        (self._folder / "memory.limit_in_bytes").write_text(str(_NOTHING_MORE))

    def relieve(self) -> None:
        (self._folder / "memory.limit_in_bytes").write_text(_NO_LIMIT)

    @property
    def killed(self) -> int:
        """How many the kernel has ended, by its own count."""
        lines = (self._folder / "memory.oom_control").read_text().splitlines()
        return int(dict(line.split() for line in lines)["oom_kill"])

    def _is_gone(self) -> bool:
        for pid in (self._folder / "cgroup.procs").read_text().split():
            _move(int(pid), self._own)
        try:
            self._folder.rmdir()
        except OSError as error:
            if error.errno != errno.EBUSY:  # who was killed is still giving back what it had
                raise
            return False
        return True


def _own() -> Path | None:
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            folder = _ROOT / path.lstrip("/")
            if "memory" in controllers.split(",") and (folder / "memory.oom_control").exists():
                return folder
    return None


def _move(pid: int, folder: Path) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
        (folder / "cgroup.procs").write_text(str(pid))
