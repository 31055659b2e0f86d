"""What `millrace bench list` prints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from pipeline.bench.definition.experiment import Experiment, places_and_points
from pipeline.bench.running.results import Store
from pipeline.bench.work import for_target


def overview(experiments: Iterable[Experiment], folder: Path, target: str) -> Iterator[str]:
    """A line an experiment: its name, what is done of it, its title."""
    store = Store(folder, target)
    for experiment in experiments:
        here, result = for_target(experiment, target), store.load(experiment.name)
        wanted = done = 0
        for place, point in places_and_points(here) if here else ():
            if experiment.series[place.series].by == "operator":
                seeds = set(here.seeds_of(place.series)) if here else set()
                at = result.at(place) if result else None
                wanted += len(seeds)
                if at and at.definition == point.definition:
                    done += len(seeds & {repeat.seed for repeat in at.repeats})
        runs = f"{done} of {wanted} runs" if here else f"not for {target}"
        yield f"{experiment.name:42} {runs:>18}  {experiment.title}"
