"""`millrace bench compare`: the page of all claims, written from definitions and raw results, never by hand."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from pipeline.bench.definition.claims import Claim
from pipeline.bench.definition.experiment import Experiment
from pipeline.bench.page import lines
from pipeline.bench.page.lines import Lines
from pipeline.bench.page.numbers import spaced, taken
from pipeline.bench.page.told import TARGETS, Told, gaps, told

_CLOSE = {"charged": 0.15, "mysql": 0.2}  # what our predictions are held to

_HEAD = """\
# The papers' claims, and what becomes of them here

Written by `millrace bench compare` from the experiments in `pipeline/bench/experiments/` and the raw results in
[{results}]({results}). Not to be edited: correct an experiment or run it again.

*Its equations* are the paper's own (`pipeline/joins/published/`, see [papers.md]({papers})), with the unit costs of
the machine that `pipeline/bench/charged/machines.py` declares for it. *Charged* is our operator on that declared disk
and processor and a virtual clock: its counts are real, its seconds declared, nothing is measured. *MySQL* is our
operator on a real server. A claim is judged at every x it speaks of; the number shown is the one nearest to failing.

"""


def compare(experiments: Mapping[str, Experiment], folder: Path, to: Path, plots: bool = True) -> Path:
    """Write the page, and a plot for each figure that has results."""
    all_told = [told(experiment, folder) for experiment in experiments.values()]
    if plots:
        from pipeline.bench.page.plots import plot

        for each in all_told:
            if each.results:
                plot(each, plot_of(each.experiment, folder))
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(page(all_told, folder, to), "utf-8")
    return to


def page(all_told: Sequence[Told], folder: Path, to: Path) -> str:
    """The text of the page."""
    papers = Path(__file__).parents[3] / "deploy" / "docs" / "papers.md"
    head = _HEAD.format(results=_link(folder, to), papers=_link(papers, to))
    parts = [head, *_summary(all_told)]
    paper = ""
    for each in all_told:
        if each.experiment.paper != paper:
            paper = each.experiment.paper
            parts.append(f"\n## {paper}\n")
        parts += _section(each, folder, to)
    return "".join(parts)


def plot_of(experiment: Experiment, folder: Path) -> Path:
    return folder / "plots" / f"{experiment.paper}-{experiment.figure}.svg"


def _summary(all_told: Sequence[Told]) -> Iterator[str]:
    yield "| paper | figures | of them run | claims | hold | do not | not judged yet | predictions within 15 % |\n"
    yield "|---|---|---|---|---|---|---|---|\n"
    for paper in dict.fromkeys(each.experiment.paper for each in all_told):
        mine = [each for each in all_told if each.experiment.paper == paper]
        verdicts = [verdict for each in mine for row in _rows(each) for verdict in [row[-2]]]
        found = [gap for each in mine if "charged" in each.results for gap in gaps(each, "charged")]
        counts = [
            len(mine),
            sum(bool(each.results) for each in mine),
            len(verdicts),
            sum(verdict.startswith("yes") for verdict in verdicts),
            sum(verdict.startswith("**no") for verdict in verdicts),
            verdicts.count("-"),
            f"{sum(gap.by <= _CLOSE['charged'] for gap in found)} of {len(found)}",
        ]
        yield f"| [{paper}](#{paper}) | {' | '.join(map(str, counts))} |\n"


def _section(each: Told, folder: Path, to: Path) -> Iterator[str]:
    experiment = each.experiment
    yield f"\n### {experiment.paper}, {experiment.figure}\n\n{experiment.title}.\n"
    if experiment.remark:
        yield f"\n{experiment.remark.strip()}\n"
    if rows := list(_rows(each)):
        yield "\n| claim | where | of | paper | its equations | charged | MySQL | holds | why not |\n"
        yield "|---|---|---|---|---|---|---|---|---|\n"
        yield from (f"| {' | '.join(row)} |\n" for row in rows)
    if each.results:
        yield f"\n![{experiment.name}]({_link(plot_of(experiment, folder), to)})\n\n{_caption(each)}\n"
    for target in each.results:
        yield from _prediction(each, target)
    for target, result in each.results.items():
        for series, refused in lines.refusals(result).items():
            label, places = experiment.series[series].label, ", ".join(f"{x:g}" for x in refused.at)
            yield f"\n{label} cannot work ({target}) at {places}. At {refused.at[0]:g}: {refused.why}\n"


def _prediction(each: Told, target: str) -> Iterator[str]:
    """How far our models are from what was measured."""
    if found := gaps(each, target):
        bound, worst = _CLOSE[target], max(found, key=lambda gap: gap.by)
        close = f"{sum(gap.by <= bound for gap in found)} of {len(found)} points within {taken('apart', bound)}"
        furthest = f"{taken('apart', worst.by)}, at {worst.x:g} of {each.experiment.series[worst.series].label}"
        yield f"\nOur prediction beside it ({target}): {close}; furthest, by {furthest}.\n"


def _rows(each: Told) -> Iterator[list[str]]:
    for number, claim in enumerate(each.experiment.claims):
        for series, beside in claim.pairs:
            if not {series, beside or series} <= set(each.experiment.series):
                continue  # a reduction has left it out
            label = each.experiment.series[series].label
            of = f"{label} beside {each.experiment.series[beside].label}" if beside else label
            cells = {
                name: _cell(source.experiment.claims[number], series, beside, source)
                for name, source in each.sources.items()
            }
            verdicts = {target: cells[target][1] for target in TARGETS if target in cells}
            yield [
                claim.says,
                claim.where or "ours",
                of,
                _paper(claim),
                cells["equations"][0],
                *(cells[target][0] if target in cells else "not run" for target in TARGETS),
                _holds(verdicts),
                " ".join(claim.because.split()) or "not explained yet" if False in verdicts.values() else "",
            ]


def _cell(claim: Claim, series: str, beside: str, source: Lines) -> tuple[str, bool | None]:
    """The number nearest to failing, with its place, and whether it holds; None: it cannot be judged."""
    found = []
    for z in source.zs() if claim.z is None else [claim.z]:
        if {(series, z), (beside, z)} & source.unfinished:
            return "not run to its end", None
        numbers = claim.numbers(series, beside, partial(source.means, z=z))
        found += [(claim.missed(number), number, x, z) for x, number in numbers.items()]
    if not found:
        return "-", None
    missed, number, x, z = max(found, key=lambda each: each[0])
    axes = source.experiment
    places = [axes.z.say(z)] if axes.z and z is not None and len({each[3] for each in found}) > 1 else []
    places += [f"at {x:g}"] if len({each[2] for each in found}) > 1 else []
    return taken(claim.take, number) + (f" ({', '.join(places)})" if places else ""), missed <= 0


def _paper(claim: Claim) -> str:
    """What is printed, and by what it is judged; once, if that is the same."""
    tests = {"≥": claim.at_least, "≤": claim.at_most}
    if claim.printed is not None and claim.printed in tests.values():
        return ", ".join(f"{sign} {taken(claim.take, bound)}" for sign, bound in tests.items() if bound is not None)
    judged = [f"{sign} {taken(claim.take, bound)}" for sign, bound in tests.items() if bound is not None]
    if claim.within is not None:
        judged.append(f"± {100 * claim.within:g} %")
    printed = [] if claim.printed is None else [taken(claim.take, claim.printed)]
    return "; ".join([*printed, f"judged by {', '.join(judged)}"])


def _holds(verdicts: Mapping[str, bool | None]) -> str:
    known = {target: verdict for target, verdict in verdicts.items() if verdict is not None}
    if not known:
        return "-"
    if len(set(known.values())) == 1:
        return "yes" if all(known.values()) else "**no**"
    return "**no**: " + ", ".join(f"{target} {'yes' if verdict else 'no'}" for target, verdict in known.items())


def _caption(each: Told) -> str:
    said = []
    for result in each.results.values():
        repeats = [repeat for point in result.points for repeat in point.repeats]
        took = sum(repeat.took for repeat in repeats)
        commits = sorted({repeat.commit for repeat in repeats})
        seeds = len({repeat.seed for repeat in repeats})
        repeated = f"seeds 1 to {seeds}, bars: 95 % intervals" if seeds > 1 else "one seed"
        said.append(
            f"{result.tells[0].upper()}{result.tells[1:]}. {len(result.points)} points, {repeated}; "
            f"{spaced(took)} s in all on {result.host.cores} cores ({result.host.cpu}), "
            f"commit {', '.join(commits)}."
        )
    drawn = ["Dashed: our prediction."] if each.experiment.y.of != "curve" else []
    drawn += ["Crosses: numbers that the paper prints."] if each.experiment.printed else []
    return " ".join([*said, *drawn])


def _link(file: Path, to: Path) -> str:
    return Path(os.path.relpath(file, to.parent)).as_posix()
