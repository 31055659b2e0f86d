"""Progress bars on stderr: stdout belongs to the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        rate = task.finished_speed or task.speed
        return Text(f"{rate:,.0f}/s" if rate else "")


@contextmanager
def bar(title: str, total: float | None, shown: bool) -> Iterator[Callable[[int], None]]:
    """A bar that is told how many more are done; `total` is None where the end is not known."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _Rate(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not shown) as progress:
        task = progress.add_task(title, total=total)
        yield lambda more: progress.advance(task, more)
