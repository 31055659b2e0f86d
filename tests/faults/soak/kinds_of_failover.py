"""The database's host dies for good, and another one that has replicated from it takes its place."""

from __future__ import annotations

import shutil

from tests.faults.soak.scene import Scene
from tests.kit.replicated import ReplicatedDatabase


def fails_over(scene: Scene) -> None:
    """Its last change was not replicated, as may happen: it is undone for everybody, and so for the job."""
    first = scene.stack.database
    assert isinstance(first, ReplicatedDatabase), "the stage has servers that can be replicated"
    second = first.replica(scene.stack.folder / f"host-{first.number + 1}")
    scene.stack.servers = (scene.stack.kafka, first, second)  # whatever happens here, they end with the stage
    _recategorise(first, "before")
    second.catch_up(first)
    second.hear_nothing_more()
    _recategorise(first, "lost")
    first.kill()
    scene.wait(0, 3)
    second.promote()
    scene.to_database.target = second.port
    scene.stack.database, scene.stack.servers = second, (scene.stack.kafka, second)
    shutil.rmtree(first.folder)
    # The checker takes a fact's row for an earlier one if the database's own has been updated since.
    _recategorise(second, "after")


def _recategorise(server: ReplicatedDatabase, category: str) -> None:
    server.execute(
        f"UPDATE product SET category = '{category} {server.number}' WHERE product_key % 7 = 0", database="master"
    )
