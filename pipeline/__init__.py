"""Millrace: near-real-time enrichment of Kafka sales with MySQL master data. Start reading at `pipeline/flow.py`."""

__version__ = "0.1.0"
