"""Metrics for whoever has the token, through TLS, from the job whose certificate is known; probes for everybody."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline import cli
from pipeline.config.measures import Place
from pipeline.config.settings import MetricsSettings, Settings, load
from pipeline.doctor import machine
from pipeline.doctor.findings import Level, Patient
from pipeline.errors import BadSetting
from pipeline.plan import resolve
from pipeline.watch.access import Access, exposure
from pipeline.watch.publish import Metrics
from pipeline.watch.scrape import NoAnswer, minute_ago, of_settings, scrape
from tests.kit.certificates import Authority

TOKEN = "t0ken-t0ken-t0ken-t0ken"
AUTHORITY = Authority("ours")


def files(folder: Path, token: str = TOKEN) -> MetricsSettings:
    """Settings with a token, and a certificate and a key of their own."""
    folder.mkdir()
    for name, text in zip(("own.key", "own.pem", "token"), (*AUTHORITY.signs(), f"{token}\n"), strict=True):
        (folder / name).write_text(text)
    token_file, certificate, key = (Place(folder / name) for name in ("token", "own.pem", "own.key"))
    return MetricsSettings(token_file=token_file, tls_certificate=certificate, tls_key=key)


@contextlib.contextmanager
def serving(settings: MetricsSettings) -> Iterator[MetricsSettings]:
    metrics = Metrics()
    try:
        yield replace(settings, port=metrics.serve(settings.host, 0, Access.of(settings)))
    finally:
        metrics.close()


@pytest.fixture
def own(tmp_path: Path) -> MetricsSettings:
    return files(tmp_path / "own")


def test_who_has_the_token_and_knows_the_certificate_is_answered(
    own: MetricsSettings, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(own) as job:
        url, access = of_settings(job)
        assert url.startswith("https://127.0.0.1:")
        assert scrape(url, access).samples["millrace_ready"]
        assert minute_ago(url, access) is None  # it is younger than that, and says so
        given = {f"metrics.{name}": getattr(job, name) for name in ("port", "token_file", "tls_certificate", "tls_key")}
        options = [word for name, value in given.items() for word in ("--set", f"{name}={value}")]
        with pytest.raises(SystemExit) as ended:
            cli.main(["status", "--over", "0", *options])
        assert ended.value.code == 1, capsys.readouterr()  # it is there, and not ready yet
    said = capsys.readouterr()
    assert TOKEN not in said.out + said.err + repr(access)


@pytest.mark.parametrize("shown", ["", "x" * len(TOKEN), TOKEN[:-1], f"{TOKEN}x"])
def test_who_has_not_is_told_to_show_the_token(own: MetricsSettings, tmp_path: Path, shown: str) -> None:
    with serving(own) as job:
        url, access = of_settings(job)
        with pytest.raises(NoAnswer, match=r"wants a(nother)? token: metrics\.token_file names the file") as refused:
            scrape(url, replace(access, token=shown))
        with pytest.raises(NoAnswer, match="token"):
            scrape(f"{url}/minute-ago", replace(access, token=shown))
        assert TOKEN not in str(refused.value)


def test_a_job_with_another_certificate_of_the_same_authority_is_not_shown_the_token(
    own: MetricsSettings, tmp_path: Path
) -> None:
    other = files(tmp_path / "other")
    with serving(other) as job:
        url, _ = of_settings(job)
        with pytest.raises(NoAnswer, match="shows another certificate than is trusted"):
            scrape(url, Access.of(own))


def test_probes_need_no_token_and_nothing_is_answered_without_tls(own: MetricsSettings) -> None:
    trusting = ssl.create_default_context(cadata=AUTHORITY.pem)
    with serving(own) as job:
        with urllib.request.urlopen(f"https://127.0.0.1:{job.port}/live", timeout=5, context=trusting) as answer:
            assert answer.read() == b"alive\n"
        with pytest.raises((OSError, http.client.HTTPException)):
            urllib.request.urlopen(f"http://127.0.0.1:{job.port}/live", timeout=5)


def test_a_client_that_says_nothing_keeps_nobody_waiting(own: MetricsSettings) -> None:
    with serving(own) as job, socket.create_connection(("127.0.0.1", job.port)):
        scrape(*of_settings(job))


def test_what_is_configured_by_half_is_refused_with_what_is_missing(tmp_path: Path) -> None:
    for given, missing in (("tls_key", "tls_certificate"), ("tls_certificate", "tls_key")):
        with pytest.raises(BadSetting, match=rf"metrics\.{missing} = '' .* beside metrics\.{given}"):
            load(None, [f"metrics.{given}={tmp_path}/x.pem"], {})


@pytest.mark.parametrize(
    ("token", "says"),
    [
        ("short", "at least 16"),
        ("", "at least 16"),
        ("two words of a token", "without spaces"),
        ("ä" * 20, "not ASCII"),
    ],
)
def test_a_token_that_anybody_would_guess_or_nobody_can_show_is_refused(tmp_path: Path, token: str, says: str) -> None:
    with pytest.raises(BadSetting, match=says) as refused:
        Access.of(files(tmp_path / "own", token))
    assert not token or token not in str(refused.value).replace("openssl rand -hex 32", "")


def test_files_that_are_not_there_or_not_what_they_should_be_are_named(own: MetricsSettings, tmp_path: Path) -> None:
    nowhere = Place(tmp_path / "nowhere")
    with pytest.raises(BadSetting, match=r"metrics\.token_file = .*nowhere cannot be read: No such file"):
        Access.of(replace(own, token_file=nowhere))
    for settings in (replace(own, tls_key=nowhere), replace(own, tls_key=own.tls_certificate)):
        with pytest.raises(BadSetting, match=r"metrics\.tls_key = .* cannot be used"), serving(settings):
            pass
    with pytest.raises(BadSetting, match=r"metrics\.tls_certificate = .*token cannot be used"):
        Access.of(replace(own, tls_certificate=own.token_file)).of_client()


@pytest.mark.parametrize(
    ("host", "given", "says"),
    [
        ("127.0.0.1", (), ""),
        ("::1", (), ""),
        ("localhost", (), ""),
        ("0.0.0.0", (), "whoever reaches it may read"),
        ("10.1.2.3", ("tls_certificate",), "whoever reaches it may read"),
        ("0.0.0.0", ("token_file",), "token crosses the network in plain"),
        ("::", ("token_file", "tls_certificate"), ""),
    ],
)
def test_a_job_that_others_reach_unasked_is_warned_of(
    own: MetricsSettings, host: str, given: tuple[str, ...], says: str
) -> None:
    kept = {name: getattr(own, name) for name in given}
    if "tls_certificate" in kept:
        kept["tls_key"] = own.tls_key
    settings = MetricsSettings(host=host, **kept)
    assert (says in exposure(settings)) if says else not exposure(settings)
    whole = Settings(metrics=settings)
    (found,) = machine.metrics(Patient(whole, resolve(whole), 1.0))
    assert found.level is (Level.WARNING if says else Level.OK)
    assert (settings.token_file == "") or ("token" in found.what)
