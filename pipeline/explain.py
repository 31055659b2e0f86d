"""The plan in words: where the sales come from, what they are joined with and how, where they go; and how else."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.forecast import forecasts, queue_wait
from pipeline.master.port import Master
from pipeline.plan import Plan
from pipeline.settings_loader import Bytes


def explain(plan: Plan) -> str:
    """The plan alone: nothing is read."""
    return "\n".join(_lines(plan)) + "\n"


def compare(plan: Plan, dimension: str, master: Master, rate: float) -> str:
    """Every join on this dimension's table: reads the table's size, and what the unit costs say of it."""
    return "\n".join(_table(plan, dimension, master, rate)) + "\n"


def _table(plan: Plan, dimension: str, master: Master, rate: float) -> Iterator[str]:
    size, settings = master.statistics(), plan.settings.dimensions[dimension]
    measured = "measured by `millrace calibrate`" if dimension in plan.costs else "built in: see `millrace calibrate`"
    yield f"{dimension}: {size.rows:,} rows of {size.row_bytes:.0f} bytes; {settings.memory} a worker"
    yield f"  at {rate:,.0f} sales a second; unit costs {measured}"
    heads = ("sales/s", 10), ("wait", 9), ("served in", 11), ("queries/s", 11), ("rows/s", 11), ("least", 10)
    yield " " * 26 + "".join(head.rjust(width) for head, width in heads) + "for rate".rjust(10)
    for line in forecasts(plan, dimension, master, rate):
        mark, told = "*" if line.chosen else " ", _short(line.enough) if line.enough else "never"
        if line.prediction is None:
            yield f"{mark} {line.name:<24}{'needs more memory':>52}{_short(line.least):>10}{told:>10}"
            continue
        p = line.prediction
        wait = queue_wait(p, rate, plan.settings.job.period)
        waits = "grows" if wait is None else f"{wait:.2f} s"
        yield (
            f"{mark} {line.name:<24}{p.mu:>10,.0f}{waits:>9}{p.processing_time * 1e3:>8,.0f} ms{p.queries:>11,.0f}"
            f"{p.rows:>11,.0f}{_short(line.least):>10}{told:>10}"
        )
        parts = ", ".join(f"{part} {_short(amount)}" for part, amount in p.split.items())
        symbols = ", ".join(f"{name} = {value:,.4g}" for name, value in p.parameters.items())
        yield f"      {parts}; {symbols}"
        if p.remark:
            yield f"      {p.remark}"


def _short(amount: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if amount < 1_024:
            return f"{amount:.3g} {unit}"
        amount /= 1_024
    return f"{amount:.3g} GiB"


def _lines(plan: Plan) -> Iterator[str]:
    settings = plan.settings
    kafka, warehouse, worker = settings.kafka, settings.warehouse, settings.worker
    topics = f"pattern {kafka.topic_pattern}" if kafka.topic_pattern else ", ".join(kafka.topics)
    yield f"application  {settings.job.name}, checkpoint {settings.job.checkpoint}"
    yield f"1 source     {topics} at {kafka.bootstrap}, from {kafka.starting_offsets} on the first start"
    yield f"             a batch {_when(plan)}, at most {settings.job.max_offsets_per_trigger:,} messages"
    yield f"2 parse      {plan.default_topic.name}: {', '.join(f.name for f in plan.default_topic.fields)}"
    for name, topic in sorted(plan.topics.items()):
        yield f"             {name} by {topic.name}: {', '.join(f.name for f in topic.fields)}"
    yield f"             longer than {kafka.max_message_bytes} is a reject"
    yield f"3 enrich     MySQL {settings.master.user}@{settings.master.host}:{settings.master.port}"
    for name, contract in plan.dimensions.items():
        d = settings.dimensions[name]
        keys = " + ".join(f"{k.column} = sale.{k.field}" for k in contract.natural_key)
        stage = "front stage + " if d.front_stage else ""
        yield f"             {name}: {settings.master.database}.{contract.table} on {keys}"
        yield f"               -> {contract.surrogate_key}, {', '.join(contract.attributes)}"
        yield f"               {stage}{d.algorithm}, {d.memory} a worker, {d.batch:,} keys a query,"
        yield f"               rows at most {d.max_staleness} old, absences {d.absent_staleness}"
    partitions = ", ".join(plan.facts.partition_by) or "nothing"
    yield f"4 facts      {len(plan.facts.columns)} columns, partitioned by {partitions}"
    yield f"5 warehouse  {warehouse.path}: {plan.facts.name}, {plan.rejects.name}; writer {warehouse.writer}"
    joins = Bytes(sum(d.memory for d in settings.dimensions.values()))
    yield (
        f"memory       {worker.memory} a worker: windows of {worker.window_sales:,} sales or {worker.window_bytes}, "
        f"joins {joins}"
    )
    yield f"spark        {settings.spark.master}"


def _when(plan: Plan) -> str:
    job = plan.settings.job
    return "until all is worked off" if job.available_now else f"every {job.period}"
