"""What can be seen of a running job: metrics, panel, status, logs."""
