#!/usr/bin/env bash
# Submits the job to a Spark cluster that knows nothing of Millrace: code, packages and jars travel with it.
#
#   millrace submit --master spark://host:7077 [spark-submit's options] [-- --config FILE --set KEY=VALUE ...]
#   deploy/spark/submit.sh ...     the same, in a clone
#
# The driver runs here (client mode) in the Python of .venv, or of MILLRACE_PYTHON. Executors run in `python3.x` of the
# same 3.x; name another with --conf spark.pyspark.python=/path. SPARK_HOME chooses another spark-submit than PySpark's.
# Warehouse and checkpoint must be places that the driver and every executor reach under the same name.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${MILLRACE_PYTHON:-$here/../../.venv/bin/python}

if [[ ! -x $python ]]; then
    echo "millrace: there is no Python at $python. Run \`make setup\`, or name one that has millrace in MILLRACE_PYTHON." >&2
    exit 2
fi

for_spark=()
while (($#)) && [[ $1 != -- ]]; do
    for_spark+=("$1")
    shift
done
(($# == 0)) || shift # the two dashes; what is left is for the job

ask() { "$python" -c "$1"; }
JAVA_HOME=$("$python" -m pipeline.java.runtime)
SPARK_HOME=${SPARK_HOME:-$(ask 'from pyspark.find_spark_home import _find_spark_home as home; print(home())')}
export JAVA_HOME SPARK_HOME
jars=$("$python" -m pipeline.cli jars "$@") # by the job's own settings: they say which store's connector it needs
archives=$("$python" "$here/pack.py")
{ read -r code && read -r packages; } <<<"$archives"
version=$(ask 'import sys; print("%d.%d" % sys.version_info[:2])')

# Archives are unpacked beside each executor. As --py-files the code would come before the driver's own, zipped.
exec "$SPARK_HOME/bin/spark-submit" \
    --deploy-mode client \
    --name millrace \
    --jars "$jars" \
    --archives "$code#millrace,$packages#packages" \
    --conf spark.log.level=WARN \
    --conf spark.executorEnv.PYTHONPATH=millrace:packages \
    --conf "spark.pyspark.python=python$version" \
    --conf "spark.pyspark.driver.python=$python" \
    "${for_spark[@]}" \
    "$(ask 'from pipeline.config import resources; print(resources.job("enrich_sales.py"))')" "$@"
