"""CMESHJOIN: the front stage with MESHJOIN behind it."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from pipeline.joins.base import USUAL, Options
from pipeline.joins.cost.frontstage import least_memory
from pipeline.joins.cost.units import Prediction, Relation
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

    def __init__(self, master: Master, memory: int, options: Options = USUAL) -> None:
        behind = _behind(options)
        inner = split_before(MeshJoin, master, memory, behind)
        super().__init__(MeshJoin(master, inner, behind), memory, options)

    @classmethod
    def predict(cls, memory: int, relation: Relation, options: Options) -> Prediction:
        return predict_before(MeshJoin, memory, relation, _behind(options), named=cls.name)

    @classmethod
    def least(cls, relation: Relation, options: Options) -> float:
        return MeshJoin.least(relation, options) + least_memory(relation)

    @property
    def label(self) -> str:
        return self.name


def _behind(options: Options) -> Options:
    return replace(options, costs=options.costs.of(MeshJoin.name))
