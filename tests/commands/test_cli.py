"""The command line's own manners: where options stand, what it says of itself, what a wheel's user finds."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline import __version__, cli
from pipeline.config import resources


def said(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    with pytest.raises(SystemExit) as left:
        cli.main([str(word) for word in arguments])
    assert left.value.code == 0
    return capsys.readouterr().out


@pytest.fixture
def own(tmp_path: Path) -> Path:
    file = tmp_path / "own.toml"
    file.write_text('[job]\nname = "mine"\n[kafka]\ntopics = ["a"]\n')
    return file


def test_the_settings_may_stand_before_or_behind_the_command(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = ("explain", "--offline")
    behind = said(capsys, *plan, "--config", own, "--set", "kafka.topics=b")
    assert behind.startswith("application  mine")
    assert "\n1 source     b at" in behind
    assert said(capsys, "--config", own, "--set", "kafka.topics=b", *plan) == behind
    assert said(capsys, "--set", "kafka.topics=x", *plan, "--set", "kafka.topics=b", "-c", own) == behind
    assert said(capsys, "-c", own.with_name("none.toml"), *plan, "-c", own, "-s", "kafka.topics=b") == behind
    both = said(capsys, "-s", "job.name=n", *plan, "-c", own, "-s", "kafka.topics=b")
    assert both.splitlines()[1:] == behind.splitlines()[1:]
    assert both.startswith("application  n,")


def test_what_stood_before_one_command_is_forgotten_at_the_next(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "--config", own, "explain", "--offline")
    assert said(capsys, "explain", "--offline").startswith("application  millrace")


def test_it_says_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "--version").startswith(f"millrace {__version__} ")
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert f'version = "{__version__}"' in project


@pytest.mark.parametrize(("shell", "word"), [("bash", "complete"), ("zsh", "compdef"), ("fish", "complete")])
def test_it_completes_commands_in_a_shell(shell: str, word: str, tmp_path: Path) -> None:
    variables = {"PATH": "/usr/bin:/bin", "_MILLRACE_COMPLETE": f"source_{shell}", "HOME": str(tmp_path)}
    program = [str(Path(sys.executable).parent / "millrace")]
    script = subprocess.run(program, env=variables, capture_output=True, text=True, check=True).stdout
    assert word in script
    asked = {**variables, "_MILLRACE_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": "millrace rec"}
    asked |= {"COMP_WORDS": "millrace rec", "COMP_CWORD": "1", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    answer = subprocess.run(program, env=asked, capture_output=True, text=True, check=False).stdout
    assert "reconcile" in answer


def test_the_settings_it_prints_are_the_reference_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "settings") == resources.deployed("reference.toml").read_text("utf-8")


def test_the_shipped_contracts_are_copied_into_a_new_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copies = said(capsys, "contracts", "--copy-to", tmp_path / "mine").split()
    assert str(tmp_path / "mine" / "tables" / "fact_sales.toml") in copies
    for copy in map(Path, copies):
        assert copy.read_bytes() == (resources.schemas() / copy.relative_to(tmp_path / "mine")).read_bytes()
    Path(copies[0]).write_text("mine by now")
    with pytest.raises(SystemExit) as left:
        cli.main(["contracts", "--copy-to", str(tmp_path / "mine")])
    assert left.value.code == 2
    assert Path(copies[0]).read_text() == "mine by now"


def test_help_names_no_file_that_only_a_clone_has(capsys: pytest.CaptureFixture[str]) -> None:
    commands = re.findall(r"^│ ([a-z]+)  ", said(capsys, "--help"), re.MULTILINE)
    assert {"run", "maintain", "settings", "contracts"} <= set(commands)
    for command in commands:
        assert not re.search(r"(deploy|schemas|jobs|tests)/", said(capsys, command, "--help")), command


def test_each_file_of_commands_is_a_command_or_serves_them() -> None:
    files = {file.stem for file in (Path(cli.__file__).parent / "commands").glob("[!_]*.py")}
    listed = {command.name for command in cli.app.registered_commands} | {"topic", "rejects", "bench"}
    assert files - listed == {"options", "failures"}
    assert listed <= files


def test_help_loads_nothing_that_only_work_needs() -> None:
    """So it answers at once, also where the processor is busy."""
    script = "import sys; from pipeline import cli; cli.app(['--help'], standalone_mode=False); print(*sys.modules)"
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    loaded = {module.partition(".")[0] for module in said.splitlines()[-1].split()}
    assert {"pipeline", "typer"} <= loaded
    heavy = {"numpy", "pyarrow", "pandas", "pyspark", "delta", "deltalake", "kafka", "confluent_kafka", "pymysql"}
    assert not loaded & {*heavy, "msgspec", "prometheus_client"}
