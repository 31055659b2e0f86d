"""Points are run, and what they gave is kept."""
