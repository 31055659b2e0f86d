"""The file of unit costs: what `millrace calibrate` measured on the user's own database, a section a dimension."""

from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from pipeline.config import toml
from pipeline.errors import BadSetting
from pipeline.joins.cost.unit_costs import Line, UnitCosts


def load(file: str) -> dict[str, UnitCosts]:
    """The measured costs by dimension; none if there is no such file."""
    path = Path(file)
    if not file or not path.is_file():
        return {}
    try:
        sections = toml.loads(path.read_text("utf-8"))
        return {name: _costs(section) for name, section in sections.items() if isinstance(section, dict)}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadSetting(
            f"master.costs = {file} is no file of unit costs: {error}. Write it anew with `millrace calibrate`, "
            "or remove it to go by the built-in costs."
        ) from error


def save(file: str, measured: dict[str, UnitCosts], remark: str) -> None:
    """Write these sections; those of other dimensions stay."""
    known = load(file) | measured
    tables = {
        name: {unit: _plain(value) for unit, value in asdict(costs).items() if value is not None}
        for name, costs in sorted(known.items())
    }
    remarks = f"# {remark}\n# Seconds: [for a request, for each row or key of it], or for one operation.\n\n"
    path = Path(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(remarks + toml.written(tables), "utf-8")


def _plain(value: Any) -> Any:
    """A number, a line's two numbers, or a table by a join's name; as exact as they were measured."""
    if isinstance(value, float):
        return float(f"{value:.3e}")
    if isinstance(value, dict):
        return [_plain(value["request"]), _plain(value["item"])]
    return {name: _plain(seconds) for name, seconds in value}


def _costs(section: dict[str, Any]) -> UnitCosts:
    known = {field.name for field in fields(UnitCosts)}
    if unknown := set(section) - known - _NO_LONGER:
        raise KeyError(f"unknown cost {', '.join(sorted(unknown))}; known: {', '.join(sorted(known))}")
    values: dict[str, Any] = {}
    for name, value in section.items():
        if name in _NO_LONGER:
            continue
        if name == "loops":
            values[name] = tuple((join, float(seconds)) for join, seconds in value.items())
        elif isinstance(getattr(_BUILT_IN, name), Line):
            request, item = value
            values[name] = Line(float(request), float(item))
        else:
            values[name] = float(value)
    return UnitCosts(**values)


_BUILT_IN = UnitCosts()
_NO_LONGER = {"c_W"}  # measured by an older version
