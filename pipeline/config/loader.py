"""Reads a tree of frozen dataclasses from TOML, environment and command line, and says exactly what is wrong."""

from __future__ import annotations

import dataclasses
import difflib
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pipeline.config.measures import Place
from pipeline.config.sources import Given, Sources, read
from pipeline.config.values import converted, string_table
from pipeline.errors import BadSetting

T = TypeVar("T")


class OtherTables(dict[str, dict[str, Given]]):
    """The tables beside a section's own settings, as they were given: whoever knows their names reads them."""


def load_tree(tree: type[T], file: Path | None, environment: Mapping[str, str], assignments: Sequence[str]) -> T:
    """The settings out of everything that was given."""
    known = list(known_paths(tree))
    sources = read(file, environment, assignments, lambda path: _is_table(tree, path), known)
    built, used = _build(tree, "", sources)
    if unknown := sources.given.keys() - used:
        path = min(unknown)
        close = difflib.get_close_matches(path, known, n=1)
        hint = f"Did you mean {close[0]}?" if close else f"Known: {', '.join(known)}."
        raise BadSetting(f"{sources.given[path].origin}: {path} is not a setting. {hint}")
    return typing.cast(T, built)


def _is_table(tree: Any, path: tuple[str, ...]) -> bool:
    """Whether what lies at this path has settings of its own; the user's free names have none."""
    for key in path:
        if _takes_other_tables(tree) and key not in {field.name for field in dataclasses.fields(tree)}:
            return True
        if _is_table_of_trees(tree):
            tree = typing.get_args(tree)[1]
        else:
            tree = typing.get_type_hints(tree).get(key) if dataclasses.is_dataclass(tree) else None
    return dataclasses.is_dataclass(tree) or _is_table_of_trees(tree)


def _takes_other_tables(tree: Any) -> bool:
    return dataclasses.is_dataclass(tree) and OtherTables in typing.get_type_hints(tree).values()


def _is_table_of_trees(kind: Any) -> bool:
    return typing.get_origin(kind) is dict and dataclasses.is_dataclass(typing.get_args(kind)[1])


def _build(tree: Any, path: str, sources: Sources) -> tuple[Any, set[str]]:
    """An instance of `tree` from what was given below `path`, and the paths that were used."""
    values: dict[str, Any] = {}
    given, used = sources.given, set[str]()
    hints = typing.get_type_hints(tree)
    for field in dataclasses.fields(tree):
        here, kind = f"{path}{field.name}", hints[field.name]
        if kind is OtherTables:
            own = [f"{path}{other.name}" for other in dataclasses.fields(tree)]
            values[field.name], deeper = _other_tables(path, own, given)
            used |= deeper
        elif dataclasses.is_dataclass(kind):
            values[field.name], deeper = _build(kind, f"{here}.", sources)
            used |= deeper | _plain_table(here, given)
        elif _is_table_of_trees(kind):
            values[field.name] = {}
            used |= _plain_table(here, given)
            for name in _names(field, here, sources):
                entry, deeper = _build(typing.get_args(kind)[1], f"{here}.{name}.", sources)
                values[field.name][name] = entry
                used |= deeper | _plain_table(f"{here}.{name}", given)
        elif typing.get_origin(kind) is dict:
            below = {p: g for p, g in given.items() if p == here or p.startswith(f"{here}.")}
            used |= below.keys()
            if below:
                values[field.name] = string_table(here, below)
        elif here in given:
            values[field.name] = converted(here, given[here], kind)
            used.add(here)
        elif kind is Place:
            values[field.name] = Place(field.default).below(sources.folder)
    try:
        return tree(**values), used
    except BadSetting as error:
        # A section knows its own name, but not that of a dimension.
        prefix = "" if error.about and error.about[0].startswith(path) else path
        about = {f"{prefix}{key}" for key in error.about}
        origins = sorted({given[p].origin for p in given.keys() & about})
        raise BadSetting(f"{prefix}{error} Given in: {', '.join(origins) or 'the defaults'}.") from error


def _plain_table(path: str, given: Mapping[str, Given]) -> set[str]:
    """A table that was named and is empty is fine; a value in its place is not."""
    if path in given and given[path].value != {}:
        raise BadSetting(f"{given[path].origin}: {path} = {given[path].value!r} must be a table: [{path}].")
    return {path} & given.keys()


def _other_tables(path: str, own: Sequence[str], given: Mapping[str, Given]) -> tuple[OtherTables, set[str]]:
    tables, used = OtherTables(), set[str]()
    for p, value in given.items():
        table, dot, key = p.removeprefix(path).partition(".")
        if not p.startswith(path) or f"{path}{table}" in own or not (dot or value.value == {}):
            continue
        of_table = tables.setdefault(table.replace("_", "-"), {})  # a variable's name has no hyphen
        if dot:
            of_table[key] = value
        used.add(p)
    return tables, used


def read_table(kind: type[T], path: str, given: Mapping[str, Given]) -> T:
    """A frozen class of settings out of one of the other tables."""
    sources = Sources(None, {f"{path}.{key}": value for key, value in given.items()})
    known = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    for key, value in given.items():
        if key not in known:
            raise BadSetting(f"{value.origin}: {path}.{key} is not a setting. It has: {', '.join(known) or 'none'}.")
    return typing.cast(T, _build(kind, f"{path}.", sources)[0])


def _names(field: dataclasses.Field[Any], here: str, sources: Sources) -> list[str]:
    """The entries of a table of trees: the file's, if it names any; else those that environment and command line name.

    If these name only some that are there by default, they change those. What changes an entry never adds one.
    """
    depth = here.count(".") + 1

    def named(paths: typing.Iterable[str]) -> list[str]:
        return list(dict.fromkeys(p.split(".")[depth] for p in paths if p.startswith(f"{here}.")))

    in_file = named(sources.in_file)
    beside = {name: p for p in sources.given if p not in sources.in_file for name in named([p])}
    if in_file:
        in_file.sort(key=list(named(sources.given)).index)
        for name, path in beside.items():
            if name not in in_file:
                close = difflib.get_close_matches(name, in_file, n=1)
                raise BadSetting(
                    f"{sources.given[path].origin}: there is no {here}.{name} to be changed. {sources.file} names "
                    f"{', '.join(in_file)}. {f'Did you mean {close[0]}? ' if close else ''}"
                    f"A file that names any names them all: add [{here}.{name}] to it."
                )
        return in_file
    assert callable(field.default_factory)
    defaults = list(field.default_factory())
    return defaults if set(beside) <= set(defaults) else list(beside)


def known_paths(tree: Any, prefix: str = "") -> typing.Iterator[str]:
    """Every dotted key of the tree; a dimension's name stands as <name>."""
    hints = typing.get_type_hints(tree)
    for field in dataclasses.fields(tree):
        kind = hints[field.name]
        if kind is OtherTables:
            continue
        if dataclasses.is_dataclass(kind):
            yield from known_paths(kind, f"{prefix}{field.name}.")
        elif _is_table_of_trees(kind):
            yield from known_paths(typing.get_args(kind)[1], f"{prefix}{field.name}.<name>.")
        else:
            yield f"{prefix}{field.name}"
