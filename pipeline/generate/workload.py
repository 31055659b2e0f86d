"""What a run sends, apart from how fast: topics, sizes, skew, and the shares of messages that are not plain sales."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeline.errors import BadSetting
from pipeline.generate.keys import Sizes


@dataclass(frozen=True)
class Workload:
    """The same workload gives the same messages, message by message, whatever the rate and wherever it is cut."""

    topics: Mapping[str, float] = field(default_factory=lambda: {"sales": 1.0})  # weights
    sizes: Sizes = field(default_factory=Sizes)  # rows of the master tables that keys are drawn from
    skew: float | str = 1.0  # of products: Zipf's exponent, or "80/20"
    customer_skew: float | str = 0.5
    store_skew: float | str = 0.5
    scatter: bool = False  # frequent products lie anywhere in the master table, not at its beginning
    malformed: float = 0.0  # shares of all messages; together at most 1
    oversized: float = 0.0  # malformed by their size
    oversized_bytes: int = 5_000_000
    unknown: float = 0.0  # one natural key is well formed, but not in the master table
    null_keys: float = 0.0  # one natural key is null
    duplicates: float = 0.0  # an earlier sale of the same topic, sent again
    keyed: bool = False  # the Kafka key is the store code; else there is none
    seed: int = 1
    first_sale: int = (
        0  # the number of the first sale; a run that goes on where another ended starts at its `next_sale`
    )

    def __post_init__(self) -> None:
        shares = (self.malformed, self.oversized, self.unknown, self.null_keys, self.duplicates)
        if min(shares) < 0 or sum(shares) > 1 + 1e-9:
            raise BadSetting(
                f"shares: malformed {shares[0]}, oversized {shares[1]}, unknown {shares[2]}, null keys {shares[3]}, "
                f"duplicates {shares[4]}. Each must be at least 0, and their sum at most 1."
            )
        if not self.topics or min(self.topics.values()) < 0 or sum(self.topics.values()) <= 0:
            raise BadSetting(f"topics: {dict(self.topics)}. At least one topic is needed, and a weight above 0.")
        if min(self.sizes.by_dimension) < 1:
            raise BadSetting(f"sizes: {self.sizes}. Sales need at least one product, one customer and one store.")
        if self.seed < 0 or self.first_sale < 0:
            raise BadSetting(f"seed {self.seed}, first sale {self.first_sale}: neither may be negative.")
