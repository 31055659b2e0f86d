"""What a worker tells the driver of a batch."""
