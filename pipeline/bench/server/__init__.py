"""Joins on a real server whose page pool is much smaller than R, in real time."""
