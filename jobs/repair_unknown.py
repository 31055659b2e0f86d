"""python jobs/repair_unknown.py [--dry-run] [OPTIONS]: the same as `millrace repair`."""

import sys

from pipeline.cli import main

if __name__ == "__main__":
    main(["repair", *sys.argv[1:]])
