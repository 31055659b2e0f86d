"""What an experiment's joins are given: R, the law of the sales' keys, and when they come."""
