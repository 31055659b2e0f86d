"""`millrace top`: what a running job does, seen through its /metrics endpoint alone."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel as Box
from rich.table import Table
from rich.text import Text

from pipeline.config.measures import rounded
from pipeline.watch.access import OPEN, Access
from pipeline.watch.figures import UNKNOWN, bar, duration, number, percent, sparkline
from pipeline.watch.scrape import JoinSnapshot, NoAnswer, Scrape, Snapshot, compare, metrics_url, scrape

_WINDOW = 10.0  # seconds that rates and quantiles look back: some batches, so that the numbers do not jump
_REFRESH = 1.0
_PLAIN_LINE = 5.0  # seconds between lines where there is no terminal
_LISTEN = 0.2  # seconds between looks whether to end
_SPARKS = 36  # with what stands before them they fit 80 columns
_GONE_AFTER = 10.0  # seconds without an answer: the job has ended


class Panel:
    """Looks at one job, again and again.

    panel = Panel("127.0.0.1:9464")
    panel.run(until=lambda: finished)
    """

    def __init__(self, endpoint: str, console: Console | None = None, access: Access = OPEN) -> None:
        self.url, self._access = metrics_url(endpoint), access
        self._console = console or Console(stderr=True)
        self._looks: deque[Scrape] = deque()
        self._rates: deque[float] = deque(maxlen=_SPARKS)
        self._answered_at = time.monotonic()

    def snapshot(self) -> Snapshot:
        """Look at the job, and compare with the look of some seconds ago."""
        try:
            now = scrape(self.url, self._access)
        except NoAnswer as problem:
            self._looks.clear()
            return Snapshot(problem=f"waiting for the job: {problem}", rates=tuple(self._rates))
        while len(self._looks) > 1 and now.at - self._looks[1].at >= _WINDOW:
            self._looks.popleft()
        seen = compare(self._looks[0] if self._looks else None, now)
        self._looks.append(now)
        if seen.rate is not None:
            self._rates.append(seen.rate)
        return replace(seen, rates=tuple(self._rates))

    def run(self, until: Callable[[], bool], wait: bool = True) -> None:
        """Show the job until told to end: in place on a terminal, else a plain line every few seconds.

        `wait`: for a job that is not there yet, or not any more. Else that is the end: `NoAnswer`.
        """
        if not wait:
            scrape(self.url, self._access)
        if self._console.is_terminal:
            with Live(self.render(self.snapshot()), console=self._console, auto_refresh=False) as live:
                going = True
                while going:  # once more at the end: what stays on the screen is how it ended
                    going = _wait(_REFRESH, until)
                    live.update(self.render(self._look(wait)), refresh=True)
        else:
            going = True
            while going:
                going = _wait(_PLAIN_LINE, until)
                print(plain(self._look(wait)), file=self._console.file, flush=True)

    def _look(self, wait: bool) -> Snapshot:
        seen = self.snapshot()
        if not seen.problem:
            self._answered_at = time.monotonic()
        elif not wait and time.monotonic() - self._answered_at >= _GONE_AFTER:
            raise NoAnswer(f"the job at {self.url} has ended: it has not answered for {_GONE_AFTER:g} s.")
        return seen

    def render(self, seen: Snapshot) -> RenderableType:
        title = f"millrace · {self.url}"
        if seen.problem:
            return Box(Text(seen.problem, "yellow"), title=title, title_align="left")
        return Box(Group(_flow(seen), "", _waits(seen), "", _caches(seen)), title=title, title_align="left")


def plain(seen: Snapshot) -> str:
    """One line for a log."""
    clock = time.strftime("%H:%M:%S")
    if seen.problem:
        return f"{clock} {seen.problem}"
    waits = [join.queue_wait for join in seen.joins]
    hits = ", ".join(f"{join.dimension} {percent(join.hits)}" for join in seen.joins)
    unmatched = ", ".join(f"{join.dimension} {percent(join.unmatched)}" for join in seen.joins)
    parts = [
        f"throughput {number(seen.rate)} sales/s",
        f"{number(seen.sales)} sales and {number(seen.rejects)} rejects committed",
        f"backlog {number(_backlog(seen))}",
        f"queue wait p50 {_longest(wait[0] for wait in waits)} p99 {_longest(wait[1] for wait in waits)}",
        f"freshness p50 {duration(seen.freshness[0])} p99 {duration(seen.freshness[1])}",
        f"cache hits: {hits or UNKNOWN}",
        f"unmatched: {unmatched or UNKNOWN}",
        f"last commit {duration(seen.committed_ago)} ago",
    ]
    return f"{clock} " + " | ".join(parts)


def _flow(seen: Snapshot) -> Table:
    """What goes through: throughput, freshness, backlog, rejects, the last commit."""
    table = Table.grid(padding=(0, 3))
    backlog = ", ".join(f"{topic} {number(waiting)}" for topic, waiting in sorted(seen.backlog.items()))
    state = "" if seen.ready else "starting"
    rate = f"[bold green]{number(seen.rate)}[/] sales/s"
    table.add_row("[bold]throughput[/]", rate, Text(sparkline(seen.rates), "green"))
    table.add_row("freshness", f"p50 {duration(seen.freshness[0])}", f"p99 {duration(seen.freshness[1])}")
    table.add_row("backlog", f"{number(_backlog(seen))} messages", Text(backlog, "dim", no_wrap=True))
    table.add_row("committed", f"{number(seen.sales)} sales", f"last commit {duration(seen.committed_ago)} ago {state}")
    table.add_row("rejects", number(seen.rejects), f"{percent(seen.rejects_share)} of the messages now")
    return table


def _waits(seen: Snapshot) -> Table:
    """How fast each join is. Two narrow tables, so that both fit a terminal of 80 columns."""
    predicted = any(join.predicted_rate for join in seen.joins)
    table = _table("service rate", *(["÷ predicted"] if predicted else []), "queue wait p50", "p99", second="algorithm")
    for join in seen.joins:
        waits = duration(join.queue_wait[0]), duration(join.queue_wait[1])
        by_model = [_by_model(join)] if predicted else []
        table.add_row(_name(join), join.algorithm, number(join.service_rate), *by_model, *waits)
    return table


def _caches(seen: Snapshot) -> Table:
    """What each join finds in its memory, and how much of it that takes."""
    table = _table("cache hits", "unmatched", last="memory")
    for join in seen.joins:
        table.add_row(_name(join), percent(join.hits), percent(join.unmatched), _memory(join, seen.workers))
    return table


def _table(*figures: str, second: str = "", last: str = "") -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="dim")
    table.add_column("dimension", no_wrap=True)
    if second:
        table.add_column(second)
    for heading in figures:
        table.add_column(heading, justify="right", no_wrap=True)
    if last:
        table.add_column(last, no_wrap=True)
    return table


def _name(join: JoinSnapshot) -> str:
    return f"[bold]{join.dimension}[/]"


def _memory(join: JoinSnapshot, workers: int) -> str:
    used = join.used_bytes / join.limit_bytes if join.limit_bytes else 0.0
    of = f"{workers} workers x {rounded(join.limit_bytes / workers)}" if workers > 1 else rounded(join.limit_bytes)
    return f"{bar(used)} {rounded(join.used_bytes)} of {of}"


def _by_model(join: JoinSnapshot) -> str:
    """The service rate as a multiple of what the cost model said."""
    if join.service_rate is None or not join.predicted_rate:
        return UNKNOWN
    return f"{join.service_rate / join.predicted_rate:.2f}"


def _backlog(seen: Snapshot) -> float | None:
    return sum(seen.backlog.values()) if seen.backlog else None


def _longest(durations: Iterable[float | None]) -> str:
    known = [seconds for seconds in durations if seconds is not None]
    return duration(max(known, default=None))


def _wait(seconds: float, until: Callable[[], bool]) -> bool:
    """Wait for the time of the next look; False as soon as it is time to end."""
    deadline = time.monotonic() + seconds
    while not until():
        left = deadline - time.monotonic()
        if left <= 0:
            return True
        time.sleep(min(left, _LISTEN))
    return False
