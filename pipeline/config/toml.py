"""TOML, read and written."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Tables = Mapping[str, Mapping[str, Any]]


def loads(text: str) -> dict[str, Any]:
    """A ValueError says what is not TOML."""
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def written(tables: Tables) -> str:
    """Tables of texts, numbers, lists and further tables, which stand in one line.

    >>> print(written({"kafka": {"topics": ["a", "b"]}, "an hour": {"line": [1e-06, 2], "of": {"h": 60}}}), end="")
    [kafka]
    topics = ["a", "b"]
    <BLANKLINE>
    ["an hour"]
    line = [1e-06, 2]
    of = {h = 60}
    """
    sections = (
        "\n".join([f"[{_key(name)}]", *(f"{_key(key)} = {_value(value)}" for key, value in table.items()), ""])
        for name, table in tables.items()
    )
    return "\n".join(sections)


def write_private(file: Path, remark: str, tables: Tables) -> None:
    """A file for this account alone: there may be passwords in it. It is there as a whole or not at all."""
    unfinished = file.with_suffix(".partial")
    unfinished.touch(mode=0o600)
    unfinished.write_text(f"# {remark}\n{written(tables)}", "utf-8")
    unfinished.replace(file)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(key)} = {_value(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_value, value))}]"
    # Else TOML writes as JSON does; but it knows no halves of a character, and escapes one more.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
