"""All checks in their order: each alone, each within its time, none stopped by the failure of another."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from pipeline.config.settings import Settings
from pipeline.doctor import history, kafka, machine, master, placeholders, stream, warehouse
from pipeline.doctor.findings import Check, Finding, Level, Patient, failure, not_checked, ok
from pipeline.errors import MillraceError
from pipeline.plan import resolve
from pipeline.watch.logs import redacted

Tell = Callable[[BaseException], str]  # the sentence for an error

_ANSWERS = 4  # as many answers of a server a check may wait for, one after the other
_SETTINGS = "settings"


@dataclass(frozen=True)
class Line:
    """A finding and the check that made it."""

    check: str
    finding: Finding


def examine(load: Callable[[], Settings], within: float, tell: Tell) -> Iterator[Line]:
    """Every finding, as soon as it is known."""
    try:
        settings = load()
        patient = Patient(settings, resolve(settings), within)
    except MillraceError as refused:
        yield Line(_SETTINGS, failure(redacted(str(refused))))
        yield Line("all else", not_checked(f"it needs {_SETTINGS}, which failed"))
        return
    yield Line(_SETTINGS, ok(f"settings and contracts of {settings.job.name} fit together"))
    rooms = (machine, kafka, master, warehouse, stream, history, placeholders)
    unknown: set[str] = set()
    for check in (check for room in rooms for check in room.checks(patient)):
        lacking = [need for need in check.needs if need in unknown]
        found = [not_checked(f"it needs {lacking[0]}, which failed")] if lacking else _asked(check, patient, tell)
        if lacking or any(each.level is Level.FAILURE for each in found):
            unknown.add(check.name)
        for each in found:
            yield Line(check.name, replace(each, what=redacted(each.what), remedy=redacted(each.remedy)))


def _asked(check: Check, patient: Patient, tell: Tell) -> list[Finding]:
    """In a thread, for the one thing that has no time limit of its own: a disk whose mount does not answer."""
    found: list[Finding] = []
    asking = threading.Thread(target=_ask, args=(check, patient, tell, found), daemon=True)
    asking.start()
    limit = _ANSWERS * patient.within
    asking.join(limit)
    if asking.is_alive():
        hung = failure(f"no answer after {limit:g} s", "Look at the server or the mount; --within gives it longer.")
        return [*found, hung]
    return found


def _ask(check: Check, patient: Patient, tell: Tell, found: list[Finding]) -> None:
    try:
        found.extend(check.ask(patient))
    except BaseException as error:  # noqa: BLE001 told as a line, whatever it is; deltalake's panics are no Exception
        found.append(failure(tell(error)))
