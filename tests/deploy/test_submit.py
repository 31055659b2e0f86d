"""What travels to a cluster with the job; that it runs there is in tests/slow/test_cluster.py."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import zipfile
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


def test_a_missing_environment_is_named_with_the_remedy(tmp_path: Path) -> None:
    environment = {**os.environ, "MILLRACE_PYTHON": str(tmp_path / "python")}
    done = subprocess.run([str(SPARK / "submit.sh")], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f"millrace: there is no Python at {tmp_path / 'python'}. Run `make setup`")
