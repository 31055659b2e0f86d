"""SSIJ: sales wait in slots behind a pending phase, and the cache keeps the most wanted pages."""

from __future__ import annotations

from pipeline.joins.cost import slots
from pipeline.joins.cost.inlj import Batched
from pipeline.joins.cost.prediction import Prediction
from pipeline.joins.cost.question import Question
from pipeline.joins.cost.slots import Split


def least(question: Question[Batched]) -> int:
    """One sale, one row and a directory of one page."""
    return slots.least_bytes(question.R, pending=True)


def split(question: Question[Batched]) -> Split:
    """Page size, kept pages and stream buffer."""
    return slots.divide(question, pending=True)


def predict(question: Question[Batched]) -> Prediction:
    """The cache keeps the most wanted pages."""
    return slots.outcome(split(question.as_planned), question, pending=True)
