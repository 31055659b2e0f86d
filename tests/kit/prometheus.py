"""A real Prometheus, and promtool, for the tests: those on the PATH, or Debian's."""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.laptop.stack.ports import LOOPBACK
from pipeline.laptop.stack.process import Server, ServerFailed
from tests.kit import debian

TARGETS = Path("targets") / "job.json"  # within the configuration folder: what is scraped
_PACKAGES = ("prometheus", "promtool")
_REMEDY = "Install Prometheus 2.50 or newer, so that `prometheus` and `promtool` are on the PATH."
_TIMEOUT = 30.0  # seconds an answer may take


@dataclass(frozen=True)
class Programs:
    """The words that start each program."""

    prometheus: tuple[str, ...]
    promtool: tuple[str, ...]


def programs() -> Programs:
    """Prometheus and promtool of one and the same release."""
    installed = [shutil.which(name) for name in _PACKAGES]
    if all(installed):
        return Programs(*((str(path),) for path in installed))
    package = debian.unpack(_PACKAGES, _REMEDY)
    return Programs(package.started("usr/bin/prometheus"), package.started("usr/bin/promtool"))


def promtool(*arguments: str | Path) -> str:
    """Run promtool; what it complains of is the error."""
    command = [*programs().promtool, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ServerFailed(f"promtool {' '.join(map(str, arguments))}:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


class Prometheus(Server):
    """Scrapes these targets by a configuration folder as it is deployed, and answers queries.

    prometheus = Prometheus(folder, Path("deploy/prometheus"), {"127.0.0.1:9464": {}}, every="1s")
    prometheus.start()
    prometheus.query("up")
    """

    name = "prometheus"
    start_seconds = 60.0

    def __init__(
        self,
        folder: Path,
        configuration: Path,
        targets: Mapping[str, Mapping[str, str]] | Sequence[str] = (),  # addresses, with labels of their own
        every: str = "5s",  # scrapes and evaluations
        supervised: bool = False,
    ) -> None:
        super().__init__(folder, supervised)
        self.configuration = configuration.absolute()
        self.targets = targets if isinstance(targets, Mapping) else {target: {} for target in targets}
        self.every = every

    def prepare(self) -> None:
        """The folder as it is deployed, but for the targets and the pace."""
        here = self.folder / "configuration"
        shutil.rmtree(here, ignore_errors=True)
        shutil.copytree(self.configuration, here)
        groups = [{"targets": [target], "labels": dict(labels)} for target, labels in self.targets.items()]
        (here / TARGETS).write_text(json.dumps(groups))
        paced = ("scrape_interval", "evaluation_interval")
        lines = (here / "prometheus.yml").read_text().splitlines()
        lines = [_with_value(line, self.every) if line.strip().startswith(paced) else line for line in lines]
        (here / "prometheus.yml").write_text("\n".join(lines) + "\n")

    def command(self) -> list[str]:
        return [
            *programs().prometheus,
            f"--config.file={self.folder / 'configuration' / 'prometheus.yml'}",
            f"--storage.tsdb.path={self.data}",
            f"--web.listen-address={LOOPBACK}:{self.port}",
            "--log.level=warn",
        ]

    def answers(self) -> bool:
        try:
            return "eady" in self._get("/-/ready")
        except (ServerFailed, OSError, http.client.HTTPException):
            return False

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def query(self, expression: str, at: float | None = None) -> list[dict[str, Any]]:
        """The series an expression has now, or had at a Unix time: `metric` (labels) and `value` (time, text)."""
        parameters = {"query": expression, **({} if at is None else {"time": f"{at:.3f}"})}
        return list(self._api("query", parameters)["result"])

    def query_range(self, expression: str, start: float, end: float, step: float) -> list[dict[str, Any]]:
        """The same over a time: `metric` and `values`."""
        span = {"start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{step:g}"}
        return list(self._api("query_range", {"query": expression, **span})["result"])

    def rules(self) -> list[dict[str, Any]]:
        """Every recording rule and alert it evaluates, with name, query, labels, annotations, health."""
        return [rule for group in self._api("rules", {})["groups"] for rule in group["rules"]]

    def _api(self, what: str, parameters: Mapping[str, str]) -> Any:
        return json.loads(self._get(f"/api/v1/{what}?{urllib.parse.urlencode(parameters)}"))["data"]

    def _get(self, path: str) -> str:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # it is on this machine
        try:
            with opener.open(f"{self.url}{path}", timeout=_TIMEOUT) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            said = error.read().decode("utf-8", "replace")
            raise ServerFailed(f"prometheus: {urllib.parse.unquote_plus(path)} answers {error.code}: {said}") from error


def _with_value(line: str, value: str) -> str:
    """
    >>> _with_value("  scrape_interval: 5s  # a comment", "1s")
    '  scrape_interval: 1s'
    """
    return f"{line.partition(':')[0]}: {value}"
