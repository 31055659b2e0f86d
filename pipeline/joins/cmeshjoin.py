"""CMESHJOIN: the front stage with MESHJOIN behind it. Its algorithm 1 stands in frontstage.py and meshjoin.py.

Idea
    The front stage serves what is wanted often; MESHJOIN scans for the rest.

Memory
    M = M_MESHJOIN + h_R * (v_R + 16 + index), divided by equations 4 to 7 of the paper.

Departures from the paper
    Those of FrontStage and of MeshJoin. Like the paper's it needs no index; unlike there, a key may have many rows.

Example
    >>> import numpy as np, pyarrow as pa
    >>> from pipeline.joins import make
    >>> from pipeline.master.memory import MemoryMaster
    >>> R = MemoryMaster.of({b"ale": 1, b"bun": 2, b"cod": 3, b"dip": 4})
    >>> join = make("cmeshjoin", R, memory=256_000)
    >>> for _ in range(2):
    ...     taken = join.offer(np.arange(3), pa.array([b"bun", b"elk", b"bun"], pa.binary()))
    ...     while join.pending:
    ...         served = join.step(drain=True)
    >>> join.statistics.misses, join.statistics.hits
    (3, 3)

Reference
    Naeem, Weber, Dobbie, Lutteroth: A Generic Front-Stage for Semi-Stream Processing (CMESHJOIN), CIKM 2013.
"""

from pipeline.joins.frontstage import before
from pipeline.joins.meshjoin import MeshJoin
from pipeline.joins.recipe import Recipe

CMESHJOIN = before(Recipe.of(MeshJoin), name="cmeshjoin")
