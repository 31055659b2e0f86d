"""The workers want more memory than there is, until the kernel ends one."""

from __future__ import annotations

from tests.faults.soak.scene import Scene
from tests.kit.memory_cgroup import MemoryCgroup
from tests.kit.running import wait_until


def worker_out_of_memory(scene: Scene) -> None:
    """All workers are in it, for which of them will work next nobody knows; it ends with the first that is killed."""
    wait_until(lambda: bool(scene.job.workers()) or not scene.job.running, "a Python worker")
    with MemoryCgroup() as held:

        def has_killed() -> bool:
            for worker in scene.job.workers() if scene.job.running else []:
                held.hold(worker)  # those that came meanwhile, too
            return held.killed > 0 or not scene.job.running

        held.press()
        wait_until(has_killed, "a worker killed by the system")
