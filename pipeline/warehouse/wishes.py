"""What may be wished of maintenance; light enough to be loaded for a line of help."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from pipeline.config.measures import Bytes
from pipeline.errors import BadSetting

STEPS = ("optimize", "log", "vacuum")
SAFE_RETENTION_HOURS = 168  # a reader, a time traveller or a stopped job may need a removed file for so long


@dataclass(frozen=True)
class Wishes:
    """What to do, and how carefully."""

    steps: tuple[str, ...] = STEPS
    dry_run: bool = False
    target: Bytes = Bytes(256 << 20)  # size of a merged file; smaller ones are merged
    retain_hours: int = SAFE_RETENTION_HOURS
    forced: frozenset[str] = frozenset()  # tables that may be vacuumed below the safe retention
    job_is_stopped: bool = False
    today: date | None = None  # the first day that is still open; the present one in UTC if not said

    def __post_init__(self) -> None:
        if unknown := set(self.steps) - set(STEPS):
            raise BadSetting(f"steps {sorted(unknown)} are not known; there are {', '.join(STEPS)}.")
        if self.retain_hours < 0 or self.target < 1 << 20:
            raise BadSetting(
                f"retain_hours = {self.retain_hours}, target = {self.target}: 0 hours or more and 1 MiB or more needed."
            )
