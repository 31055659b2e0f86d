"""`millrace down`: the end of the embedded stack."""

from __future__ import annotations

from pipeline.commands.options import FOLDER, Folder


def command(folder: Folder = FOLDER) -> None:
    """Stop the embedded stack. Its data stays."""
    from pipeline.laptop.stack.stack import Stack

    Stack(folder).down()
