"""What the pages say exists: commands, options, links, files, and the page of metrics as the code has them."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from pipeline.cli import app
from pipeline.commands.submit import Verbatim
from pipeline.config.settings import load
from pipeline.plan import resolve
from pipeline.watch.families import COUNTERS, GAUGES, HISTOGRAMS
from pipeline.watch.sync import OF_SYNC
from tests.benchmarks import page as readme_figures

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page.relative_to(ROOT)
    for place in (".", "schemas", "deploy", "deploy/docs", "tests/deploy/schemas", "tests/benchmarks")
    for page in (ROOT / place).glob("*.md")
)
_CODE_BLOCK = re.compile(r"^( *)```\w*[^\n]*\n(.*?)^\1```|((?:^    \S[^\n]*\n)+)", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`\n]+)`")


def code(text: str) -> Iterator[str]:
    """What stands in code blocks, line by line, and in backticks."""
    for block in _CODE_BLOCK.finditer(text):
        yield from (block[2] or block[3] or "").splitlines()
    yield from _SPAN.findall(_CODE_BLOCK.sub("", text))


def commands(text: str) -> Iterator[list[str]]:
    """The words of each call of `millrace`."""
    for line in code(text):
        for call in re.finditer(r"(?:^|[\s\"(/=])millrace ((?:[a-z]|--)[^|;)#]*)", line):
            words = shlex.split(call[1].replace("'", "").replace('"', "").replace("`", "").replace("…", ""))
            if words and re.fullmatch(r"[a-z-]+", words[0]):
                yield words


def complaint(words: list[str]) -> str:
    """What is wrong with a call; nothing if it names commands and options that are there."""
    command = typer.main.get_command(app)
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        if words[0] not in command.commands:
            return f"there is no command {words[0]}"
        command, words = command.commands[words[0]], words[1:]
    if isinstance(command, Verbatim):  # spark-submit's own, and behind two dashes those of `run`
        return complaint(["run", *words[words.index("--") + 1 :]]) if "--" in words else ""
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    unknown = [word for word in words if word.startswith("--") and word.partition("=")[0] not in {*known, "--help"}]
    return f"{command.name} has no {', '.join(unknown)}" if unknown else ""


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_command_that_a_page_names_exists_with_its_options(page: Path) -> None:
    wrong = {" ".join(words): complaint(words) for words in commands((ROOT / page).read_text("utf-8"))}
    assert not {call: why for call, why in wrong.items() if why}


def test_calls_are_found_and_wrong_ones_noticed() -> None:
    text = "Say `millrace up`, then:\n\n    x=$(millrace explain --offline) | millrace nothing --to here\n\n"
    assert list(commands(text)) == [["explain", "--offline"], ["nothing", "--to", "here"], ["up"]]
    assert complaint(["explain", "--rate", "5", "--config=my.toml"]) == ""
    assert complaint(["nothing"]) == "there is no command nothing"
    assert complaint(["submit", "--master", "local", "--", "--config", "x"]) == ""
    assert complaint(["submit", "--master", "local", "--", "--quickly"]) == "run has no --quickly"
    assert complaint(["explain", "--quickly"]) == "explain has no --quickly"


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    heads = re.findall(r"^#+ (.+)$", _CODE_BLOCK.sub("", page.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.strip().lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    text = _CODE_BLOCK.sub("", (ROOT / page).read_text("utf-8"))
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"https?://|mailto:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (ROOT / page).parent / name if name else ROOT / page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=str)
def test_every_file_that_a_page_names_is_there(page: Path) -> None:
    named = [
        name
        for name in code((ROOT / page).read_text("utf-8"))
        if re.fullmatch(r"(pipeline|jobs|schemas|deploy|tests)/[\w./-]+", name)
    ]
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_page_of_metrics_is_what_the_code_makes_and_names_every_one() -> None:
    generator = [sys.executable, str(ROOT / "deploy" / "docs" / "generate.py"), "--check"]
    done = subprocess.run(generator, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    page = (ROOT / "deploy" / "docs" / "metrics.md").read_text("utf-8")
    published = (*COUNTERS, *GAUGES, *HISTOGRAMS, *OF_SYNC.counters, *OF_SYNC.gauges)
    assert [name for name in published if f"`{name}`" not in page] == []


def test_the_readmes_figures_are_those_of_the_raw_results() -> None:
    stands = (ROOT / "README.md").read_text("utf-8")
    assert readme_figures.page(stands) == stands, "run tests/benchmarks/page.py"


def test_a_page_whose_marks_are_not_those_of_the_figures_is_refused() -> None:
    stands = (ROOT / "README.md").read_text("utf-8")
    for spoilt in (
        stands.replace("figures: soon", "figures: later"),
        stands.replace("figures: soon", "figures: joins"),
    ):
        with pytest.raises(SystemExit, match="needed, each once"):
            readme_figures.page(spoilt)


def test_figures_are_rounded_to_what_they_are_worth() -> None:
    assert [readme_figures.number(rate) for rate in (356190.6, 8496.2, 626.4, 2.6, None)] == [
        "356 000", "8 500", "626", "3", "-",
    ]  # fmt: skip
    assert readme_figures.percent(0.8333) == "83 %"


def test_the_readmes_settings_file_is_one_to_start_from(tmp_path: Path) -> None:
    [settings] = re.findall(r"^```toml\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (tmp_path / "my.toml").write_text(settings)
    shutil.copytree(ROOT / "schemas", tmp_path / "contracts")
    plan = resolve(load(tmp_path / "my.toml", (), {}))
    assert list(plan.dimensions) == ["product", "customer", "store"]


def test_the_index_of_deploying_leads_to_every_page_of_its_folder() -> None:
    index = (ROOT / "deploy" / "README.md").read_text("utf-8")
    assert {f"docs/{page.name}" for page in (ROOT / "deploy" / "docs").glob("*.md")} <= set(
        re.findall(r"\]\(([^)#\s]+)", index)
    )


def test_every_page_beside_the_readme_can_be_reached_from_it() -> None:
    found, todo = set(), [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        if page in found:
            continue
        found.add(page)
        for target in re.findall(r"\]\(([^)#\s]+\.md)", page.read_text("utf-8")):
            if "://" not in target:
                todo.append((page.parent / target).resolve())
    assert {ROOT / page for page in PAGES if page.parts[0] != "tests"} <= found
