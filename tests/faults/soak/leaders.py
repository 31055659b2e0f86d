"""The stage with three brokers and three copies of each sale, and its faults: what befalls a leader.

The other two stay up, so sales go on being acknowledged, and the job has to go on without it: a fault ends when it has.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from tests.faults.soak.scene import BETWEEN_LOOKS, PARTITIONS, TOPIC, Scene
from tests.kit import brokers
from tests.kit.brokers import Peer
from tests.kit.running import wait_until

WITHIN = 60.0  # seconds; a broker that is silent for four is given up by the others


class SceneOfThree(Scene):
    """The job knows all three; no line to them is broken."""

    def __init__(self, folder: Path, moments: Random, as_shipped: bool = False) -> None:
        super().__init__(folder, moments, as_shipped)
        self.brokers = brokers.three(self.stack.folder)
        self.stack.kafka = self.brokers[0]
        self.stack.servers = (*self.brokers, self.stack.database)

    @property
    def bootstrap(self) -> str:
        return brokers.bootstrap(self.brokers)

    def _create_topic(self) -> None:
        self.stack.kafka.create_topic(TOPIC, PARTITIONS, brokers.IN_SYNC, copies=brokers.COPIES)

    @contextmanager
    def _way_to_kafka(self) -> Iterator[str]:
        yield self.bootstrap

    def leader(self) -> tuple[Peer, int]:
        """A broker and a partition that it leads just now."""
        brokers.await_copies(self.brokers, TOPIC)  # a broker that was away catches up first: two have to stay
        partition = self.moments.randrange(PARTITIONS)
        peer = brokers.leader(self.brokers, TOPIC, partition)
        assert peer is not None, f"nobody leads partition {partition}"
        return peer, partition

    def gone_on(self, gone: Peer, partition: int, sales_in: Iterable[int]) -> float:
        """Seconds until another leads the partition, sales come, and the tables have what came: without that broker."""
        began = time.monotonic()
        others = [peer for peer in self.brokers if peer is not gone]

        def is_led() -> bool:
            return brokers.leader(others, TOPIC, partition) is not None

        wait_until(is_led, f"another broker than {gone.number} leads partition {partition}", WITHIN, BETWEEN_LOOKS)
        before = self.sent(sales_in)
        what = f"sales acknowledged without broker {gone.number}"
        wait_until(lambda: self.sent(sales_in) > before, what, WITHIN, BETWEEN_LOOKS)
        self.recovered()
        return time.monotonic() - began


def leader_killed(scene: SceneOfThree) -> float:
    led, partition = scene.leader()
    led.kill()
    took = scene.gone_on(led, partition, [partition])
    led.start()
    return took


def leader_restarted(scene: SceneOfThree) -> float:
    """It hands over what it leads before it goes."""
    led, partition = scene.leader()
    led.stop()
    took = scene.gone_on(led, partition, [partition])
    led.start()
    return took


def leader_frozen(scene: SceneOfThree) -> float:
    """Its connections stay open, so who waits for its answer does not know. Thawed, it takes itself for the leader.

    The sender, too, waits for it with the sales of the partitions that it led.
    """
    led, partition = scene.leader()
    assert led.pid, f"{led.name} runs"
    os.kill(led.pid, signal.SIGSTOP)
    try:
        return scene.gone_on(led, partition, range(PARTITIONS))
    finally:
        os.kill(led.pid, signal.SIGCONT)


OF_LEADERS: dict[str, Callable[[SceneOfThree], float]] = {
    "leader killed": leader_killed,
    "leader restarted": leader_restarted,
    "leader frozen": leader_frozen,
}
