"""README.md's figures, made from the raw results: page.py writes what stands between the marks, page.py --check looks.

    <!-- figures: joins -->        the name of a function of FIGURES
    …
    <!-- end of figures -->

A figure that stands nowhere in `results` cannot get onto the page; the words around it must hold whatever was measured.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
import textwrap
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

README = Path(__file__).resolve().parents[2] / "README.md"
RESULTS = Path(__file__).resolve().parent / "results"
_MARKED = re.compile(r"(<!-- figures: (\S+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)

Cell = dict[str, Any]  # one measurement of a join, as joins.py writes it

TO_DELTA = {
    "clean, 250 000 a batch": "batches of 250 000",
    "2 % malformed, 250 000 a batch": "the same, 2 % malformed messages",
    "clean, 250 000 a batch, inlj": "the same, `inlj` for all three",
    "clean, 20 000 a batch": "batches of 20 000",
    "clean, 250 000 a batch, spark writer": "batches of 250 000, `warehouse.writer = spark`",
}
JOINS = ("auto", "inlj", "r-meshjoin", "meshjoin", "hybridjoin", "inlj, a tuple at a time")
ONE_KEY = JOINS[-1]  # a query
GRID = ((2_000_000, 1.0, 0.01), (2_000_000, 1.0, 0.1), (2_000_000, 0.0, 0.1), (20_000, 1.0, 0.1))

AGES = ("seconds old, half of the sales at most", "99 in 100 at most")


def to_delta() -> str:
    """How fast the whole job is."""
    summary = raw("end_to_end")["summary"]
    rows = [
        (shown, number(case["sales a second, median of runs"]), f"{case['seconds a batch, median']:#.2g} s")
        for case, shown in ((summary[name], shown) for name, shown in TO_DELTA.items())
    ]
    swing = max(case["highest run"] / case["lowest run"] for case in summary.values())
    return f"{table(('case', 'sales a second', 'a batch takes'), rows)}\n\n" + paragraph(
        "Compare the rows with each other: absolute times vary from machine to machine, and here the fastest run of a "
        f"case had up to {swing:.1f} times the rate of its slowest."
    )


def peers() -> str:
    """The whole job beside what one would take instead."""
    rows = {(row["peer"], row["dimensions"]): row for row in raw("peers")["medians"]}
    ours = {number: rows["millrace", number] for number in (1, 3)}

    def times(peer: str) -> str:
        gains = [ours[number]["sales a second"] / rows[peer, number]["sales a second"] for number in (1, 3)]
        return f"{gains[0]:.1f} and {gains[1]:.1f} times"

    cpu = [ours[number]["cpu to the loop's"] for number in (1, 3)]
    return paragraph(
        f"By turns on one topic and one database of 2 M products, with one dimension joined and with three, Millrace "
        f"to Delta has **{times('loop')} the rate of a batched loop written by hand** that has no sink and keeps no "
        f"offsets, {times('flink')} that of Flink's look-up join, {times('redpanda')} that of Redpanda Connect, and "
        f"{times('spark')} that of Spark's stream-static join with all tables in memory. All processors together, "
        f"broker and database among them, it takes {percent(cpu[0])} and {percent(cpu[1])} of what the loop takes "
        "for a sale ([how it is measured](deploy/docs/peers.md), "
        "[raw result](tests/benchmarks/results/peers.json))."
    )


def soon() -> str:
    """How soon the first commit comes, and how fresh the facts are in small batches."""
    text = (RESULTS / "start_and_small_batches.txt").read_text("utf-8")
    first = [float(now) for now in re.findall(r"^\d +[\d.]+ / [\d.]+ +[\d.]+ / ([\d.]+)$", text, re.MULTILINE)]
    if not first:
        raise SystemExit("start_and_small_batches.txt has another form than page.py reads")
    small, fresh = raw("small_batches"), raw("freshness")["streams"]
    then, now = (statistics.median(turns) for turns in small["median of each turn"].values())
    minutes = fresh["bursts"]["seconds"] / 60
    ages = [[fresh[name][which] for which in AGES] for name in ("steady", "bursts")]
    return paragraph(
        f"The first commit comes {statistics.median(first):.1f} s after the command, no checkpoint and no tables "
        f"before it ([as measured](tests/benchmarks/results/start_and_small_batches.txt)). A batch of 1 000 sales "
        f"takes {now:.2f} s, by turns with commit {next(iter(small['median of each turn']))}, which takes {then:.2f} s "
        f"([workload](tests/benchmarks/small_batches.py), [raw result](tests/benchmarks/results/small_batches.json)). "
        f"At a steady {number(fresh['steady']['rate'])} sales a second, half of the sales are in Delta within "
        f"{ages[0][0]:.2f} s of their being sent, 99 in 100 within {ages[0][1]:.2f} s; in bursts of "
        f"{number(fresh['bursts']['rate'])} a second in the mean, for {minutes:.0f} minutes, {ages[1][0]:.2f} and "
        f"{ages[1][1]:.2f} s, with the "
        f"generator on the same two cores ([workload](tests/benchmarks/freshness.py), "
        f"[raw result](tests/benchmarks/results/freshness.json))."
    )


def parsing() -> str:
    """What a message costs before any join sees it."""
    result = raw("parse")
    now = {case: f"{min(micros):.2f}" for case, micros in result["this"]["micros"].items()}
    since = ""
    if "other" in result:
        cases = (f"{min(micros):.2f}" for micros in result["other"]["micros"].values())
        since = f"; by turns with it, commit {result['other']['commit']} took {', '.join(cases)} µs"
    return paragraph(
        f"Parsing alone takes {now['clean']} µs of a core for a message, {now['with ignored fields']} µs with fields "
        f"that the contract does not name, {now['2% malformed']} µs if 2 % are malformed, {now['44 fields']} µs for "
        f"one of 44 fields{since} "
        "([workload](tests/benchmarks/parse.py), [raw result](tests/benchmarks/results/parse.json))."
    )


def joins() -> str:
    """The rates of the joins in some cells of the grid."""
    rates = {(c["rows"], c["skew"], c["share"], c["join"]): number(c["rate"]) for c in grid()}
    rows = [
        (f"{large(R)} rows, {skewed(e)}, {percent(share)}", *(rates[R, e, share, join] for join in JOINS))
        for R, e, share in GRID
    ]
    return table(("R, skew, memory", *(f"`{join}`" for join in JOINS[:-1]), "`inlj`, one key a query"), rows)


def beside() -> str:
    """What the other measurements of the joins say, and how good the cost models are."""
    return paragraph(f"{swing()} {round_trips()} {small_pool()} {models()}")


def since() -> str:
    """What a join's own steps have gained since an earlier commit."""
    result = raw("turns")
    before, now = (result["turns"][name] for name in ("other", "this"))
    gains = sorted(max(turn[case] for turn in now) / max(turn[case] for turn in before) for case in now[0])
    return paragraph(
        f"Round trips and pool are older than the joins' compiled loops. By turns with commit "
        f"{result['commits']['other']}, without a server, {len(gains)} cases serve {gains[0]:.1f} to {gains[-1]:.1f} "
        f"times as many sales a second, {statistics.median(gains):.1f} in the median "
        "([workload](tests/benchmarks/turns.py), [raw result](tests/benchmarks/results/turns.json))."
    )


def loop() -> str:
    """`auto` beside what one would write by hand."""
    told = raw("hand_loop")
    asked = told["loop asked a sale"]
    return paragraph(
        f"Beside the loop that one would write by hand (batches of 5 000, an LRU cache of 20 000 rows, one `IN` list a "
        f"batch) `auto` with {told['memory'] / 1e6:.1f} MB has {told['ratio']:.1f} times the rate, by turns on one "
        f"server with {large(told['rows'])} rows and Zipf 1.0: {number(told['median']['auto'])} and "
        f"{number(told['median']['loop'])} sales a second. Both ask for {asked:.2f} keys a sale "
        f"([workload](tests/benchmarks/hand_loop.py), [raw result](tests/benchmarks/results/hand_loop.json))."
    )


def swing() -> str:
    measured = [cell["rates"] for cell in grid() if cell["rate"]]
    spread = statistics.median(max(rates) / min(rates) - 1 for rates in measured)
    stretches = raw("joins_grid")["2000000"]["seconds"] / len(measured[0])
    return (
        f"The joins of a row took turns, in stretches of {stretches:.1f} s; the fastest stretch of a join was "
        f"{percent(spread)} faster than its slowest (median)."
    )


def round_trips() -> str:
    rates = {(cell["round_trip"], cell["join"]): cell["rate"] for cell in raw("joins_latency")["cells"]}
    kept = {
        join: " and ".join(percent(rates[trip, join] / rates[0.0, join]) for trip in (0.001, 0.005))
        for join in ("auto", "inlj", ONE_KEY)
    }
    return (
        f"With the server 1 ms and 5 ms away `auto` keeps {kept['auto']} of its rate, `inlj` {kept['inlj']}, with one "
        f"key a query {kept[ONE_KEY]}."
    )


def small_pool() -> str:
    small = (cell for cell in raw("joins_pool")["cells"] if cell["buffer_pool"] == "2 % of R")
    rates = {(cell["skew"], cell["join"]): number(cell["rate"]) for cell in small}
    plain, skewed = (", ".join(f"`{j}` {rates[e, j]}" for j in ("auto", "r-meshjoin", "inlj")) for e in (0.0, 1.0))
    return (
        "With a buffer pool of 2 % of R, where a random read is mostly a disk read, sales a second are without skew "
        f"{plain}; under Zipf 1.0 {skewed}."
    )


def models() -> str:
    measured = [cell for cell in grid() if cell["rate"]]
    near = sum(abs(cell["predicted"] / cell["rate"] - 1) <= 0.2 for cell in measured) / len(measured)
    right = list(in_order(measured))
    return (
        f"The cost models said {percent(near)} of the {len(measured)} rates in the grid beforehand to within a fifth; "
        f"of two joins whose rates differ by more than a fifth they named the faster one in "
        f"{percent(sum(right) / len(right))} of {len(right)} cases."
    )


def in_order(cells: list[Cell]) -> Iterator[bool]:
    """For each two joins of a cell that differ by more than a fifth: is the faster one predicted to be faster?"""
    for one, other in combinations(cells, 2):
        alike = all(one[what] == other[what] for what in ("rows", "skew", "share"))
        low, high = sorted((one, other), key=lambda cell: float(cell["rate"]))
        if alike and high["rate"] > 1.2 * low["rate"]:
            yield high["predicted"] > low["predicted"]


FIGURES: dict[str, Callable[[], str]] = {
    made.__name__: made for made in (peers, to_delta, soon, parsing, joins, beside, loop, since)
}


def raw(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / f"{name}.json").read_text("utf-8"))


def grid() -> list[Cell]:
    return [cell for size in raw("joins_grid").values() for cell in size["cells"]]


def number(rate: float | None) -> str:
    """Three digits, and thousands apart: 356 000, 8 500, 626."""
    return "-" if rate is None else f"{float(f'{rate:.3g}'):,.0f}".replace(",", " ")


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def large(rows: int) -> str:
    return f"{rows / 1e6:.0f} M" if rows >= 1_000_000 else number(rows)


def skewed(exponent: float) -> str:
    return f"Zipf {exponent}" if exponent else "no skew"


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    line, *lines = (f"| {' | '.join(cells)} |" for cells in (head, *rows))
    return "\n".join((line, "|---" * len(head) + "|", *lines))


def paragraph(text: str) -> str:
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def page(text: str) -> str:
    """The page with the figures that the raw results give."""
    named = [mark[2] for mark in _MARKED.finditer(text)]
    if sorted(named) != sorted(FIGURES):
        raise SystemExit(
            f"README.md has marks for {', '.join(named) or 'nothing'}; needed, each once: {', '.join(FIGURES)}"
        )
    return _MARKED.sub(lambda mark: f"{mark[1]}{FIGURES[mark[2]]()}\n{mark[3]}", text)


if __name__ == "__main__":
    stands = README.read_text("utf-8")
    if sys.argv[1:] == ["--check"]:
        sys.exit(None if page(stands) == stands else "README.md does not show the raw results. Run page.py.")
    README.write_text(page(stands), "utf-8")
