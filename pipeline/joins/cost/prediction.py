"""What a cost model answers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Prediction:
    """What a model says about a join."""

    split: dict[str, int]  # bytes by part
    parameters: dict[str, float] = field(default_factory=dict)  # in the paper's symbols: w, b, h_S, h_R, k, l
    mu: float = 0.0  # service rate: sales a second of join time
    processing_time: float = 0.0  # mean seconds from admission until served, over all sales
    queries: float = 0.0  # of the master, a second of join time
    rows: float = 0.0  # read from the master, a second of join time
    # Shares of join time in which a front stage works beside a disk that reads ahead: see `Question.beside`.
    idle: float = 0.0
    idle_then: float = 0.0
    remark: str = ""  # what else its user should know

    @property
    def hits(self) -> float:
        """p_N: the share of the sales that a cache of the most wanted rows serves; 0 for a join without one."""
        return self.parameters.get("p_N", 0.0)

    def slower(self, times: float) -> Prediction:
        """The same, when all goes on so many times as slowly."""
        return replace(
            self,
            mu=self.mu / times,
            processing_time=self.processing_time * times,
            queries=self.queries / times,
            rows=self.rows / times,
        )
