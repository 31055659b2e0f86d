"""Whatever fails, and whoever raised it: one sentence, a code that is not zero, no traceback but for --debug."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pymysql
import pytest
from confluent_kafka.admin import AdminClient
from deltalake import DeltaTable
from pyspark.errors import PySparkValueError

from pipeline import cli
from pipeline.commands import failures
from pipeline.errors import BadSetting
from pipeline.laptop.stack.stack import Stack


@pytest.fixture(scope="module")
def nobody() -> int:
    """A port at which nobody answers."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        return int(closed.getsockname()[1])


def full(_: Path) -> None:
    with Path("/dev/full").open("w", buffering=1) as disk:
        disk.write("a line\n")


def others(nobody: int) -> dict[str, tuple[Callable[[Path], object], str]]:
    """What fails for real, and how the sentence begins."""
    kafka = {"bootstrap.servers": f"127.0.0.1:{nobody}", "log_level": 0}
    return {
        "a file that is not there": (
            lambda folder: (folder / "gone").read_text(),
            "{folder}/gone: No such file or directory. Make it, or name another place.",
        ),
        "a file in the place of a folder": (
            lambda folder: (Path(__file__) / "x").mkdir(),
            f"{__file__}/x: Not a directory. --debug shows where.",
        ),
        "a full disk": (full, "No space left on device. Free some space there, or name another place."),
        "no broker": (lambda _: AdminClient(kafka).list_topics(timeout=0.5), "Kafka failed: "),
        "no database": (lambda _: pymysql.connect(host="127.0.0.1", port=nobody), "the database failed: Can't connect"),
        "no table": (lambda folder: DeltaTable(str(folder)), "the tables' log failed: "),
        "no column": (lambda _: pa.array(["x"]).cast(pa.int64()), "files or columns failed: Failed to parse string"),
        "Spark": (lambda _: raises(PySparkValueError("no such thing\n\tat a.b.C(D.java:1)")), "Spark failed: no such"),
        "ours": (lambda _: raises(BadSetting("kafka.topics = () must be more.")), "kafka.topics = () must be more."),
        "no memory": (lambda _: raises(MemoryError()), "this process has no memory left."),
    }


def raises(error: Exception) -> None:
    raise error


@pytest.mark.parametrize("what", others(0))
def test_a_failure_that_is_not_a_defect_of_ours_is_one_sentence(
    what: str, tmp_path: Path, nobody: int, capfd: pytest.CaptureFixture[str]
) -> None:
    fail, sentence = others(nobody)[what]
    with pytest.raises(SystemExit) as left, failures.told():
        fail(tmp_path)
    said = capfd.readouterr().err
    assert said.startswith(f"millrace: {sentence.format(folder=tmp_path)}")
    assert said.endswith(".\n")
    assert said.count("\n") == 1
    assert left.value.code == failures.MENDABLE


def test_an_error_nobody_foresaw_is_called_a_defect_and_says_how_to_see_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "versions", lambda: {}["sale.sku"])
    for arguments in (["--version"], ["--debug", "--version"], ["--version", "--debug"]):
        with pytest.raises(SystemExit) as left:
            cli.main(arguments)
        said = capsys.readouterr().err
        assert left.value.code == failures.DEFECT
        assert said.splitlines()[-1] == (
            "millrace: KeyError: 'sale.sku'. This is a defect of Millrace and not of what you gave it. Run the same "
            "command with --debug for the traceback, and report it with that."
        )
        assert ("Traceback" in said) == ("--debug" in arguments)


def test_an_errors_own_number_and_both_its_paths_are_told() -> None:
    error = OSError(errno.EXDEV, "Invalid cross-device link", "/a", None, "/b")
    assert failures.explained(error)[0] == "/a -> /b: Invalid cross-device link. --debug shows where."


def millrace(*arguments: str, cwd: Path, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pipeline.cli", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[1])}
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=120, **options
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["calibrate", "--set", "master.port={nobody}", "--set", "master.retry_for=0"],
        ["reconcile"],
        ["seed"],
        ["status", "--set", "metrics.port={nobody}"],
        ["maintain", "--target", "much"],
        ["contracts", "--copy-to", "/dev/null/x"],
        ["run", "--config", "."],
        ["joins", ">/dev/full"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_no_command_ends_in_a_traceback(arguments: list[str], nobody: int, tmp_path: Path) -> None:
    words = [word.format(nobody=nobody) for word in arguments]
    if words[-1] == ">/dev/full":
        command = f"{sys.executable} -m pipeline.cli joins >/dev/full"
        environment = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[1])}
        done = subprocess.run(command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True)  # noqa: S602
    else:
        done = millrace(*words, cwd=tmp_path)
    assert done.returncode == 2, done
    said = done.stderr.splitlines()
    assert said[-1].startswith("millrace: ")
    assert "Traceback" not in done.stderr
    assert len(said) <= 4, done.stderr


def test_explain_ends_with_the_verdict_when_the_database_does_not_answer(
    stack: Stack, nobody: int, tmp_path: Path
) -> None:
    kafka = ("--set", f"kafka.bootstrap={stack.info().bootstrap}")
    done = millrace("explain", "--set", f"master.port={nobody}", *kafka, cwd=tmp_path)
    assert done.returncode == 2, done
    assert "Traceback" not in done.stderr
    assert "`millrace run` would refuse" in done.stdout


def test_ctrl_c_ends_a_command_quietly(tmp_path: Path, nobody: int) -> None:
    waiting = [sys.executable, "-m", "pipeline.cli", "calibrate", "--set", f"master.port={nobody}"]
    # A shell starts what runs in the background with the signal ignored, and that would be inherited.
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(waiting, cwd=tmp_path, stderr=subprocess.PIPE, text=True, preexec_fn=heard) as process:
        assert process.stderr
        assert process.stderr.readline() == "product:\n"  # it tries again for two minutes from here on
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
        assert (process.wait(30), said) == (130, "")
