"""The rules and alerts as they are deployed, judged by the real promtool and loaded by the real Prometheus."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.laptop.stack.process import ServerFailed
from pipeline.watch.families import BUCKETS, COUNTERS, GAUGES, HISTOGRAMS
from pipeline.watch.sync import OF_SYNC
from tests.kit.prometheus import Prometheus, promtool

ROOT = Path(__file__).parents[2]
DEPLOYED = ROOT / "deploy" / "prometheus"
RULES = sorted((DEPLOYED / "rules").glob("*.yml"))
ALERT_TESTS = Path(__file__).with_name("alerts.yml")
OWN_TO_PROMETHEUS = {"up", "process_start_time_seconds"}


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    server = Prometheus(tmp_path_factory.mktemp("prometheus"), DEPLOYED, supervised=True)
    server.start()
    yield server
    server.stop()


def test_promtool_accepts_the_configuration_and_every_rule() -> None:
    assert "SUCCESS" in promtool("check", "config", DEPLOYED / "prometheus.yml")
    assert "SUCCESS" in promtool("check", "rules", "--lint=all", "--lint-fatal", *RULES)


def test_every_alert_fires_when_it_should_and_only_then() -> None:
    assert "SUCCESS" in promtool("test", "rules", ALERT_TESTS)


def test_the_alert_tests_notice_another_threshold(tmp_path: Path) -> None:
    for rules in RULES:
        (tmp_path / rules.name).write_text(rules.read_text().replace("ratio_rate5m > 0.05", "ratio_rate5m > 0.5"))
    head, *tests = ALERT_TESTS.read_text().replace("../../deploy/prometheus/rules", str(tmp_path)).split("  - name: ")
    moved = tmp_path / "alerts-tests.yml"
    moved.write_text(head + "".join(f"  - name: {test}" for test in tests if "MillraceUnmatched" in test))
    with pytest.raises(ServerFailed, match="8 % of the sales have no product"):
        promtool("test", "rules", moved)


def test_every_alert_is_tested_firing_and_not_firing(prometheus: Prometheus) -> None:
    tested = ALERT_TESTS.read_text()
    for alert in (rule["name"] for rule in prometheus.rules() if rule["type"] == "alerting"):
        expectations = re.findall(rf"alertname: {alert}\n +eval_time: \S+\n +exp_alerts:(.*)", tested)
        assert "" in expectations, f"{alert} is never seen firing"
        assert " []" in expectations, f"{alert} is never seen quiet"


def test_every_alert_says_how_urgent_it_is_and_names_a_section_of_the_runbook(prometheus: Prometheus) -> None:
    alerts = [rule for rule in prometheus.rules() if rule["type"] == "alerting"]
    runbook = (ROOT / "deploy" / "docs" / "runbook.md").read_text()
    assert alerts
    for alert in alerts:
        assert alert["labels"]["severity"] in ("page", "ticket"), alert["name"]
        assert alert["annotations"]["runbook"] == f"deploy/docs/runbook.md#{alert['name'].lower()}"
        section = runbook.partition(f"\n## {alert['name']}\n")[2].partition("\n## ")[0]
        for part in ("**Means**", "**Look at**", "**Do**"):
            assert part in section, f"the runbook's section {alert['name']} has no {part}"


def test_the_objective_lies_on_a_border_of_the_histograms_buckets() -> None:
    borders = {border for rules in RULES for border in re.findall(r'le="([^"]+)"', rules.read_text())}
    assert borders == {"10.0"}
    assert borders <= {str(bound) for bound in BUCKETS.tolist()}


def test_rules_ask_only_for_metrics_that_are_published_or_recorded(prometheus: Prometheus) -> None:
    rules = prometheus.rules()
    histograms = {f"{name}_{part}" for name in HISTOGRAMS for part in ("bucket", "count", "sum")}
    published = {*COUNTERS, *GAUGES, *histograms, *OF_SYNC.counters, *OF_SYNC.gauges}
    known = {*published, *OWN_TO_PROMETHEUS, *(rule["name"] for rule in rules)}
    for rule in rules:
        assert rule["health"] != "err", rule
        used = set(re.findall(r"\b(?:\w+:)?(?:millrace|process|up)[\w:]*", re.sub(r'"[^"]*"', "", rule["query"])))
        assert used, rule["query"]
        assert used <= known, f"{rule['name']} asks for {used - known}"
