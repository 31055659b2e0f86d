"""What travels to a cluster with the job; that it runs there is in tests/driver/test_cluster.py."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from types import ModuleType

import pytest

from tests.deploy.compose import ROOT

SPARK = ROOT / "deploy" / "spark"


@pytest.fixture(scope="module")
def pack() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pack", SPARK / "pack.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_packages_are_what_millrace_imports_and_what_those_import(pack: ModuleType) -> None:
    needed = set(pack._needed("millrace"))
    assert {"pyarrow", "numpy", "deltalake", "msgspec", "confluent-kafka"} <= needed
    assert {"lz4", "python-snappy", "zstandard"} <= needed  # by way of kafka-python's extras
    assert needed.isdisjoint({"millrace", "pyspark", "py4j"})  # packed by itself; the cluster's own
    assert needed.isdisjoint({"pytest", "ruff", "mypy", "hatchling", "duckdb"})  # for developers


def test_a_requirement_is_taken_apart_into_package_and_extras(pack: ModuleType) -> None:
    assert pack._parts("Kafka_Python[lz4, zstd]==3.0") == [
        ("kafka-python", ""),
        ("kafka-python", "lz4"),
        ("kafka-python", "zstd"),
    ]
    assert pack._parts("tzdata>=2022.7") == [("tzdata", "")]


def test_the_code_is_packed_once_for_each_state_of_it(pack: ModuleType, tmp_path: Path) -> None:
    archive = pack.pack_code(tmp_path)
    made_at = archive.stat().st_mtime_ns
    assert pack.pack_code(tmp_path) == archive
    assert archive.stat().st_mtime_ns == made_at
    with zipfile.ZipFile(archive) as packed:
        assert packed.read("pipeline/flow.py") == (ROOT / "pipeline" / "flow.py").read_bytes()
        assert not [name for name in packed.namelist() if "__pycache__" in name]


@pytest.fixture
def small(pack: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only one package is needed."""
    monkeypatch.setattr(pack, "_needed", lambda root: {"typer": distribution("typer")})


@pytest.mark.usefixtures("small")
def test_packing_tells_how_far_it_is_and_packs_every_file_that_is_imported(
    pack: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pack, "_SAY_EVERY", 0.0)
    archive = pack.pack_packages(tmp_path)
    first, *then = capsys.readouterr().err.splitlines()
    assert first.startswith("millrace: packing 1 packages into ")
    assert then
    assert all(re.fullmatch(r"millrace: \d+ of \d+ MiB packed", line) for line in then)
    with tarfile.open(archive) as packed:
        names = packed.getnames()
    assert {"typer/__init__.py", "typer/main.py"} <= set(names)
    assert not [name for name in names if "__pycache__" in name or name.startswith("..")]
    assert list(tmp_path.iterdir()) == [archive]


@pytest.mark.usefixtures("small")
def test_packing_that_fails_leaves_nothing_and_clears_what_another_left(
    pack: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "packages-0.tar.partial-1").write_text("of one that was killed")

    def interrupted(*_: object) -> Iterator[tuple[str, Path]]:
        yield "typer/__init__.py", Path(__file__)
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(pack, "_told", interrupted)
        with pytest.raises(KeyboardInterrupt):
            pack.pack_packages(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert pack.pack_packages(tmp_path).is_file()


@pytest.mark.slow
def test_the_words_behind_the_dashes_are_the_jobs_and_the_others_spark_submits(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "spark-submit"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    (tmp_path / "a b.toml").touch()
    words = ["--config", "a b.toml", "submit", "--master", "spark://x:1", "--", "--set", "job.name=é $x", "--debug"]
    command = [sys.executable, "-m", "pipeline.cli", *words]
    environment = {**os.environ, "SPARK_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    said = subprocess.run(command, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=True)
    given = said.stdout.splitlines()
    script = given.index(str(ROOT / "jobs" / "enrich_sales.py"))
    assert given[script + 1 :] == ["--config", "a b.toml", "--set", "job.name=é $x", "--debug"]
    assert given[script - 2 : script] == ["--master", "spark://x:1"]
    for archive in given[given.index("--archives") + 1].split(","):
        assert Path(archive.partition("#")[0]).is_file()


def test_a_missing_environment_is_named_with_the_remedy(tmp_path: Path) -> None:
    environment = {**os.environ, "MILLRACE_PYTHON": str(tmp_path / "python")}
    done = subprocess.run([str(SPARK / "submit.sh")], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f"millrace: there is no Python at {tmp_path / 'python'}. Run `make setup`")
