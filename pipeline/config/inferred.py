"""Inferred members: placeholder rows in the master for keys that sales named and it lacks. Off unless the user says so:
the settings name who may insert them, a dimension's contract what stands in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.config.checks import need
from pipeline.config.measures import Place, Seconds
from pipeline.errors import BadContract

Value = str | int | float | bool


@dataclass(frozen=True)
class InferredSettings:
    user: str = ""
    password_file: Place = Place("")
    after: Seconds = Seconds(86_400)
    rows_per_minute: int = 600

    def __post_init__(self) -> None:
        need(self.after >= 0, "inferred.after", self.after, "a duration such as 1 d")
        most = self.rows_per_minute
        need(0 < most <= 60_000, "inferred.rows_per_minute", most, "from 1 to 60000 rows a minute")
        ok = not self.user or bool(self.password_file)
        need(ok, "inferred.password_file", "", "a file with the password of inferred.user", "inferred.user")


def inferred_of(document: dict[str, Any], path: Path, not_theirs: Sequence[str]) -> dict[str, Value] | None:
    """The table [inferred] of a dimension, if it has one: columns of the master table, and what a placeholder row has
    in them. `not_theirs`: columns that the sale or the server fills."""
    found = document.get("inferred")
    if found is None:
        return None
    if not isinstance(found, dict) or not all(isinstance(value, (str, int, float)) for value in found.values()):
        raise BadContract(
            f'{path}: `inferred` = {found!r} must be a table of columns and plain values: name = "not known yet".'
        )
    if wrong := [name for name in found if name.lower() in {other.lower() for other in not_theirs}]:
        raise BadContract(
            f"{path}: [inferred] names {wrong[0]}: the natural key comes from the sale, and the surrogate key from the "
            f"server. Leave it out."
        )
    return found
