"""What a reconciliation found, check by check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

SHOWN = 5  # offending rows a check names; the rest is only counted


@dataclass(frozen=True)
class Check:
    """One thing that must hold. A failed one says where to look."""

    name: str
    expected: str
    found: str
    ok: bool
    where: str = ""

    @classmethod
    def equal(cls, name: str, expected: int, found: int, where: str) -> Check:
        return cls(name, f"{expected:,}", f"{found:,}", expected == found, where)

    @classmethod
    def none(cls, name: str, offending: Sequence[str], among: str, where: str, count: int | None = None) -> Check:
        """Nothing may be wrong `among` what was looked at; `offending` is all that is, or the first of `count`."""
        wrong = len(offending) if count is None else count
        first = "; ".join(offending[:SHOWN])
        more = f"; and {wrong - SHOWN:,} more" if wrong > SHOWN else ""
        found = f"{wrong:,}" if wrong else "none"
        return cls(name, "none", f"{found} among {among}", not wrong, f"{first}{more}. {where}")


@dataclass(frozen=True)
class Verdict:
    """All checks of one run. Printing it with rich gives a table, `str()` gives lines."""

    checks: tuple[Check, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        return bool(self.checks) and all(check.ok for check in self.checks)

    @property
    def failed(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if not check.ok)

    def __rich__(self) -> Table:
        table = Table(title="Reconciliation", title_justify="left", caption=self._summary(), caption_justify="left")
        table.add_column("")
        table.add_column("check")
        table.add_column("expected", justify="right")
        table.add_column("found", justify="right")
        for check in self.checks:
            mark = Text("ok", "green") if check.ok else Text("WRONG", "bold red")
            found = Text(check.found) if check.ok or not check.where else Text(f"{check.found}\n{check.where}")
            table.add_row(mark, Text(check.name), Text(check.expected), found)
        return table

    def __str__(self) -> str:
        return "\n".join([*(_line(check) for check in self.checks), self._summary()])

    def _summary(self) -> str:
        wrong = len(self.failed)
        outcome = "everything holds" if self.ok else f"{wrong} of {len(self.checks)} checks failed"
        return f"{outcome} ({self.seconds:.1f} s)"


def _line(check: Check) -> str:
    line = f"{'ok   ' if check.ok else 'WRONG'} {check.name}: expected {check.expected}, found {check.found}"
    return line if check.ok or not check.where else f"{line}\n      {check.where}"
