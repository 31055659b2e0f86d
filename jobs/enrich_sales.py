"""spark-submit jobs/enrich_sales.py [--config FILE] [--set KEY=VALUE ...]: the same as `millrace run`."""

import sys

from pipeline.cli import main

if __name__ == "__main__":
    main(["run", *sys.argv[1:]])
