"""What the driver answers for: where each batch came from, and that nothing is skipped between two of them."""
