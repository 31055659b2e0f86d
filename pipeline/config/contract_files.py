"""What is read out of a contract file, and refused with the file's name if it is of the wrong form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.config.toml import loads
from pipeline.errors import BadContract


@dataclass(frozen=True)
class Validity:
    """From when on and until when a master row counts, and which time of a sale asks for it."""

    begins: str  # attributes, of type timestamp
    ends: str
    at: str  # a field of the sale


def texts(document: dict[str, Any], path: Path, key: str) -> tuple[str, ...]:
    found = document.get(key, [])
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise BadContract(f"{path}: `{key}` = {found!r} must be a list of names.")
    return tuple(found)


def refuse_twice(names: Sequence[str], path: Path) -> None:
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise BadContract(f"{path}: {', '.join(twice)} comes twice; every column needs a name of its own.")


def toml(path: Path) -> dict[str, Any]:
    try:
        return loads(path.read_text("utf-8"))
    except ValueError as error:
        raise BadContract(f"{path}: not TOML ({error}).") from error


def text(document: dict[str, Any], path: Path, key: str) -> str:
    if not isinstance(document.get(key), str):
        raise BadContract(f"{path}: `{key}` is missing; it must be a string.")
    return str(document[key])


def tables(document: dict[str, Any], path: Path, key: str) -> Sequence[dict[str, str]]:
    found = document.get(key)
    if not isinstance(found, list) or not found:
        raise BadContract(f"{path}: at least one [[{key}]] is needed.")
    needed = {"natural_key": {"column", "field", "type"}, "column": {"name", "type", "from"}}[key]
    for table in found:
        if not isinstance(table, dict):
            raise BadContract(f"{path}: {table!r} must be a table, [[{key}]].")
        if missing := needed - table.keys():
            raise BadContract(f"{path}: a [[{key}]] lacks {', '.join(sorted(missing))}: {table}.")
        if wrong := [name for name, value in table.items() if not isinstance(value, str)]:
            raise BadContract(f"{path}: {wrong[0]} = {table[wrong[0]]!r} in a [[{key}]] must be a text.")
    return found


def validity_of(document: dict[str, Any], path: Path) -> Validity | None:
    """The table [validity] of a dimension, if it has one."""
    found = document.get("validity")
    if found is None:
        return None
    if not isinstance(found, dict) or found.keys() != {"from", "to", "at"} or not all(map(_is_text, found.values())):
        raise BadContract(
            f"{path}: `validity` = {found!r} must name two of the attributes and a field of the sale: "
            f'{{from = "valid_from", to = "valid_to", at = "sold_at"}}.'
        )
    attributes = document.get("attributes", {})
    for column in (found["from"], found["to"]):
        if attributes.get(column) != "timestamp":
            raise BadContract(
                f"{path}: `validity` names {column}, which is {attributes.get(column, 'no attribute')!r}. Add it to "
                f'[attributes]: {column} = "timestamp".'
            )
    return Validity(found["from"], found["to"], found["at"])


def _is_text(value: object) -> bool:
    return isinstance(value, str)
