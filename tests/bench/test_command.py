"""`millrace bench`, as it is typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline import cli
from pipeline.bench import work
from pipeline.bench.charged.machines import MACHINES
from pipeline.bench.definition.files import experiments
from tests.bench.test_running import Counting

ONE = "meshjoin-default-vs-optimal-2010/8"


def said(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    with pytest.raises(SystemExit) as ended:
        cli.main(["bench", *map(str, words)])
    assert ended.value.code == 0
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    with pytest.raises(SystemExit) as ended:
        cli.main(["bench", *map(str, words)])
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_small_sizes_go_into_a_folder_of_their_own_and_are_judged(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    folder = Path(said(capsys, "run", "--smoke", ONE).strip())
    assert folder.parent == tmp_path
    assert (folder / f"{ONE}.charged.json").exists()
    page = Path(said(capsys, "compare", "--results", folder, "--to", "page.md", "--no-plots").strip())
    assert "I/O cost is high" in page.read_text("utf-8")
    assert not (tmp_path / "millrace-results").exists()


def test_a_list_says_what_is_done(capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(work.TARGETS, "charged", lambda server: Counting())
    assert f"{ONE:42}        0 of 9 runs" in said(capsys, "list", "--results", tmp_path)
    said(capsys, "run", ONE, "--results", tmp_path)
    lines = said(capsys, "list", "--results", tmp_path).splitlines()
    assert [line.split()[0] for line in lines] == list(experiments())
    assert [line.split()[1] for line in lines if line.startswith(ONE)] == ["9"]


def test_a_name_a_paper_or_a_pattern_chooses_and_none_of_them_is_refused(capsys, tmp_path, monkeypatch):
    target = Counting()
    monkeypatch.setitem(work.TARGETS, "charged", lambda server: target)
    said(capsys, "run", "meshjoin-default*/[58]", "--results", tmp_path)
    assert {file.name for file in tmp_path.glob("*/*")} == {"5.charged.json", "8.charged.json"}
    assert "nothing: there is no such experiment. There are meshjoin-icde2007/5a" in refused(capsys, "run", "nothing")
    assert "--master oracle: there is charged, mysql" in refused(capsys, "run", "--master", "oracle")


def test_the_papers_come_by_age_and_their_figures_in_order():
    names = list(experiments())
    papers = list(dict.fromkeys(name.partition("/")[0] for name in names))
    assert papers == [paper for paper in MACHINES if paper in papers]
    of_2010 = [name.partition("/")[2] for name in names if name.startswith("meshjoin-default")]
    assert of_2010 == ["5", "6", "7", "8", "9", "10a", "10b"]
    of_2007 = [name.partition("/")[2] for name in names if name.startswith("meshjoin-icde")]
    assert [figure for figure in of_2007 if "text" in figure] == of_2007[-2:]
