"""CACHEJOIN and SSCJ: the front stage with HYBRIDJOIN behind it.

Idea
    A cache of single rows of R serves what is wanted often; HYBRIDJOIN reads pages for the rest. So we read the two
    papers' abstracts, which are all of them that is at hand, and what later abstracts say of them: CACHEJOIN gains
    where parts of R are wanted more than others, SSCJ puts "a front-stage cache module" before HYBRIDJOIN. What tells
    the two apart we do not know, so here they are one join with two names.

Memory
    M = M_HYBRIDJOIN + h_R * (v_R + 16 + index), divided as for any front stage.

Departures from the paper
    Those of FrontStage and of HybridJoin; from the papers' own, they are not known.

Example
    >>> import numpy as np, pyarrow as pa
    >>> from pipeline.joins import make
    >>> from pipeline.master.memory import MemoryMaster
    >>> R = MemoryMaster.of({b"ale": 1, b"bun": 2, b"cod": 3, b"dip": 4})
    >>> join = make("cachejoin", R, memory=256_000)
    >>> for _ in range(2):
    ...     taken = join.offer(np.arange(3), pa.array([b"bun", b"elk", b"bun"], pa.binary()))
    ...     while join.pending:
    ...         served = join.step(drain=True)
    >>> join.statistics.misses, join.statistics.hits
    (3, 3)

Reference
    Naeem, Dobbie, Weber: A Lightweight Stream-Based Join with Limited Resource Consumption (CACHEJOIN), DaWaK 2012.
    Naeem, Weber, Dobbie, Lutteroth: SSCJ: A Semi-Stream Cache Join Using a Front-Stage Cache Module, DEXA 2013.
"""

from dataclasses import replace

from pipeline.joins.frontstage import before
from pipeline.joins.hybridjoin import HybridJoin
from pipeline.joins.recipe import Recipe

CACHEJOIN = before(Recipe.of(HybridJoin), name="cachejoin")
SSCJ = replace(CACHEJOIN, name="sscj")
