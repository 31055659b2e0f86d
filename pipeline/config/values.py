"""What was given, as what a setting is: a number, a list, a size; or refused with what is needed."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from typing import Any

from pipeline.config.measures import Bytes, Place, Seconds, Secret
from pipeline.config.references import placed
from pipeline.config.sources import Given
from pipeline.errors import BadSetting


def string_table(path: str, below: Mapping[str, Given]) -> dict[str, str]:
    table: dict[str, str] = {}
    for p, given in below.items():
        if p != path:
            table[p[len(path) + 1 :]] = placed(str(given.value), given.folder)
        elif isinstance(given.value, dict):
            texts = {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in _dotted(given.value).items()}
            table |= {k: placed(text, given.folder) for k, text in texts.items()}
        else:
            raise BadSetting(f"{given.origin}: {path} = {given.value!r} must be a table of texts.")
    return table


def _dotted(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """`security.protocol = "SSL"` in TOML is a nested table; these keys are flat names with dots."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= _dotted(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def converted(path: str, given: Given, kind: Any) -> Any:
    value, text = given.value, str(given.value).strip()
    wrong = f"{given.origin}: {path} = {given.value!r}"
    if kind is bool:
        if isinstance(value, bool) or text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise BadSetting(f"{wrong} must be true or false.")
    if isinstance(value, (bool, dict)):
        raise BadSetting(f"{wrong} must be {_described(kind)}.")
    if kind in (Bytes, Seconds):
        try:
            return kind.parse(text)
        except ValueError as error:
            raise BadSetting(f"{wrong} must be {_described(kind)}.") from error
    if kind is int or kind is float:
        try:
            return kind(text)
        except ValueError as error:
            raise BadSetting(f"{wrong} must be {_described(kind)}.") from error
    if typing.get_origin(kind) is tuple:
        parts = value if isinstance(value, list) else [part.strip() for part in text.split(",") if part.strip()]
        if not all(isinstance(part, str) for part in parts):
            raise BadSetting(f"{wrong} must be {_described(kind)}.")
        return tuple(parts)
    if isinstance(value, list):
        raise BadSetting(f"{wrong} must be {_described(kind)}.")
    if kind is Place:
        return Place(value).below(given.folder)
    return kind(value) if kind is Secret else str(value)


def _described(kind: Any) -> str:
    if isinstance(kind, types.GenericAlias):
        return "a list of texts"
    return {
        Bytes: "a size such as 64 MiB",
        Seconds: "a duration such as 500 ms, 2 s or 5 min",
        int: "a whole number",
        float: "a number",
    }.get(kind, "a text")
