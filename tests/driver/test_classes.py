"""The archive of Spark's classes: how the JVM is told of it."""

import shlex
from pathlib import Path

import pytest

from pipeline.driver import classes


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "a clone of Zoé" / "classes.jsa"
    monkeypatch.setattr(classes, "archive", lambda: path)
    return path


def test_without_an_archive_java_is_told_nothing(archive: Path) -> None:
    assert classes.options() == ""


def test_an_archive_below_a_blank_is_one_word_of_the_options(archive: Path) -> None:
    archive.parent.mkdir()
    archive.touch()
    assert shlex.split(classes.options())[0] == f"-XX:SharedArchiveFile={archive}"
