"""The embedded Prometheus scrapes what it is told to, and where none can be had that is said, with the way out."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from pipeline.config.measures import Place
from pipeline.config.settings import MetricsSettings
from pipeline.laptop.stack.process import ServerFailed
from pipeline.watch.access import Access
from pipeline.watch.publish import Metrics
from tests.kit import debian
from tests.kit import prometheus as local
from tests.kit.certificates import Authority
from tests.kit.prometheus import Prometheus, promtool
from tests.kit.running import wait_until

DEPLOYED = Path(__file__).parents[2] / "deploy" / "prometheus"


def test_it_scrapes_its_targets_through_tls_with_the_token_and_answers_queries(tmp_path: Path) -> None:
    """With the lines that the deployed file has for it."""
    authority = Authority("ours")
    for name, pem in zip(("own.key", "own.pem"), authority.signs(), strict=True):
        (tmp_path / name).write_text(pem)
    secured = tmp_path / "deployed"
    shutil.copytree(DEPLOYED, secured)
    (secured / "millrace.token").write_text("shown-with-each-question\n")
    (secured / "millrace.pem").write_text(authority.pem)
    text = (secured / "prometheus.yml").read_text()
    opened = re.sub(r"^    # ((?:scheme|authorization|tls_config|  \w+_file):.*)", r"    \1", text, flags=re.MULTILINE)
    assert len(set(opened.splitlines()) - set(text.splitlines())) == 5
    (secured / "prometheus.yml").write_text(opened)

    metrics = Metrics()
    metrics.backlog({"sales": 7})
    files = (Place(tmp_path / name) for name in ("deployed/millrace.token", "own.pem", "own.key"))
    access = Access.of(MetricsSettings("127.0.0.1", 0, *files))
    target = f"127.0.0.1:{metrics.serve('127.0.0.1', 0, access)}"
    prometheus = Prometheus(tmp_path, secured, {target: {"host": "here"}}, every="100ms", supervised=True)
    prometheus.start()
    try:
        wait_until(lambda: bool(prometheus.query("millrace_backlog_messages")), "the job is scraped", 30)
        [series] = prometheus.query("millrace_backlog_messages")
        assert series["value"][1] == "7"
        assert (
            series["metric"].items()
            >= {"job": "millrace", "instance": target, "host": "here", "topic": "sales"}.items()
        )
        [history] = prometheus.query_range("up", series["value"][0] - 1, series["value"][0], step=1)
        assert history["values"][-1][1] == "1"
        assert {rule["type"] for rule in prometheus.rules()} == {"recording", "alerting"}
        with pytest.raises(ServerFailed, match="parse error"):
            prometheus.query("sum by (")
    finally:
        prometheus.stop()
        metrics.close()
    assert not prometheus.running


def test_the_deployed_configuration_is_not_touched(tmp_path: Path) -> None:
    before = {path: path.read_text() for path in DEPLOYED.rglob("*") if path.is_file()}
    Prometheus(tmp_path, DEPLOYED, ["127.0.0.1:1"], every="1s").prepare()
    assert before == {path: path.read_text() for path in DEPLOYED.rglob("*") if path.is_file()}
    assert "scrape_interval: 1s" in (tmp_path / "prometheus" / "configuration" / "prometheus.yml").read_text()


def test_what_promtool_complains_of_is_the_error(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yml"
    rules.write_text('groups: [{name: a, rules: [{record: b, expr: "sum("}]}]')
    with pytest.raises(ServerFailed, match="could not parse expression"):
        promtool("check", "rules", rules)


def test_where_none_is_installed_and_none_can_be_fetched_the_way_out_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("MILLRACE_CACHE", str(tmp_path / "cache"))
    with pytest.raises(ServerFailed, match=r"prometheus: not on the PATH, and no apt-get .* Install Prometheus"):
        local.programs()


def test_a_fetch_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_CACHE", str(tmp_path))

    def fails(folder: Path, root: Path, packages: object) -> None:
        root.mkdir()
        raise ServerFailed("it could not be fetched.")

    monkeypatch.setattr(debian, "_fetch", fails)
    with pytest.raises(ServerFailed, match="could not be fetched"):
        debian.unpack(["prometheus"], "Do this.")
    assert not any((tmp_path / "servers").iterdir())


def test_the_programs_on_the_path_are_preferred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("prometheus", "promtool"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert local.programs().promtool == (str(tmp_path / "promtool"),)
