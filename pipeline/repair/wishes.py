"""What a repair is to do: as the command line says it."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.config.measures import Seconds
from pipeline.errors import BadSetting


@dataclass(frozen=True)
class Wishes:
    dimensions: tuple[str, ...] = ()  # none: all that the facts have a surrogate key of
    limit: int | None = None  # facts to heal
    age_limit: Seconds | None = None  # older facts stay unknown
    dry_run: bool = False
    job_is_stopped: bool = False
    infer: bool = False  # placeholder master rows first, for keys that have none

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise BadSetting(f"--limit {self.limit} must be at least 1.")
