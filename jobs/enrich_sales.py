"""spark-submit jobs/enrich_sales.py [--config FILE] [--set KEY=VALUE ...]: the same as `millrace run`."""

import sys

from pipeline.cli import main

if __name__ == "__main__":
    sys.argv = ["millrace", "run", *sys.argv[1:]]
    main()
