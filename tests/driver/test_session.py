"""How the driver's session talks to its workers."""

from __future__ import annotations

import stat
import tempfile
from pathlib import Path

import pytest

from pipeline.driver import session


def test_the_workers_sockets_lie_in_a_folder_that_no_other_account_may_enter() -> None:
    options = session._own_sockets()
    assert options["spark.python.unix.domain.socket.enabled"] == "true"
    folder = Path(options["spark.python.unix.domain.socket.dir"])
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_where_a_sockets_path_would_be_too_long_spark_talks_through_tcp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("long" * 20)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    assert session._own_sockets() == {}
