"""The names of a sale's columns stand in one file."""

from __future__ import annotations

import ast
from pathlib import Path

from pipeline import columns

PIPELINE = Path(columns.__file__).parent
NAMES = {*columns.STAMPED, *columns.REJECT, *columns.JOB}
PREFIXES = ("sale.", "message.", "reject.")


def written(tree: ast.AST) -> list[str]:
    """Column names as literals, and the beginnings of those that are put together."""
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    begun = [node.values[0] for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) and len(node.values) == 2]
    beginnings = [part.value for part in begun if isinstance(part, ast.Constant)]
    return [text for text in texts if text in NAMES] + [text for text in beginnings if text in PREFIXES]


def test_no_other_file_spells_the_name_of_a_column() -> None:
    """Reconciliation borrows nothing from what it proves: it has its own."""
    files = [file for file in PIPELINE.rglob("*.py") if "reconcile" not in file.parts and file.name != "columns.py"]
    assert len(files) > 100
    spelt = {str(file.relative_to(PIPELINE)): written(ast.parse(file.read_text("utf-8"))) for file in files}
    assert {file: names for file, names in spelt.items() if names} == {}
    assert {*written(ast.parse((PIPELINE / "columns.py").read_text("utf-8")))} >= {"reject.reason", "sale.", "message."}
