"""Free ports on the loopback address."""

from __future__ import annotations

import random
import socket

LOOPBACK = "127.0.0.1"
# Below the range systems take for outgoing connections, so that a stopped server finds its port free again.
_RANGE = range(20_000, 32_000)


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As the servers do: connections of a server that just ended may linger, and do not matter.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def choose(count: int) -> list[int]:
    """Free ports drawn at random, so that two stacks rarely choose the same; fewer if there are no more."""
    drawn = random.SystemRandom().sample(_RANGE, 1_000)
    return [port for port in drawn if is_free(port)][:count]
