"""Experiments are run point by point; each is kept when it is done, and not run again."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from pipeline.bench.definition.experiment import Experiment, Place, places_and_points
from pipeline.bench.point.points import Point
from pipeline.bench.point.target import Target
from pipeline.bench.running import results, search
from pipeline.bench.running.results import PointResult, Repeat, Result, Store

Advance = Callable[[str, int], None]  # what is run next, and how many runs are done by that


def run(chosen: Sequence[Experiment], target: Target, store: Store, again: bool = False) -> None:
    """Whatever is missing of these experiments; with `again` all of it."""
    done = {} if again else store.repeats()
    with _progress(sum(len(_planned(experiment)) for experiment in chosen)) as advance:
        for experiment in chosen:
            _run(experiment, target, store, done, again, advance)


def _run(
    experiment: Experiment,
    target: Target,
    store: Store,
    done: dict[tuple[str, int], Repeat],
    again: bool,
    advance: Advance,
) -> None:
    old = store.load(experiment.name)
    result = Result(
        experiment=experiment.name,
        target=target.name,
        tells=target.tells,
        host=results.host(dict(target.versions())),
        points=old.points if old else [],
    )
    planned = _planned(experiment)
    _forget_others(result, planned)
    for place, point, seed in planned:
        here = _entry(result, place, point)
        if again and seed == 1:
            here.repeats = []
        if all(repeat.seed != seed for repeat in here.repeats):
            advance(_told(experiment, place, seed), 0)
            repeat = done.get((point.definition, seed)) or _once(point, seed, target)
            done[point.definition, seed] = repeat
            here.repeats.append(repeat)
            results.summed_up(experiment, here)
            store.save(result)
        advance("", 1)
    for here in result.points:
        results.summed_up(experiment, here)
    store.save(result)


def _planned(experiment: Experiment) -> list[tuple[Place, Point, int]]:
    return [
        (place, point, seed)
        for place, point in places_and_points(experiment)
        if experiment.series[place.series].by == "operator"
        for seed in experiment.seeds_of(place.series)
    ]


def _once(point: Point, seed: int, target: Target) -> Repeat:
    began = time.monotonic()
    if point.search:
        measured = search.found(point, lambda sized: target.measure(sized, seed))
    else:
        measured = target.measure(point, seed)
    took = round(time.monotonic() - began, 3)
    return Repeat(seed=seed, date=results.now(), commit=results.commit(), took=took, measured=measured)


def _entry(result: Result, place: Place, point: Point) -> PointResult:
    here = result.at(place)
    if here is None or here.definition != point.definition:
        if here:
            result.points.remove(here)
        here = PointResult(series=place.series, x=place.x, z=place.z, definition=point.definition, point=point)
        result.points.append(here)
    return here


def _forget_others(result: Result, planned: list[tuple[Place, Point, int]]) -> None:
    """Points that the experiment has no more."""
    wanted = {(place.series, place.x, place.z) for place, _, _ in planned}
    result.points = [point for point in result.points if (point.series, point.x, point.z) in wanted]


def _told(experiment: Experiment, place: Place, seed: int) -> str:
    of_z = f", {experiment.z.say(place.z)}" if experiment.z and place.z is not None else ""
    return f"{experiment.name}: {place.series}{of_z}, {experiment.x.name} {place.x:g}, seed {seed}"


@contextmanager
def _progress(total: int) -> Iterator[Advance]:
    """On a terminal a bar with what is left; elsewhere a line for each run."""
    console = Console(stderr=True)
    if not console.is_terminal:
        count = 0

        def line(told: str, runs: int) -> None:
            nonlocal count
            count += runs
            if told:
                print(f"{count + 1} of {total}: {told}", file=sys.stderr, flush=True)

        yield line
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.description}", markup=False), console=console) as bar:
        task = bar.add_task("", total=total)

        def draw(told: str, runs: int) -> None:
            bar.update(task, advance=runs, description=told or None)

        yield draw
