"""The kernel ends a worker for want of memory: the job goes on with another one, and nothing is lost or doubled."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.generate.keys import Sizes
from pipeline.generate.run import generate
from pipeline.generate.workload import Workload
from pipeline.laptop.stack.stack import StackInfo
from tests.kit import memory_cgroup
from tests.kit.memory_cgroup import MemoryCgroup
from tests.kit.running import Job, wait_until


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.skipif(bool(memory_cgroup.refusal()), reason=memory_cgroup.refusal())
def test_a_worker_that_the_kernel_ends_for_want_of_memory_is_replaced(
    seeded: StackInfo, seeded_sizes: Sizes, topic: str, tmp_path: Path, reconciled: Callable[..., None]
) -> None:
    over, sent = threading.Event(), []
    workload = Workload(topics={topic: 1.0}, sizes=seeded_sizes, malformed=0.05, unknown=0.02)

    def sell() -> None:
        sent.append(
            generate(bootstrap=seeded.bootstrap, workload=workload, rate=2_000, partitions=3, progress=False, stop=over)
        )

    selling = threading.Thread(target=sell)
    with Job(tmp_path, seeded, topic) as job:
        selling.start()
        try:
            job.wait_for(2_000)
            first = job.workers()
            with MemoryCgroup() as held:
                for worker in first:
                    held.hold(worker)
                held.press()
                wait_until(lambda: held.killed > 0, "a worker killed by the kernel")
            at = job.committed()
            wait_until(lambda: job.committed() > at + 10_000, "five more seconds of sales")
            assert set(job.workers()) - set(first)
        finally:
            over.set()
            selling.join()
        job.wait_for(sent[0].messages)
        assert job.stop() == 0, job.tail()
    reconciled(job, sent[0])
