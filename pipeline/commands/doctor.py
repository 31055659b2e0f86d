"""`millrace doctor`: what a job needs, looked at one by one."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from pipeline.commands.options import Config, Set, chosen

_LONGEST_NAME = 30


def command(
    json: Annotated[bool, typer.Option("--json", help="As one JSON list.")] = False,
    within: Annotated[float, typer.Option(min=0.1, help="Seconds that one answer of a server is waited for.")] = 15.0,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Look at all a job needs: each line ok, warning or failure, with the remedy. Asks, and changes nothing.

    Exit code 1 if there is a failure: `run` would refuse, or stop in its first batch. Spark is not started.
    """
    from json import dumps

    from pipeline.commands.failures import explained
    from pipeline.doctor.examine import examine
    from pipeline.doctor.findings import Level

    lines = []
    for line in examine(lambda: chosen(config, set_), within, lambda error: explained(error)[0]):
        lines.append(line)
        if not json:
            found = line.finding
            said = f"{found.what}. {found.remedy}" if found.remedy else found.what
            print(f"{found.level.value:<12} {line.check:<{_LONGEST_NAME}} {said}", flush=True)
    if json:
        data = [
            {"check": line.check, "level": f.level.value, "what": f.what, "remedy": f.remedy}
            for line in lines
            for f in [line.finding]
        ]
        print(dumps(data, indent=2, ensure_ascii=False))
    sys.exit(1 if any(line.finding.level is Level.FAILURE for line in lines) else 0)
