"""What is told before a job runs: the plan, what each join would do, what the database's reads cost."""
