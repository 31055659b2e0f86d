"""Committers that a test stops, breaks or overtakes: at the last moment before a table's commit, or just after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipeline.warehouse.arrow import ArrowCommitter
from pipeline.warehouse.spark import SparkCommitter
from pipeline.warehouse.tables import Table


def nothing(_: str) -> None: ...


class _OnCue:
    """`before` and `after` get the table's name at each attempt; what they raise is as if the store had said it."""

    def __init__(
        self, *arguments: Any, before: Callable[[str], None] = nothing, after: Callable[[str], None] = nothing
    ) -> None:
        super().__init__(*arguments)
        self.before, self.after = before, after

    def commit(self, table: Table, *what: Any) -> None:
        self.before(table.contract.name)
        super().commit(table, *what)  # type: ignore[misc]
        self.after(table.contract.name)


class ArrowOnCue(_OnCue, ArrowCommitter):
    pass


class SparkOnCue(_OnCue, SparkCommitter):
    pass
