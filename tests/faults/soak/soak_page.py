"""RESULTS.md, from the raw records and nothing else."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from pipeline.joins import JOINS
from tests.faults.soak import watch_page
from tests.faults.soak.leaders import OF_LEADERS
from tests.faults.soak.soak_run import Record, read

HERE = Path(__file__).parents[1]
RAW, PAGE = HERE / "results", HERE / "RESULTS.md"
ASKED = 300
MOST = 60.0  # seconds a recovery may take


def written() -> str:
    return told({path.name: read(path) for path in sorted(RAW.glob("*.jsonl"))})


def told(runs: Mapping[str, Sequence[Record]]) -> str:
    """The page. A fault counts once a check behind it in its run has found nothing wrong."""
    faults = [record for records in runs.values() for record in _checked(records)]
    checks = [record for records in runs.values() for record in records if "check" in record]
    wrong = [found for check in checks for found in check["wrong"]]
    unchecked = sum("fault" in record for records in runs.values() for record in records) - len(faults)
    messages = sum(max((r["messages"] for r in records if "check" in r), default=0) for records in runs.values())
    joins = {name for fault in faults for of in ("algorithm", "algorithm_after") for name in fault[of].split(", ")}
    slow = [fault for fault in faults if fault["recovery"] > MOST]
    lines = [
        "# Faults that were injected, and what was found",
        "",
        "Written by `python -m tests.faults.soak --page` from the raw records in [results](results); a test compares",
        "them. `make soak` makes more: one real job under steady sales, one fault after the other, and every few",
        "faults the independent checker (`millrace reconcile`) over all messages in Kafka, all facts and rejects, and",
        "the database. What no run does is listed in [README.md](README.md).",
        "",
        f"**{len(faults)} faults** of the {ASKED} that were asked for. Runs: {len(runs)}; checks: {len(checks)}; "
        f"messages: {messages:,}.",
        f"Lost, doubled or wrong: **{len(wrong)}**" + (f" ({'; '.join(wrong)})" if wrong else "") + ".",
        f"Algorithms among them: {len(joins)} of {len(JOINS)}"
        + (f"; not: {', '.join(sorted(set(JOINS) - joins))}" if set(JOINS) - joins else "")
        + ".",
        f"Recoveries of more than {MOST:g} s: {len(slow)}. Jobs that ended by themselves and were started again: "
        f"{sum(len(fault['ended']) for fault in faults)}.",
        "",
    ]
    if unchecked:
        lines += [f"Not counted, because no check followed them before their run was ended: {unchecked}.", ""]
    lines += ["A recovery ends when the tables have all that the broker had when the fault was mended: seconds."]
    if any(fault["kind"] in OF_LEADERS for fault in faults):
        lines += ["Where a leader goes, of three brokers, it begins then and ends before that broker is back."]
    lines += [""]
    watched = [line for name, records in runs.items() for line in watch_page.told(name, records)]
    return "\n".join([*lines, *_table(faults), "", *watched, *_runs(runs)]) + "\n"


def _checked(records: Sequence[Record]) -> list[Record]:
    last = max((place for place, record in enumerate(records) if record.get("ok")), default=0)
    return [record for record in records[:last] if "fault" in record]


def _table(faults: Sequence[Record]) -> list[str]:
    by_kind = defaultdict(list)
    for fault in faults:
        by_kind[fault["kind"]].append(fault)
    rows = ["| fault | times | recovery, median | worst | ended the job |", "|---|---|---|---|---|"]
    for kind, these in sorted(by_kind.items()):
        took, ended = [fault["recovery"] for fault in these], Counter(c for f in these for c in f["ended"])
        codes = ", ".join(f"{count}, exit code {code}" for code, count in sorted(ended.items())) or "never"
        rows.append(f"| {kind} | {len(these)} | {median(took):.1f} | {max(took):.1f} | {codes} |")
    return rows


def _runs(runs: Mapping[str, Sequence[Record]]) -> list[str]:
    rows = ["| run | seed | begun | faults |", "|---|---|---|---|"]
    for name, records in runs.items():
        count = sum("fault" in record for record in records)
        rows.append(f"| [{name}](results/{name}) | {records[0]['seed']} | {records[0]['at'][:16]} UTC | {count} |")
    return rows
