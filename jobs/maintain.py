"""python jobs/maintain.py [--dry-run] [OPTIONS]: the same as `millrace maintain`."""

import sys

from pipeline.cli import main

if __name__ == "__main__":
    main(["maintain", *sys.argv[1:]])
