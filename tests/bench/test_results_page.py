"""RESULTS.md is what the raw results and the experiments say."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.bench.definition.files import experiments
from pipeline.bench.page.compare import page, plot_of
from pipeline.bench.page.told import told

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
RAW = BENCHMARKS / "results" / "papers"


@pytest.fixture(scope="session")  # all tests of it may not be done by one worker at a stretch
def all_told():
    return [told(experiment, RAW) for experiment in experiments().values()]


def test_the_page_of_results_is_the_one_that_is_made_of_them(all_told):
    written = (BENCHMARKS / "RESULTS.md").read_text("utf-8")
    assert page(all_told, RAW, BENCHMARKS / "RESULTS.md") == written, "make bench-papers"


def test_every_figure_that_was_run_is_drawn(all_told):
    run = [each.experiment for each in all_told if each.results]
    assert [experiment.name for experiment in run if not plot_of(experiment, RAW).exists()] == []


def test_no_raw_result_is_of_an_experiment_that_is_gone(all_told):
    known = {each.experiment.name for each in all_told}
    of_files = {f"{file.parent.name}/{file.name.split('.')[0]}" for file in RAW.glob("*/*.json")}
    assert of_files <= known
