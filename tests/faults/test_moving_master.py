"""A master that changes under the sales, while the job is killed and the database goes away."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.generate.keys import Sizes
from pipeline.laptop.stack.stack import Stack
from tests.kit.moving_proof import MovingProof

SIZES = Sizes(products=500, customers=100, stores=20)
BOUND = 2.0  # seconds


@pytest.mark.slow
def test_facts_histories_and_batches_computed_again_are_as_the_master_was_though_job_and_database_are_killed(
    tmp_path: Path, stack: Stack, master_database: str, topic: str
) -> None:
    """The same for three minutes at 20 000 sales a second: `tests/benchmarks/moving_master_run.py`."""
    proof = MovingProof(stack, master_database, topic, tmp_path, SIZES, seconds=32, rate=2_000)
    proof.run()
    verdict = proof.verdict()
    assert verdict.facts == proof.distinct() == proof.sent
    assert verdict.never_was == 0
    assert verdict.of_changed > proof.sent // 2
    # No sale got a row that was replaced two seconds before it was sent.
    assert max(verdict.stale, default=0.0) <= BOUND
    figures = proof.figures
    assert all(0 < figures.used[name] <= limit for name, limit in figures.limit.items())
    assert 0 < figures.worker <= proof.plan.settings.worker.memory
    proof.heal()
    assert not proof.unknown_although_there()
    assert proof.differing_histories() == []
    replays = proof.replays(10, seed=5)
    assert all(one.ok for one in replays), "\n\n".join(str(one) for one in replays if not one.ok)
