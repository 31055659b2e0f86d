"""The history of the master's rows: a table `dim_<name>` for each dimension, from a snapshot and the binary log.

    sync(plan, Wishes(), threading.Event(), print)

`dimension.py` takes one dimension through snapshot and log. `versions.py` says which versions a row has had,
`layout.py` which columns the table has, and `table.py` commits rows and position together: nothing is lost or doubled.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from pipeline.config.contracts import TableContract
from pipeline.config.measures import Seconds
from pipeline.errors import BadSetting
from pipeline.history.dimension import DimensionSync, layout_of
from pipeline.plan import Plan
from pipeline.watch.published import served
from pipeline.watch.sync import SyncMetrics

__all__ = ["Wishes", "chosen", "kept", "sync", "tables"]


@dataclass(frozen=True)
class Wishes:
    """What a sync is to do: as the command line says it."""

    dimensions: tuple[str, ...] = ()  # none: all that keep a history
    follow: bool = False
    every: Seconds = Seconds(10)


def tables(plan: Plan) -> list[TableContract]:
    """Those of the dimensions that keep a history."""
    return [layout_of(plan, name).table for name in kept(plan)]


def chosen(plan: Plan, wishes: Wishes) -> list[str]:
    """The dimensions that are to be kept up; refused is what cannot be."""
    able = kept(plan)
    if unknown := [name for name in wishes.dimensions if name not in able]:
        raise BadSetting(
            f"--dimension {unknown[0]}: no history is kept of it. Those that keep one: {', '.join(able) or 'none'}. "
            f'Set dimensions.{unknown[0]}.history = "type 2" (or "type 1").'
        )
    if not able:
        raise BadSetting(
            'no dimension keeps a history. Set dimensions.<name>.history = "type 2" (or "type 1") for those that shall.'
        )
    names = list(wishes.dimensions or able)
    if own := [name for name in names if plan.dimensions[name].validity]:
        raise BadSetting(
            f"dimensions.{own[0]}.history: {plan.dimensions[own[0]].table} keeps a row for each time itself, by its "
            f"contract's validity. Set it to off, and read the master's own rows."
        )
    return names


def sync(plan: Plan, wishes: Wishes, stop: threading.Event, say: Callable[[str], None]) -> None:
    """One dimension after the other up to the log's end; with `follow` side by side, until `stop` is set."""
    names = chosen(plan, wishes)
    metrics = SyncMetrics(names)
    syncs = [DimensionSync(plan, name, stop, say, metrics) for name in names]
    if not wishes.follow:
        for one in syncs:
            one.catch_up()
        return
    with served(metrics, plan.settings.metrics, "sync_port"):
        _follow(syncs, wishes.every, stop)


def _follow(syncs: list[DimensionSync], every: float, stop: threading.Event) -> None:
    failed: list[BaseException] = []

    def follow(one: DimensionSync) -> None:
        try:
            one.follow(every)
        except BaseException as error:  # noqa: BLE001 raised below, when the others have ended
            failed.append(error)
            stop.set()

    threads = [threading.Thread(target=follow, args=(one,), name=f"sync of {one.name}") for one in syncs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def kept(plan: Plan) -> list[str]:
    """The dimensions that have a history."""
    return [name for name, settings in plan.settings.dimensions.items() if settings.history != "off"]
