"""Where settings are given: a TOML file, the environment, the command line. Each value with its origin."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.config import toml
from pipeline.errors import BadSetting

PREFIX = "MILLRACE_"
# What is asked of the environment beside the settings: by the command, by the scripts in deploy/, by the tests.
OTHERS = ("CONFIG", "CACHE", "DATABASE", "LOG", "MAVEN_REPOSITORY", "PYTHON")
_SCRIPTS = ("OWNER", "OWNER_PASSWORD_FILE", "SIZES", "SECRETS", "PICTURES")


@dataclass(frozen=True)
class Given:
    """A value, where it was given, and the folder that a relative path in it is below."""

    value: Any
    origin: str
    folder: Path


@dataclass
class Sources:
    """What was given, by dotted path. Where a path was given twice, the later one."""

    file: Path | None
    given: dict[str, Given] = field(default_factory=dict)
    in_file: set[str] = field(default_factory=set)  # the paths that the file has, overridden or not

    @property
    def folder(self) -> Path:
        """Below this the relative paths among the defaults are: they go with the file, if there is one."""
        return self.file.absolute().parent if self.file else Path.cwd()


IsTable = Callable[[tuple[str, ...]], bool]


def read(
    file: Path | None,
    environment: Mapping[str, str],
    assignments: Sequence[str],
    is_table: IsTable,
    known: Iterable[str],
) -> Sources:
    """All three; `is_table` tells from a path whether the tree goes on below it, `known` are the tree's own paths."""
    sources = Sources(file)
    if file is not None:
        _flatten(_toml(file), (), file, sources, is_table)
        sources.in_file = set(sources.given)
    here = Path.cwd()
    for name, text in sorted(environment.items()):
        if name.startswith(PREFIX) and "__" in name:
            path = name[len(PREFIX) :].lower().replace("__", ".")
            sources.given[path] = Given(text, f"environment variable {name}", here)
    refuse_unknown_variables(environment, known)
    for assignment in assignments:
        path, equals, text = (part.strip() for part in assignment.partition("="))
        if not equals:
            raise BadSetting(f"--set {assignment}: needs the form key=value, for example --set kafka.topics=sales.")
        sources.given[path] = Given(text, f"--set {path}", here)
    return sources


def refuse_unknown_variables(environment: Mapping[str, str], known: Iterable[str]) -> None:
    """A variable that is meant for us and does nothing is a slip, most often one underscore for two."""
    services = [name[: -len("_SERVICE_HOST")] for name in environment if name.endswith("_SERVICE_HOST")]
    paths = list(known)
    for name in sorted(environment):
        own = name[len(PREFIX) :]
        if not name.startswith(PREFIX) or "__" in own or own in OTHERS + _SCRIPTS:
            continue
        if any(re.match(rf"{re.escape(service)}_(SERVICE|PORT)(_|$)", name) for service in services):
            continue  # Kubernetes tells every container of the services beside it, one of which may be called millrace
        hint = _nearest_variable(own, paths)
        raise BadSetting(
            f"environment variable {name} is not known. {hint}A setting's parts are divided by two underscores, "
            f"such as {PREFIX}KAFKA__TOPICS; besides there are {', '.join(PREFIX + other for other in OTHERS)}."
        )


def _nearest_variable(name: str, paths: Sequence[str]) -> str:
    flat: dict[str, str] = {other: other for other in OTHERS}
    for path in paths:
        pattern = re.escape(path).replace("<name>", "(.+)").replace(r"\.", "_")
        if "<name>" in path and (found := re.fullmatch(pattern, name.lower())):
            path = path.replace("<name>", found[1])
        variable = path.upper().replace(".", "__")
        flat[variable.replace("__", "_")] = variable
    close = difflib.get_close_matches(name, flat, n=1)
    return f"Did you mean {PREFIX}{flat[close[0]]}? " if close else ""


def _toml(file: Path) -> dict[str, Any]:
    try:
        return toml.loads(file.read_text("utf-8"))
    except FileNotFoundError as error:
        raise BadSetting(f"settings file {file} does not exist. Name one that does, or leave --config out.") from error
    except OSError as error:
        raise BadSetting(f"settings file {file} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise BadSetting(f"settings file {file} is not TOML: {error}.") from error


def _flatten(table: Any, path: tuple[str, ...], file: Path, into: Sources, is_table: IsTable) -> None:
    """TOML tables to dotted paths, as deep as the settings tree goes; what lies below stays one value."""
    dotted = ".".join(path)
    if isinstance(table, dict) and is_table(path):
        for key, value in table.items():
            _flatten(value, (*path, key), file, into, is_table)
    if path and not (isinstance(table, dict) and table and is_table(path)):
        into.given[dotted] = Given(table, str(file), Path(os.path.abspath(file)).parent)
