"""`millrace rewind`: on from where the tables are."""

from __future__ import annotations

from pipeline.commands.options import Config, Set, chosen


def command(config: Config = None, set_: Set = None) -> None:
    """Set the checkpoint back to the last batch that the tables have, when they were restored to an older state."""
    from pipeline.driver import mend

    print(mend.rewind(chosen(config, set_)))
