"""The dashboards as they are committed: up to date, complete, and asking only for what is published."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.watch.families import COUNTERS, GAUGES, HISTOGRAMS
from pipeline.watch.sync import OF_SYNC

GRAFANA = Path(__file__).parents[2] / "deploy" / "grafana"
RULES = Path(__file__).parents[2] / "deploy" / "prometheus" / "rules"
FILES = sorted((GRAFANA / "dashboards").glob("*.json"))
RECORDED = set(re.findall(r"record: (\S+)", (RULES / "recording.yml").read_text()))
PUBLISHED = {*COUNTERS, *GAUGES, *(f"{name}_{part}" for name in HISTOGRAMS for part in ("bucket", "count", "sum"))}
PUBLISHED |= {*OF_SYNC.counters, *OF_SYNC.gauges}


def panels(file: Path) -> list[dict]:
    return [panel for panel in json.loads(file.read_text())["panels"] if panel["type"] != "row"]


def test_there_are_the_three_dashboards() -> None:
    titles = [json.loads(file.read_text())["title"] for file in FILES]
    assert titles == ["Millrace / Compare", "Millrace / Join", "Millrace / Pipeline"]


def test_they_are_what_the_code_makes() -> None:
    generator = [sys.executable, str(GRAFANA / "generate.py"), "--check"]
    done = subprocess.run(generator, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_panel_has_a_unit_a_line_of_help_thresholds_and_a_place_of_its_own(file: Path) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels(file):
        defaults, place = panel["fieldConfig"]["defaults"], panel["gridPos"]
        assert defaults["unit"], panel["title"]
        assert len(panel["description"]) > 15, panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        assert defaults["thresholds"]["steps"], panel["title"]
        cells = {
            (x, y)
            for x in range(place.get("x", 0), place.get("x", 0) + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, f"{panel['title']} lies over another panel"
        assert max(x for x, _ in cells) < 24, f"{panel['title']} is outside the grid"
        taken |= cells
    numbers = [panel["id"] for panel in json.loads(file.read_text())["panels"]]
    assert len(numbers) == len(set(numbers))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_panels_ask_only_for_what_is_published_or_recorded(file: Path) -> None:
    for panel in panels(file):
        for target in panel["targets"]:
            asked = set(re.findall(r"[a-z_]*:?millrace[\w:]*", re.sub(r'"[^"]*"', "", target["expr"])))
            assert asked <= PUBLISHED | RECORDED, f"{panel['title']}: {asked - PUBLISHED - RECORDED}"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_variable_is_offered_and_used(file: Path) -> None:
    board = json.loads(file.read_text())
    offered = {variable["name"] for variable in board["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(board["panels"]))) - {"__rate_interval"}
    assert used == offered


def test_what_is_provisioned_is_where_it_is_said_to_be() -> None:
    source = (GRAFANA / "provisioning" / "datasources" / "prometheus.yml").read_text()
    assert "type: prometheus" in source
    interval = re.search(r"timeInterval: (\S+)", source)
    scraped = re.search(r"scrape_interval: (\S+)", (RULES.parent / "prometheus.yml").read_text())
    assert interval
    assert scraped
    assert interval[1] == scraped[1]  # or $__rate_interval would be too short for a rate
    assert "path: /etc/millrace/dashboards" in (GRAFANA / "provisioning" / "dashboards" / "millrace.yml").read_text()
