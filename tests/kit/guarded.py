"""Memory with nothing behind it and nothing before it: to read or write one byte beyond kills the process."""

from __future__ import annotations

import ctypes
import mmap

import pyarrow as pa

_NOTHING = 0  # PROT_NONE


class Guarded:
    """Content lies against the page behind, or against the page before."""

    def __init__(self, pages: int = 4) -> None:
        self.room = pages * mmap.PAGESIZE
        self._memory = mmap.mmap(-1, self.room + 2 * mmap.PAGESIZE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._begin = start + mmap.PAGESIZE
        self._end = self._begin + self.room
        for page in (start, self._end):
            closed = ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(page), mmap.PAGESIZE, _NOTHING)
            assert closed == 0

    def holding(self, content: bytes, at_its_end: bool = True) -> pa.Buffer:
        assert len(content) <= self.room, f"{len(content)} bytes; there is room for {self.room}"
        at = self.room - len(content) if at_its_end else 0
        self._memory[mmap.PAGESIZE + at : mmap.PAGESIZE + at + len(content)] = content
        return pa.foreign_buffer(self._begin + at, len(content), self._memory)
