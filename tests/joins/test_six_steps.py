"""A join in six steps, as CONTRIBUTING tells them: followed here with a toy, which the contract suite then judges.

The toy scans all of R for each window, in one read after the other, and matches what comes by.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from pipeline import joins
from pipeline.errors import BadSetting, BudgetTooSmall
from pipeline.joins import Options, Recipe, make
from pipeline.joins.algorithm import Algorithm, Positions, Served, Workplace, at_least, matched_rows
from pipeline.joins.cost.prediction import Prediction
from pipeline.joins.cost.question import Question
from pipeline.joins.parts.keycodes import Codes
from pipeline.joins.parts.waiting import WaitingSales
from pipeline.master.memory import MemoryMaster
from tests.joins.harness import answer, drive, oracle
from tests.joins.workloads import thousands

PRODUCT = Path(joins.__file__).parents[1]
TESTS = Path(__file__).parents[1]


@dataclass(frozen=True)
class Settings:
    rows: int = 100  # a read

    def __post_init__(self) -> None:
        at_least(1, rows=self.rows)


def least(question: Question[Settings]) -> int:
    buffer = question.settings.rows * question.R.row_bytes
    return int(buffer + WaitingSales.bytes_for(1, question.R.words)) + 1


def split(question: Question[Settings]) -> int:
    """The sales beside the disk buffer."""
    rest = question.memory - question.settings.rows * question.R.row_bytes
    return WaitingSales.capacity_for(rest, question.R.words)


def predict(question: Question[Settings]) -> Prediction:
    h_S, reads = split(question), question.R.R_t // question.settings.rows + 1
    seconds = reads * (question.costs.scan(question.settings.rows) + question.costs.loop)
    return Prediction(split={}, parameters={"h_S": h_S}, mu=h_S / seconds, queries=reads / seconds)


class ScanOnce(Algorithm):
    name: ClassVar[str] = "scan-once"
    model: ClassVar[Any] = sys.modules[__name__]  # a file of its own, in the product
    Settings: ClassVar[type] = Settings
    least_for: ClassVar[str] = "one sale and one read"
    needs_index: ClassVar[bool] = False

    def __init__(self, workplace: Workplace) -> None:
        super().__init__(workplace)
        self._waiting = WaitingSales(split(self.question), self.R.words)
        self._position: bytes | None = None

    @property
    def room(self) -> int:
        return 0 if self._position else self._waiting.room

    @property
    def pending(self) -> int:
        return len(self._waiting)

    def admit(self, positions: Positions, codes: Codes) -> int:
        self._waiting.admit(positions, codes)
        self.statistics.misses += len(positions)
        return len(positions)

    def iterate(self, drain: bool) -> list[Served]:
        scan = self.master.scan(self._position, self.question.settings.rows)
        self._position = scan.position
        places, numbers = self._waiting.match(self.codes_of(scan.rows))
        rows, match = matched_rows(scan.rows, numbers)
        served = [Served(self._waiting.release(places), rows, match)] if len(places) else []
        left = self._waiting.oldest(len(self._waiting))
        if self._position is None and len(left):
            served.append(self.absent(self._waiting.release(left)))
        if not self.pending:
            self._position = None
        return served

    def memory_used(self) -> dict[str, int]:
        return {"sales": self._waiting.nbytes}

    def check(self) -> None:
        self._waiting.check()


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> str:
    recipe = Recipe.of(ScanOnce)
    staged = joins.before(recipe)
    monkeypatch.setattr(joins, "_ALL", joins._ALL | {recipe.name: recipe, staged.name: staged})
    return recipe.name


@pytest.mark.parametrize("staged", [False, True], ids=["alone", "behind the front stage"])
def test_a_new_algorithm_is_a_join_as_soon_as_it_is_in_the_registry(registered: str, staged: bool) -> None:
    keys, master = thousands(rows=2_000, sales=3_000, skew=0.8)
    name = f"front stage + {registered}" if staged else registered
    join = make(name, master, 60_000)
    assert answer(drive(join, keys, cuts=[7, 1_000])) == oracle(keys, master.table)
    assert join.label == name
    assert joins.predict(name, 60_000, join.relation).mu > 0


def test_its_budget_its_table_and_its_settings_are_checked_for_it(registered: str) -> None:
    _, master = thousands(rows=2_000, sales=0, skew=0.0)
    needed = joins.least_memory(registered, make(registered, master, 60_000).relation)
    make(registered, master, needed)
    with pytest.raises(BudgetTooSmall, match=f"scan-once: .*one sale and one read needs {needed:,}"):
        make(registered, master, needed - 1)
    with pytest.raises(BadSetting, match="rows = 0 must be at least 1"):
        Settings(rows=0)
    many_rows = Options(settings={registered: Settings(rows=1_000)})
    assert joins.least_memory(registered, make(registered, master, 1 << 20).relation, many_rows) > 5 * needed
    assert make(registered, MemoryMaster(master.table, unique=False), 60_000).pending == 0


def calls(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call):
            yield node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")


def test_make_is_the_only_way_to_a_join() -> None:
    """No class of an algorithm, and not the door, is called by name, in the product or in its tests."""
    kinds, found = [Algorithm], {"Join"}
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        found |= {kind.__name__}
    assert {"MeshJoin", "FrontStage", "SemiStreamingIndexJoin"} <= found
    for file in (*PRODUCT.rglob("*.py"), *TESTS.rglob("*.py")):
        called = found & set(calls(file))
        # The registry makes the door; a recipe may stand its own algorithm before or behind another.
        allowed = {"__init__.py": {"Join"}, "frontstage.py": {"FrontStage"}, "auto.py": {"AutoStage", "LookUpsAlone"}}
        of_registry = allowed.get(file.name, set()) if file.is_relative_to(PRODUCT / "joins") else set()
        assert called <= of_registry, (file, called)
