"""Joins on declared disks and processors and a virtual clock: nothing is measured but counts."""
