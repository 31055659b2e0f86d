"""X-HYBRIDJOIN (x-hybridjoin-kais2013, sections 4.3 and 6): HYBRIDJOIN's model with a part of R that stays.

Beside its equations (published/xhybridjoin.py): 4 has what HYBRIDJOIN's 1 has, and use counters; in 5 sales probe what
stays, w c_F for d_N c_H, and a hit costs no c_A and c_E; for 7 to 9 there is `page_reads`: equation 9 with the mean
where it prints a variance, times 2 as in hybridjoin, and with the share of hits that R's own order leaves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache, lru_cache
from typing import Protocol

from pipeline.joins.cost import hybridjoin
from pipeline.joins.cost.hybridjoin import Paged, Split, fixed_bytes, page_sizes, pages, resident_bytes, sales_in
from pipeline.joins.cost.prediction import Prediction
from pipeline.joins.cost.question import Question
from pipeline.joins.cost.search import best_near, grid


class Resident(Paged, Protocol):
    """Settings of an algorithm with pages that stay."""

    @property
    def l(self) -> int:  # noqa: E743
        """Pages that stay; -1: as the model finds best."""
        ...

    @property
    def d_N(self) -> int:
        """As published, rows that stay; -1: as many as l pages have."""
        ...


def least(question: Question[Resident]) -> int:
    """As HYBRIDJOIN's: where there is no room for a resident page, it does without."""
    return hybridjoin.least(question)


@lru_cache(maxsize=1_024)
def split(question: Question[Resident]) -> Split:
    """The d and l of the greatest service rate (equations 4 to 9's optimum, by looking)."""
    of_each_size = [some for d in reversed(page_sizes(question)) if (some := _candidates(d, question))]
    if not of_each_size:
        return hybridjoin.split(question)

    @cache
    def rate(parts: Split) -> float:
        return hybridjoin.rate(parts, question)

    @cache
    def while_nothing_stays_yet(parts: Split) -> float:
        return hybridjoin.rate(replace(parts, l=0, d_N=0), question)

    # Where all of R stays every split is as good once it is there: then how fast it comes there counts.
    @cache
    def of_size(place: int) -> Split:
        return best_near(of_each_size[place], rate, while_nothing_stays_yet)

    place = best_near(
        range(len(of_each_size)),
        lambda place: rate(of_size(place)),
        lambda place: while_nothing_stays_yet(of_size(place)),
    )
    return of_size(place)


def predict(question: Question[Resident]) -> Prediction:
    """As HYBRIDJOIN's, for what the resident part leaves."""
    return hybridjoin.outcome(split(question.as_planned), question, with_resident_part=True)


def _candidates(d: int, question: Question[Resident]) -> list[Split]:
    """With pages of d rows, by how many stay."""
    most, candidates = question.memory - fixed_bytes(d, question), []
    for parts in _resident_parts(d, question):
        published = question.settings.published
        stays = first_bytes(parts.d_N, question) if published else resident_bytes(d, parts.l, question)
        if h_S := sales_in(most - stays, question):
            candidates.append(replace(parts, h_S=h_S))
    return candidates


def _resident_parts(d: int, question: Question[Resident]) -> Iterator[Split]:
    R, settings = question.R, question.settings
    if settings.d_N >= 0:
        d_N = min(R.R_t, settings.d_N)
        yield Split(d, 0, round(d_N / d), d_N)
        return
    for l in grid(1, pages(d, R), 14) if settings.l < 0 else [settings.l]:  # noqa: E741
        yield Split(d, 0, l, min(R.R_t, l * d) if settings.published else 0)


def first_bytes(d_N: int, question: Question[object]) -> float:
    """R's first rows, as published: no index, no counters; a copy of those that match is handed out."""
    return question.accounting.rows(d_N, question.R.v_R, d_N * question.R.row_bytes)
