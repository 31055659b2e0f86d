"""Somebody sets the clock of the job's machine by an hour, and sets it right again."""

from __future__ import annotations

from tests.faults.soak.scene import Scene

HOUR = 3_600.0
WRONG_FOR = 4, 15  # seconds


def ahead(scene: Scene) -> None:
    _wrong(scene, HOUR)


def behind(scene: Scene) -> None:
    _wrong(scene, -HOUR)


def _wrong(scene: Scene, by: float) -> None:
    """Two jumps: the second one in the other direction."""
    assert scene.clock is not None
    scene.clock.set(by)
    try:
        scene.wait(*WRONG_FOR)
    finally:
        scene.clock.set(0)
