"""What became of the claims, as pages, tables and plots."""
