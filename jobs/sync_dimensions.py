"""python jobs/sync_dimensions.py [--follow] [OPTIONS]: the same as `millrace sync`."""

import sys

from pipeline.cli import main

if __name__ == "__main__":
    main(["sync", *sys.argv[1:]])
