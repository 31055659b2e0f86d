"""The embedded stack: a real Kafka broker and a real database server, without root and without containers."""
