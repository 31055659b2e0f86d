"""R-MESHJOIN: MESHJOIN whose parts do not depend on each other's sizes."""

from __future__ import annotations

from typing import Any, ClassVar

from pipeline.joins.cost import rmeshjoin as cost
from pipeline.joins.cost.question import Model
from pipeline.joins.meshjoin import MeshJoin
from pipeline.joins.meshjoin import Settings as MeshJoinSettings
from pipeline.joins.parts.waiting import Places, Positions


class Settings(MeshJoinSettings):
    """As MESHJOIN's, but b = 0 is the default of all budgets, k = 0 are 64 segments, and without w each is as long as
    it comes; as published k and w are MESHJOIN's."""


class ReducedMeshJoin(MeshJoin):
    """
    Idea
        The cyclic scan of MESHJOIN, but the disk buffer has the same size whatever the memory, and all the rest is
        for sales: any number of them comes in whenever there is room and a slot of Q.

    Memory
        M = b * v_R + q * v_Q + h_S * v_S, with a default b and at most 64 segments, each as long as it comes.

    Departures from the paper
        The paper itself (Naeem, Dobbie, Weber: R-MESHJOIN for near-real-time data warehousing, DOLAP 2010) is not
        among ours. x-hybridjoin-kais2013 and cmeshjoin-cikm2013 say what it does: it makes the dependencies between
        MESHJOIN's parts explicit and so spreads the memory better. meshjoin-default-vs-optimal-2010 says how large a
        disk buffer to take: the one that is best for 20 MB, for every budget. With less memory it takes at most half
        of it. Ours are the slots (there: R_t / b of them, of w sales each; here few, spread over the cycle), that an
        iteration never waits for sales, and that a sale whose key is unique in R leaves when it has met its row. None
        of this if `published`, which is second-hand: MESHJOIN as published with the default disk buffer.

    Example
        >>> import numpy as np, pyarrow as pa
        >>> from pipeline.joins import make
        >>> from pipeline.master.memory import MemoryMaster
        >>> R = MemoryMaster.of({b"ale": 1, b"bun": 2, b"cod": 3, b"dip": 4})
        >>> join = make("r-meshjoin", R, memory=64_000)
        >>> join.offer(np.arange(3), pa.array([b"bun", b"elk", b"bun"], pa.binary()))
        3
        >>> met, expired = join.step()
        >>> met.sales.tolist(), met.rows["surrogate_key"].to_pylist(), met.match.tolist(), expired.sales.tolist()
        ([2, 0], [2], [0, 0], [1])

    Reference
        Naeem, Dobbie, Weber: Comparing Global Optimization and Default Settings of Stream-based Joins, 2010.
        Naeem, Dobbie, Weber: Efficient Processing of Streaming Updates with Archived Master Data (X-HYBRIDJOIN), 2013,
        section 2.
    """

    name: ClassVar[str] = "r-meshjoin"
    model: ClassVar[Model[Any]] = cost
    Settings: ClassVar[type] = Settings

    def _reads_a_segment(self) -> int:
        return -(-self.split.k // self.split.slots)

    def _waits_for_more(self) -> bool:
        return self._stream is not None and super()._waits_for_more()

    def _quota(self) -> int:
        return super()._quota() if self._stream else self.question.settings.w or self.split.h_S

    def _put_out(self, places: Places) -> Positions:
        leaves = self.master.unique and not self._stream
        return self._waiting.release(places) if leaves else super()._put_out(places)
