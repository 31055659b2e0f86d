"""Raw results: one JSON file an experiment and target, complete after every run, so that one can go on from there."""

from __future__ import annotations

import math
import os
import platform
import subprocess
from datetime import datetime, timezone
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

import msgspec
import numpy as np

from pipeline import __version__
from pipeline.bench.definition.experiment import Experiment, Place, Shown
from pipeline.bench.point.points import Point
from pipeline.bench.point.target import Measured
from pipeline.errors import BadSetting

_PACKAGES = ("numpy", "numba", "pyarrow")
# Student's t for 95 %, by degrees of freedom; beyond, that of the normal law.
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
_T_BEYOND = 1.960


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """Where and by what."""

    cpu: str
    cores: int
    system: str
    versions: dict[str, str]


class Repeat(msgspec.Struct, kw_only=True):
    """One run of a point."""

    seed: int
    date: str
    commit: str
    took: float  # seconds of this machine
    measured: Measured


class PointResult(msgspec.Struct, kw_only=True):
    series: str
    x: float
    z: float | None
    definition: str
    point: Point
    mean: float | None = None  # of what the figure shows
    interval: float | None = None  # 95 %: so much less or more
    repeats: list[Repeat] = []


class Result(msgspec.Struct, kw_only=True):
    experiment: str
    target: str
    tells: str
    host: Host
    points: list[PointResult] = []

    def at(self, place: Place) -> PointResult | None:
        return next((each for each in self.points if (each.series, each.x, each.z) == _key(place)), None)


class Store:
    """The raw results of a folder."""

    def __init__(self, folder: Path, target: str) -> None:
        self.folder, self.target = folder, target

    def file(self, name: str) -> Path:
        return self.folder / f"{name}.{self.target}.json"

    def load(self, name: str) -> Result | None:
        file = self.file(name)
        if not file.exists():
            return None
        try:
            return msgspec.json.decode(file.read_bytes(), type=Result)
        except msgspec.DecodeError as wrong:
            raise BadSetting(f"{file}: no raw results ({wrong}). Remove it; its points are run again.") from None

    def save(self, result: Result) -> None:
        """It is there as a whole or not at all."""
        file = self.file(result.experiment)
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_suffix(".partial")
        unfinished.write_bytes(_written(result))
        unfinished.replace(file)

    def repeats(self) -> dict[tuple[str, int], Repeat]:
        """Every run there is, by point and seed: figures share points."""
        found = {}
        for file in self.folder.glob(f"*/*.{self.target}.json"):
            result = self.load(str(file.relative_to(self.folder)).removesuffix(f".{self.target}.json"))
            for point in result.points if result else ():
                found.update({(point.definition, repeat.seed): repeat for repeat in point.repeats})
        return found


def shown(y: Shown, numbers: dict[str, float]) -> float | None:
    """What the figure has of measured numbers; None: they do not have it."""
    if y.of not in numbers or (y.per and not numbers.get(y.per)):
        return None
    return y.times * numbers[y.of] / (numbers[y.per] if y.per else 1.0)


def summed_up(experiment: Experiment, point: PointResult) -> None:
    """Mean and interval of what the figure shows."""
    values = [value for each in point.repeats if (value := shown(experiment.y, each.measured.numbers)) is not None]
    point.mean, point.interval = mean_and_interval(values)


def mean_and_interval(values: list[float]) -> tuple[float | None, float | None]:
    """The mean, and how far the true one is from it at most, 95 times in 100, by Student's t.

    >>> mean_and_interval([9.0, 10.0, 11.0])
    (10.0, 2.4843)
    >>> mean_and_interval([5.0]), mean_and_interval([])
    ((5.0, None), (None, None))
    """
    if not values:
        return None, None
    mean = float(np.mean(values))
    if len(values) == 1:
        return mean, None
    free = len(values) - 1
    t = _T[free - 1] if free <= len(_T) else _T_BEYOND
    interval = t * float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return mean, float(f"{interval:.5g}")


def host(target_versions: dict[str, str]) -> Host:
    """This machine, without its name."""
    words = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    names = [line.partition(":")[2].strip() for line in words.splitlines() if line.startswith("model name")]
    versions = {"millrace": __version__, "python": platform.python_version()}
    versions |= {package: version(package) for package in _PACKAGES}
    return Host(
        cpu=names[0] if names else platform.processor() or platform.machine(),
        cores=os.cpu_count() or 1,
        system=f"{platform.system()} {platform.release()}",
        versions=versions | target_versions,
    )


def now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")


@lru_cache
def commit() -> str:
    """Of the clone this runs in, with a + if its product has changed since; of an installed package, its version."""
    product = Path(__file__).parents[2]

    def git(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", *words], cwd=product, capture_output=True, text=True, check=False)

    try:
        said = git("log", "-1", "--format=%h", "--", ".")
        changed = git("diff", "--quiet", "HEAD", "--", ".").returncode
    except OSError:
        return __version__
    return said.stdout.strip() + "+" * bool(changed) if said.returncode == 0 else __version__


def _written(result: Result) -> bytes:
    """A line for each point: what changes is seen in a comparison of versions."""
    head = msgspec.json.encode(msgspec.structs.replace(result, points=[])).removesuffix(b"[]}")
    points = b",\n".join(map(msgspec.json.encode, result.points))
    return head.replace(b',"', b',\n"') + b"[\n" + points + b"\n]}\n"


def _key(place: Place) -> tuple[str, float, float | None]:
    return place.series, place.x, place.z
