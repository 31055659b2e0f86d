"""Window by window: messages are parsed again, given the master's rows of then, and held against what stands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import pyarrow as pa

from pipeline import columns, flow, source
from pipeline.kafka import reader
from pipeline.kafka.client import client_of
from pipeline.kafka.cluster import cluster_of
from pipeline.parse import Parser
from pipeline.plan import Plan
from pipeline.reentry.seen import IDENTITY, Place, by_place
from pipeline.replay.batch import FoundBatch, opened
from pipeline.replay.moments import Wishes
from pipeline.replay.past import Past
from pipeline.replay.stored import Spans, StoredRows
from pipeline.replay.verdict import OfDimension, Verdict
from pipeline.replay.window import Tables, Window


def check(plan: Plan, batch: FoundBatch, pasts: Sequence[Past], wishes: Wishes) -> Verdict:
    verdict = Verdict(batch, wishes.limit, {past.name: OfDimension() for past in pasts})
    if not batch.origin.offsets:
        verdict.notes.append("the batch has read no message")
        return verdict
    verdict.left_out = [name for name in plan.dimensions if name not in verdict.dimensions]
    if batch.origin.contracts not in ("", plan.fingerprint):
        verdict.notes.append("contracts, or the release, are not those that the batch went by")
    rejects = opened(plan, plan.rejects)
    if (last := rejects.last_batch(batch.application)) is not None and last < batch.number:
        verdict.notes.append(f"{plan.rejects.name} has batch {last:,} as its last: the next start of the job goes on")
    stored = (
        StoredRows(batch.facts, plan.facts, batch.application),
        StoredRows(rejects, plan.rejects, batch.application),
    )
    tables = Tables(plan, batch, pasts, *stored)

    @cache
    def parser_of(topic: str) -> Parser:
        return Parser(plan.topic(topic), plan.settings.kafka.max_message_bytes)

    for messages, spans in _windows(plan, batch):
        Window(tables, spans, *flow.parse(messages, parser_of, plan.sale_schema)).check(verdict)
    for past in pasts:
        if verdict.dimensions[past.name].different:
            verdict.notes += past.doubts(batch.committed)
    return verdict


def _windows(plan: Plan, batch: FoundBatch) -> Iterator[tuple[pa.Table, Spans]]:
    """As large as a worker's, each with the offsets that are done with when it is."""
    kafka, limits = plan.settings.kafka, plan.settings.worker
    came = reader.messages(batch.ranges, cluster_of(client_of(kafka.bootstrap, kafka.java)), limits)
    begins: dict[Place, int] = {(each.topic, each.partition): each.first for each in batch.ranges}
    for window in source.windows(came, limits):
        spans = {
            place: (begins[place], int(offsets.max()) + 1) for place, offsets in by_place(window, *IDENTITY).items()
        }
        begins |= {place: end for place, (_, end) in spans.items()}
        yield window, spans
    ends = {(each.topic, each.partition): each.end for each in batch.ranges}
    if rest := {place: (first, ends[place]) for place, first in begins.items() if first < ends[place]}:
        yield pa.schema(list(columns.MESSAGE.items())).empty_table().combine_chunks(), rest
