"""The load contract with the database: what the whole job may ask of it in a second, dealt out to the tasks of a batch.

A statement counts from the moment it is sent until a second after its answer is here, and so do its rows. Whenever the
server counts them itself, it is within that time, so that no second of the server's sees more than was allowed,
however long the answers take. A share is a whole number of statements and rows: of 2.5, three would be asked in some
second.

What was asked at the end of a batch still counts when the next one begins, on whichever worker. So each task tells what
it has used in its last second, and the next batch's shares begin with that: cut as the shares are, rounded up, the
youngest first, so that at every moment the shares have no more left than the job has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from pipeline.config.settings import MasterData, Settings

_USUAL_CONNECTIONS = 2  # of a task, where there is no cap: one is asked while the other's answer is worked on
_FEWEST_ROWS = 100  # a second that are worth a task: reads get short with less
_READS = 8  # a second's rows are read in so many pieces at least, or a large one would wait until all are free
_LENT = 4  # a part of so many goes to who asks beside the tasks
_SLICES = 20  # of a period: what was used is told no finer


@dataclass(frozen=True)
class Used:
    """Asked, and answered so many seconds ago."""

    ago: float
    statements: int
    rows: int


@dataclass
class Told:
    """What a task says of its share at its end."""

    used: list[Used] = field(default_factory=list)  # still counts
    sessions: int = 0  # the most that were open


@dataclass(frozen=True)
class Share:
    """What one task may ask; 0: as much as may come."""

    connections: int = _USUAL_CONNECTIONS
    kept: int = _USUAL_CONNECTIONS  # so many of them may stay open when the task has ended
    statements: int = 0  # in any period
    rows: int = 0  # in any period
    period: float = 1.0  # seconds; more than one only where less than a statement a second is allowed
    used: tuple[Used, ...] = ()  # counts as asked by this task

    @property
    def largest_read(self) -> int:
        """Rows that a statement may bring."""
        return max(2, self.rows // min(_READS, self.statements or _READS)) if self.rows else 1 << 62

    @property
    def spent(self) -> Share:
        """For a task that is tried again: what the attempt before has used it could not tell."""
        return replace(self, used=(Used(0.0, self.statements, self.rows),))


@dataclass(frozen=True)
class Contract:
    """What the settings allow the job; 0: as much as may come."""

    connections: int = 0
    statements: int = 0  # in any period
    rows: int = 0  # in any second
    period: float = 1.0

    @classmethod
    def of(cls, settings: MasterData) -> Contract:
        rate = settings.queries_per_second
        period = 1 / rate if 0 < rate < 1 else 1.0
        return cls(settings.connections, int(rate * period + 1e-9), settings.rows_per_second, period)

    @classmethod
    def of_workers(cls, settings: Settings) -> Contract:
        """What is left to the workers: where the driver heals, one connection is its own. The others are kept open."""
        whole = cls.of(settings.master)
        is_shared = settings.warehouse.heals and whole.connections > 0
        return replace(whole, connections=whole.connections - 1) if is_shared else whole

    @classmethod
    def tasks_of(cls, settings: Settings, slots: int) -> int:
        """So many tasks of a batch there may be, also while a part is lent."""
        contract = cls.of_workers(settings)
        return (contract.without_lent if settings.warehouse.heals else contract).tasks(slots)

    @property
    def caps_something(self) -> bool:
        return bool(self.connections or self.statements or self.rows)

    @property
    def allowed(self) -> dict[str, float]:
        """By what it is of: statements and rows a second, connections; 0: no cap."""
        statements = self.statements / self.period
        return {"statements": statements, "rows": float(self.rows), "connections": float(self.connections)}

    def tasks(self, slots: int) -> int:
        """So many of the tasks that Spark could run at once have a connection, a statement and some rows each.

        >>> Contract(connections=3).tasks(8), Contract(statements=2).tasks(8), Contract(rows=500).tasks(8)
        (3, 2, 5)
        """
        caps = (self.connections, self.statements, self.rows // _FEWEST_ROWS)
        return max(1, min([slots, *filter(None, caps)]))

    def deal(self, tasks: int, slots: int, used: Iterable[Used] = ()) -> list[Share]:
        """The shares of a batch's tasks. `slots`: how many workers there may be, each with connections it has kept.

        >>> [(share.statements, share.rows) for share in Contract(statements=5, rows=2_000).deal(tasks=2, slots=2)]
        [(3, 1000), (2, 1000)]
        >>> [(share.connections, share.kept) for share in Contract(connections=5).deal(tasks=2, slots=4)]
        [(2, 1), (1, 1)]
        """
        kept, spare = divmod(self.connections, slots)
        connections = [kept + more for more in _cut(spare, tasks)]
        statements, rows, youngest = _cut(self.statements, tasks), _cut(self.rows, tasks), _by_age(used)
        return [
            Share(
                connections=connections[i] if self.connections else _USUAL_CONNECTIONS,
                kept=kept if self.connections else _USUAL_CONNECTIONS,
                statements=statements[i],
                rows=rows[i],
                period=self.period,
                used=tuple(self._cut_as(statements[i], rows[i], youngest)),
            )
            for i in range(tasks)
        ]

    @property
    def lent(self) -> Share:
        """The part of who asks beside the tasks, over a connection of its own."""
        statements = max(1, self.statements // _LENT) if self.statements else 0
        rows = max(_FEWEST_ROWS, self.rows // _LENT) if self.rows else 0
        return Share(connections=1, kept=0, statements=statements, rows=rows, period=self.period)

    @property
    def without_lent(self) -> Contract:
        """What is left to the tasks meanwhile.

        >>> contract = Contract(statements=40, rows=1_000)
        >>> contract.without_lent, contract.lent.statements, contract.lent.rows
        (Contract(connections=0, statements=30, rows=750, period=1.0), 10, 250)
        """
        return replace(self, statements=self.statements - self.lent.statements, rows=self.rows - self.lent.rows)

    @property
    def too_small_to_lend(self) -> str:
        """What would have to be more; nothing: a part can be lent.

        >>> Contract(connections=2, statements=2, rows=200).too_small_to_lend, Contract(rows=150).too_small_to_lend
        ('', 'master.rows_per_second be 200 at least')
        """
        least = {"connections": 2, "statements": 2, "rows": 2 * _FEWEST_ROWS}
        named = {"connections": "connections", "statements": "queries_per_second", "rows": "rows_per_second"}
        short = [f"master.{named[of]} be {most} at least" for of, most in least.items() if 0 < getattr(self, of) < most]
        return " and ".join(short)

    def alone(self) -> Share:
        """For one who asks while no task does."""
        return self.deal(tasks=1, slots=1)[0]

    def _cut_as(self, statements: int, rows: int, used: Sequence[Used]) -> Iterator[Used]:
        """The part of what was used that is this share's: of the youngest, the two youngest, …, rounded up."""
        asked = brought = own_asked = own_brought = 0
        for one in used:
            asked, brought = asked + one.statements, brought + one.rows
            more = _of(statements, asked, self.statements) - own_asked, _of(rows, brought, self.rows) - own_brought
            own_asked, own_brought = own_asked + more[0], own_brought + more[1]
            yield Used(one.ago, *more)


def in_slices(used: Iterable[Used], period: float) -> list[Used]:
    """Told shortly: what was answered in one slice of the period counts as its youngest.

    >>> in_slices([Used(0.96, 1, 10), Used(0.31, 1, 20), Used(0.34, 1, 30)], period=1.0)
    [Used(ago=0.30000000000000004, statements=2, rows=50), Used(ago=0.9500000000000001, statements=1, rows=10)]
    """
    slices: dict[int, Used] = {}
    for one in used:
        place = int(one.ago / period * _SLICES)
        before = slices.get(place, Used(place * (period / _SLICES), 0, 0))
        slices[place] = replace(before, statements=before.statements + one.statements, rows=before.rows + one.rows)
    return _by_age(slices.values())


def _by_age(used: Iterable[Used]) -> list[Used]:
    return sorted(used, key=lambda one: one.ago)


def _cut(whole: int, parts: int) -> list[int]:
    return [whole // parts + (i < whole % parts) for i in range(parts)]


def _of(share: int, used: int, whole: int) -> int:
    return -(-used * share // whole) if whole else 0
