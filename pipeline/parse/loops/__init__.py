"""The scanner's compiled loops. Only `scan.py` is for others; to import it compiles all of them, or loads what was."""
