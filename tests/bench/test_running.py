"""Running experiments: what is kept, what is not run again, what a page says of it."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from pipeline.bench.definition.experiment import Experiment
from pipeline.bench.definition.files import load
from pipeline.bench.page.compare import compare
from pipeline.bench.point.points import Point
from pipeline.bench.point.target import Measured
from pipeline.bench.running.results import Store, mean_and_interval
from pipeline.bench.running.running import run
from pipeline.errors import BadSetting

TEXT = """
paper = "a-paper"
figure = "{figure}"
title = "A figure"
[x]
name = "memory, bytes"
values = [{x}]
sets = {{memory = "{{}}"}}
[y]
name = "rate"
of = "rate"
[always]
machine = "hybridjoin-2011"
R = {{rows = 1_000}}
join = "{join}"
[series.it]
label = "It"
[[claims]]
says = "as fast as {at_least}"
where = "4.2"
series = ["it"]
at_least = {at_least}
because = "there is a reason."
[smoke]
"""


def experiment(
    folder: Path, x: str = "100, 200", join: str = "meshjoin", figure: str = "1", at_least: float = 150
) -> Experiment:
    file = folder / "a-paper" / f"{figure}.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(TEXT.format(x=x, join=join, figure=figure, at_least=at_least))
    return load(file)


class Counting:
    """A target whose rate is the memory and a bit of the seed; it can break."""

    name, tells = "charged", "counted in a test"

    def __init__(self, breaks_after: int = 1_000) -> None:
        self.runs: list[tuple[int, int]] = []
        self._left = breaks_after

    def versions(self) -> Mapping[str, str]:
        return {"counter": "7"}

    def measure(self, point: Point, seed: int) -> Measured:
        if not self._left:
            raise KeyboardInterrupt
        self._left -= 1
        self.runs.append((point.memory_bytes, seed))
        if point.memory_bytes > 250:
            return Measured(refused="there is no more room.")
        return Measured(numbers={"rate": point.memory_bytes + seed}, predicted={"rate": 140.0})

    def close(self) -> None:
        pass


def ran(folder: Path, *experiments: Experiment, again: bool = False) -> list[tuple[int, int]]:
    target = Counting()
    run(experiments, target, Store(folder, "charged"), again)
    return target.runs


def test_a_point_is_run_with_each_seed_and_not_again_unless_that_is_asked_for(tmp_path: Path) -> None:
    all_of_it = [(memory, seed) for memory in (100, 200) for seed in (1, 2, 3)]
    here = experiment(tmp_path)
    assert ran(tmp_path, here) == all_of_it
    assert ran(tmp_path, here) == []
    assert ran(tmp_path, here, again=True) == all_of_it
    assert ran(tmp_path, here) == []


def test_what_is_done_is_kept_when_a_run_is_interrupted(tmp_path: Path) -> None:
    here, store = experiment(tmp_path), Store(tmp_path, "charged")
    with pytest.raises(KeyboardInterrupt):
        run([here], Counting(breaks_after=4), store)
    assert [len(point.repeats) for point in store.load("a-paper/1").points] == [3, 1]
    assert ran(tmp_path, here) == [(200, 2), (200, 3)]


def test_only_what_changed_is_run_again_and_what_left_an_experiment_leaves_its_results(tmp_path: Path) -> None:
    ran(tmp_path, experiment(tmp_path))
    assert {memory for memory, _ in ran(tmp_path, experiment(tmp_path, x="200, 220"))} == {220}
    assert [point.x for point in Store(tmp_path, "charged").load("a-paper/1").points] == [200, 220]
    assert {memory for memory, _ in ran(tmp_path, experiment(tmp_path, join="inlj"))} == {100, 200}


def test_figures_share_their_points(tmp_path: Path) -> None:
    one, other = experiment(tmp_path), experiment(tmp_path, figure="2", x="200, 300")
    assert len(ran(tmp_path, one, other)) == 9
    assert ran(tmp_path, other) == []


def test_raw_results_tell_where_when_and_by_what(tmp_path: Path) -> None:
    ran(tmp_path, experiment(tmp_path))
    raw = json.loads((tmp_path / "a-paper" / "1.charged.json").read_text("utf-8"))
    assert raw["host"]["cores"] >= 1
    assert {"millrace", "numpy", "counter"} <= set(raw["host"]["versions"])
    point = raw["points"][0]
    assert point["point"]["R"]["rows"] == 1_000
    assert [repeat["seed"] for repeat in point["repeats"]] == [1, 2, 3]
    assert all(repeat["date"] and repeat["commit"] and repeat["took"] >= 0 for repeat in point["repeats"])
    assert (point["mean"], point["interval"]) == (102.0, pytest.approx(4.303 / 3**0.5, rel=1e-3))


def test_a_file_that_holds_no_results_is_refused(tmp_path: Path) -> None:
    here = experiment(tmp_path)
    (tmp_path / "a-paper" / "1.charged.json").write_text("{}")
    with pytest.raises(BadSetting, match="no raw results"):
        ran(tmp_path, here)


def test_an_interval_has_the_true_mean_95_times_in_100() -> None:
    random = np.random.default_rng(1)
    held = []
    for _ in range(4_000):
        mean, interval = mean_and_interval(random.normal(5.0, 2.0, 4).tolist())
        held.append(abs(mean - 5.0) <= interval)
    assert statistics.mean(held) == pytest.approx(0.95, abs=0.012)


def told(folder: Path, here: Experiment) -> str:
    return compare({here.name: here}, folder, folder / "page.md", plots=False).read_text("utf-8")


def test_a_page_says_what_holds_and_why_what_does_not(tmp_path: Path) -> None:
    here = experiment(tmp_path)
    assert "| as fast as 150 | 4.2 | It | judged by ≥ 150 | - | not run | not run | - |  |" in told(tmp_path, here)
    ran(tmp_path, here)
    assert "| 102 (at 100) | not run | **no** | there is a reason. |" in told(tmp_path, here)
    assert "| [a-paper](#a-paper) | 1 | 1 | 1 | 0 | 1 | 0 | 0 of 2 |" in told(tmp_path, here)
    assert "(charged): 0 of 2 points within 15 %; furthest, by 37.3 %, at 100 of It." in told(tmp_path, here)
    slower = experiment(tmp_path, at_least=101)
    assert "| 102 (at 100) | not run | yes |  |" in told(tmp_path, slower)


def test_what_has_not_been_run_to_its_end_is_not_judged(tmp_path: Path) -> None:
    here = experiment(tmp_path, at_least=101)
    with pytest.raises(KeyboardInterrupt):
        run([here], Counting(breaks_after=3), Store(tmp_path, "charged"))
    assert "| not run to its end | not run | - |  |" in told(tmp_path, here)
    ran(tmp_path, here)
    assert "| 102 (at 100) | not run | yes |  |" in told(tmp_path, here)


def test_a_page_says_where_a_join_cannot_work(tmp_path: Path) -> None:
    here = experiment(tmp_path, x="200, 300, 400")
    ran(tmp_path, here)
    assert "It cannot work (charged) at 300, 400. At 300: there is no more room." in told(tmp_path, here)
    assert "| 202 | not run | yes |" in told(tmp_path, here)


def test_a_plot_shows_points_prediction_and_caption(tmp_path: Path) -> None:
    here = experiment(tmp_path)
    ran(tmp_path, here)
    page = compare({here.name: here}, tmp_path, tmp_path / "page.md").read_text("utf-8")
    assert "![a-paper/1](plots/a-paper-1.svg)" in page
    assert "Counted in a test. 2 points, seeds 1 to 3" in page
    first = (tmp_path / "plots" / "a-paper-1.svg").read_bytes()
    assert b"memory, bytes" in first
    compare({here.name: here}, tmp_path, tmp_path / "page.md")
    assert (tmp_path / "plots" / "a-paper-1.svg").read_bytes() == first
