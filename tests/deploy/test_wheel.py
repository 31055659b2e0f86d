"""The wheel alone, in an empty environment far from the clone, is a working `millrace`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.generate.keys import Sizes
from pipeline.generate.run import generate
from pipeline.generate.workload import Workload
from pipeline.java import downloads
from pipeline.laptop.stack.stack import StackInfo
from tests.kit.running import Job

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` folder of a new environment that has the wheel and what it requires, in the locked versions."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("millrace-*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "env")], check=True)
    uv = _uv()
    options = ["--python", str(folder / "env"), "--constraint", str(ROOT / "deploy" / "requirements.lock")]
    subprocess.run([str(uv), "pip", "install", *options, str(wheel)], check=True, env=_settings_of_pip(uv))
    return folder / "env" / "bin"


def _uv() -> Path:
    """The one `make setup` fetched."""
    version = re.search(r"^uv==(\S+)", (ROOT / "deploy" / "requirements-uv.lock").read_text(), re.MULTILINE)
    assert version
    return downloads.folder(f"uv-{version[1]}") / "bin" / "uv"


def _settings_of_pip(uv: Path) -> dict[str, str]:
    """What `make setup` gives to uv as well: uv does not read pip's configuration, and must not need the network."""
    command = [str(uv.with_name("python")), "-m", "pip", "config", "list"]
    said = dict(re.findall(r"\.([a-z-]+)='(.*)'", subprocess.check_output(command, text=True)))
    names = {"UV_DEFAULT_INDEX": "index-url", "UV_FIND_LINKS": "find-links", "SSL_CERT_FILE": "cert"}
    own = {name: said[key] for name, key in names.items() if key in said}
    return {"UV_CACHE_DIR": str(downloads.folder("uv")), **own, **os.environ}


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder from which nothing of the clone can be imported."""
    for name in ("PYTHONPATH", "VIRTUAL_ENV", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_command_finds_everything_that_is_shipped_with_it(installed: Path, elsewhere: Path) -> None:
    def said(*arguments: str) -> str:
        return subprocess.check_output([str(installed / "millrace"), *arguments], text=True)

    assert "Kafka" in said("--help")
    assert "inlj" in said("joins").split()
    assert "product_code" in said("explain", "--offline")  # the contracts
    assert "[dimensions.product]" in said("settings")
    assert all(Path(file).is_file() for file in said("contracts").split())
    assert all(Path(jar).is_file() for jar in said("jars").strip().split(","))  # the lock of the jars
    where = [str(installed / "python"), "-c", "import pipeline; print(pipeline.__file__)"]
    assert subprocess.check_output(where, text=True).startswith(str(installed.parent))


def test_the_installed_command_hands_the_job_to_spark_submit(installed: Path, elsewhere: Path) -> None:
    program = elsewhere / "bin" / "spark-submit"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    (elsewhere / "my.toml").touch()
    command = [str(installed / "millrace"), "submit", "--master", "spark://x:1", "--", "--config", "my.toml"]
    environment = {**os.environ, "SPARK_HOME": str(elsewhere)}
    given = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    *_, script, option, file = given
    assert (option, file) == ("--config", "my.toml")
    assert Path(script).is_file()
    assert Path(script).is_relative_to(installed.parent)
    assert all(Path(jar).is_file() for jar in given[given.index("--jars") + 1].split(","))


def test_the_installed_command_brings_every_sale_to_the_warehouse(
    installed: Path, elsewhere: Path, seeded: StackInfo, seeded_sizes: Sizes, topic: str, reconciled
) -> None:
    workload = Workload(topics={topic: 1.0}, sizes=seeded_sizes, malformed=0.02, unknown=0.03)
    sent = generate(bootstrap=seeded.bootstrap, workload=workload, messages=5_000, partitions=2, progress=False)
    job = Job(elsewhere, seeded, topic, job__trigger="available-now")
    job.command = [str(installed / "millrace"), "run"]
    job.start()
    assert job.wait() == 0, job.tail()
    reconciled(job, sent)
