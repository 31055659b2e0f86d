"""A clock for all of a job's processes that a test sets while they run: `jumping.c` is preloaded into them."""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
NEEDED = "a C compiler is needed to set a job's clock: install one as `cc` (Debian: gcc)"
_NANOSECONDS = 1_000_000_000


def is_possible() -> bool:
    return shutil.which("cc") is not None


class JumpingClock:
    """What the processes with its environment take for the wall clock."""

    def __init__(self, folder: Path) -> None:
        library, offset = folder / "jumping.so", folder / "clock-offset"
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-o", library, HERE / "jumping.c", "-ldl", "-lpthread"],
            check=True,
        )
        offset.write_bytes(bytes(8))
        with offset.open("r+b") as file:
            self._place = mmap.mmap(file.fileno(), 8)
        self.environment = {"LD_PRELOAD": str(library), "CLOCK_OFFSET": str(offset)}

    def set(self, seconds: float) -> None:
        """So far ahead of the true one, or behind, from now on."""
        self._place[:] = struct.pack("=q", round(seconds * _NANOSECONDS))
