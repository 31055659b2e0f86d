"""Reads a tree of frozen dataclasses from TOML, environment and command line, and says exactly what is wrong."""

from __future__ import annotations

import dataclasses
import difflib
import re
import sys
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pipeline.errors import BadSetting

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PREFIX = "MILLRACE_"
T = TypeVar("T")


class Bytes(int):
    """A size: a number of bytes, or text such as `64 MiB`.

    >>> int(Bytes.parse("1.5 KiB")), str(Bytes(64 << 20))
    (1536, '64 MiB')
    """

    @classmethod
    def parse(cls, text: str) -> Bytes:
        return cls(_measure(text, _SIZES))

    def __str__(self) -> str:
        for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
            if self and self % size == 0:
                return f"{self // size} {unit}"
        return f"{int(self)} B"


class Seconds(float):
    """A duration: a number of seconds, or text such as `500 ms`, `2 s`, `5 min`.

    >>> float(Seconds.parse("5 min"))
    300.0
    """

    @classmethod
    def parse(cls, text: str) -> Seconds:
        return cls(_measure(text, _DURATIONS))

    def __str__(self) -> str:
        return f"{self:g} s"


class Secret(str):
    """A text that is never printed."""

    def __repr__(self) -> str:
        return "'***'" if self else "''"


_SIZES = {"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "kb": 10**3, "mb": 10**6, "gb": 10**9}
_DURATIONS = {"": 1.0, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}


def _measure(text: str, units: Mapping[str, float]) -> float:
    number = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]*)", text.strip())
    if not number or number[2].lower() not in units:
        raise ValueError(text)
    return float(number[1]) * units[number[2].lower()]


@dataclasses.dataclass(frozen=True)
class _Given:
    """A value and where it was given, for the error message."""

    value: Any
    origin: str


def load_tree(
    tree: type[T], file: Path | None, environment: Mapping[str, str], assignments: list[str]
) -> tuple[T, dict[str, str]]:
    """The settings, and for every key that was given where it came from."""
    given: dict[str, _Given] = {}
    if file is not None:
        _flatten(_read_toml(file), (), str(file), given, tree)
    for name, text in sorted(environment.items()):
        if name.startswith(PREFIX) and "__" in name:
            path = name[len(PREFIX) :].lower().replace("__", ".")
            given[path] = _Given(text, f"environment variable {name}")
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        if not equals:
            raise BadSetting(f"--set {assignment}: needs the form key=value, for example --set kafka.topics=sales.")
        given[path.strip()] = _Given(text, f"--set {path.strip()}")
    built = _build(tree, "", given)
    if unknown := given.keys() - built[1]:
        _refuse_unknown(sorted(unknown)[0], given, tree)
    return built[0], {path: g.origin for path, g in given.items()}


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError as error:
        raise BadSetting(f"settings file {file} does not exist. Name one that does, or leave --config out.") from error
    except ValueError as error:
        raise BadSetting(f"settings file {file} is not TOML: {error}.") from error


def _flatten(table: Any, path: tuple[str, ...], origin: str, into: dict[str, _Given], tree: Any) -> None:
    """TOML tables to dotted paths, as deep as the settings tree goes; what lies below stays one value."""
    if isinstance(table, dict) and (dataclasses.is_dataclass(tree) or _is_table_of_trees(tree)):
        for key, value in table.items():
            _flatten(value, (*path, key), origin, into, _child(tree, key))
        if not table and path:
            into[".".join(path)] = _Given({}, origin)
    elif path:
        into[".".join(path)] = _Given(table, origin)


def _child(tree: Any, key: str) -> Any:
    if _is_table_of_trees(tree):
        return typing.get_args(tree)[1]
    return typing.get_type_hints(tree).get(key) if dataclasses.is_dataclass(tree) else None


def _is_table_of_trees(kind: Any) -> bool:
    return typing.get_origin(kind) is dict and dataclasses.is_dataclass(typing.get_args(kind)[1])


def _build(tree: Any, path: str, given: Mapping[str, _Given]) -> tuple[Any, set[str]]:
    """An instance of `tree` from what was given below `path`, and the paths that were used."""
    values: dict[str, Any] = {}
    used: set[str] = set()
    hints = typing.get_type_hints(tree)
    for field in dataclasses.fields(tree):
        here, kind = f"{path}{field.name}", hints[field.name]
        if dataclasses.is_dataclass(kind):
            values[field.name], deeper = _build(kind, f"{here}.", given)
            used |= deeper
        elif _is_table_of_trees(kind):
            entries = {
                name: _build(typing.get_args(kind)[1], f"{here}.{name}.", given) for name in _names(field, here, given)
            }
            values[field.name] = {name: entry for name, (entry, _) in entries.items()}
            used |= {p for _, paths in entries.values() for p in paths}
            used |= {p for p in given if p == here or p in {f"{here}.{name}" for name in entries}}
        elif typing.get_origin(kind) is dict:
            below = {p: g for p, g in given.items() if p == here or p.startswith(f"{here}.")}
            used |= below.keys()
            if below:
                values[field.name] = _string_table(here, below)
        elif here in given:
            values[field.name] = _convert(here, given[here], kind)
            used.add(here)
    try:
        return tree(**values), used
    except BadSetting as error:
        origins = sorted({given[p].origin for p in used})
        raise BadSetting(f"{error} Given in: {', '.join(origins) or 'the defaults'}.") from error


def _names(field: dataclasses.Field[Any], here: str, given: Mapping[str, _Given]) -> list[str]:
    """The entries of a table of trees. A file that names any names all; environment and command line only add."""
    below = {p: g for p, g in given.items() if p.startswith(f"{here}.") or p == here}
    in_file = [p for p, g in below.items() if not g.origin.startswith(("environment", "--set"))]
    defaults = (
        [] if in_file or not callable(field.default_factory) else [f"{here}.{n}" for n in field.default_factory()]
    )
    return list(dict.fromkeys(p[len(here) + 1 :].split(".")[0] for p in [*defaults, *below] if p != here))


def _string_table(path: str, below: Mapping[str, _Given]) -> dict[str, str]:
    table: dict[str, str] = {}
    for p, given in below.items():
        if p != path:
            table[p[len(path) + 1 :]] = str(given.value)
        elif isinstance(given.value, dict):
            table |= {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in _dotted(given.value).items()}
        else:
            raise BadSetting(f"{given.origin}: {path} = {given.value!r} must be a table of texts.")
    return table


def _dotted(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """`security.protocol = "SSL"` in TOML is a nested table; these keys are flat names with dots."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= _dotted(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def _convert(path: str, given: _Given, kind: Any) -> Any:
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


def _refuse_unknown(path: str, given: Mapping[str, _Given], tree: Any) -> None:
    known = list(known_paths(tree))
    close = difflib.get_close_matches(path, known, n=1)
    hint = f"Did you mean {close[0]}?" if close else f"Known: {', '.join(known)}."
    raise BadSetting(f"{given[path].origin}: {path} is not a setting. {hint}")


def known_paths(tree: Any, prefix: str = "") -> typing.Iterator[str]:
    """Every dotted key of the tree; a dimension's name stands as <name>."""
    hints = typing.get_type_hints(tree)
    for field in dataclasses.fields(tree):
        kind = hints[field.name]
        if dataclasses.is_dataclass(kind):
            yield from known_paths(kind, f"{prefix}{field.name}.")
        elif _is_table_of_trees(kind):
            yield from known_paths(typing.get_args(kind)[1], f"{prefix}{field.name}.<name>.")
        else:
            yield f"{prefix}{field.name}"
