"""`millrace explain`, the part that looks: every join on every table, what bounds the job, and what `run` would say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from textwrap import wrap

from pipeline.advise import load_contract
from pipeline.advise.demand import Demand
from pipeline.advise.forecast import Forecast, Table, beside, chosen_rates
from pipeline.config.measures import Bytes, Seconds, rounded
from pipeline.driver.preflight import check_dimension, check_topics
from pipeline.errors import MasterReadFailed, MillraceError
from pipeline.joins import recipe
from pipeline.master.open import open_master
from pipeline.master.port import MasterTable
from pipeline.plan import Plan

Say = Callable[[str], None]

_WIDTH = 110
_GUESS = "a guess: two cores, the shipped contracts"
_MEASURED = "measured by the job that runs"
_LIE = {
    "scattered": "taken to lie anywhere in the table, which is not looked at",
    "by frequency": "taken to come first, as x-hybridjoin.published says; that is not looked at",
}
_HEADS = (
    ("service rate", 14), ("the job", 10), ("queue wait", 12), ("processing", 12), ("queries/s", 11), ("rows/s", 10),
    ("needs", 10), ("for the rate", 14),
)  # fmt: skip
_LEGEND = """\
How to read the tables (* is what the settings name; what is not measured is a guess):
  service rate   sales a second that the join serves in one worker while it works, in windows of this rate
  the job        the most throughput: sales a second of the whole job with this join, the others as they are set
  queue wait     mean time from Kafka until the join admits a sale; "grows": more sales come than the job can serve
  processing     mean processing time: from then until the sale is served
  queries/s, rows/s   what MySQL is asked and returns in a second at this rate; rows expire by max_staleness
  needs          the least memory the join works with
  for the rate   the least memory with which the job keeps up with the rate; "never": other steps take too long
"""

# The papers' symbols in words; some joins mean something else by theirs.
_WORDS = {
    "h_R": "rows kept", "p_N": "share of sales they serve", "h_S": "sales that can wait", "b": "rows a read",
    "w": "sales served by a read", "k": "reads a cycle", "l": "pages kept", "d": "rows a page",
    "lanes": "connections asked at once", "threshold": "sales of a page that call for a read",
}  # fmt: skip
_BY_NAME, _PAGES = {"b": "keys a query"}, {"k": "rows a page"}
_OWN_WORDS = {
    "auto": _BY_NAME, "inlj": _BY_NAME, "hybridjoin": _PAGES, "x-hybridjoin": _PAGES,
    "partitioned": {"k": "pages"}, "ssij": {"k": "pages"},
}  # fmt: skip


@dataclass
class Looked:
    """What Kafka and the database said."""

    tables: dict[str, Table] = field(default_factory=dict)
    sizes: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)  # why `run` would not start


def look(plan: Plan, demand: Demand, say: Say) -> Looked:
    """Ask what `run` asks before its first batch, and how large the tables are. Nothing is retried: a person waits."""
    looked = Looked()
    at_once = replace(plan.settings.master, retry_for=Seconds(0))
    say(f"asking Kafka at {plan.settings.kafka.bootstrap} for the topics")
    try:
        check_topics(plan)
    except MillraceError as refused:
        looked.refusals.append(str(refused))
    for name, contract in plan.dimensions.items():
        say(f"looking at master table {contract.table} for dimension {name}")
        try:
            with open_master(at_once, contract) as master:
                _look_at(plan, name, master, demand, looked)
        except MasterReadFailed as failed:
            looked.refusals.append(str(failed))
            break  # the others are on the same server
    return looked


def _look_at(plan: Plan, name: str, master: MasterTable, demand: Demand, looked: Looked) -> None:
    try:
        looked.remarks += check_dimension(plan, name, master)
    except MasterReadFailed:
        raise
    except MillraceError as refused:
        looked.refusals.append(f"dimension {name}: {refused}")
    try:
        size = master.statistics()
        looked.tables[name] = Table.of(plan, name, master, demand)
        looked.sizes[name] = f"{size.rows:,} rows of {size.row_bytes:.0f} bytes"
    except MasterReadFailed:
        raise
    except MillraceError as refused:  # no join could read this table: `check_dimension` has said so
        if not looked.refusals:
            looked.refusals.append(f"dimension {name}: {refused}")


def comparison(plan: Plan, looked: Looked, demand: Demand, say: Say) -> Iterator[str]:
    """The tables, what bounds the job, and the verdict, line by line as they become known."""
    rates = chosen_rates(looked.tables)
    if looked.tables:
        yield f"\n{_LEGEND}"
    for name, table in looked.tables.items():
        measured = "measured by `millrace calibrate`" if name in plan.costs else "guesses, built in"
        memory = plan.settings.dimensions[name].memory
        yield f"{name}: {looked.sizes[name]}; {memory} in each worker; {_of(demand)}"
        yield f"  unit costs: {measured}"
        yield f"  rows wanted most: {_LIE[plan.options(name).order]}"
        yield "  join".ljust(26) + "".join(head.rjust(width) for head, width in _HEADS)
        others = beside(name, rates, demand)
        for line in table.forecasts(others):
            say(f"{name}: {line.name}")
            yield from _row(line, plan, name, demand)
        yield from _least(table, others, memory)
        yield ""
    if looked.tables:
        yield from _bounds(plan, rates, demand)
        yield from load_contract.told(plan, looked.tables, demand)
    yield from verdict(looked)


def verdict(looked: Looked) -> Iterator[str]:
    """In the words of `run`."""
    for remark in looked.remarks:
        yield f"note         {remark}"
    if not looked.refusals:
        yield "verdict      `millrace run` would start (its checkpoint and tables it compares itself)"
    for refusal in looked.refusals:
        yield f"verdict      `millrace run` would refuse: {refusal}"


def _of(demand: Demand) -> str:
    workers = f"{demand.workers} worker{'s' * (demand.workers > 1)}" if demand.counted else "one worker of the cluster"
    return f"{demand.rate:,.0f} sales a second for {workers}"


def _row(line: Forecast, plan: Plan, dimension: str, demand: Demand) -> Iterator[str]:
    start = f"{'*' if line.chosen else ' '} {line.name:<24}"
    if line.needs_index:
        columns = ", ".join(key.column for key in plan.dimensions[dimension].natural_key)
        yield f"{start}  not on this table: it has no unique index on ({columns}); auto and the scans need none"
        return
    enough = rounded(line.enough) if line.enough else "never"
    if line.prediction is None:
        yield f"{start}  needs at least {rounded(line.least)} of memory; for the rate {enough}"
        return
    p = line.prediction
    wait = demand.queue_wait(line.seconds)
    asked = min(demand.rate, demand.capacity(line.seconds)) / p.mu
    values = (
        _round(p.mu), _round(demand.capacity(line.seconds)), "grows" if wait is None else f"{wait:.2f} s",
        f"{p.processing_time * 1e3:,.0f} ms", _round(p.queries * asked), _round(p.rows * asked),
        rounded(line.least), enough,
    )  # fmt: skip
    yield start + "".join(value.rjust(width) for value, (_, width) in zip(values, _HEADS, strict=True))
    parts = ", ".join(f"{part} {rounded(amount)}" for part, amount in p.split.items())
    yield f"      memory: {parts}"
    words = _WORDS | _OWN_WORDS.get(recipe(line.name).main.name, {})
    split = ", ".join(f"{words[name]} ({name}) {_number(value)}" for name, value in p.parameters.items())
    yield from wrap(split, _WIDTH, initial_indent="      ", subsequent_indent="      ")
    if p.remark:
        yield f"      {p.remark}"


def _least(table: Table, others: float, memory: Bytes) -> Iterator[str]:
    """What no join can do better, whichever rows it keeps."""
    yield f"  whatever rows are kept: {memory} of those most wanted serve {table.best_hits():.0%} of the sales at most"
    least = table.least_memory(others)
    scanned, by_name = ("never" if size is None else rounded(size) for size in (least.scanned, least.by_name))
    rule = (
        f"for the rate, the least memory is {scanned} if the others are scanned, by SSBJ's rule (a row is kept if it "
        f"takes less than the sales that would wait for it), and {by_name} if they are asked for by name"
    )
    yield from wrap(rule, _WIDTH, initial_indent="  ", subsequent_indent="  ")


def _bounds(plan: Plan, rates: dict[str, float], demand: Demand) -> Iterator[str]:
    """What each step takes of a worker, and what follows for the whole."""
    way = demand.way
    sources = {step: _MEASURED if step in way.measured else _GUESS for step in ("read", "parse", "write")}
    steps = {"read from Kafka": (way.read, sources["read"]), "parse": (way.parse, sources["parse"])}
    for name, rate in rates.items():
        source = "by measured unit costs" if name in plan.costs else "by guessed unit costs"
        steps[f"join {name}"] = (1 / rate if rate else 0.0, source if rate else "it cannot work: see its table")
    steps["write files"] = (way.write, sources["write"])
    yield "What bounds the job, in a worker's time for each sale:"
    for step, (seconds, source) in steps.items():
        yield f"  {step:<24}{seconds * 1e6:8.2f} µs  {source}"
    yield f"  {'and each batch':<24}{way.batch:8.2f} s   {_GUESS}"
    seconds = demand.seconds(rates.values())
    longest = max(steps, key=lambda step: steps[step][0])
    most = demand.capacity(seconds)
    workers = f"{demand.workers} worker{'s' * (demand.workers > 1)}" if demand.counted else "one worker"
    yield (
        f"  So {workers} can do about {_round(most)} sales a second, in batches of {demand.most:,}; "
        f"the longest step: {longest}."
    )
    wait = demand.queue_wait(seconds)
    yield (
        f"  {demand.rate:,.0f} a second are more than that: the backlog would grow."
        if wait is None
        else f"  At {demand.rate:,.0f} a second a sale waits about {wait:.1f} s until the join admits it (queue wait)."
    )
    yield ""


def _round(value: float) -> str:
    """Three digits: a model is not more exact than that.

    >>> _round(122_502.3), _round(61.4), _round(0.02)
    ('123,000', '61', '0')
    """
    return f"{float(f'{value:.3g}'):,.0f}"


def _number(value: float) -> str:
    """
    >>> _number(141_012.0), _number(0.8242), _number(2.5)
    ('141,012', '0.82', '2.5')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"
