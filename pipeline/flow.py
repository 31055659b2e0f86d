"""READ FIRST. One sale's journey, top to bottom.

    Kafka topics ─► micro-batch ─► parse ─► enrich ─► facts ─► Parquet files ─► one Delta commit
                                     │                            │
                                     └─► rejects ─────────────────┘

`SaleFlow.run` is the worker's part, in one pass over Arrow columns: message bytes in, finished files out. `one_batch`
is the driver's part: it commits what the workers finished. Neither needs Spark to be understood, or tested. What is
carried along, from `message.offset` to `product.surrogate_key`, is named in `columns.py`.
"""

from __future__ import annotations

import os
import resource
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline import columns, facts, source
from pipeline.answers.histogram import Histogram
from pipeline.answers.task import Offsets, Phase, TaskAnswer
from pipeline.config.contracts import TableContract
from pipeline.config.settings import WorkerSettings
from pipeline.enrich import Dimension, enrich
from pipeline.news import News
from pipeline.parse import Parser
from pipeline.warehouse.files import TableFiles
from pipeline.warehouse.port import Batch, Warehouse

_REJECTS = pa.schema([*columns.MESSAGE.items(), *columns.REJECT.items()])


@dataclass
class SaleFlow:
    """The worker's part of one micro-batch."""

    parser_of: Callable[[str], Parser]  # by topic
    sale_schema: pa.Schema  # all fields that any topic's sales have
    dimensions: list[Dimension]
    facts: TableFiles
    rejects: TableFiles
    limits: WorkerSettings
    application: str
    batch: int
    news: News = field(default_factory=News)  # of master rows that have changed

    def run(self, messages: Iterable[pa.RecordBatch]) -> TaskAnswer:
        answer = TaskAnswer(workers=[f"{socket.gethostname()}:{os.getpid()}"], at=time.time())
        for dimension in self.dimensions:
            dimension.begin_batch(self.news)
        try:
            for window in _timed(source.windows(messages, self.limits), answer, "read"):
                self._one_window(window, answer)
            with _timing(answer, "write"):
                answer.facts, answer.rejects = self.facts.close(), self.rejects.close()
        except BaseException:
            self.facts.abort()
            self.rejects.abort()
            raise
        answer.dimensions = {d.contract.name: d.answer() for d in self.dimensions}
        answer.peak_bytes = _peak_bytes()
        return answer

    def _one_window(self, messages: pa.Table, answer: TaskAnswer) -> None:
        _count_messages(messages, answer)

        with _timing(answer, "parse"):
            sales, rejects = parse(messages, self.parser_of, self.sale_schema)

        for enriched in _timed(enrich(sales, self.dimensions, self.limits), answer, "enrich"):
            with _timing(answer, "write"):
                self.facts.write(self._columns(self.facts.contract, enriched))
            answer.sales += len(enriched)

        with _timing(answer, "write"):
            self.rejects.write(self._columns(self.rejects.contract, rejects))
        for reason in rejects[columns.REASON].value_counts().to_pylist():
            answer.rejected[reason["values"]] = answer.rejected.get(reason["values"], 0) + reason["counts"]

    def _columns(self, table: TableContract, rows: pa.Table) -> pa.Table:
        return facts.to_columns(table, rows, self.application, self.batch)


def parse(messages: pa.Table, parser_of: Callable[[str], Parser], sale_schema: pa.Schema) -> tuple[pa.Table, pa.Table]:
    """Every message is either a sale or a reject, and keeps the offset it came from."""
    sales, rejects = [sale_schema.empty_table()], [_REJECTS.empty_table()]
    for topic, of_topic in _by_topic(messages):
        parsed = parser_of(topic).parse(of_topic[columns.VALUE].chunk(0))
        came_from = of_topic.drop_columns(columns.VALUE).take(pa.array(parsed.valid))
        fields = parsed.sales.rename_columns(list(map(columns.of_sale, parsed.sales.column_names)))
        sales.append(_with_columns(came_from, fields))
        why = pa.table({columns.REASON: parsed.reasons, columns.DETAIL: parsed.details})
        rejects.append(_with_columns(of_topic.take(pa.array(parsed.rejected)), why))
    return pa.concat_tables(sales, promote_options="default").combine_chunks(), pa.concat_tables(rejects)


def one_batch(
    batch: int,
    workers: Callable[[], TaskAnswer],
    warehouse: Warehouse,
    rejects_table: str,
    lineage: Lineage,
    published: Callable[[TaskAnswer, float, int], None],
) -> None:
    """The driver's part of one micro-batch: one commit, however often the batch is tried."""
    last = warehouse.last_batch()
    if last is not None and batch <= last:
        # A replay: the facts are there, and the master may have changed since. Nothing is computed again.
        lineage.require_ours(batch, warehouse.note_of(batch))
        warehouse.finish(batch)
        return
    answer = workers()
    with _timing(answer, "commit"):
        note = lineage.note(answer)
        warehouse.commit(Batch(batch, answer.facts, {rejects_table: answer.rejects}, note))
    lineage.committed()
    published(answer, time.time(), batch)


class Lineage(Protocol):
    """Knows where batches come from: see `pipeline/driver/lineage.py`."""

    def note(self, answer: TaskAnswer) -> Mapping[str, Any]: ...

    def committed(self) -> None: ...

    def require_ours(self, batch: int, note: Mapping[str, Any] | None) -> None: ...


def _by_topic(messages: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    topics = pc.unique(messages[columns.TOPIC]).to_pylist()
    for topic in topics:
        yield (
            topic,
            messages
            if len(topics) == 1
            else messages.filter(pc.equal(messages[columns.TOPIC], topic)).combine_chunks(),
        )


def _with_columns(table: pa.Table, more: pa.Table) -> pa.Table:
    for name in more.column_names:
        table = table.append_column(name, more[name])
    return table


def _count_messages(messages: pa.Table, answer: TaskAnswer) -> None:
    """Count by topic and partition, and note how old each message was when the task began."""
    keys, sent_at = [columns.TOPIC, columns.PARTITION], messages[columns.TIMESTAMP].cast(pa.int64())
    numbered = messages.select([*keys, columns.OFFSET]).rename_columns(["topic", "partition", "offset"])
    # A partition's messages come in the order of their offsets, so its last row is its newest.
    measures = [("offset", "min"), ("offset", "max"), ("offset", "count"), ("sent", "last")]
    grouped = numbered.append_column("sent", sent_at).group_by(["topic", "partition"], use_threads=False)
    for row in grouped.aggregate(measures).to_pylist():
        topic, count = row["topic"], row["offset_count"]
        read = Offsets(row["offset_min"], row["offset_max"], count, row["sent_last"])
        partition = f"{topic}/{row['partition']}"
        before = answer.offsets.get(partition)
        answer.offsets[partition] = read if before is None else before + read
        answer.topics[topic] = answer.topics.get(topic, 0) + count
    answer.age += Histogram.of(answer.at - np.asarray(sent_at) / 1e6)


def _timed(windows: Iterator[pa.Table], answer: TaskAnswer, phase: Phase) -> Iterator[pa.Table]:
    """The same windows; the time spent waiting for each counts as a phase."""
    while True:
        with _timing(answer, phase):
            window = next(windows, None)
        if window is None:
            return
        yield window


@contextmanager
def _timing(answer: TaskAnswer, phase: Phase) -> Iterator[None]:
    began = time.perf_counter()
    yield
    answer.phases[phase] = answer.phases.get(phase, 0.0) + time.perf_counter() - began


def _peak_bytes() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
