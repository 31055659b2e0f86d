"""Pages of R on which so many wanted keys lie that the page is cheaper to read than the keys are to ask for."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.joins.parts.pages import PageDirectory
from pipeline.master.port import Master


class DensePages:
    """
    Idea
        A directory of R's pages says where the wanted keys lie. It costs a pass over all keys of R, so it is not read
        before it is asked for; and it must fit: else there are no pages.

    Memory
        That of PageDirectory.
    """

    def __init__(self, master: Master, R_t: int, words: int, rows: int, memory: int) -> None:
        """Pages of so many rows, if their directory takes no more than so many bytes."""
        self.rows = rows
        fits = PageDirectory.bytes_for(R_t / rows, words) <= memory
        self._directory = PageDirectory(master, rows, memory) if fits else None

    @property
    def nbytes(self) -> int:
        return self._directory.nbytes if self._directory else 0

    @property
    def possible(self) -> bool:
        return self._directory is not None

    def of(self, keys: pa.Array, least: float) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
        """The pages with more than so many of these keys, and which keys lie on one of them."""
        assert self._directory is not None
        page_of = self._directory.page_of(keys)
        dense = np.bincount(page_of) > least
        return np.flatnonzero(dense).astype(np.int32), dense[page_of]

    def read(self, page: int) -> pa.Table:
        assert self._directory is not None
        return self._directory.read(page)

    def refresh(self) -> None:
        """When nothing waits any more: read the directory again, if R has outgrown it."""
        if self._directory is not None and self._directory.outdated:
            self._directory.refresh()
