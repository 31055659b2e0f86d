"""`millrace joins`: those that can be set."""

from __future__ import annotations


def command() -> None:
    """List the joins that can be set, one a line."""
    from pipeline.joins import JOINS

    print("\n".join(JOINS))
