"""Disks as numbers: what a read costs on them, on a clock that only such costs move. Nothing here is measured."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.counters import Counters
from pipeline.errors import BadSetting

PAGE_OF_BERKELEY_DB = 4_096
PAGE_OF_INNODB = 16_384

Pages = npt.NDArray[np.int64]


class VirtualClock:
    """Seconds that pass only when somebody says what takes them. Called, it tells the time: it can be `Options.clock`.

    >>> clock = VirtualClock()
    >>> clock.advance(1.5)
    >>> clock.wait_until(1.0)
    >>> clock()
    1.5
    """

    def __init__(self, now: float = 0.0) -> None:
        self._now = now

    def __call__(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds

    def wait_until(self, moment: float) -> None:
        self._now = max(self._now, moment)


@dataclass(frozen=True)
class Disk:
    """What a read takes, in seconds: so much for the request, so much for a byte."""

    request: float  # a scan's next read, from where the one before it ended
    seek: float  # a read from anywhere
    byte: float
    page_bytes: int = PAGE_OF_INNODB  # read at once, when a row is looked up by its key

    def __post_init__(self) -> None:
        if min(self.request, self.seek, self.byte) < 0 or self.page_bytes < 1:
            raise BadSetting(f"{self}: no cost may be below 0, and a page needs at least one byte.")

    @classmethod
    def of_seek_bytes(cls, request_bytes: float, byte: float, seek: float, page_bytes: int = PAGE_OF_INNODB) -> Disk:
        """A disk whose next read costs as much as the transfer of so many bytes.

        >>> round(Disk.of_seek_bytes(48_100, byte=11e-9, seek=5e-3).request * 1e3, 3)
        0.529
        """
        return cls(request_bytes * byte, seek, byte, page_bytes)


# The papers print hardware and results, but no cost of a seek, a byte, or a tuple. So each number below says where it
# is from: *fitted* (the paper's own equations give its own results with it), or *declared* (usual for such a disk).
REQUEST_BYTES = 48_100  # fitted: with it the equations of MESHJOIN give the optimal buffers 0.93/1.33/1.88/2.63 MB of
# meshjoin-default-vs-optimal-2010, figure 6 (which has 0.93/1.35/1.91/2.63, at 20/40/80/160 MB of memory)

DISKS: dict[str, Disk] = {
    # Polyzotis et al. 2007, section 4.1: a local disk of 7200 rpm. The byte is fitted, with REQUEST_BYTES and 26.38 us
    # of processor a sale, to 6 000 and 26 000 sales a second at 4 and 40 MB (4.2; joins/published/meshjoin.py has the
    # arithmetic); what it takes to probe with a row is in it, for the two cannot be told apart. The seek is fitted to
    # INL's 274 look-ups a second; the page is declared, as Berkeley DB's usual one.
    "meshjoin-icde2007": Disk.of_seek_bytes(REQUEST_BYTES, 10.732e-9, 3.65e-3, PAGE_OF_BERKELEY_DB),
    # Naeem et al. 2010, section 4.2: "160G disk", a file. Only the request is fitted, and only as a number of bytes;
    # byte and seek are declared.
    "meshjoin-default-vs-optimal-2010": Disk.of_seek_bytes(REQUEST_BYTES, 11e-9, 5e-3),
    # Naeem et al. 2011, section 6.1, and 2013, section 5.1.1: the same machine, MySQL 5.0. Seek and byte are declared;
    # the page is section 5's: 16 000 of them for two million rows of 120 bytes.
    "hybridjoin-2011": Disk(5e-3, 5e-3, 11e-9, page_bytes=15_000),
    "x-hybridjoin-kais2013": Disk(5e-3, 5e-3, 11e-9, page_bytes=15_000),
    # Naeem et al. 2013 (CIKM), section 4: "500GB HDD", MySQL. All declared: 120 MB/s, 8 ms.
    "cmeshjoin-cikm2013": Disk.of_seek_bytes(REQUEST_BYTES, 8.3e-9, 8e-3),
}


class PagePool:
    """Which pages were used last, as far as they fit into so many bytes; the others are gone. O(1) an access.

    >>> pool = PagePool(nbytes=2_000, page_bytes=1_000)
    >>> pool.missing([1, 2, 1, 3]), pool.missing([1, 2])
    ([1, 2, 3], [2])
    """

    def __init__(self, nbytes: int, page_bytes: int) -> None:
        self.capacity = nbytes // page_bytes
        self._last_used: OrderedDict[int, None] = OrderedDict()  # the one used longest ago first

    def __len__(self) -> int:
        return len(self._last_used)

    def missing(self, pages: Iterable[int]) -> list[int]:
        """Use these pages, one after the other: those that had to be read."""
        read = []
        for page in pages:
            if page in self._last_used:
                self._last_used.move_to_end(page)
                continue
            read.append(page)
            if self.capacity:
                if len(self._last_used) == self.capacity:
                    self._last_used.popitem(last=False)
                self._last_used[page] = None
        return read


@dataclass
class DiskUse(Counters):
    """What was asked of a disk."""

    requests: int = 0
    bytes: int = 0
    seconds: float = 0.0
    pool_hits: int = 0  # pages that the pool had
    pool_misses: int = 0


class DiskArm:
    """One disk with a page pool before it. It does one thing after the other, and tells when each is done."""

    def __init__(self, disk: Disk, clock: VirtualClock, pool_bytes: int, chained: bool = False) -> None:
        self.disk = disk
        self._chained = chained
        self.pool = PagePool(pool_bytes, disk.page_bytes)
        self.use = DiskUse()
        self._clock = clock
        self._free_at = clock()

    def read_on(self, nbytes: int) -> float:
        """A scan's next bytes."""
        return self._busy(int(nbytes > 0), self.disk.request, nbytes)

    def read_at(self, nbytes: int, pages: Pages, page_bytes: int) -> float:
        """So many bytes from one place, and these pages through the pool: a seek for each run of them on the disk, or,
        if chained, for each of them."""
        read = np.array(self.pool.missing(pages.tolist()), np.int64)
        self.use += DiskUse(pool_hits=len(pages) - len(read), pool_misses=len(read))
        broken = len(read) - 1 if self._chained else int(np.count_nonzero(np.diff(read) != 1))
        runs = int(nbytes > 0) + (1 + broken if len(read) else 0)
        return self._busy(runs, self.disk.seek, nbytes + len(read) * page_bytes)

    def _busy(self, requests: int, request: float, nbytes: int) -> float:
        took = requests * request + nbytes * self.disk.byte
        self.use += DiskUse(requests, nbytes, took)
        if requests:
            self._free_at = max(self._free_at, self._clock()) + took
            return self._free_at
        return self._clock()
