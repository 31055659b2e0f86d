"""What a Python worker remembers between micro-batches: parsers and joins. All of it can be made again."""

from __future__ import annotations

import contextlib
import gc
import math
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache

import pyarrow as pa

from pipeline.answers.task import TaskAnswer
from pipeline.config.contracts import DimensionContract, TableContract
from pipeline.driver import ended, readers
from pipeline.enrich import Dimension, Predict
from pipeline.flow import SaleFlow
from pipeline.joins.cost.prediction import Prediction
from pipeline.joins.cost.question import Relation
from pipeline.master.open import keeping_to, open_master, place_in_log
from pipeline.master.share import Contract, Share
from pipeline.news import News
from pipeline.parse import Parser
from pipeline.plan import Plan
from pipeline.warehouse.files import TableFiles, table_files

_STEP = 1.2  # from one size of windows to the next

_dimensions: dict[str, Dimension] = {}  # soft state, by everything that shaped it
_masters = contextlib.ExitStack()  # theirs: open from batch to batch
_settled = False  # what stays is kept out of the collection of garbage
_followed = ""  # the server whose log told what is known of changes


def work_of(
    plan: Plan, batch: int, news: News, shares: Sequence[Share]
) -> Callable[[Iterator[pa.RecordBatch]], TaskAnswer]:
    """The work of one task: what is sent to the workers is the plan, what has changed in the master, and what each task
    may ask of it, never an open connection or a warm cache."""

    def work(messages: Iterator[pa.RecordBatch]) -> TaskAnswer:
        try:
            _notice(news)
            with ended.marked(), keeping_to(_own(shares), plan.settings.master) as told:
                answer = flow(plan, batch, news).run(messages)
            answer.used, answer.sessions = told.used, told.sessions
        except BaseException:
            # Sales of this attempt may still wait in the joins; the next attempt must not meet them.
            forget()
            raise
        _settle()
        return answer

    return work


def warm(plan: Plan) -> None:
    """Have everything at hand that the first batch needs: libraries, compiled loops, joins, connections. What fails
    will fail again where it is told."""
    with contextlib.suppress(Exception):
        if Contract.of(plan.settings.master).caps_something:
            plan = replace(
                plan, dimensions={}
            )  # beside this the first batch may begin, which has all that may be asked
        idle = flow(plan, batch=0, news=News())
        idle.parser_of("").parse(pa.array([], pa.binary()))
        for dimension in _dimensions.values():
            dimension.join.master.statistics()
        readers.warm(plan.settings)


def _own(shares: Sequence[Share]) -> Share:
    """The share of the task that runs here."""
    from pyspark import TaskContext

    task = TaskContext.get()
    if task is None:
        return shares[0]
    share = shares[task.partitionId()]
    return share.spent if task.attemptNumber() else share


def _settle() -> None:
    """Spark collects garbage after every task, and looks through all that the libraries have made: most of what a small
    batch takes. What is here after the first one stays, and need not be looked at again. Whether that is done Python
    would find out by counting it all, in 15 ms."""
    global _settled
    if not _settled:
        gc.collect()
        gc.freeze()
        _settled = True


def _notice(news: News) -> None:
    """The database's name leads to another server than before. A session of before may have outlived that, and read
    what is older than what the new one's log has told."""
    global _followed
    server = place_in_log(news.place).server if news.place else ""
    if _followed and server and server != _followed:
        forget()
    _followed = server or _followed


def forget() -> None:
    """Drop all soft state."""
    global _settled
    gc.unfreeze()
    _settled = False
    _dimensions.clear()
    _masters.close()


def flow(plan: Plan, batch: int, news: News) -> SaleFlow:
    """A sale's journey in this process, with the joins that it has already."""
    attempt = uuid.uuid4().hex

    @cache
    def parser_of(topic: str) -> Parser:
        return Parser(plan.topic(topic), plan.settings.kafka.max_message_bytes)

    def files(table: TableContract) -> TableFiles:
        return table_files(plan.settings.warehouse, table, plan.settings.job.name, attempt)

    return SaleFlow(
        parser_of=parser_of,
        sale_schema=plan.sale_schema,
        dimensions=[_dimension(plan, contract, news) for contract in plan.dimensions.values()],
        facts=files(plan.facts),
        rejects=files(plan.rejects),
        limits=plan.settings.worker,
        application=plan.settings.job.name,
        batch=batch,
        news=news,
    )


def _dimension(plan: Plan, contract: DimensionContract, news: News) -> Dimension:
    """The dimension with the join this worker already has for it, or a new one: it is made for a table as it was."""
    shaped_by = shape(plan, contract, news)
    if shaped_by not in _dimensions:
        for other in [key for key, known in _dimensions.items() if known.contract.name == contract.name]:
            del _dimensions[other]
            gc.unfreeze()  # or its memory would never be given back: see `_settle`
        join = plan.make_join(contract.name, _masters.enter_context(open_master(plan.settings.master, contract)))
        _dimensions[shaped_by] = Dimension(contract, join, _prediction(plan, contract.name, join.relation))
    return _dimensions[shaped_by]


def shape(plan: Plan, contract: DimensionContract, news: News) -> str:
    """All that makes one join another than the one before, and none of its secrets."""
    settings, table = plan.settings.dimensions[contract.name], news.altered.get(contract.name, 0)
    return repr((contract, settings, plan.settings.master, plan.options(contract.name), table))


def _prediction(plan: Plan, name: str, relation: Relation) -> Predict:
    """What the cost model expects, for sizes of windows that differ by a fifth: each is asked for once."""

    @cache
    def of_size(step: int) -> Prediction:
        return plan.predict(name, relation, max(1, round(_STEP**step)))

    return lambda sales: of_size(round(math.log(sales, _STEP)))
