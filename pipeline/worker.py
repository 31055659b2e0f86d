"""What a Python worker remembers between micro-batches: parsers and joins. All of it can be made again."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from functools import cache

import pyarrow as pa

from pipeline.contracts import DimensionContract, TableContract
from pipeline.enrich import Dimension
from pipeline.errors import BudgetTooSmall
from pipeline.flow import SaleFlow
from pipeline.joins import JOINS
from pipeline.joins.base import Join
from pipeline.joins.frontstage import FrontStage
from pipeline.master.mysql import MySqlMaster
from pipeline.master.port import Master
from pipeline.parse import Parser
from pipeline.plan import Plan
from pipeline.report import Report
from pipeline.settings import Dimension as DimensionSettings
from pipeline.settings import MasterData
from pipeline.warehouse.files import TableFiles, table_files

FRONT_STAGE_SHARE = 0.5  # of a dimension's memory; the rest is for the sales in hand and the answers of the master

_dimensions: dict[str, Dimension] = {}  # soft state, by everything that shaped it


def work_of(plan: Plan, batch: int) -> Callable[[Iterator[pa.RecordBatch]], Report]:
    """The work of one task: what is sent to the workers is the plan, never an open connection or a warm cache."""

    def work(messages: Iterator[pa.RecordBatch]) -> Report:
        try:
            return _flow(plan, batch).run(messages)
        except BaseException:
            # Sales of this attempt may still wait in the joins; the next attempt must not meet them.
            forget()
            raise

    return work


def forget() -> None:
    """Drop all soft state."""
    for dimension in _dimensions.values():
        dimension.join.master.close()
    _dimensions.clear()


def _flow(plan: Plan, batch: int) -> SaleFlow:
    attempt = uuid.uuid4().hex

    @cache
    def parser_of(topic: str) -> Parser:
        return Parser(plan.topic(topic), plan.settings.kafka.max_message_bytes)

    def files(table: TableContract) -> TableFiles:
        return table_files(plan.settings.warehouse, table, plan.settings.job.name, attempt)

    return SaleFlow(
        parser_of=parser_of,
        sale_schema=plan.sale_schema,
        dimensions=[
            _dimension(contract, plan.settings.dimensions[name], plan.settings.master)
            for name, contract in plan.dimensions.items()
        ],
        facts=files(plan.facts),
        rejects=files(plan.rejects),
        limits=plan.settings.worker,
        application=plan.settings.job.name,
        batch=batch,
    )


def _dimension(contract: DimensionContract, settings: DimensionSettings, server: MasterData) -> Dimension:
    """The dimension with the join this worker already has for it, or a new one."""
    shaped_by = repr((contract, settings, server, str(server.password)))
    if shaped_by not in _dimensions:
        _dimensions[shaped_by] = Dimension(contract, make_join(contract.name, settings, MySqlMaster(server, contract)))
    return _dimensions[shaped_by]


def make_join(name: str, settings: DimensionSettings, master: Master) -> Join:
    """The join the settings ask for. Refuses a budget it cannot work in."""
    behind = int(settings.memory * (1 - FRONT_STAGE_SHARE)) if settings.front_stage else settings.memory
    try:
        join = JOINS[settings.algorithm](master, behind, settings.batch)
        if not settings.front_stage:
            return join
        return FrontStage(join, settings.memory, settings.max_staleness, settings.absent_staleness)
    except BudgetTooSmall as error:
        share = (
            f" (the join gets {1 - FRONT_STAGE_SHARE:.0%} of it, the front stage the rest)"
            if settings.front_stage
            else ""
        )
        raise BudgetTooSmall(f"dimensions.{name}.memory = {settings.memory}{share}: {error}") from error
