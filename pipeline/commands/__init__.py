"""The commands, one a file; `pipeline/cli.py` lists them."""
