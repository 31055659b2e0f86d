"""CMESHJOIN: the front stage with MESHJOIN behind it."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import ClassVar

from pipeline.joins.base import Clock, Options
from pipeline.joins.budget import memory_for
from pipeline.joins.cost.frontstage import least_memory
from pipeline.joins.cost.units import Prediction, Relation, Stream, UnitCosts
from pipeline.joins.frontstage import FrontStage, predict_before, split_before
from pipeline.joins.meshjoin import MeshJoin
from pipeline.master.port import Master


class CachedMeshJoin(FrontStage):
    """
    Idea
        The front stage serves what is wanted often; MESHJOIN scans for the rest.

    Memory
        M = M_MESHJOIN + h_R * (v_R + 8 + index), divided by equations 4 to 7 of the paper.

    Departures from the paper
        Those of FrontStage and of MeshJoin.

    Example
        >>> import numpy as np, pyarrow as pa
        >>> from pipeline.master.memory import MemoryMaster
        >>> R = MemoryMaster.of({b"ale": 1, b"bun": 2, b"cod": 3, b"dip": 4})
        >>> join = CachedMeshJoin(R, memory=256_000)
        >>> for _ in range(2):
        ...     taken = join.offer(np.arange(3), pa.array([b"bun", b"elk", b"bun"], pa.binary()))
        ...     while join.pending:
        ...         served = join.step(drain=True)
        >>> join.statistics.misses, join.statistics.hits
        (3, 3)

    Reference
        Naeem, Weber, Dobbie, Lutteroth: A Generic Front-Stage for Semi-Stream Processing (CMESHJOIN), CIKM 2013.
    """

    name: ClassVar[str] = "cmeshjoin"
    takes: ClassVar[tuple[str, ...]] = ("costs", "stream", "max_staleness", "absent_staleness")

    def __init__(
        self,
        master: Master,
        memory: int,
        costs: UnitCosts | None = None,
        stream: Stream | None = None,
        max_staleness: float = 300.0,
        absent_staleness: float = 10.0,
        clock: Clock = time.monotonic,
    ) -> None:
        options = Options(costs=(costs or UnitCosts()).of(MeshJoin.name), stream=stream or Stream())
        inner = split_before(MeshJoin, master, memory, options)
        super().__init__(MeshJoin.made(master, inner, options), memory, max_staleness, absent_staleness, clock)

    @classmethod
    def predict(cls, memory: int, relation: Relation, options: Options) -> Prediction:
        behind = replace(options, costs=options.costs.of(MeshJoin.name))
        return predict_before(MeshJoin, memory, relation, behind, named=cls.name)

    @classmethod
    def least(cls, relation: Relation, options: Options) -> float:
        return memory_for(MeshJoin.least(relation, options)) + least_memory(relation)

    @property
    def label(self) -> str:
        return self.name
