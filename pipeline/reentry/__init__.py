"""Messages that enter the facts later than with their batch: rejects that are valid by now, and ranges read again.

Both are done beside the running job, without Spark, and go the way of every sale: `flow.SaleFlow` in this process. What
enters keeps the topic, partition and offset of its message, and is written once by these rules:

- Each piece is one commit of the facts, under an application id of its own (`record.application_of`) and numbered. The
  number is taken before the tables are read. Of two that read the same state one is refused, and reads again.
- What is in the tables does not enter. Of Kafka only that is read which the job will never write: what lies before the
  end of its last batch, as the facts' log tells it, if the rejects of that batch are committed, too.
- A reject becomes a fact first and leaves the rejects then. If the process dies in between, the next `replay` finds the
  fact and takes the reject away. A reader may see both for that long, as `millrace reconcile` would; never neither.

The rows' `job.batch` is the number with a minus, which no batch has: see `millrace why`. `rejects.py` looks at the
rejects, `replay.py` and `backfill.py` are the two ways, `entrance.py` and `seen.py` what they share.
"""

from pipeline.reentry.record import application_of

__all__ = ["application_of"]
