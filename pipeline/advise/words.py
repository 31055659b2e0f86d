"""The plan in words: where the sales come from, what they are joined with and how, where they go."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline import columns
from pipeline.config.measures import Bytes
from pipeline.master.share import Contract
from pipeline.plan import Plan


def of(plan: Plan) -> str:
    """The plan alone: nothing is read."""
    return "\n".join(_lines(plan)) + "\n"


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
    if caps := [f"{most:g} {what}" for what, most in Contract.of(settings.master).allowed.items() if most]:
        yield f"             at most, the whole job in a second: {', '.join(caps)}"
    for name, contract in plan.dimensions.items():
        d = settings.dimensions[name]
        keys = " + ".join(f"{k.column} = {columns.of_sale(k.field)}" for k in contract.natural_key)
        yield f"             {name}: {settings.master.database}.{contract.table} on {keys}"
        yield f"               -> {contract.surrogate_key}, {', '.join(contract.attributes)}"
        yield f"               {plan.join(name)}, {d.memory} a worker,"
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
