"""The fuzzers in small, by one seed; `make fuzz` goes on from there. And that whoever watches them finds what is there
to be found: without that, silence would mean nothing."""

from __future__ import annotations

import pytest

from tests.fuzz import broken, engine
from tests.fuzz.engine import TARGETS, sample, seeded

EXECUTIONS = {"settings_files": 60, "sale_messages": 300}


@pytest.mark.parametrize("target", TARGETS)
def test_hostile_bytes_are_refused_by_name_or_mean_what_another_reader_finds(target: str) -> None:
    executions = EXECUTIONS.get(target, 500)
    run = seeded(target, seed=1, most=executions)
    assert not run.defect, run.found
    assert run.executions == executions
    assert executions > run.accepted > executions / 20


@pytest.mark.parametrize(
    ("worst", "says"), [(broken.FATAL, "ends with -11"), (broken.ENDLESS, "is not through with one input")]
)
def test_an_input_that_kills_or_is_never_through_is_told_and_kept(
    worst: bytes, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "TOO_LONG", 0.3)
    seed = next(seed for seed in range(1_000) if _first_harm(seed) == worst)
    run = seeded("broken", seed)
    assert says in run.defect
    assert run.found == worst
    assert sample("broken", seed, run.executions) == worst


def _first_harm(seed: int) -> bytes:
    inputs = (sample("broken", seed, number) for number in range(1_000))
    return next(data for data in inputs if data in (broken.FATAL, broken.ENDLESS))
