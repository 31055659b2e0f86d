"""Which offsets a backfill reads: from where, up to where, and never beyond what the job has left behind it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone

from pipeline.driver.origin import Ends, Origin, of_note
from pipeline.driver.topics import Topics
from pipeline.errors import BadSetting, WarehouseRefused
from pipeline.kafka.ranges import Range
from pipeline.reentry.entrance import Entrance

Bound = datetime | Ends | None  # a moment, offsets by topic and partition, or as far as it goes


@dataclass(frozen=True)
class Wishes:
    since: str  # --from
    until: str = ""  # --to
    topics: tuple[str, ...] = ()
    dry_run: bool = False
    why: str = ""
    job_is_stopped: bool = False


def bound(option: str, text: str) -> Bound:
    """A moment, or offsets as kafka.starting_offsets has them.

    >>> bound("--from", "2026-11-19T08:00:00+01:00"), bound("--to", '{"sales": {"0": 7}}'), bound("--to", "")
    (datetime.datetime(2026, 11, 19, 7, 0, tzinfo=datetime.timezone.utc), {'sales': {'0': 7}}, None)
    """
    if text in ("", "earliest"):
        return None
    if text.startswith("{"):
        return _offsets(option, text)
    try:
        return moment(text)
    except ValueError:
        raise BadSetting(
            f"{option} {text!r} must be a moment such as 2026-11-19T08:00:00Z (UTC, unless it says otherwise), or "
            f'offsets by topic and partition, such as {{"sales": {{"0": 1200}}}}.'
        ) from None


def moment(text: str) -> datetime:
    """UTC, unless the text says otherwise."""
    read = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return (read if read.tzinfo else read.replace(tzinfo=timezone.utc)).astimezone(timezone.utc)


def ranges(way: Entrance, topics: Topics, left_behind: Ends, wishes: Wishes) -> Iterator[Range]:
    """A range for each partition that has anything to read by the wishes, whether Kafka has it all or not."""
    since, until = bound("--from", wishes.since), bound("--to", wishes.until)
    chosen = {t: parts for t, parts in left_behind.items() if not wishes.topics or t in wishes.topics}
    named = {*wishes.topics, *_named(since), *_named(until)}
    if unknown := sorted(named - set(left_behind)):
        raise BadSetting(
            f"{', '.join(unknown)}: the job {way.job} has committed nothing of it, but only of "
            f"{', '.join(sorted(left_behind)) or 'no topic'}. What it has still to read it reads itself."
        )
    earliest, _ = topics.extents(chosen)
    begins, ends = _resolved(topics, chosen, since), _resolved(topics, chosen, until)
    for topic, parts in sorted(chosen.items()):
        for part, behind in sorted(parts.items(), key=lambda of_part: int(of_part[0])):
            place = topic, int(part)
            if any(isinstance(given, dict) and part not in given.get(topic, {}) for given in (since, until)):
                continue  # offsets name the partitions that are meant
            first = begins.get(place) if since is not None else earliest.get(place)
            end = ends.get(place)
            if first is not None and first < (last := behind if end is None else min(end, behind)):
                yield Range(*place, first, last)


def left_behind(way: Entrance) -> tuple[Ends, Origin]:
    """The first offset of each partition that the job may still write: it has committed all before that, to both
    tables. Also what else its last commit says of the topics."""
    facts, rejects, job = way.facts_log, way.rejects_log, way.job
    facts.refresh()
    batch = facts.last_batch(job)
    made = facts.record_of(job, batch) if batch is not None else None
    if made is None:
        raise WarehouseRefused(
            f"{facts.uri} does not tell how far the job {job} has read: "
            + ("it has no batch of it." if batch is None else f"the commit of batch {batch} has left the log.")
            + " Let the job commit a batch, then run this again."
        )
    origin = of_note(made.note)
    ends = {topic: dict(parts) for topic, parts in origin.ends.items()}
    rejects.refresh()
    if way.plan.rejects.name in made.sides and not _has(rejects.last_batch(job), made.batch):
        _without_the_last(ends, origin)
    return ends, origin


def _has(last: int | None, batch: int) -> bool:
    return last is not None and last >= batch


def _without_the_last(ends: Ends, origin: Origin) -> None:
    """The rejects of the last batch are still to be committed, by the job or by its next start."""
    for name, (first, _, _) in origin.offsets.items():
        topic, _, part = name.rpartition("/")
        ends[topic][part] = first


def _resolved(topics: Topics, chosen: Ends, given: Bound) -> dict[tuple[str, int], int | None]:
    if isinstance(given, datetime):
        return topics.since(chosen, given)
    return {(topic, int(part)): at for topic, parts in (given or {}).items() for part, at in parts.items()}


def _named(given: Bound) -> list[str]:
    return list(given) if isinstance(given, dict) else []


def _offsets(option: str, text: str) -> Ends:
    try:
        given = json.loads(text)
        return {
            str(topic): {str(int(part)): _offset(at) for part, at in parts.items()} for topic, parts in given.items()
        }
    except (ValueError, TypeError, AttributeError):
        raise BadSetting(
            f"{option} {text} must be offsets by topic and partition, such as "
            f'{{"sales": {{"0": 1200, "1": 0}}}}, none of them negative.'
        ) from None


def _offset(given: object) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or given < 0:
        raise ValueError(given)
    return given
