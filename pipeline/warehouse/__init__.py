"""5  Delta tables: workers write the files, the driver commits once per batch.

Worker: `files.py` (with `partitions.py`, `statistics.py`, `storage.py`); no Spark in there. Driver: `warehouse.py` on
`arrow.py` or `spark.py`, with `tables.py` (what a table must look like), `features.py` (what the arrow writer can
honour), `log.py` and `record.py` (what was committed). `port.py` is what the rest of the pipeline sees.
"""
