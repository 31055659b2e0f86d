"""A line between a client and a server on this machine that can be made slow, silent, cut or torn, for a while."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

_PIECE = 16 << 10  # bytes that are passed on at once
_LINGER = struct.pack("ii", 1, 0)  # a socket closed with it sends a reset and nothing else
_LOOPBACK = "127.0.0.1"


@dataclass(eq=False)
class _Line:
    """One connection: both its sockets. What a line has lost cannot be sent again, so it stays silent."""

    ends: list[asyncio.StreamWriter] = field(default_factory=list)
    passing: asyncio.Task[Any] | None = None
    is_dead: bool = False
    is_torn: bool = False

    def tear(self) -> None:
        self.is_torn = True
        for end in self.ends:
            with contextlib.suppress(OSError):
                end.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
            end.transport.abort()


class FaultProxy:
    """Passes on what comes to `port` to `target`; by its context managers it does so worse."""

    def __init__(self, port: int, target: int) -> None:
        """`target` may be changed: connections that are made from then on lead there, as by a virtual IP."""
        self.port, self.target = port, target
        self._delay = 0.0  # seconds that each piece waits
        self._rate: int | None = None  # bytes a second
        self._is_silent = self._is_cut = False
        self._lines: set[_Line] = set()
        self._listening: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> FaultProxy:
        self._thread.start()
        self._do(self._listen)
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._leave)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    @contextmanager
    def slow(self, delay: float = 0.0, rate: int | None = None) -> Iterator[None]:
        """Each piece waits so long, or only so many bytes pass in a second."""
        self._delay, self._rate = delay, rate
        try:
            yield
        finally:
            self._delay, self._rate = 0.0, None

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Half open: connections are taken and stay, and nothing comes through. Those never speak again."""
        self._is_silent = True
        try:
            yield
        finally:
            self._is_silent = False

    @contextmanager
    def cut(self) -> Iterator[None]:
        """All connections are torn, and so is each new one."""
        self._is_cut = True  # and still listening: asyncio loses what it accepts while it stops to listen
        self.tear()
        try:
            yield
        finally:
            self._is_cut = False

    def tear(self) -> None:
        """All connections are reset; new ones are taken."""
        self._do(self._tear)

    def _do(self, step: Callable[[], Awaitable[None]]) -> None:
        asyncio.run_coroutine_threadsafe(step(), self._loop).result(30)  # type: ignore[arg-type]

    async def _listen(self) -> None:
        self._listening = await asyncio.start_server(self._accept, _LOOPBACK, self.port)

    async def _leave(self) -> None:
        assert self._listening is not None, "entered before"
        self._listening.close()
        passing = [line.passing for line in self._lines if line.passing is not None]
        await self._tear()
        await asyncio.gather(*passing, return_exceptions=True)

    async def _tear(self) -> None:
        for line in list(self._lines):
            line.tear()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = _Line([writer], asyncio.current_task())
        self._lines.add(line)
        try:
            if self._is_cut:
                return
            there, back = await asyncio.open_connection(_LOOPBACK, self.target)
            line.ends.append(back)
            if line.is_torn:  # meanwhile
                return
            await asyncio.gather(
                self._pass(line, reader, back), self._pass(line, there, writer), return_exceptions=True
            )
        except OSError:  # nobody listens there
            pass
        finally:
            line.tear()
            self._lines.discard(line)

    async def _pass(self, line: _Line, reader: asyncio.StreamReader, writer: Any) -> None:
        try:
            while piece := await reader.read(_PIECE):
                if self._delay or self._rate:
                    await asyncio.sleep(self._delay + (len(piece) / self._rate if self._rate else 0.0))
                line.is_dead = line.is_dead or self._is_silent
                if not line.is_dead:
                    writer.write(piece)
                    await writer.drain()
        finally:
            if not line.is_dead:
                line.tear()  # an end has closed, or was reset: so does the other
