#!/usr/bin/env bash
# The steps of deploy/Dockerfile, so that a test can take them without Docker:
#
#   build.sh packages FOLDER             what Millrace imports, by hash, into FOLDER/packages
#   build.sh application FOLDER [STORE]  with code, schemas and jars.lock in FOLDER: the jars by sha256, those of a store's
#                                        connector too (s3, azure, google), the command, byte code
#
# SPARK_HOME is a Spark distribution; PYTHON the interpreter that will run it. PySpark comes from the distribution.
set -euo pipefail
step=$1
folder=$(realpath "$2")
store=${3:-}
python=${PYTHON:-python3}
: "${SPARK_HOME:?must name a Spark distribution}"

packages() {
    "$python" -m pip install --quiet --no-cache-dir --disable-pip-version-check \
        --no-deps --only-binary :all: --require-hashes \
        --target "$folder/packages" --requirement "$folder/deploy/docker/requirements.lock"
}

application() {
    # PySpark looks for jars beside itself; in a distribution they lie two folders up.
    [[ -e $SPARK_HOME/python/pyspark/jars ]] || ln -s ../../jars "$SPARK_HOME/python/pyspark/jars"
    # Under a name without a version, so that PYTHONPATH can be a constant.
    ln -sf "$(ls "$SPARK_HOME"/python/lib/py4j-*-src.zip)" "$folder/py4j.zip"
    export PYTHONPATH=$folder:$folder/packages:$SPARK_HOME/python:$folder/py4j.zip
    export MILLRACE_CACHE=$folder/cache
    "$python" -m pipeline.cli jars ${store:+--store "$store"} >"$folder/jars.list"
    # Spark wants the jars at a place of their own, named by file: local:///opt/millrace/jars/….
    ln -sfn cache/jars "$folder/jars"
    mkdir -p "$folder/bin"
    printf '#!/bin/sh\nexec python3 -m pipeline.cli "$@"\n' >"$folder/bin/millrace"
    chmod 755 "$folder/bin/millrace"
    "$python" -m compileall -q "$folder/pipeline"
    # The inner loops of joins, parser and Kafka reader, for every processor of this kind: the image is read-only where it runs.
    mkdir -p "$folder/pipeline/compiled"
    NUMBA_CACHE_DIR=$folder/pipeline/compiled \
        "$python" -c "import pipeline.joins.parts.inner_loops, pipeline.parse.loops.scan, pipeline.kafka.loops"
    "$python" -m compileall -q -j 0 "$folder/packages" || true # a package may carry code for another Python
    chmod -R a+rX "$folder"
}

case $step in
    packages | application) "$step" ;;
    *) echo "build.sh: $step is no step; there are packages and application." >&2 && exit 2 ;;
esac
