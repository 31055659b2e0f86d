"""A batch is computed again, and held bit for bit against what stands in the tables.

    print(replay(plan, Wishes(batch=12)))

Its messages come from Kafka once more, by the offsets that its commit notes, and go through the same parser under the
same contracts. Their master rows do not come through a join: they are looked up in the history that `millrace sync`
keeps, `dim_<name>`, at the place in the master's log that the commit notes. No row of the batch is from before that
place, but a key that changed between it and the commit may have been read before the change or after it; so each fact
must have a version of its row that was valid at some moment between the two. `--as-of` leaves only one moment.

`batch.py` finds the batch, `past.py` the master's rows as they were, `stored.py` the facts as they are, `check.py`
compares them, and `verdict.py` says what came of it.
"""

from __future__ import annotations

from pipeline.plan import Plan
from pipeline.replay.batch import find
from pipeline.replay.check import check
from pipeline.replay.moments import Wishes
from pipeline.replay.past import pasts
from pipeline.replay.verdict import Verdict

__all__ = ["Verdict", "Wishes", "replay"]


def replay(plan: Plan, wishes: Wishes) -> Verdict:
    """Compute a batch again, and say which of its facts and rejects are other than they should be."""
    batch = find(plan, wishes)
    return check(plan, batch, pasts(plan, batch, wishes), wishes)
