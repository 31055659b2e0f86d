"""Fault after fault against one real job under sales; what happened is written down as it happens."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from random import Random
from typing import Any

from tests.faults.soak.kinds import KINDS
from tests.faults.soak.leaders import OF_LEADERS
from tests.faults.soak.scene import Scene
from tests.faults.soak.upkeep import Upkeep
from tests.faults.soak.watch import Watch
from tests.kit.running import wait_until

Record = dict[str, Any]

GROUP = 5  # faults between two looks of the checker, for which the sales have to stop


def soak(
    folder: Path,
    seed: int,
    faults: int,
    seconds: float = float("inf"),
    kinds: Sequence[str] = tuple(KINDS),
    say: Callable[[Record], None] = lambda record: None,
    *,
    group: int = GROUP,
    watched: bool = False,
    stage: type[Scene] = Scene,
) -> list[Record]:
    """So many faults, or as many as begin within the seconds. Ends at once where the checker finds anything wrong.

    Watched, the job has the settings that are shipped, its tables are looked after, and it is looked at each minute.

    Kinds and moments come from the seed; what the job was about in that moment does not, so a fault that found
    something is tried again by its kind (`--only`), more often than once.
    """
    records: list[Record] = []
    over = time.monotonic() + seconds

    def tell(record: Record) -> None:
        records.append(record | {"at": datetime.now(timezone.utc).isoformat(timespec="milliseconds"), "seed": seed})
        say(records[-1])

    moments = Random(seed)
    drawn = _drawn(kinds, moments)
    with contextlib.ExitStack() as left:
        scene = left.enter_context(stage(folder, moments, as_shipped=watched).set())
        look = left.enter_context(_watching(scene, tell)) if watched else lambda: None
        number = 0
        while number < faults and time.monotonic() < over:
            kind = ""
            try:
                with scene.sales():
                    wait_until(lambda: scene.job.committed() > 0, "the first facts")
                    scene.recovered()  # a job that has read nothing yet is broken by the kinds that say so
                    for _ in range(min(group, faults - number)):
                        number, kind = number + 1, next(drawn)
                        tell(_fault(scene, number, kind))
                        look()
                        if time.monotonic() > over:
                            break
                tell(_check(scene))
            except AssertionError as error:  # the job did not recover
                tell({"check": True, "ok": False, "wrong": [f"fault {number}, {kind}: {error}"], "messages": 0})
            if not records[-1]["ok"]:
                break
    return records


@contextlib.contextmanager
def _watching(scene: Scene, tell: Callable[[Record], None]) -> Iterator[Callable[[], None]]:
    with scene.sales():
        wait_until(lambda: scene.job.committed() > 0, "the first facts")
    upkeep, watch = Upkeep(scene.job), Watch(scene)

    def look() -> None:
        upkeep.go_on()
        if watch.is_due:
            tell({**watch.look(), "maintained": list(upkeep.ended)})

    look()
    try:
        yield look
    finally:
        upkeep.close()


def _drawn(kinds: Sequence[str], moments: Random) -> Iterator[str]:
    """Each kind once a round, in another order each time."""
    while True:
        yield from moments.sample(list(kinds), len(kinds))


def _fault(scene: Scene, number: int, kind: str) -> Record:
    scene.wait(0, 1.5)
    scene.ended.clear()
    before, began = scene.algorithms, time.monotonic()
    without = {**KINDS, **OF_LEADERS}[kind](scene)  # seconds until it went on, before anything was mended
    lasted = time.monotonic() - began
    recovery = max(scene.recovered(), without or 0.0)
    return {
        "fault": number, "kind": kind, "algorithm": before, "algorithm_after": scene.algorithms,
        "lasted": round(lasted, 2), "recovery": round(recovery, 2), "ended": list(scene.ended),
    }  # fmt: skip


def _check(scene: Scene) -> Record:
    """All that was sent is there, and nothing else."""
    scene.recovered()
    verdict, sent = scene.verdict(), scene.sent()
    wrong = [f"{check.name}: {check.found}" for check in verdict.failed]
    if scene.acknowledged > sent:
        wrong.append(f"messages acknowledged by the broker: {scene.acknowledged}, there are {sent}")
    return {"check": True, "ok": not wrong, "wrong": wrong, "messages": sent, "acknowledged": scene.acknowledged}


def read(path: Path) -> list[Record]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def append(path: Path, record: Record) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")
