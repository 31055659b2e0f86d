"""Settings and contracts brought together and checked before anything runs. Small enough to travel to the workers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

import pyarrow as pa

from pipeline import facts, joins
from pipeline.config.contracts import Contracts, DimensionContract, TableContract, TopicContract, arrow_type
from pipeline.config.settings import Dimension, Settings
from pipeline.errors import BadContract, BadSetting, BudgetTooSmall
from pipeline.joins.base import Options, relation
from pipeline.joins.cost import costs_file as costs
from pipeline.joins.cost.units import Prediction, Relation, Stream, UnitCosts
from pipeline.joins.parts.keycodes import KeyCoder
from pipeline.master.port import MasterStatistics
from pipeline.parse import Parser


@dataclass(frozen=True)
class Plan:
    """What the job is going to do."""

    settings: Settings
    default_topic: TopicContract
    topics: dict[str, TopicContract]  # those that have a contract of their own
    dimensions: dict[str, DimensionContract]
    facts: TableContract
    rejects: TableContract
    costs: dict[str, UnitCosts] = field(default_factory=dict)  # by dimension, where they were measured

    def options(self, dimension: str) -> Options:
        """What shapes the join of a dimension, beside its memory."""
        settings = self.settings.dimensions[dimension]
        return Options(
            batch=settings.batch,
            costs=self.costs.get(dimension, UnitCosts()),
            stream=Stream(e=settings.skew, batch=self.settings.worker.window_sales),
            max_staleness=settings.max_staleness,
            absent_staleness=settings.absent_staleness,
            connections=self.settings.master.connections,
        )

    def predict(self, dimension: str, relation: Relation, window: int) -> Prediction:
        """What the cost model expects of the join that the settings name, in windows of so many sales."""
        settings = self.settings.dimensions[dimension]
        options = self.options(dimension)
        options = replace(options, stream=replace(options.stream, batch=window), planned=options.stream)
        return joins.predict(settings.algorithm, settings.memory, relation, options, settings.front_stage)

    def topic(self, name: str) -> TopicContract:
        return self.topics.get(name, self.default_topic)

    @property
    def sale_schema(self) -> pa.Schema:
        """All columns a sale has after parsing, whatever topic it came from."""
        columns = {n: t for n, t in facts.message_columns().items() if n not in ("message.value", "message.date")}
        for contract in (self.default_topic, *self.topics.values()):
            columns |= {f"sale.{field.name}": field.type for field in contract.schema}
        return pa.schema(list(columns.items()))


def resolve(settings: Settings) -> Plan:
    """The plan, or a `BadContract` that says what does not fit together."""
    for name, dimension in settings.dimensions.items():
        _check_algorithm(name, dimension)
    contracts = Contracts(settings.contracts.folder or None)
    plan = Plan(
        settings=settings,
        default_topic=contracts.topic(settings.kafka.contract),
        topics={topic: contracts.topic(name) for topic, name in settings.kafka.contracts.items()},
        dimensions={name: contracts.dimension(name, d.contract) for name, d in settings.dimensions.items()},
        facts=contracts.table(settings.warehouse.facts),
        rejects=contracts.table(settings.warehouse.rejects),
        costs=costs.load(settings.master.costs),
    )
    _check(plan)
    return plan


def _check(plan: Plan) -> None:
    sale: dict[str, pa.DataType] = {}
    for contract in (plan.default_topic, *plan.topics.values()):
        Parser(contract, plan.settings.kafka.max_message_bytes)  # refuses rules it could not keep
        for column in contract.schema:
            known = sale.setdefault(f"sale.{column.name}", column.type)
            if known != column.type:
                raise BadContract(
                    f"topic contract {contract.name}: column {column.name} is {column.type}, but another topic's "
                    f"contract says {known}. Give one of them another name with `x-column`."
                )
    available = sale | facts.message_columns() | facts.JOB
    for name, dimension in plan.dimensions.items():
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or name in ("sale", "message", "job", "reject"):
            raise BadContract(f"dimensions.{name}: a dimension's name must be a plain word such as product.")
        for key in dimension.natural_key:
            found = sale.get(f"sale.{key.field}")
            if found != arrow_type(key.type, f"dimension {name}"):
                fields = ", ".join(f"{n[5:]} ({t})" for n, t in sorted(sale.items()))
                raise BadContract(
                    f"dimension {name}: its natural key needs the sale's field {key.field} as {key.type}, "
                    f"but it is {found or 'not there'}. The sale has: {fields}."
                )
        available |= {f"{name}.{field.name}": field.type for field in dimension.columns}
        _check_memory(plan, name, dimension)
    facts.check(plan.facts, available)
    facts.check(plan.rejects, facts.message_columns() | facts.REJECT | facts.JOB)


def _check_algorithm(name: str, settings: Dimension) -> None:
    """Here and not where settings are read: they know nothing of joins."""
    if settings.algorithm not in joins.JOINS:
        raise BadSetting(
            f"dimensions.{name}.algorithm = {settings.algorithm!r} must be one of: {', '.join(joins.JOINS)}."
        )
    if settings.front_stage and joins.has_front_stage(settings.algorithm):
        raise BadSetting(
            f"dimensions.{name}.front_stage = true must be false, since {settings.algorithm} has one of its own."
        )


def _check_memory(plan: Plan, name: str, contract: DimensionContract) -> None:
    """Refuse what is too little for any table, even an empty one; what yours needs is known when it can be read."""
    settings = plan.settings.dimensions[name]
    narrowest = MasterStatistics(rows=0, row_bytes=0.0)
    size = relation(narrowest, KeyCoder(contract.key_type, narrowest.key_bytes).words)
    least = joins.least_memory(settings.algorithm, size, plan.options(name), settings.front_stage)
    if settings.memory < least:
        stage = "a front stage and " if settings.front_stage else ""
        raise BudgetTooSmall(
            f"dimensions.{name}.memory = {settings.memory} is too little: {stage}{settings.algorithm} needs {least:,} "
            "bytes even for an empty table. Raise the dimension's memory to at least that; `millrace explain` says "
            "how much your table needs."
        )
