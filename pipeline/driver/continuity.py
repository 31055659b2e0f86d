"""Does this start go on exactly where the last one ended? Checkpoint, tables and topics must agree, or it is refused.

Three numbers say how far a stream has come: the last batch that the facts have (written), and the last that the
checkpoint holds for finished (done) and has put down (planned). After any crash done <= written <= planned <= done + 1.
With any other order Delta would skip batches that it believes to have, or Spark would go on behind some that it
believes to be there; both without a word.
"""

from __future__ import annotations

import json

from pipeline.config.settings import Settings
from pipeline.driver import topic_checks
from pipeline.driver.origin import Ends, Origin, of_note
from pipeline.driver.progress import Progress
from pipeline.driver.topics import Topics
from pipeline.errors import WarehouseRefused
from pipeline.warehouse.port import Standing, WrittenTables


def require(checkpoint: Progress, settings: Settings, warehouse: WrittenTables) -> Origin:
    """The origin of the last batch written. Refuses tables and a checkpoint that do not fit together."""
    facts, *sides = warehouse.standings()
    origin = of_note(warehouse.last_note())
    require_tables_of(checkpoint, settings, facts, sides, origin)
    _nothing_planned_beyond(checkpoint)
    _refuse_table_behind(facts, checkpoint, settings.job.name)
    _same_offsets(facts, checkpoint, origin)
    return origin


def require_topics(checkpoint: Progress, warehouse: WrittenTables, topics: Topics, origin: Origin) -> None:
    """Refuse topics that are not those that were read, or that no longer have what comes next."""
    topic_checks.require_same(topics, origin)
    topic_checks.require_present(topics, next_offsets(checkpoint, warehouse.last_batch()), origin)


def require_tables_of(
    checkpoint: Progress, settings: Settings, facts: Standing, sides: list[Standing], origin: Origin
) -> None:
    """Refuse tables that are not this checkpoint's, or that are not of one moment."""
    name = settings.job.name
    for table in (facts, *sides):
        _same_stream(table, checkpoint, name)
    _table_not_ahead(facts, checkpoint, name, origin)
    _nothing_taken_back(facts, name, origin)
    for side in sides:
        _side_table_agrees(side, facts, name)


def next_offsets(checkpoint: Progress, written: int | None) -> Ends:
    """What the next batch begins with. A batch that is written is not read again, though it may not be done."""
    done = checkpoint.done
    last = max((batch for batch in (done, written) if batch is not None), default=None)
    return checkpoint.ends(last) or {}


def _same_stream(table: Standing, checkpoint: Progress, name: str) -> None:
    known, found = table.checkpoint, checkpoint.id()
    if known and found and known != found:
        raise WarehouseRefused(
            f"{table.uri} was last written by application {name!r} with checkpoint {known}, but {checkpoint.path} is "
            f"checkpoint {found}: two streams under one name overwrite each other's batches. "
            f"Give this job another job.name, or point job.checkpoint to the first one's folder."
        )


def _nothing_planned_beyond(checkpoint: Progress) -> None:
    done, planned = checkpoint.done, checkpoint.planned
    following = 0 if done is None else done + 1
    if (planned is not None and planned > following) or (done is not None and (planned is None or planned < done)):
        raise WarehouseRefused(
            f"the checkpoint {checkpoint.path} has batches done up to {_shown(done)}, but planned up to "
            f"{_shown(planned)}: it was copied while the job ran, or a part of it was deleted, and the batches between "
            f"would be left out. Restore it whole; or set it back to the tables with `millrace rewind`."
        )


def _refuse_table_behind(facts: Standing, checkpoint: Progress, name: str) -> None:
    done = checkpoint.done
    if done is None or (facts.batch is not None and facts.batch >= done):
        return
    has = "has none of its batches" if facts.batch is None else f"has them only up to {facts.batch}"
    raise WarehouseRefused(
        f"the checkpoint {checkpoint.path} has finished batch {done} of application {name!r}, but {facts.uri} {has}: "
        f"the sales in between would be missing. Restore the table; or run `millrace rewind`, which sets the "
        f"checkpoint back to the table, so that those sales are read from Kafka again; or, if job.name or the table in "
        f"the settings was changed, change it back or name a job.checkpoint of its own too."
    )


def _same_offsets(facts: Standing, checkpoint: Progress, origin: Origin) -> None:
    """Where folders cannot be locked, two jobs may have put down the same batch with different ends."""
    ends = checkpoint.ends(facts.batch) if facts.batch is not None else None
    for topic, parts in (ends or {}).items():
        for part, end in parts.items():
            read = origin.ends.get(topic, {}).get(part, 0)
            if read > end:
                raise WarehouseRefused(
                    f"{facts.uri} has {topic}/{part} up to offset {read - 1:,} in batch {facts.batch}, but the "
                    f"checkpoint {checkpoint.path} ends that batch before {end:,}: two jobs have used it, and what "
                    f"lies between would be written twice. To go on, {under_another_name(origin)}."
                )


def _table_not_ahead(facts: Standing, checkpoint: Progress, name: str, origin: Origin) -> None:
    written, planned = facts.batch, checkpoint.planned
    if written is None or (planned is not None and written <= planned):
        return
    knows = "is empty" if planned is None else f"knows batches up to {planned} only"
    raise WarehouseRefused(
        f"{facts.uri} already has batch {written} of application {name!r}, but the checkpoint {checkpoint.path} "
        f"{knows}: the batches in between would be skipped without a word and their sales lost. "
        f"Restore the checkpoint that belongs to the table; or, to continue without it, {under_another_name(origin)}."
    )


def _nothing_taken_back(table: Standing, name: str, origin: Origin | None) -> None:
    if not table.taken_back:
        return
    anew = f"; or, to read them again from Kafka, {under_another_name(None)}" if origin is not None else ""
    raise WarehouseRefused(
        f"{table.uri}: {table.taken_back} took rows of batches up to {table.batch} of application {name!r} out of the "
        f"table, while Delta still counts them as written: they would never come back. Take it back itself (RESTORE "
        f"TABLE to the version before it){anew}."
    )


def _side_table_agrees(side: Standing, facts: Standing, name: str) -> None:
    written = -1 if facts.batch is None else facts.batch
    if side.batch is not None and side.batch > written:
        raise WarehouseRefused(
            f"{side.uri} has batch {side.batch} of application {name!r}, but {facts.uri} only up to "
            f"{_shown(facts.batch)}: one of them is an older copy, and what was rejected between the two would be left "
            f"out. Put both back to one moment."
        )
    if side.due is not None and (side.batch is None or side.batch < side.due):
        raise WarehouseRefused(
            f"{side.uri} lacks batch {side.due} of application {name!r}, which {facts.uri} has: its rejects would be "
            f"missing. Restore it; or put the facts back to the same moment as well (or delete both), then run "
            f"`millrace rewind`."
        )
    _nothing_taken_back(side, name, None)


def under_another_name(origin: Origin | None) -> str:
    """How to go on where a table ends, when the checkpoint cannot."""
    at = f" = '{json.dumps(origin.ends)}'" if origin and origin.ends else " to where the facts end"
    return f"choose another job.name and job.checkpoint, and set kafka.starting_offsets{at}"


def _shown(batch: int | None) -> str:
    return "none" if batch is None else str(batch)
