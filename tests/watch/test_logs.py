"""The log is for people or for machines, and keeps secrets to itself in both forms."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from pipeline.errors import BadSetting
from pipeline.watch import logs

SECRET = "s3cr3t-w0rd"
LEAKS = [
    "password={}",
    "connect(host='db', password='{}', port=3306)",
    '{{"user": "job", "password": "{}", "port": 1}}',
    "master.password = {}",
    "MILLRACE_MASTER__PASSWORD={}",
    "AWS_SECRET_ACCESS_KEY={}",
    "fs.s3a.access.key: {}",
    "mysql://job:{}@db/master",
    "sasl.jaas.config=\"Plain required username=\\\"a\\\" password=\\\"{}\\\";\"",
    "?user=a&token={}&x=1",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = before[0], before[1]


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("leak", LEAKS)
def test_a_secret_is_never_logged(leak: str, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    logs.to_stderr({logs.FORM: form})
    logging.getLogger("millrace.job").warning("the server says: %s", leak.format(SECRET))
    try:
        raise OSError(leak.format(SECRET))
    except OSError:
        logging.getLogger("millrace.job").exception("it failed")
    said = capsys.readouterr()
    assert said.out == ""
    assert "the server says" in said.err
    assert "OSError" in said.err
    assert SECRET not in said.err


def test_what_is_no_secret_is_logged_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    logs.to_stderr({})
    logging.getLogger("millrace.job").info("metrics on http://127.0.0.1:9464/metrics; password_file = /run/secrets/db")
    said = capsys.readouterr().err
    assert "INFO millrace.job: metrics on http://127.0.0.1:9464/metrics; password_file = /run/secrets/db" in said


def test_as_json_every_line_is_one_object_even_with_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    logs.to_stderr({logs.FORM: "json"})
    log = logging.getLogger("millrace.job")
    log.info('a "quoted"\nlong message of %d lines', 2)
    try:
        raise KeyError("x")
    except KeyError:
        log.exception("it failed")
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    assert (first["level"], first["logger"], first["message"]) == (
        "INFO",
        "millrace.job",
        'a "quoted"\nlong message of 2 lines',
    )
    assert first["time"].endswith("+00:00")
    assert "KeyError: 'x'" in second["exception"]


def test_an_unknown_form_is_an_error_that_names_those_there_are() -> None:
    with pytest.raises(BadSetting, match=r"MILLRACE_LOG = 'xml'.*text or json"):
        logs.to_stderr({logs.FORM: "xml"})
