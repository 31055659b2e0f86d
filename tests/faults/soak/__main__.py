"""`python -m tests.faults.soak --faults 40 --seed 7`: faults against a real job, then RESULTS.md of what was found."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from tests.faults.soak import soak_page
from tests.faults.soak.kinds import END_THE_DRIVER, KINDS, refused
from tests.faults.soak.leaders import OF_LEADERS, SceneOfThree
from tests.faults.soak.scene import Scene
from tests.faults.soak.soak_run import GROUP, Record, append, soak


def main() -> None:
    words = argparse.ArgumentParser(prog="tests.faults.soak", description=__doc__)
    words.add_argument("--faults", type=int, default=300)
    words.add_argument("--seed", type=int, default=7, help="of kinds, moments and the order of the algorithms")
    words.add_argument("--minutes", type=float, default=float("inf"), help="no fault begins later")
    words.add_argument(
        "--only", action="append", choices=[*KINDS, *OF_LEADERS], metavar="KIND", help="these kinds; may be repeated"
    )
    words.add_argument("--brokers", type=int, default=1, choices=(1, 3), help="3: copies, and faults of who leads")
    words.add_argument("--driver-lives", action="store_true", help="all kinds but those that end the driver")
    words.add_argument("--watch", action="store_true", help="each minute, what the job holds; with settings as shipped")
    words.add_argument("--group", type=int, default=GROUP, help="faults between two looks of the checker")
    words.add_argument("--page", action="store_true", help="only write RESULTS.md anew")
    given = words.parse_args()
    if not given.page:
        not_here = refused()
        for kind in given.only or ():
            if kind in not_here:
                words.error(f"{kind}: {not_here[kind]}")
        for kind, reason in () if given.only else not_here.items():
            print(f"left out: {kind}: {reason}", flush=True)
        raw = soak_page.RAW / f"soak-{given.seed}.jsonl"
        raw.unlink(missing_ok=True)

        def say(record: Record) -> None:
            append(raw, record)
            print(json.dumps(record), flush=True)

        folder = Path(tempfile.mkdtemp(prefix="millrace-soak-"))
        print(f"servers, tables and the job's log are in {folder}", flush=True)
        stage, able = Scene, [kind for kind in KINDS if kind not in not_here]
        if given.brokers == 3:
            stage, able = SceneOfThree, [*OF_LEADERS]
        kinds = given.only or [kind for kind in able if not (given.driver_lives and kind in END_THE_DRIVER)]
        more = {"group": given.group, "watched": given.watch, "stage": stage}
        soak(folder, given.seed, given.faults, given.minutes * 60, kinds, say, **more)
    soak_page.PAGE.write_text(soak_page.written())


main()
