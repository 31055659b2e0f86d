"""A bounded range of the topics is read again, and what is in neither table enters.

For what was skipped and has come back, or facts that were deleted. A piece is a range of offsets of one partition no
longer than a window; one that the tables have whole is not read from Kafka. So it can be ended and run again.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from pipeline import columns, source
from pipeline.driver import topic_checks
from pipeline.driver.topics import Topics
from pipeline.errors import TopicChanged
from pipeline.kafka import reader
from pipeline.kafka.client import client_of
from pipeline.kafka.cluster import Cluster, cluster_of
from pipeline.kafka.ranges import Range
from pipeline.plan import Plan
from pipeline.reentry.entrance import Entrance, Turn, again, entrance
from pipeline.reentry.record import Reentry
from pipeline.reentry.seen import Offsets
from pipeline.reentry.span import Wishes, left_behind, ranges

__all__ = ["Wishes", "backfill"]

_SHOWN = 5


def backfill(plan: Plan, wishes: Wishes) -> Iterator[str]:
    """A line for each partition tells what came of it."""
    kafka = plan.settings.kafka
    with entrance(plan, wishes.dry_run, wishes.job_is_stopped) as way:
        topics = Topics(kafka)
        behind, origin = left_behind(way)
        topic_checks.require_same(topics, origin)
        wanted = list(ranges(way, topics, behind, wishes))
        for each in wanted:
            _refuse_gone(way, topics, each)
        cluster = cluster_of(client_of(kafka.bootstrap, kafka.java))
        for each in wanted:
            absent, sales, rejects = 0, 0, 0
            for piece in _pieces(each, plan.settings.worker.window_sales):
                found = again(partial(_piece, way, cluster, piece, wishes))
                absent, sales, rejects = absent + found[0], sales + found[1], rejects + found[2]
            came = "not read (--dry-run)" if wishes.dry_run else f"{sales:,} facts and {rejects:,} rejects written"
            yield f"{each} offsets {each.first:,} to {each.end - 1:,}: {absent:,} in neither table, {came}"
        if not wanted:
            yield "nothing to read: the job has committed nothing of that range"


def _pieces(whole: Range, most: int) -> Iterator[Range]:
    """
    >>> [(piece.first, piece.end) for piece in _pieces(Range("sales", 0, 5, 12), 4)]
    [(5, 9), (9, 12)]
    """
    for first in range(whole.first, whole.end, most):
        yield Range(whole.topic, whole.partition, first, min(first + most, whole.end))


def _piece(way: Entrance, cluster: Cluster, piece: Range, wishes: Wishes) -> tuple[int, int, int]:
    """Offsets that were in neither table; facts and rejects that were written for them in one commit."""
    turn = way.turn()
    absent = _absent(turn, piece)
    if not len(absent) or wishes.dry_run:
        return len(absent), 0, 0
    messages = _messages(way, cluster, piece, absent)
    if not len(messages):  # marks of transactions, or compacted
        return len(absent), 0, 0
    answer = way.walk(turn, messages)
    read = {name: [found.first, found.last, found.messages] for name, found in answer.offsets.items()}
    way.enter(turn, answer, Reentry("backfill", read, wishes.why), with_rejects=True)
    return len(absent), answer.sales, sum(answer.rejected.values())


def _messages(way: Entrance, cluster: Cluster, piece: Range, absent: Offsets) -> pa.Table:
    """Those at the absent offsets."""
    asked = Range(piece.topic, piece.partition, int(absent[0]), int(absent[-1]) + 1)
    wanted = pa.array(absent)
    limits = way.plan.settings.worker
    came = [
        some.filter(pa.compute.is_in(some["offset"], value_set=wanted))
        for some in reader.messages([asked], cluster, limits)
    ]
    windows = list(source.windows(came, limits))
    return pa.concat_tables(windows) if windows else pa.table({name: [] for name in columns.MESSAGE})


def _absent(turn: Turn, piece: Range) -> Offsets:
    """The offsets of the piece that are in neither table."""
    place, all_of_it = (piece.topic, piece.partition), np.arange(piece.first, piece.end)
    for table in (turn.facts, turn.rejects):
        all_of_it = np.setdiff1d(all_of_it, table.offsets({place: all_of_it}).get(place, []))
    return all_of_it


def _refuse_gone(way: Entrance, topics: Topics, wanted: Range) -> None:
    """Before anything is written: offsets that are neither in the tables nor in Kafka any more."""
    earliest, _ = topics.extents({wanted.topic: {str(wanted.partition): 0}})
    begin = min(earliest[wanted.topic, wanted.partition], wanted.end)
    if begin <= wanted.first:
        return
    turn, gone = way.turn(), []
    for piece in _pieces(
        Range(wanted.topic, wanted.partition, wanted.first, begin), way.plan.settings.worker.window_sales
    ):
        absent = _absent(turn, piece)
        runs = np.split(absent, np.flatnonzero(np.diff(absent) > 1) + 1)
        gone += [(int(run[0]), int(run[-1])) for run in runs if len(run)]
    if gone:
        named = ", ".join(f"{first:,} to {last:,}" for first, last in gone[:_SHOWN])
        more = f" and {len(gone) - _SHOWN:,} more ranges" if len(gone) > _SHOWN else ""
        raise TopicChanged(
            f"{wanted}: offsets {named}{more} are in neither table, and Kafka has deleted all before {begin:,}. "
            f"Nothing was written. If they exist elsewhere, send them again; to do without them, begin with "
            f'--from \'{{"{wanted.topic}": {{"{wanted.partition}": {begin}}}}}\', or --from earliest.'
        )
