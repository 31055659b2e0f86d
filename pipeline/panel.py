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

from pipeline.scrape import JoinSnapshot, NoAnswer, Scrape, Snapshot, compare, metrics_url, scrape

_WINDOW = 10.0  # seconds that rates and quantiles look back: some batches, so that the numbers do not jump
_REFRESH = 1.0
_PLAIN_LINE = 5.0  # seconds between lines where there is no terminal
_LISTEN = 0.2  # seconds between looks whether to end
_BARS = "▁▂▃▄▅▆▇█"
_SPARKS = 48
_UNKNOWN = "-"


class Panel:
    """Looks at one job, again and again.

    panel = Panel("127.0.0.1:9464")
    panel.run(until=lambda: finished)
    """

    def __init__(self, endpoint: str, console: Console | None = None) -> None:
        self.url = metrics_url(endpoint)
        self._console = console or Console(stderr=True)
        self._looks: deque[Scrape] = deque()
        self._rates: deque[float] = deque(maxlen=_SPARKS)

    def snapshot(self) -> Snapshot:
        """Look at the job, and compare with the look of some seconds ago."""
        try:
            now = scrape(self.url)
        except NoAnswer as problem:
            self._looks.clear()
            return Snapshot(problem=f"waiting for the job at {self.url}: {problem}", rates=tuple(self._rates))
        while len(self._looks) > 1 and now.at - self._looks[1].at >= _WINDOW:
            self._looks.popleft()
        seen = compare(self._looks[0] if self._looks else None, now)
        self._looks.append(now)
        if seen.rate is not None:
            self._rates.append(seen.rate)
        return replace(seen, rates=tuple(self._rates))

    def run(self, until: Callable[[], bool]) -> None:
        """Show the job until told to end: in place on a terminal, else a plain line every few seconds."""
        if self._console.is_terminal:
            with Live(self.render(self.snapshot()), console=self._console, auto_refresh=False) as live:
                going = True
                while going:  # once more at the end: what stays on the screen is how it ended
                    going = _wait(_REFRESH, until)
                    live.update(self.render(self.snapshot()), refresh=True)
        else:
            going = True
            while going:
                going = _wait(_PLAIN_LINE, until)
                print(plain(self.snapshot()), file=self._console.file, flush=True)

    def render(self, seen: Snapshot) -> RenderableType:
        title = f"millrace · {self.url}"
        if seen.problem:
            return Box(Text(seen.problem, "yellow"), title=title, title_align="left")
        return Box(Group(_flow(seen), "", _joins(seen)), title=title, title_align="left")


def plain(seen: Snapshot) -> str:
    """One line for a log."""
    clock = time.strftime("%H:%M:%S")
    if seen.problem:
        return f"{clock} {seen.problem}"
    waits = [join.queue_wait for join in seen.joins]
    hits = ", ".join(f"{join.dimension} {percent(join.hits)}" for join in seen.joins)
    unmatched = ", ".join(f"{join.dimension} {percent(join.unmatched)}" for join in seen.joins)
    parts = [
        f"{number(seen.rate)} sales/s",
        f"{number(seen.sales)} sales and {number(seen.rejects)} rejects committed",
        f"backlog {number(_backlog(seen))}",
        f"queue wait p50 {_longest(wait[0] for wait in waits)} p99 {_longest(wait[1] for wait in waits)}",
        f"freshness p50 {duration(seen.freshness[0])} p99 {duration(seen.freshness[1])}",
        f"cache hits: {hits or _UNKNOWN}",
        f"unmatched: {unmatched or _UNKNOWN}",
        f"last commit {duration(seen.committed_ago)} ago",
    ]
    return f"{clock} " + " | ".join(parts)


def sparkline(values: tuple[float, ...]) -> str:
    """
    >>> sparkline((0.0, 5.0, 10.0))
    '▁▄█'
    """
    highest = max(values, default=0) or 1
    return "".join(_BARS[min(int(value / highest * (len(_BARS) - 1)), len(_BARS) - 1)] for value in values)


def bar(share: float, width: int = 6) -> str:
    """
    >>> bar(0.25, 8)
    '██░░░░░░'
    """
    filled = min(width, max(0, round(share * width)))
    return "█" * filled + "░" * (width - filled)


def number(value: float | None) -> str:
    """
    >>> number(31204.4), number(None)
    ('31,204', '-')
    """
    return _UNKNOWN if value is None else f"{value:,.0f}"


def percent(share: float | None) -> str:
    """
    >>> percent(0.0312), percent(1.0), percent(None)
    ('3.1 %', '100.0 %', '-')
    """
    return _UNKNOWN if share is None else f"{100 * share:.1f} %"


def duration(seconds: float | None) -> str:
    """
    >>> duration(0.0042), duration(0.34), duration(2.34), duration(75), duration(7260), duration(None)
    ('4.2 ms', '340 ms', '2.3 s', '1 min 15 s', '2 h 1 min', '-')
    """
    if seconds is None:
        return _UNKNOWN
    if seconds < 1:
        return f"{seconds * 1000:.1f} ms" if seconds < 0.01 else f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def size(count: float) -> str:
    """
    >>> size(512), size(3 << 20)
    ('512 B', '3.0 MiB')
    """
    for unit, bytes_ in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= bytes_:
            return f"{count / bytes_:.1f} {unit}"
    return f"{count:.0f} B"


def _flow(seen: Snapshot) -> Table:
    """What goes through: rate, freshness, backlog, rejects, the last commit."""
    table = Table.grid(padding=(0, 3))
    backlog = ", ".join(f"{topic} {number(waiting)}" for topic, waiting in sorted(seen.backlog.items()))
    state = "" if seen.ready else "starting"
    table.add_row("[bold]rate[/]", f"[bold green]{number(seen.rate)}[/] sales/s", Text(sparkline(seen.rates), "green"))
    table.add_row("freshness", f"p50 {duration(seen.freshness[0])}", f"p99 {duration(seen.freshness[1])}")
    table.add_row("backlog", f"{number(_backlog(seen))} messages", Text(backlog, "dim"))
    table.add_row("committed", f"{number(seen.sales)} sales", f"last commit {duration(seen.committed_ago)} ago {state}")
    table.add_row("rejects", number(seen.rejects), f"{percent(seen.rejects_share)} of the messages now")
    return table


def _joins(seen: Snapshot) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="dim")
    table.add_column("dimension", no_wrap=True)
    table.add_column("algorithm")
    predicted = any(join.predicted_rate for join in seen.joins)
    for heading in ("served/s", *(["÷model"] if predicted else []), "wait p50", "p99", "hits", "unmatched"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("memory", no_wrap=True)
    for join in seen.joins:
        table.add_row(*_join_row(join, predicted))
    return table


def _join_row(join: JoinSnapshot, predicted: bool) -> list[str]:
    used = join.used_bytes / join.limit_bytes if join.limit_bytes else 0.0
    return [
        f"[bold]{join.dimension}[/]",
        join.algorithm,
        number(join.service_rate),
        *([_by_model(join)] if predicted else []),
        duration(join.queue_wait[0]),
        duration(join.queue_wait[1]),
        percent(join.hits),
        percent(join.unmatched),
        f"{bar(used)} {size(join.used_bytes)} of {size(join.limit_bytes)}",
    ]


def _by_model(join: JoinSnapshot) -> str:
    """The service rate as a multiple of what the cost model said."""
    if join.service_rate is None or not join.predicted_rate:
        return _UNKNOWN
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
