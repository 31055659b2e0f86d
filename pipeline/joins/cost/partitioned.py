"""The partition-based join: sales wait in slots, and the first level keeps the pages used last."""

from __future__ import annotations

from pipeline.joins.cost import slots
from pipeline.joins.cost.inlj import Batched
from pipeline.joins.cost.prediction import Prediction
from pipeline.joins.cost.question import Question
from pipeline.joins.cost.slots import Split


def least(question: Question[Batched]) -> int:
    """One sale, one row and a directory of one page."""
    return slots.least_bytes(question.R, pending=False)


def split(question: Question[Batched]) -> Split:
    """Page size, first level and waiting area."""
    return slots.divide(question, pending=False)


def predict(question: Question[Batched]) -> Prediction:
    """The first level keeps the pages used last."""
    return slots.outcome(split(question.as_planned), question, pending=False)
