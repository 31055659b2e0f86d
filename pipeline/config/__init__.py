"""Settings and contracts: what was written down, read and checked. Knows nothing of joins, Spark or columns of data."""
