"""Sales to send and master tables to seed: `generate(...)` and `seed(...)`."""
