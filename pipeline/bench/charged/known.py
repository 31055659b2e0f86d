"""What a point may name: joins with their settings, machines, data, curves."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, fields
from typing import Any

import msgspec

from pipeline import joins
from pipeline.bench.charged.curves import CURVES
from pipeline.bench.charged.machines import ACCOUNTINGS, MACHINES
from pipeline.bench.point.points import Point
from pipeline.joins.cost.accounting import AS_MEASURED, Accounting, AsPublished


def check(point: Point) -> None:
    """Refuse what names something that is not there, by a ValueError."""
    one_of("machine", point.machine, MACHINES)
    _ = point.data, accounting(point)
    if point.curve:
        one_of("curve", point.curve.of, CURVES)
    if point.join:
        try:
            joins.recipe(point.join)
        except KeyError:
            raise ValueError(
                f"there is no join {point.join!r}, but {', '.join(joins.JOINS)}, and 'front stage + ...'"
            ) from None
        settings(point)
    _ = point.memory_bytes, point.pool_bytes


def accounting(point: Point) -> Accounting:
    """How its memory is counted."""
    if point.accounting == "as measured":
        return AS_MEASURED
    of_the_paper = ACCOUNTINGS[point.machine]
    if isinstance(point.accounting, str):
        return of_the_paper
    for name in point.accounting:
        one_of("part of an accounting", name, [field.name for field in fields(of_the_paper)])
    return msgspec.convert(asdict(of_the_paper) | point.accounting, AsPublished)


def one_of(kind: str, name: str, names: Collection[str]) -> None:
    if name not in names:
        raise ValueError(f"there is no {kind} {name!r}, but {', '.join(names)}")


def settings(point: Point) -> dict[str, Any]:
    """Of the join, or of its front stage if it has one; a table with another algorithm's name holds that one's.

    >>> settings(Point(machine="", R={"rows": 9}, join="meshjoin", settings={"published": True}, buffer=480))
    {'meshjoin': Settings(b=4, w=0, k=0, published=True)}
    >>> sorted(settings(Point(machine="", R={"rows": 9}, join="cmeshjoin", settings={"h_R": 5}, buffer=480)))
    ['cmeshjoin', 'meshjoin']
    """
    recipe = joins.recipe(point.join)
    given: dict[str, dict[str, Any]] = {}
    for key, value in point.settings.items():
        if key in joins.ALGORITHMS:
            given.setdefault(key, {}).update(value)
        else:
            given.setdefault(recipe.front or recipe.main.name, {})[key] = value
    if point.buffer_rows:
        main = recipe.main
        sizes = [name for name in ("b", "d") if hasattr(main.Settings(), name)]
        if not sizes:
            raise ValueError(f"buffer = {point.buffer}, and {point.join} has no disk buffer whose size can be set")
        given.setdefault(main.name, {})[sizes[0]] = point.buffer_rows
    made: dict[str, Any] = {}
    for name, values in given.items():
        try:
            made[name] = _made(joins.ALGORITHMS[name].Settings, values)
        except (ValueError, msgspec.ValidationError) as wrong:
            raise ValueError(f"settings of {name}: {wrong}") from None
    return made


def _made(kind: type, values: Mapping[str, Any]) -> Any:
    known = [field.name for field in fields(kind)]
    if unknown := sorted(set(values) - set(known)):
        raise ValueError(f"{', '.join(unknown)} unknown; there are {', '.join(known)}")
    return msgspec.convert(values, kind)
