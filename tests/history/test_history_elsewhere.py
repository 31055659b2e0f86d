"""A history whose master has failed over to another host: compared with the table there, and gone on with."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.history.history_world import World
from tests.kit.replicated import first_server

pytestmark = pytest.mark.mysql


def categories(world: World) -> dict[str, str]:
    return {row["product_code"]: row["category"] for row in world.versions() if row["is_current"]}


def test_a_change_that_died_with_its_host_ends_in_the_history_and_what_follows_is_told_by_the_others_log(
    tmp_path: Path,
) -> None:
    first = first_server(tmp_path / "first")
    first.start()
    servers, stack = [first], SimpleNamespace(database=first)
    try:
        world = World(stack, "master", tmp_path)  # type: ignore[arg-type]
        world.make()
        world.execute(
            "INSERT INTO product (product_code, product_key, category) VALUES ('ale', 1, 'a'), ('bun', 2, 'b')"
        )
        second = first.replica(tmp_path / "second")
        servers.append(second)
        second.hear_nothing_more()
        world.execute("UPDATE product SET category = 'lost' WHERE product_code = 'ale'")
        world.sync()
        assert categories(world) == {"ale": "lost", "bun": "b"}
        first.kill()
        second.promote()
        stack.database = second
        world.execute("UPDATE product SET category = 'after' WHERE product_code = 'bun'")
        world.sync()
        assert categories(world) == {"ale": "a", "bun": "after"}
        assert any("is another server than before" in note.get("reason", "") for note in world.notes())
        world.execute("DELETE FROM product WHERE product_code = 'ale'")
        world.sync()
        assert categories(world) == {"bun": "after"}
    finally:
        for server in servers:
            server.stop()
