"""Drives a join while the world moves: the stream comes in bursts, the master's rows change."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from pipeline.joins import Join
from pipeline.joins.algorithm import Served
from pipeline.master.memory import MemoryMaster
from tests.joins.harness import Answer, answer, oracle

WAIT_FOR_SALES = {"meshjoin", "r-meshjoin", "cmeshjoin"}  # as published: without new sales nothing is read
_PATIENCE = 3_000  # steps in a pause, more than any of the masters here has pages


def bursts(join: Join, keys: pa.Array, sizes: Sequence[int], goes_on: bool) -> list[Served]:
    """Sales come so many at a time; between two bursts comes a pause, in which nobody tells the join to drain.

    `goes_on`: the join must have served everything when the pause is over.
    """
    served: list[Served] = []
    offered = arrived = 0
    for size in sizes:
        arrived = min(len(keys), arrived + size)
        for _ in range(_PATIENCE):
            if offered < arrived:
                positions = np.arange(offered, arrived, dtype=np.int64)
                offered += join.offer(positions, keys.slice(offered, arrived - offered))
            served += join.step()
            join.check()
            if offered == arrived and not (goes_on and join.pending):
                break
        if goes_on:
            assert not join.pending, f"{join.pending} sales wait for sales that may never come"
    while join.pending:
        served += join.step(drain=True)
        join.check()
    assert offered == min(len(keys), sum(sizes))
    return served


def while_it_changes(
    join: Join, keys: pa.Array, master: MemoryMaster, versions: Sequence[pa.Table], every: int
) -> list[tuple[int, int, Answer]]:
    """Serve sales while the master goes through its versions, one every so many steps.

    Returns for each sale the version it was admitted in, the version it was served in, and its answer.
    """
    admitted_in = np.empty(len(keys), np.int64)
    pieces: list[tuple[int, int, Answer]] = []
    offered = steps = 0
    while offered < len(keys) or join.pending:
        version = min(steps // every, len(versions) - 1)
        if steps % every == 0:
            master.replace(versions[version])
        if offered < len(keys):
            taken = join.offer(np.arange(offered, len(keys)), keys.slice(offered))
            admitted_in[offered : offered + taken] = version
            offered += taken
        for piece in join.step(drain=offered == len(keys)):
            for sale in range(len(piece.sales)):
                one = Served(piece.sales[[sale]], piece.rows, piece.match[[sale]])
                pieces.append((int(admitted_in[piece.sales[sale]]), version, answer([one])))
        join.check()
        steps += 1
    return pieces


def right_answers(keys: pa.Array, versions: Sequence[pa.Table]) -> Callable[[int, int], Answer]:
    """Everything that is right for some version from the first to the last given."""
    by_version = [oracle(keys, version) for version in versions]

    def between(first: int, last: int) -> Answer:
        right: Answer = Answer()
        for version in by_version[first : last + 1]:
            right |= version
        return right

    return between
