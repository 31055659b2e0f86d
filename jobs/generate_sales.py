"""python jobs/generate_sales.py [OPTIONS]: the same as `millrace generate`."""

import sys

from pipeline.cli import main

if __name__ == "__main__":
    main(["generate", *sys.argv[1:]])
