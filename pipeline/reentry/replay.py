"""Rejects that are valid sales by the contract of today become facts, and leave the rejects.

The bytes stay as they were sent: it is the contract that was mended, or a setting such as `kafka.max_message_bytes`. A
message whose bytes are mended is another message; send it to Kafka again (`millrace rejects show --raw` gives them).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial

import numpy as np
import pyarrow as pa
from deltalake import CommitProperties, PostCommitHookProperties
from deltalake.exceptions import CommitFailedError

from pipeline import columns, source
from pipeline.errors import BadSetting, WarehouseRefused
from pipeline.parse import Parser
from pipeline.plan import Plan
from pipeline.reentry.entrance import Entrance, Turn, again, entrance
from pipeline.reentry.record import Reentry, application_of
from pipeline.reentry.rejects import Wanted
from pipeline.reentry.seen import IDENTITY, Offsets, Place, by_place, require
from pipeline.warehouse import record
from pipeline.warehouse.log import TableLog

_PIECE = 10_000  # rejects that are looked at, and at most entered, at once: their offsets stand in the commit
_ATTEMPTS = 10
_MEMORY = 256 << 20  # bytes that a rewriting of the rejects may take


@dataclass(frozen=True)
class Wishes:
    wanted: Wanted = field(default_factory=Wanted)
    limit: int | None = None  # rejects to enter
    dry_run: bool = False
    why: str = ""
    job_is_stopped: bool = False

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise BadSetting(f"--limit {self.limit} must be at least 1.")


@dataclass
class Replayed:
    """What came of it."""

    dry_run: bool
    valid: Counter[str] = field(default_factory=Counter)  # by the reason they were rejected for
    stay: Counter[str] = field(default_factory=Counter)  # by the reason of today
    finished: int = 0  # facts already: an earlier replay ended before they left the rejects
    limited: bool = False

    def as_json(self) -> dict[str, object]:
        return {
            "valid": dict(self.valid), "stay": dict(self.stay), "finished": self.finished,
            "dry_run": self.dry_run, "stopped_at_limit": self.limited,
        }  # fmt: skip

    def __str__(self) -> str:
        did = "would become facts" if self.dry_run else "became facts"
        lines = [f"{self.valid.total():,} rejects {did}{_listed(self.valid)}"]
        lines.append(f"{self.stay.total():,} stay{_listed(self.stay)}")
        if self.finished:
            would = "would leave" if self.dry_run else "left"
            lines.append(f"{self.finished:,} were facts already, by a replay that did not end, and {would} the rejects")
        if self.limited:
            lines.append("stopped at --limit; run it again for the others")
        return "\n".join(lines)


def replay(plan: Plan, wishes: Wishes) -> Replayed:
    """Enter what is valid now, piece by piece."""
    require(plan.rejects, [*IDENTITY, columns.TIMESTAMP, columns.VALUE, columns.REASON])
    with entrance(plan, wishes.dry_run, wishes.job_is_stopped) as way:
        if not wishes.dry_run:
            _refuse_append_only(way.rejects_log)
        done = Replayed(wishes.dry_run)
        for messages, reasons in _pieces(way.turn(), way.plan, wishes.wanted):
            left = None if wishes.limit is None else wishes.limit - done.valid.total()
            again(partial(_piece, way, messages, reasons, wishes, left, done))
            if wishes.limit is not None and done.valid.total() >= wishes.limit:
                done.limited = True
                break
    return done


def _pieces(turn: Turn, plan: Plan, wanted: Wanted) -> Iterator[tuple[pa.Table, list[str]]]:
    """The rejects as messages, and why each is one."""
    sources = dict(zip(columns.KAFKA.names, columns.MESSAGE, strict=True))
    limits = plan.settings.worker
    for some in turn.rejects.rows({**sources, columns.REASON: columns.REASON}, wanted.where(turn.rejects)):
        for at in range(0, some.num_rows, _PIECE):
            piece = some.slice(at, _PIECE)
            reasons = piece[columns.REASON].to_pylist()
            [window] = source.windows([piece.select(columns.KAFKA.names)], limits)
            yield window, reasons


def _piece(
    way: Entrance, messages: pa.Table, reasons: list[str], wishes: Wishes, left: int | None, done: Replayed
) -> None:
    """One commit of facts, and one that takes their rejects away. Nothing is counted before both are there."""
    turn = way.turn()
    wanted = by_place(messages, *IDENTITY)
    # Another replay may have been here since they were read.
    is_reject = _among(messages, turn.rejects.offsets(wanted))
    is_fact = _among(messages, turn.facts.offsets(wanted)) & is_reject
    valid, stay = _parsed(way.plan, messages, is_reject & ~is_fact)
    valid = valid[:left]
    entering = messages.take(pa.array(valid))
    if not wishes.dry_run:
        if len(valid):
            noted = Reentry("rejects replay", _listed_offsets(entering), wishes.why)
            way.enter(turn, way.walk(turn, entering), noted, with_rejects=False)
        gone = np.union1d(np.flatnonzero(is_fact), valid)
        if len(gone):
            _take_away(way, messages.take(pa.array(gone)), turn.number)
    done.valid.update(reasons[i] for i in valid.tolist())
    done.stay.update(stay)
    done.finished += int(is_fact.sum())


def _parsed(plan: Plan, messages: pa.Table, chosen: np.ndarray) -> tuple[Offsets, list[str]]:
    """The positions of the chosen messages that are sales by the contract of today, and the others' reasons."""

    @cache
    def parser_of(topic: str) -> Parser:
        return Parser(plan.topic(topic), plan.settings.kafka.max_message_bytes)

    valid, stay = [np.empty(0, np.int64)], []
    topics = np.asarray(messages[columns.TOPIC].to_pylist(), dtype=object)
    for topic in dict.fromkeys(topics.tolist()):
        positions = np.flatnonzero(chosen & (topics == topic))
        values = messages[columns.VALUE].combine_chunks().take(pa.array(positions))
        parsed = parser_of(topic).parse(values)
        valid.append(positions[parsed.valid])
        stay += parsed.reasons.to_pylist()
    return np.sort(np.concatenate(valid)), stay


def _take_away(way: Entrance, messages: pa.Table, number: int) -> None:
    """Their rows leave the rejects. It may be done twice, and beside all that others do to the table."""
    log, contract = way.rejects_log, way.plan.rejects
    gone = messages.select(IDENTITY).rename_columns(["c0", "c1", "c2"])
    gone = gone.append_column("c3", pa.repeat(way.job, len(gone)))
    names = [*IDENTITY, *([columns.APPLICATION] if columns.APPLICATION in contract.by_source else [])]
    old = [_quoted(contract.by_source[source].name) for source in names]
    offsets = np.asarray(messages[columns.OFFSET])
    same = [f"t.{name} = s.c{i}" for i, name in enumerate(old)]
    same.append(f"t.{old[2]} >= {offsets.min()} AND t.{old[2]} <= {offsets.max()}")  # leaves files out
    said = json.dumps({"removed_by": application_of(way.job), "number": number, "rejects": len(gone)})
    for attempt in range(1, _ATTEMPTS + 1):
        log.refresh()
        merge = log.table.merge(
            gone,
            " AND ".join(same),
            source_alias="s",
            target_alias="t",
            streamed_exec=False,
            max_spill_size=_MEMORY,
            commit_properties=CommitProperties(custom_metadata={record.USER_METADATA: said}),
            post_commithook_properties=PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False),
        )
        try:
            merge.when_matched_delete().execute()
            log.keep()
            return
        except CommitFailedError as error:
            if attempt == _ATTEMPTS:
                raise WarehouseRefused(
                    f"{log.uri}: {len(gone):,} rejects are facts now, and still among the rejects after {_ATTEMPTS} "
                    f"attempts, because others kept changing the same files: {str(error).splitlines()[0]} Run it "
                    f"again later: it takes them away."
                ) from error


def _refuse_append_only(log: TableLog) -> None:
    if log.describe().properties.get("delta.appendOnly") == "true":
        raise WarehouseRefused(
            f"{log.uri}: delta.appendOnly is set, so no reject may leave it, and one that becomes a fact would be "
            f"there twice. ALTER TABLE … UNSET TBLPROPERTIES it."
        )


def _among(messages: pa.Table, there: Mapping[Place, Offsets]) -> np.ndarray:
    """Which of the messages are there."""
    topics, partitions = messages[columns.TOPIC].to_pylist(), messages[columns.PARTITION].to_pylist()
    known = {place: set(offsets.tolist()) for place, offsets in there.items()}
    offsets = messages[columns.OFFSET].to_pylist()
    of_message = zip(topics, partitions, offsets, strict=True)
    return np.array([offset in known.get((t, p), ()) for t, p, offset in of_message], bool)


def _listed_offsets(messages: pa.Table) -> dict[str, list[int]]:
    found = by_place(messages, *IDENTITY)
    return {f"{topic}/{partition}": offsets.tolist() for (topic, partition), offsets in found.items()}


def _listed(counts: Counter[str]) -> str:
    return f" ({', '.join(f'{count:,} {reason}' for reason, count in counts.most_common())})" if counts else ""


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
