"""`millrace settings`: all there are."""

from __future__ import annotations

from pipeline.config import resources


def command() -> None:
    """Print every setting with its default and what it does: a settings file to start from."""
    print(resources.deployed("reference.toml").read_text("utf-8"), end="")
