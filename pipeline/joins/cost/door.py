"""What the door of a join adds to its algorithm's time: sales come in by offers, and each takes its own."""

from __future__ import annotations

import math
from dataclasses import replace

from pipeline.joins.cost.prediction import Prediction
from pipeline.joins.cost.question import Question


def with_offers(prediction: Prediction, question: Question[object]) -> Prediction:
    """The algorithm's prediction as the whole join's."""
    return _at_least_once(_in_pieces(prediction, question), question)


def _in_pieces(prediction: Prediction, question: Question[object]) -> Prediction:
    """An offer for each iteration is in `loop`; with a small memory it takes several to bring its sales."""
    mu, iterations = prediction.mu, prediction.queries
    if not iterations:
        return prediction
    return _slower(prediction, 1 + (math.ceil(mu / iterations / question.offer) - 1) * iterations * question.costs.c_P)


def _at_least_once(prediction: Prediction, question: Question[object]) -> Prediction:
    """However few its sales are, and if nothing is read for them: a window is offered and stepped once."""
    window, mu = question.stream.batch, prediction.mu
    idle = max(0.0, 1 - prediction.queries / mu * window) if mu else 0.0
    return _slower(prediction, 1 + mu * idle * (question.costs.c_P + question.costs.loop) / window)


def _slower(prediction: Prediction, times: float) -> Prediction:
    return replace(
        prediction, mu=prediction.mu / times, queries=prediction.queries / times, rows=prediction.rows / times
    )
