"""What the generator says it sent, against what arrived."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
from pandas.util import hash_array

from pipeline.generate.keys import DIMENSIONS
from pipeline.generate.sent import Sent
from pipeline.reconcile.masters import DimensionFound
from pipeline.reconcile.offsets import Found
from pipeline.reconcile.tables import WarehouseTable
from pipeline.reconcile.verdict import Check

_SALE_ID = "sale.sale_id"


def check(sent: Sent, found: Found, dimensions: Mapping[str, DimensionFound], facts: WarehouseTable) -> list[Check]:
    """Valid, malformed, unknown, null, duplicates."""
    topics = sent.topics.values()
    where = f"The generator counts these as it makes the messages; the facts are in {facts.uri}."
    checks = [
        Check.equal("sent valid = facts", sum(topic.valid for topic in topics), found.facts, where),
        Check.equal(
            "sent malformed = rejects",
            sum(sum(topic.malformed.values()) for topic in topics),
            found.rejects,
            where,
        ),
    ]
    unknown = sum((Counter(topic.unknown) for topic in topics), Counter())
    nulls = sum((Counter(topic.null) for topic in topics), Counter())
    for name, dimension in dimensions.items():
        if name not in DIMENSIONS:
            continue  # a dimension of the user's own: the generator makes no keys for it
        checks.append(Check.equal(f"sent unknown {name} = unmatched", unknown[name], dimension.unmatched, where))
        checks.append(Check.equal(f"sent null {name} = null keys", nulls[name], dimension.nulls, where))
    if facts.has(_SALE_ID):
        duplicates = sum(topic.duplicates for topic in topics)
        checks.append(Check.equal("sent duplicates = repeated ids", duplicates, _repeated(facts), where))
    return checks


def _repeated(facts: WarehouseTable) -> int:
    """The facts that repeat another fact's sale id. Only a hash of eight bytes is kept of each."""
    hashes = [hash_array(batch.column(0).to_numpy(zero_copy_only=False)) for batch in facts.batches([_SALE_ID])]
    everything = np.concatenate([np.empty(0, np.uint64), *hashes])
    return len(everything) - len(np.unique(everything))
