"""The workers' own way to Kafka: what Spark's source has planned is fetched here, and lands in Arrow columns."""
