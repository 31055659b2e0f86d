"""Settings and contracts brought together and checked before anything runs. Small enough to travel to the workers."""

from __future__ import annotations

import difflib
import hashlib
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any

import pyarrow as pa

from pipeline import columns, facts, joins
from pipeline.config.checks import need
from pipeline.config.contracts import Contracts, DimensionContract, TableContract, TopicContract, arrow_type
from pipeline.config.loader import read_table
from pipeline.config.measures import Bytes
from pipeline.config.settings import DimensionSettings, Settings
from pipeline.errors import BadContract, BadSetting, BudgetTooSmall
from pipeline.joins import Join, Options
from pipeline.joins.cost import costs_file as costs
from pipeline.joins.cost.caps import Caps
from pipeline.joins.cost.prediction import Prediction
from pipeline.joins.cost.question import Relation, Stream
from pipeline.joins.cost.unit_costs import UnitCosts
from pipeline.joins.parts.keycodes import KeyCoder
from pipeline.master.port import Master, MasterStatistics
from pipeline.master.share import Contract
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
    workers: int = 1  # that run at once, and share what may be asked of the master

    def join(self, dimension: str) -> str:
        """The registry's name of the join that the settings ask for."""
        settings = self.settings.dimensions[dimension]
        return joins.with_front_stage(settings.algorithm) if settings.front_stage else settings.algorithm

    def options(self, dimension: str) -> Options:
        """What shapes the join of a dimension, beside its memory."""
        settings = self.settings.dimensions[dimension]
        contract = Contract.of_workers(self.settings)
        share = contract.deal(self.workers, self.workers)[-1]
        own = _settings_of_joins(dimension, settings)
        # Nothing else tells where the rows lie that are wanted most: this is of no use where they are not R's first.
        first = settings.algorithm == "x-hybridjoin" and getattr(own.get("x-hybridjoin"), "published", False)
        return Options(
            costs=self.costs.get(dimension, UnitCosts()),
            stream=Stream(e=settings.skew, batch=self.settings.worker.window_sales),
            order="by frequency" if first else "scattered",
            settings=own,
            max_staleness=settings.max_staleness,
            absent_staleness=settings.absent_staleness,
            connections=share.connections,
            caps=Caps(
                queries=contract.allowed["statements"] / self.workers or math.inf,
                rows=contract.allowed["rows"] / self.workers or math.inf,
                read=float(share.largest_read),
            ),
        )

    def predict(self, dimension: str, relation: Relation, window: int) -> Prediction:
        """What the cost model expects of the join that the settings name, in windows of so many sales."""
        options = self.options(dimension)
        options = replace(options, stream=replace(options.stream, batch=window), planned=options.stream)
        return joins.predict(self.join(dimension), self.settings.dimensions[dimension].memory, relation, options)

    def make_join(self, dimension: str, master: Master) -> Join:
        """The join that the settings ask for. Refuses a budget it cannot work in."""
        memory = self.settings.dimensions[dimension].memory
        with _named(dimension, memory):
            return joins.make(self.join(dimension), master, memory, self.options(dimension))

    def check_join(self, dimension: str, master: Master) -> None:
        """Refuse what `make_join` would."""
        memory = self.settings.dimensions[dimension].memory
        with _named(dimension, memory):
            joins.check(self.join(dimension), master, memory, self.options(dimension))

    def topic(self, name: str) -> TopicContract:
        return self.topics.get(name, self.default_topic)

    @property
    def fingerprint(self) -> str:
        """Of all contracts, and of what else decides what becomes of a message: another one where any of it differs."""
        told = (self.default_topic, self.topics, self.dimensions, self.facts, self.rejects)
        return hashlib.sha256(repr((told, self.settings.kafka.max_message_bytes)).encode()).hexdigest()[:16]

    @property
    def sale_schema(self) -> pa.Schema:
        """All columns a sale has after parsing, whatever topic it came from."""
        kept = {name: kind for name, kind in columns.MESSAGE.items() if name != columns.VALUE}
        topics = (self.default_topic, *self.topics.values())
        return pa.schema([*(kept | columns.sale_columns(contract.schema for contract in topics)).items()])


@contextmanager
def _named(dimension: str, memory: Bytes) -> Iterator[None]:
    """A budget that is refused is told with its setting."""
    try:
        yield
    except BudgetTooSmall as error:
        raise BudgetTooSmall(f"dimensions.{dimension}.memory = {memory}: {error}") from error


def resolve(settings: Settings) -> Plan:
    """The plan, or a `BadContract` that says what does not fit together."""
    for name, dimension in settings.dimensions.items():
        _check_algorithm(name, dimension)
    _check_speculation(settings)
    _check_healing(settings)
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


def _check_speculation(settings: Settings) -> None:
    speculates = settings.spark.conf.get("spark.speculation", "false")
    ok = speculates.lower() == "false" or not Contract.of(settings.master).caps_something
    needed = "false: a task that runs twice at once would ask the master for more than the caps in [master] allow"
    need(ok, "spark.conf.spark.speculation", speculates, needed)


def _check_healing(settings: Settings) -> None:
    """A job heals by what its feed tells, and asks from the driver, which is lent a part of what the workers may."""
    given, master = settings.warehouse.heal_rows_per_minute, settings.master
    why = ""
    if master.feed == "off":
        why = "needs a feed, which tells of rows that come late, and master.feed is off. Let it be auto, binlog or poll"
    elif too_small := Contract.of(master).too_small_to_lend:
        why = f"needs a part of what the workers may ask, which is too little to be shared. Let {too_small}"
    if given and why:
        raise BadSetting(
            f"warehouse.heal_rows_per_minute = {given} {why}; or leave healing to `millrace repair`: "
            "heal_rows_per_minute = 0."
        )


def _check(plan: Plan) -> None:
    sale: dict[str, pa.DataType] = {}
    topics = (plan.default_topic, *plan.topics.values())
    for contract in topics:
        Parser(contract, plan.settings.kafka.max_message_bytes)  # refuses rules it could not keep
        for column in contract.schema:
            known = sale.setdefault(column.name, column.type)
            if known != column.type:
                raise BadContract(
                    f"topic contract {contract.name}: column {column.name} is {column.type}, but another topic's "
                    f"contract says {known}. Give one of them another name with `x-column`."
                )
    available = columns.sale_columns(contract.schema for contract in topics) | columns.STAMPED | columns.JOB
    for name, dimension in plan.dimensions.items():
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or name in columns.OTHERS:
            raise BadContract(f"dimensions.{name}: a dimension's name must be a plain word such as product.")
        for key in dimension.natural_key:
            found = sale.get(key.field)
            if found != arrow_type(key.type, f"dimension {name}"):
                raise BadContract(
                    f"dimension {name}: its natural key needs the sale's field {key.field} as {key.type}, "
                    f"but it is {found or 'not there'}. The sale has: {_told(sale)}."
                )
        if dimension.validity and sale.get(at := dimension.validity.at) != columns.MESSAGE[columns.TIMESTAMP]:
            raise BadContract(
                f"dimension {name}: its validity goes by the sale's field {at} as a timestamp, but it is "
                f"{sale.get(at) or 'not there'}. The sale has: {_told(sale)}."
            )
        available |= columns.dimension_columns(name, dimension.columns)
        _check_memory(plan, name, dimension)
    facts.check(plan.facts, available | columns.FACT)
    facts.check(plan.rejects, columns.STAMPED | columns.REJECT | columns.JOB)


def _told(sale: dict[str, pa.DataType]) -> str:
    return ", ".join(f"{name} ({kind})" for name, kind in sorted(sale.items()))


def _check_algorithm(name: str, settings: DimensionSettings) -> None:
    """Here and not where settings are read: they know nothing of joins."""
    if settings.algorithm not in joins.JOINS:
        raise BadSetting(
            f"dimensions.{name}.algorithm = {settings.algorithm!r} must be one of: {', '.join(joins.JOINS)}."
        )
    if settings.front_stage and joins.recipe(settings.algorithm).has_front_stage:
        raise BadSetting(
            f"dimensions.{name}.front_stage = true must be false, since {settings.algorithm} has one of its own."
        )
    _settings_of_joins(name, settings)


def _settings_of_joins(name: str, settings: DimensionSettings) -> dict[str, Any]:
    """What the tables [dimensions.<name>.<join>] say. One of a join that is not chosen counts when it is compared."""
    here = f"dimensions.{name}"
    built: dict[str, Any] = {}
    for join, given in settings.joins.items():
        if join not in joins.ALGORITHMS:
            close = difflib.get_close_matches(join, joins.ALGORITHMS, n=1)
            origins = ", ".join(sorted({value.origin for value in given.values()})) or "the settings file"
            raise BadSetting(
                f"{origins}: {here}.{join} is no join with settings of its own. "
                f"{f'Did you mean {close[0]}? ' if close else ''}Known: {', '.join(joins.ALGORITHMS)}."
            )
        built[join] = read_table(joins.ALGORITHMS[join].Settings, f"{here}.{join}", given)
    if settings.batch:
        _batch_for_the_chosen(here, settings, built)
    return built


def _batch_for_the_chosen(here: str, settings: DimensionSettings, built: dict[str, Any]) -> None:
    """`batch` beside `algorithm` is short for the chosen join's own."""
    chosen = joins.recipe(settings.algorithm).main
    known = [field.name for field in fields(chosen.Settings)]
    if "batch" not in known:
        raise BadSetting(
            f"{here}.batch = {settings.batch}: {settings.algorithm} asks for no key by name and has no batch; "
            f"it has {here}.{chosen.name}: {', '.join(known)}. Leave batch out."
        )
    if "batch" in settings.joins.get(chosen.name, {}):
        raise BadSetting(f"{here}.batch = {settings.batch} and {here}.{chosen.name}.batch: leave out one of them.")
    built[chosen.name] = replace(built.get(chosen.name) or chosen.Settings(), batch=settings.batch)


def _check_memory(plan: Plan, name: str, contract: DimensionContract) -> None:
    """Refuse what is too little for any table, even an empty one; what yours needs is known when it can be read."""
    settings = plan.settings.dimensions[name]
    narrowest = MasterStatistics(rows=0, row_bytes=0.0)
    table = joins.relation(narrowest, KeyCoder(contract.key_type, narrowest.key_bytes).words, unique=True)
    least = joins.least_memory(plan.join(name), table, plan.options(name))
    if settings.memory < least:
        raise BudgetTooSmall(
            f"dimensions.{name}.memory = {settings.memory} is too little: {plan.join(name)} needs {least:,} "
            "bytes even for an empty table. Raise the dimension's memory to at least that; `millrace explain` says "
            "how much your table needs."
        )
