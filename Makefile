# `make` lists what can be made. Everything else is in deploy/setup.sh and in the command `millrace`.
.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-mysql fuzz soak sbom bench bench-papers bench-peers lint setup lock clean

VENV := .venv/bin
# More for pytest: make test ARGS="tests/driver -k jars"
ARGS ?=
# A worker a core and one more, each with servers of its own if its tests need any; what ARGS chooses goes without. One
# that runs out of tests takes half of another's (loadgroup would let pytest 9.2 run groups torn apart). Slow tests have
# jobs of their own, and wait for much: three at a time, a file's tests one after the other.
WORKERS := -n $(if $(ARGS),0,auto) --maxprocesses 4 --dist worksteal
SLOW_WORKERS := -n $(if $(ARGS),0,3) --dist loadfile
# A run starts a hundred Pythons; without bytecode each of them compiles all it imports, for seconds.
unexport PYTHONDONTWRITEBYTECODE

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: setup ## broker, database, bursty sales, the job and its panel; after a minute a reconciliation
	@$(VENV)/millrace demo

test: setup ## all tests but the slow ones, on real servers that come and go with it
	@$(call timed,make test,$(VENV)/python -m pytest $(WORKERS) -m "not slow" $(ARGS))

test-slow: setup ## the slow ones: kills in mid-run, a Spark cluster, what is shipped installed elsewhere
	@$(call timed,make test-slow,$(VENV)/python -m pytest $(SLOW_WORKERS) -m slow $(ARGS))

test-mysql: setup ## the tests marked mysql, on a real MySQL server
	@MILLRACE_DATABASE=mysql; export MILLRACE_DATABASE; $(call timed,make test-mysql,$(VENV)/python -m pytest $(WORKERS) -m "mysql and not slow" $(ARGS))

fuzz: setup ## hostile bytes for what reads bytes from outside, a minute each: ARGS="mysql_log --seconds 600 --seed 7 --guided"
	@$(if $(findstring --guided,$(ARGS)),deploy/setup.sh fuzz)
	@$(VENV)/python -m tests.fuzz $(ARGS)

sbom: ## what is in the image, as a CycloneDX list: make sbom ARGS="--store s3" > sbom.json
	@python3 deploy/sbom.py $(ARGS)

soak: setup ## faults at random against a real job, 300 unless you say ARGS="--faults 40 --seed 7"; then tests/faults/RESULTS.md
	$(VENV)/python -m tests.faults.soak $(ARGS)

bench: setup ## the benchmarks; raw results go to tests/benchmarks/results, and from there into README.md
	$(VENV)/python tests/benchmarks/end_to_end.py
	for part in operators grid latency pool; do $(VENV)/python tests/benchmarks/joins.py $$part || exit; done
	$(VENV)/python tests/benchmarks/parse.py
	$(VENV)/python tests/benchmarks/page.py

bench-papers: setup ## what is missing of the papers' experiments on declared disks, then RESULTS.md and its plots
	$(VENV)/millrace bench run $(ARGS) --results tests/benchmarks/results/papers
	$(VENV)/millrace bench compare --results tests/benchmarks/results/papers --to tests/benchmarks/RESULTS.md

bench-peers: setup ## Millrace beside a loop by hand, Flink, Redpanda Connect and Spark, by turns; wants an hour and a quiet machine
	$(VENV)/python -m tests.benchmarks.peers.run $(ARGS)

lint: setup ## format, rules, types, and who may import whom
	$(VENV)/ruff format --check .
	$(VENV)/ruff check .
	$(VENV)/mypy
	$(VENV)/lint-imports

setup: ## the private environment in .venv, up to date with the locks
	@deploy/setup.sh

lock: ## write the locks anew from pyproject.toml
	@deploy/setup.sh lock

clean: ## stop the embedded stack; remove its data, .venv and what the tools left (fetched files stay in the cache)
	@if [ -x $(VENV)/millrace ]; then $(VENV)/millrace down || true; fi
	rm -rf .venv .millrace .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

define timed
start=$$(date +%s); $(2); status=$$?; echo "$(1): $$(($$(date +%s) - start)) s"; exit $$status
endef
