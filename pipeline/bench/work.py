"""What `millrace bench run` does: choose experiments and a target, and see to it that the target ends."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from pipeline.bench.charged.target import Charged
from pipeline.bench.definition.experiment import Experiment, reduced
from pipeline.bench.definition.files import experiments
from pipeline.bench.point.target import Target
from pipeline.bench.running.results import Store
from pipeline.bench.running.running import run
from pipeline.bench.server.target import OnServer
from pipeline.config.settings import MasterData
from pipeline.errors import BadSetting

# What is made of the server that was given, if one was.
TARGETS: Mapping[str, Callable[[MasterData | None], Target]] = {"charged": lambda _: Charged(), "mysql": OnServer}


def work(
    names: Sequence[str], master: str, folder: Path | None, smoke: bool, again: bool, server: MasterData | None = None
) -> Path:
    """Run them; say where the results are. Without a folder: a new one."""
    if master not in TARGETS:
        raise BadSetting(f"--master {master}: there is {', '.join(TARGETS)}.")
    runnable = [
        reduced(experiment, experiment.smoke) if smoke else at
        for experiment in chosen(experiments(), names)
        if (at := for_target(experiment, master))
    ]
    if not runnable:
        raise BadSetting(f"None of {', '.join(names)} has sizes for --master {master}.")
    place = folder or Path(tempfile.mkdtemp(prefix="millrace-bench-"))
    target = TARGETS[master](server)
    try:
        run(runnable, target, Store(place, target.name), again)
    finally:
        target.close()
    return place


def chosen(all_of_them: Mapping[str, Experiment], names: Sequence[str]) -> list[Experiment]:
    """Those that one of the names, or patterns, means; a paper's name means all of its figures."""
    for name in names:
        if not any(_means(name, key) for key in all_of_them):
            raise BadSetting(f"{name}: there is no such experiment. There are {', '.join(all_of_them)}.")
    return [experiment for key, experiment in all_of_them.items() if any(_means(name, key) for name in names)]


def for_target(experiment: Experiment, master: str) -> Experiment | None:
    """With the sizes that hold there; None: it is not for there."""
    if master == "charged":
        return experiment
    return reduced(experiment, experiment.mysql) if experiment.mysql else None


def _means(name: str, experiment: str) -> bool:
    return fnmatchcase(experiment, name) or fnmatchcase(experiment.partition("/")[0], name)
