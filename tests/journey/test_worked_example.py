"""The worked example of schemas/README.md, run as it stands in the page: its files, its commands, in its order."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from deltalake import DeltaTable

from pipeline.laptop.stack.database import ScriptFailed

PAGE = Path(__file__).parents[2] / "schemas" / "README.md"
_STEP = re.compile(r"(?:^`(?P<file>own/[\w./-]+)`\n\n)?^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


class Step(NamedTuple):
    """A file to be written, or commands to be run."""

    file: str
    text: str


def steps() -> list[Step]:
    """What the page's section tells the reader to do, in order."""
    section = PAGE.read_text("utf-8").split("\n## From nothing to facts")[1].split("\n## ")[0]
    found = [(match["file"] or "", match["kind"], match["text"]) for match in _STEP.finditer(section)]
    assert section.count("```") == 2 * len(found)
    for file, kind, _ in found:
        assert bool(file) != (kind == "sh"), f"a block of {kind} is neither a file with a name nor commands"
    return [Step(file, text) for file, _, text in found]


@pytest.fixture
def folder(stack, tmp_path: Path) -> Iterator[Path]:
    """A folder in which `millrace up` finds the tests' own servers running already."""
    (tmp_path / ".millrace").symlink_to(stack.folder)
    yield tmp_path
    stack.database.execute("DROP TABLE IF EXISTS article, branch", role="owner", database="master")
    stack.kafka.delete_topic("returns")


def test_the_worked_example_leads_from_nothing_to_facts(folder: Path) -> None:
    said = "".join(perform(step, folder) for step in steps())
    assert "verdict      `millrace run` would start" in said
    assert "everything holds" in said
    rows = DeltaTable(str(folder / "own" / "warehouse" / "fact_returns")).to_pyarrow_table().to_pylist()
    assert len(rows) == 1_000
    assert Counter((row["article_number"], row["article"], row["article_key"]) for row in rows) == {
        (1001, "kettle", 1): 400,
        (1007, "lamp", 2): 200,
        (1013, "chair", 3): 200,
        (9999, None, -1): 200,
    }
    cities = {(row["country"], row["branch"]): (row["city"], row["branch_key"]) for row in rows}
    assert cities == {
        ("AT", "B-1"): ("Wien", 1),
        ("AT", "B-2"): ("Graz", 2),
        ("DE", "B-1"): ("Köln", 3),
        ("DE", None): (None, -1),
    }
    [reject] = DeltaTable(str(folder / "own" / "warehouse" / "sales_rejects")).to_pyarrow_table().to_pylist()
    assert (reject["raw"], reject["reason"]) == (b"not a return", "not_json")


def test_sql_that_the_database_refuses_is_a_sentence(stack) -> None:
    with pytest.raises(ScriptFailed, match=r"refused a statement: .*no_such_table"):
        stack.database.run_script("SELECT 1; INSERT INTO no_such_table VALUES (1)")


def perform(step: Step, folder: Path) -> str:
    """Do what the page says; what the commands said on stdout."""
    if step.file:
        (folder / step.file).write_text(step.text, "utf-8")
        return ""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("MILLRACE_") or name == "MILLRACE_CACHE"
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", step.text],
        cwd=folder,
        env={**kept, "PATH": path},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, f"{step.text}\n{done.stdout}\n{done.stderr}"
    return done.stdout
