"""The events of the log, one after the other, as the server sends them to a replica."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from pipeline.master.mysql.drivers import SocketDriver, ask
from pipeline.master.mysql.session import refusal

QUERY, ROTATE, FORMAT, XID, TABLE_MAP, HEARTBEAT, HEARTBEAT_V2 = 2, 4, 15, 16, 19, 27, 41
HEARTBEATS = {HEARTBEAT, HEARTBEAT_V2}
LOAD_QUERY, INCIDENT, XA_PREPARE, PAYLOAD = 18, 26, 38, 40
WRITES, UPDATES, DELETES = (
    (23, 30),
    (24, 31),
    (25, 32),
)  # of rows, as MySQL 5.1 and MariaDB write them, and as MySQL does
PARTIAL_UPDATES = 39
COMPRESSED = range(165, 172)  # by MariaDB's log_bin_compress: queries and rows
COMPRESSED_QUERY, COMPRESSED_ROWS = COMPRESSED[0], COMPRESSED[1:]
_NAMED, _ANONYMOUS, _TAGGED, _MARIADB = 33, 34, 42, 162
GTIDS = {_NAMED, _ANONYMOUS, _TAGGED, _MARIADB}  # what begins a transaction

_DUMP, _WITHOUT_WAITING_FOREVER = 0x12, 0
_END, _ERROR = b"\xfe", b"\xff"
_LONGEST = 0xFFFFFF  # of a packet; a longer event goes on in the next one
_HEADER = struct.Struct("<IBIIIH")  # time, kind, server, size, end, flags
_BEAT = 0.5  # seconds of silence after which the server says that there was nothing
_ZSTD, _PLAIN = 0, 255
_MOST = 1 << 30  # bytes of an event: more no server may be told to write (max_allowed_packet)
# What it ends in to read bytes that are not as they should be.
UNREADABLE = (IndexError, KeyError, ValueError, struct.error, pa.ArrowException)
_TIMES = 42  # bytes of a GTID event before its times, each of seven bytes
_ELSEWHERE = 1 << 55  # marks that another server committed it first; its time is the next


class Event(NamedTuple):
    kind: int
    at: int  # Unix time at which the statement began; 0: of the server's own making
    body: bytes


@dataclass(frozen=True)
class Place:
    """Where in a server's log to go on: between two transactions.

    >>> Place.parse("8a94f357/binlog.000002:157")
    Place(server='8a94f357', file='binlog.000002', offset=157)
    """

    server: str  # another one may have a file of the same name
    file: str
    offset: int

    def __str__(self) -> str:
        return f"{self.server}/{self.file}:{self.offset}"

    @property
    def order(self) -> tuple[int, int]:
        """Of two places in one server's log, the later one's is greater: file names end in a number that grows."""
        return int(self.file.rpartition(".")[2]), self.offset

    def is_of(self, server: str) -> bool:
        """Places were kept in which a MariaDB's name was without its server_id."""
        return self.server in (server, server.rpartition(".")[0])

    @classmethod
    def parse(cls, text: str) -> Place:
        server, _, rest = text.partition("/")
        file, _, offset = rest.rpartition(":")
        return cls(server, file, int(offset))


def committed_at(gtid: Event) -> int:
    """Microseconds since 1970 of the transaction that begins here. MariaDB knows seconds, MySQL the commit's own time,
    on the server where it was made."""
    if gtid.kind in (_NAMED, _ANONYMOUS) and len(gtid.body) >= _TIMES + 7:
        here = int.from_bytes(gtid.body[_TIMES : _TIMES + 7], "little")
        if not here & _ELSEWHERE:
            return here
        return int.from_bytes(gtid.body[_TIMES + 7 : _TIMES + 14], "little")
    return gtid.at * 1_000_000


class LogDamaged(OSError):
    """What came is not what the server wrote."""

    @classmethod
    def near(cls, place: str, why: object) -> LogDamaged:
        return cls(f"an event of the binary log near {place} is not as a server writes it ({why})")


class EventStream:
    """A session that became a replica's. Whoever reads it sees each event, and None before each time it has to wait."""

    def __init__(self, driver: SocketDriver, place: Place, timeout: float) -> None:
        self.file, self.offset = place.file, place.offset  # behind the event that was given last
        self._driver, self._socket, self._timeout = driver, driver.socket, timeout
        self._received, self._at = bytearray(), 0
        beat = round(_BEAT * 1e9)
        # Under its old name for MariaDB and older servers, under its new one for newer.
        for name in ("master", "source"):
            ask(driver, f"SET @{name}_binlog_checksum = @@GLOBAL.binlog_checksum, @{name}_heartbeat_period = {beat}")
        ask(driver, "SET @mariadb_slave_capability = 4")
        [(checksum,)] = ask(driver, "SELECT @@GLOBAL.binlog_checksum")
        self._has_checksums = checksum != b"NONE"
        self._dump(place)

    def _dump(self, place: Place) -> None:
        replica = random.randrange(1 << 30, 1 << 32)  # two with one number would end each other's streams
        said = struct.pack("<BIHI", _DUMP, place.offset, _WITHOUT_WAITING_FOREVER, replica) + place.file.encode()
        self._socket.settimeout(self._timeout)
        self._socket.sendall(struct.pack("<I", len(said)) + said)

    def events(self) -> Iterator[Event | None]:
        while True:
            while (packet := self._packet()) is None:
                yield None
                self._more()
            if packet[:1] == _ERROR:
                raise refusal(packet)
            if packet[:1] == _END and len(packet) < 9:
                raise ConnectionResetError("the server ended its log")
            try:
                yield from self._event(packet)
            except UNREADABLE as error:
                raise LogDamaged.near(f"{self.file}:{self.offset}", error) from error

    def _event(self, packet: bytes) -> Iterator[Event]:
        at, kind, _server, _size, end, _flags = _HEADER.unpack_from(packet, 1)
        if kind == FORMAT:
            # Of the file that begins here; behind it stands its own checksum, whatever it says of the others.
            self._has_checksums = packet[-5] == 1
            body = packet[1 + _HEADER.size : -4]
        else:
            body = self._checked(packet)[1 + _HEADER.size :]
        if kind == ROTATE:
            self.file, self.offset = body[8:].decode(), int.from_bytes(body[:8], "little")
        elif end and kind not in HEARTBEATS:
            self.offset = end
        if kind == PAYLOAD:
            yield from _unpacked(body)
        yield Event(kind, at, body)

    def _checked(self, packet: bytes) -> bytes:
        if not self._has_checksums:
            return packet
        event, checksum = packet[:-4], int.from_bytes(packet[-4:], "little")
        if zlib.crc32(memoryview(event)[1:]) != checksum:
            raise LogDamaged(f"an event of the binary log near {self.file}:{self.offset} has another checksum")
        return event

    def _packet(self) -> bytes | None:
        """The next one, if all of it was received."""
        places, at, length = [], self._at, _LONGEST
        while length == _LONGEST:
            if len(self._received) - at < 4:
                return None
            length = int.from_bytes(self._received[at : at + 3], "little")
            at += 4 + length
            if at - self._at > _MOST + (1 << 20):
                raise LogDamaged.near(f"{self.file}:{self.offset}", f"it has more than {_MOST >> 20} MiB")
            if len(self._received) < at:
                return None
            places.append((at - length, at))
        self._at = at
        # What continues an event has no first byte of its own.
        return b"".join(bytes(self._received[begin:end]) for begin, end in places)

    def _more(self) -> None:
        del self._received[: self._at]
        self._at = 0
        received = self._socket.recv(1 << 18)
        if not received:
            raise ConnectionResetError("the server closed the connection of its log")
        self._received += received

    def close(self) -> None:
        self._driver.close()


def _unpacked(body: bytes) -> Iterator[Event]:
    """The events of a transaction that MySQL has compressed (binlog_transaction_compression)."""
    fields, at = {}, 0
    while (field := body[at]) != 0:
        length, at = length_coded(body, at + 1)
        fields[field], at = length_coded(body, at)[0], at + length
    size, how, plain_size = fields[1], fields[2], fields.get(3, 0)
    packed = body[at + 1 : at + 1 + size]
    if how not in (_ZSTD, _PLAIN):
        raise LogDamaged(f"a transaction is compressed in a way that is not known: {how}")
    plain = packed if how == _PLAIN else _decompressed(packed, plain_size)
    at = 0
    while at < len(plain):
        when, kind, _server, length, _end, _flags = _HEADER.unpack_from(plain, at)
        if length < _HEADER.size or at + length > len(plain):
            raise ValueError(f"an event within it has {length} bytes")
        yield Event(kind, when, plain[at + _HEADER.size : at + length])
        at += length


def _decompressed(packed: bytes, size: int) -> bytes:
    """What is said of its size is not believed: that much memory is only taken for what comes."""
    with pa.CompressedInputStream(pa.py_buffer(packed), "zstd") as stream:
        plain: bytes = stream.read(min(size, _MOST) + 1)
    if len(plain) != size:
        raise ValueError(f"a compressed transaction of {size} bytes has others")
    return plain


def length_coded(data: bytes, at: int) -> tuple[int, int]:
    """A number whose first byte says how long it is, and where it ends.

    >>> length_coded(bytes([0xFC, 1, 2, 9]), 0), length_coded(bytes([7]), 0)
    ((513, 3), (7, 1))
    """
    first = data[at]
    if first < 0xFB:
        return first, at + 1
    size = {0xFC: 2, 0xFD: 3, 0xFE: 8}[first]
    if at + size >= len(data):
        raise IndexError("a number is cut off")
    return int.from_bytes(data[at + 1 : at + 1 + size], "little"), at + 1 + size
