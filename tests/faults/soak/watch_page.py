"""The part of RESULTS.md about what a job held while it was watched: quarters of the run beside each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from tests.faults.soak.watch import KINDS, OLDEST

Record = Mapping[str, Any]

TENTH, FEW = 1.1, 3
FOUR = 4
RULE = (
    "Flat is a figure whose median in the last quarter of the time is no more than a tenth, or no more than 3, above",
    "that of the second one: the first one warms up. Of the heap the least of a quarter counts instead: it grows from",
    "one collection to the next. Of files the most: they grow from one merge, or one cleaning, to the next. What an",
    "hour's retention bounds is held against the third quarter, before which nothing was an hour old. A kind of fault",
    "kills workers, always the youngest, so that the oldest may live as long as the driver.",
)


@dataclass(frozen=True)
class Figure:
    """One number of each look. Its last quarter is held against an earlier one: `since`."""

    name: str
    of: Callable[[Record], float]
    since: int = 1
    by: Callable[[Sequence[float]], float] = median
    outlives_drivers: bool = False


def told(name: str, records: Sequence[Record]) -> list[str]:
    """A section for a run that was watched; nothing for another."""
    looks = [record for record in records if record.get("watch") and record["tables"]]
    if len(looks) < FOUR:
        return []
    faults = sum("fault" in record for record in records)
    minutes = (looks[-1]["second"] - looks[0]["second"]) / 60
    codes = looks[-1]["maintained"]
    figures = [(figure, looks if figure.outlives_drivers else _of_longest(looks)) for figure in _figures(looks)]
    not_flat = [figure.name for figure, of in figures if not is_flat(figure, of)]
    ended = "all ended well" if not any(codes) else f"exit codes {codes}"
    return [
        f"## What the job held: {name}",
        "",
        f"{len(looks)} looks in {minutes:.0f} minutes, between {faults} faults; at most one a minute, each when the",
        "tables had all that was sent. The job had the settings that are shipped, and its temporary files a folder of",
        "their own.",
        *_of_lives(looks),
        f"`millrace maintain` ran beside it {len(codes)} times, with an hour for what a table keeps a week: {ended}.",
        "",
        *RULE,
        "",
        f"Not flat: **{', '.join(not_flat) or 'nothing'}**.",
        "",
        "| what | first quarter | second | third | last | most | flat |",
        "|---|---|---|---|---|---|---|",
        *(_row(figure, of) for figure, of in figures),
        "",
    ]


def _of_longest(looks: Sequence[Record]) -> list[Record]:
    """Of the driver that was looked at most often: in another one whatever leaks begins anew."""
    [(longest, _)] = Counter(look["driver"] for look in looks).most_common(1)
    return [look for look in looks if look["driver"] == longest]


def _of_lives(looks: Sequence[Record]) -> Iterator[str]:
    drivers = len({look["driver"] for look in looks})
    lived = max(look["lived"] for look in looks) / 60
    worker = max(look["processes"].get(OLDEST, {}).get("oldest", 0) for look in looks) / 60
    if drivers > 1:
        yield f"There were {drivers} drivers, one after the other: what processes hold is told of the one that lived"
        yield "longest, in quarters of its life."
    yield f"The oldest driver was {lived:.0f} minutes old, the oldest worker {worker:.0f}."


def is_flat(figure: Figure, looks: Sequence[Record]) -> bool:
    quarters = _quarters(figure, looks)
    return quarters[-1] <= max(quarters[figure.since] * TENTH, quarters[figure.since] + FEW)


def _quarters(figure: Figure, looks: Sequence[Record]) -> list[float]:
    """By time, not by number: a fault that lasts a minute leaves room for one look."""
    begin, length = looks[0]["second"], (looks[-1]["second"] - looks[0]["second"]) / FOUR
    held: list[list[float]] = [[] for _ in range(FOUR)]
    for look in looks:
        held[min(int((look["second"] - begin) / length), FOUR - 1)].append(figure.of(look))
    return [figure.by(values) if values else 0.0 for values in held]


def _row(figure: Figure, looks: Sequence[Record]) -> str:
    numbers = [*_quarters(figure, looks), max(figure.of(look) for look in looks)]
    flat = "yes" if is_flat(figure, looks) else "**no**"
    return f"| {figure.name} | {' | '.join(f'{number:,.0f}' for number in numbers)} | {flat} |"


def _figures(looks: Sequence[Record]) -> Iterator[Figure]:
    for kind in KINDS:
        for held in ("megabytes", "open files", "threads"):
            yield Figure(f"{kind}: {held}", lambda look, kind=kind, held=held: _each(look, kind, held))
    yield Figure("JVM: heap in use, megabytes", lambda look: look["heap"].get("old generation", 0), by=min)
    yield Figure("JVM: metaspace, megabytes", lambda look: look["heap"].get("metaspace", 0))
    yield Figure("sessions at the database", lambda look: look["sessions"])
    yield Figure("temporary files", lambda look: look["temporary"]["files"], by=max)
    yield Figure("temporary folders", lambda look: look["temporary"]["folders"], by=max)
    yield Figure("temporary files, kilobytes", lambda look: look["temporary"]["bytes"] / 1e3, by=max)
    yield Figure("files of the checkpoint", lambda look: look["checkpoint"], 1, max, outlives_drivers=True)
    for table in sorted(looks[-1]["tables"]):
        for held, since in (("files of the table", 1), ("files on the disk", 2), ("files of the log", 2)):
            yield Figure(
                f"{table}: {held}", lambda look, of=table, held=held: look["tables"][of][held], since, max, True
            )


def _each(look: Record, kind: str, held: str) -> float:
    """Of one process of the kind: there is one of each, but of the other workers."""
    of = look["processes"].get(kind, {})
    return float(of.get(held, 0) / of.get("processes", 1))
