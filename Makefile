# Works from a fresh clone. `make` alone lists the targets. Each target creates what it needs, `.venv` included.
# Requires Python 3.11 to 3.14 and Java 17 or newer. PYTHON=... selects an interpreter.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:
.PHONY: help demo demo-cluster up down test test-slow test-all test-faults test-upkeep test-gate test-worker-kills test-s3 test-spark-s3 test-floor test-install test-browser interop interop-commits interop-commits-s3 differential fuzz simulate simulate-orders simulate-verbs simulate-mutants lint format docs site bench bench-dml bench-large-merge bench-ingest bench-maintenance bench-vacuum bench-log bench-commit bench-checkpoint package lock prerequisites clean

# Of the caller's environment only pip's own settings and the choice of Java have an effect.
unexport $(filter AIRFLOW% PYSPARK% PYTHON% SPARK%,$(.VARIABLES)) VIRTUAL_ENV PIP_PREFIX PIP_TARGET PIP_USER

python := .venv/bin/python
installed := .venv/.installed
interpreter := $(or $(wildcard $(python)),$(PYTHON))

# delta-spark needs another Spark version than the project, so it has its own environment. Spark downloads its jars.
delta_spark := .peers/delta-spark
peer_tables := .peers/delta-spark-tables
interop_with_spark := $(addprefix tests/interop/delta_spark/, our_tables.py sequences_by_turns.py conflicts.py turns.py column_turns.py)

# One process per processor, at most four. tests/conftest.py decides which tests share a process.
in_parallel := -n auto --maxprocesses 4 --no-loadscope-reorder

# What `make test-all` runs, two at a time and in this order: targets that keep the processors busy stand between targets
# that often wait for a server, another process or a download.
all_tests := test interop interop-commits interop-commits-s3 test-slow test-worker-kills test-s3 simulate-orders \
    test-spark-s3 test-install simulate test-browser test-floor differential simulate-verbs fuzz test-gate test-upkeep \
    simulate-mutants test-faults
all_logs := .cache/test-all

# `make test-all` runs property tests with 100 examples, parts of fuzz, differential and test-gate with new seeds, each at
# most eleven minutes on one core, and a fifth of the orders of simulate-orders.
parts = PROFILE=$(or $(PROFILE),all) INPUTS=$(or $(INPUTS),20000) SEQUENCES=$(or $(SEQUENCES),800) \
    SUITES=$(or $(SUITES),1500) ORDERS=$(or $(ORDERS),200)

# The oldest versions that pyproject.toml allows. Tests that need a newer version are deselected: pyarrow reads fixed-size
# lists with nulls from 26 on. Great Expectations leaves temporary folders to the garbage collector.
floor := .peers/floor
floor_judges := apache-airflow-providers-apache-spark deltalake duckdb duckdb-extension-delta editables flask flask-cors \
    grpcio-status hatchling hypothesis jsonschema moto polars psutil pytest pytest-timeout pytest-xdist tpchgen-cli
floor_tests := tests/lakehouse_lib tests/spark_jobs \
    --deselect tests/lakehouse_lib/engine/parquet/test_conform.py::test_dictionaries_fixed_sizes_and_views \
    --deselect tests/lakehouse_lib/engine/parquet/test_data_reader.py::test_rows_of_a_file_with_views_are_left_out \
    -W "ignore:Implicitly cleaning up:ResourceWarning"

# What drives Chromium in the tests of the pages. CHROMIUM=... is another path, PICTURES=docs replaces the pictures of the docs.
browser := .peers/browser
chromium := $(or $(CHROMIUM),/usr/bin/chromium)

# The packages that build the website.
site := .peers/site

rounds = $(if $(ROUNDS),--rounds $(ROUNDS))

# A real S3 server for the tests of the store: a Go program that listens on 127.0.0.1.
s3_server := .peers/bin/versitygw
s3_server_version := v1.8.0
# Hadoop's S3 client for Spark, of the Hadoop that pyspark contains.
hadoop_aws := 3.5.0
s3_jars := .peers/ivy/jars/org.apache.hadoop_hadoop-aws-$(hadoop_aws).jar

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-18s  %s\n", $$1, $$2 }' Makefile

demo: prerequisites $(installed) ## Run the whole platform on TPC-H data, from landing files to a proven erasure
	@$(python) -m demo

demo-cluster: prerequisites $(installed) $(s3_server) $(s3_jars) ## Run the demo on Postgres, Redis, two schedulers, a Spark cluster and an S3 server (needs Go; five minutes)
	@$(python) -m demo cluster

up: prerequisites $(installed) ## Start the demo's Airflow, leave it running, and print its address and the password
	@$(python) -m demo up

down: $(installed) ## Stop the Airflow that `make up` started
	@$(python) -m demo down

test: prerequisites $(installed) ## Run the tests without the slow ones (eight minutes on two processors)
	@$(python) -m pytest $(in_parallel)

test-slow: prerequisites $(installed) ## Run the slow tests, and the property tests with 500 examples (PROFILE=all runs 100)
	@$(python) -m pytest $(in_parallel) -m "slow or hypothesis" --hypothesis-profile $(or $(PROFILE),nightly)

test-all: ## Run all tests, two targets at a time, and print the time of each target; after a failure the other targets still run (hours)
	-@$(MAKE) --no-print-directory $(installed) $(delta_spark)/.installed $(s3_server) --keep-going
	@rm -rf $(all_logs); mkdir -p $(all_logs); echo "The output of each target is in $(all_logs)."; \
	printf '%s\n' $(all_tests) | xargs -P 2 -I TARGET sh -c ' \
	    start=$$(date +%s); result=passed; \
	    $(MAKE) --no-print-directory TARGET $(parts) > $(all_logs)/TARGET.log 2>&1 || result=FAILED; \
	    printf "%-20s %6d s  %s\n" TARGET $$(( $$(date +%s) - start )) $$result; \
	    [ $$result = passed ]'

test-faults: $(installed) ## Kill random processes of 16 writers, and check that no acknowledged commit is lost (COMMITS=..., KILLS=..., SEED=...)
	@$(python) -m tests.faults $(if $(COMMITS),--commits $(COMMITS)) $(if $(KILLS),--kills $(KILLS)) $(if $(SEED),--seed $(SEED))

test-upkeep: $(installed) ## Write and read a table, first alone, then during its maintenance, and compare the rows (ten minutes; SECONDS=...)
	@$(python) -m tests.upkeep $(if $(SECONDS),--seconds $(SECONDS))

test-gate: prerequisites $(installed) ## Judge 10,000 random suites by Great Expectations on Spark and by the gate on Arrow, and compare the verdicts (SUITES=..., SEED=...)
	@$(python) -m tests.gate $(if $(SUITES),--suites $(SUITES)) $(if $(SEED),--seed $(SEED))

test-worker-kills: prerequisites $(installed) ## Kill workers, JVMs, drivers, executors, Spark's workers, the scheduler and the triggerer, stop the metadata database, and check that each job commits once and that no file contains a secret (half an hour; needs Postgres; ROUNDS=..., SEED=...)
	@$(if $(ROUNDS),ROUNDS=$(ROUNDS)) $(if $(SEED),SEED=$(SEED)) $(python) -m pytest -m '' --timeout 1200 tests/airflow/worker_kills.py tests/airflow/spark_worker_kills.py tests/airflow/service_kills.py tests/airflow/database_outages.py

test-s3: $(installed) $(s3_server) ## Test the store, commits, tables and killed loads on a real S3 server (needs Go; some minutes)
	@$(python) -m pytest -m '' -rP tests/s3/contract.py tests/s3/commits.py tests/s3/landing.py tests/s3/library.py tests/s3/load_kills.py

test-spark-s3: prerequisites $(installed) $(s3_server) ## Test Spark on a real S3 server (needs Go; Spark downloads hadoop-aws, 0.7 GB, once)
	@$(python) -m pytest -m '' -rP tests/s3/spark.py

test-floor: prerequisites $(floor)/.installed ## Test the library and the jobs with the oldest dependencies that pyproject.toml allows (fifteen minutes)
	@$(floor)/bin/python -m pytest $(in_parallel) $(floor_tests)

test-install: prerequisites $(installed) ## Install the wheel beside Airflow 3.3, 3.2 and 3.1, and run DAGs that use it (ten minutes)
	@$(python) -m pytest -m '' tests/install/beside_airflow.py

test-browser: prerequisites $(installed) $(browser)/.installed ## Test the pages of a real Airflow in Chromium (needs Chromium; ten minutes; PICTURES=docs replaces the pictures of the docs)
	@test -x $(chromium) || { echo "the tests of the pages need Chromium, and $(chromium) does not run. Install it (Debian: apt install chromium) or set CHROMIUM" >&2; exit 1; }
	@CHROMIUM=$(chromium) LAKEHOUSE_PICTURES=$(abspath $(PICTURES)) PYTHONPATH=$(browser) $(python) -m pytest -m '' tests/browser/pages.py

fuzz: $(installed) ## Read 100,000 corrupted tables and predicates, and check that no answer is wrong (INPUTS=..., SEED=..., FIRST=... to continue)
	@$(python) -m tests.fuzz $(if $(INPUTS),--inputs $(INPUTS)) $(if $(SEED),--seed $(SEED)) $(if $(FIRST),--first $(FIRST))

interop: prerequisites $(installed) $(peer_tables)/.written ## Compare with delta-spark: tables of both libraries, conflicts, random sequences of verbs (half an hour; RECORD=1 replaces tests/interop/matrix/record.json)
	@$(python) -m pytest -m '' $(if $(RECORD),--record) $(interop_with_spark) > .peers/interop.log 2>&1 & \
	    beside=$$!; failed=0; \
	    $(python) -m pytest -m '' tests/interop/delta_spark/matrix.py || failed=1; \
	    wait $$beside || failed=1; cat .peers/interop.log; exit $$failed

interop-commits: prerequisites $(installed) $(delta_spark)/.installed ## Make a thousand commits to one table together with delta-rs, then a thousand together with delta-rs and delta-spark (COMMITS=..., SEED=...)
	@$(python) -m tests.interop.commits $(if $(COMMITS),--commits $(COMMITS)) $(if $(SEED),--seed $(SEED))

interop-commits-s3: $(installed) $(s3_server) ## Make a thousand commits to one table on a real S3 server together with delta-rs (needs Go; COMMITS=..., SEED=...)
	@$(python) -m tests.interop.commits --s3 $(if $(COMMITS),--commits $(COMMITS)) $(if $(SEED),--seed $(SEED))

differential: prerequisites $(installed) ## Run 10,000 random sequences of twelve verbs with this library and with delta-rs, and compare the rows (SEQUENCES=..., SEED=..., ENGINE=arrow or spark for all; default: each 200th on Spark)
	@$(python) -m tests.differential $(if $(SEQUENCES),--sequences $(SEQUENCES)) $(if $(SEED),--seed $(SEED)) $(if $(ENGINE),--engine $(ENGINE))

simulate: $(installed) ## Simulate the commit protocol in 10,000 runs, and check each run (SEEDS=..., FIRST=...; RECORD=file to continue later)
	@$(python) -m tests.simulation $(if $(SEEDS),--seeds $(SEEDS)) $(if $(FIRST),--first $(FIRST)) $(if $(PROCESSES),--processes $(PROCESSES)) $(if $(RECORD),--record $(RECORD))

simulate-orders: $(installed) ## Simulate two and three actors in all orders of their calls, at most 1,000 (ORDERS=...), and two actors with each fault at each call
	@$(python) -m tests.simulation --orders $(if $(ORDERS),--limit $(ORDERS))

simulate-verbs: $(installed) ## Simulate concurrent verbs with real data files in 2,000 runs (SEEDS=..., FIRST=...)
	@$(python) -m tests.verb_simulation $(if $(SEEDS),--seeds $(SEEDS)) $(if $(FIRST),--first $(FIRST)) $(if $(PROCESSES),--processes $(PROCESSES))

simulate-mutants: $(installed) ## Put seventeen bugs into the commit protocol and forty-two into the verbs, and check that the simulation finds each bug
	@$(python) -m tests.simulation --mutants
	@$(python) -m tests.verb_simulation --mutants

lint: $(installed) ## Check style, types and the imports between the parts
	@$(python) -m ruff check .
	@$(python) -m ruff format --check .
	@$(python) -m mypy
	@.venv/bin/lint-imports --no-cache

format: $(installed) ## Rewrite the code in the project's style
	@$(python) -m ruff check --fix .
	@$(python) -m ruff format .

docs: $(installed) ## Write the generated parts of the docs: protocol support, the conflict table, the tables of interop
	@$(python) -m docs.protocol_support
	@$(python) -m docs.conflict_table
	@$(python) -m docs.interop_matrix

site: $(site)/.installed ## Build the docs as a website into dist/site, and check every link
	@$(site)/bin/python -m docs.website

bench: prerequisites $(installed) ## Time compact, z_order and delete, compared with delta-rs
	@$(python) -m benchmarks --cases compact z_order delete --contestants arrow spark delta-rs

bench-dml: prerequisites $(installed) $(delta_spark)/.installed ## Time delete, update and merge, and count opened files, compared with delta-rs and delta-spark (CASES=..., CONTESTANTS=...)
	@$(python) -m benchmarks $(if $(CASES),--cases $(CASES)) $(if $(CONTESTANTS),--contestants $(CONTESTANTS))

bench-large-merge: prerequisites $(installed) ## Merge 100 MB into a table of 20 GB within 2 GiB of memory, compared with delta-rs (needs 45 GB of disk; GIGABYTES=..., TABLES=..., CONTESTANTS=...)
	@$(python) -m benchmarks.large_merge $(if $(GIGABYTES),--gigabytes $(GIGABYTES)) $(if $(TABLES),--tables $(TABLES)) $(if $(CONTESTANTS),--contestants $(CONTESTANTS))

bench-ingest: prerequisites $(installed) ## Time loads of 836 MB of CSV, JSON and Parquet files, compared with Spark without checks, and loads of a source with a million loaded files (MEGABYTES=..., CASES=..., RUNS=..., FILES=...)
	@$(python) -m benchmarks.ingest $(if $(MEGABYTES),--megabytes $(MEGABYTES)) $(if $(CASES),--cases $(CASES)) $(if $(RUNS),--runs $(RUNS))
	@$(python) -m benchmarks.ingest.state $(if $(FILES),--files $(FILES))

bench-maintenance: prerequisites $(installed) $(delta_spark)/.installed $(s3_server) ## Time compaction, Z-order and deletes, incremental Z-order, the plan of 500 tables, the health of a table of a million files, the pages in Airflow, and vacuums of a million objects, and of 100,000 in S3 (needs Go; TABLES=..., FILES=..., OBJECTS=..., S3_OBJECTS=..., ROUNDS=...)
	@$(python) -m benchmarks --cases compact z_order delete
	@$(python) -m benchmarks.maintenance.clustering
	@$(python) -m benchmarks.maintenance.plan $(if $(TABLES),--tables $(TABLES))
	@$(python) -m benchmarks.maintenance.health $(if $(FILES),--files $(FILES)) $(rounds)
	@$(python) -m benchmarks.maintenance.pages $(if $(TABLES),--tables $(TABLES)) $(if $(FILES),--files $(FILES)) $(rounds)
	@$(python) -m benchmarks.maintenance.vacuum $(if $(OBJECTS),--objects $(OBJECTS)) $(rounds)
	@$(python) -m benchmarks.maintenance.vacuum --s3 $(if $(S3_OBJECTS),--objects $(S3_OBJECTS)) $(rounds)

bench-vacuum: prerequisites $(installed) $(s3_server) ## Time vacuums of a million objects, and of 100,000 in S3, compared with delta-rs (needs Go; OBJECTS=..., S3_OBJECTS=..., ROUNDS=...)
	@$(python) -m benchmarks.maintenance.vacuum $(if $(OBJECTS),--objects $(OBJECTS)) $(rounds)
	@$(python) -m benchmarks.maintenance.vacuum --s3 $(if $(S3_OBJECTS),--objects $(S3_OBJECTS)) $(rounds)

bench-log: prerequisites $(installed) $(delta_spark)/.installed ## Time opening, pruning and scanning tables of many files, compared with delta-rs and delta-spark
	@$(python) -m benchmarks.log

bench-commit: prerequisites $(installed) ## Time small commits, concurrent commits and commits on large tables, compared with delta-rs
	@$(python) -m benchmarks.commit

bench-checkpoint: prerequisites $(installed) ## Time checkpoints of a table of a million files, compared with delta-rs
	@$(python) -m benchmarks.checkpoints

package: $(installed) ## Build the wheel into dist/
	@$(python) -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	@ls dist

# pyspark-client contains files of pyspark, so it is left out of the lock and packages are installed without resolving.
# LOCK_FLAGS=--upgrade upgrades all pins, --upgrade-package=NAME upgrades one.
lock: $(installed) ## Write the pinned packages into requirements.lock, after a change of pyproject.toml
	@$(python) -m uv pip compile --quiet --universal --python-version 3.11 --all-extras --generate-hashes \
	    --no-emit-index-url --no-emit-package pyspark-client --custom-compile-command "make lock" \
	    $(LOCK_FLAGS) --output-file requirements.lock pyproject.toml

prerequisites: ## Check that Python and Java are installed, or print how to install them
	@sh .ci/prerequisites "$(interpreter)" > /dev/null

clean: ## Stop the demo and remove all generated files, .venv and .demo included
	@if [ -e $(installed) ] && [ -d .demo ]; then $(python) -m demo down; fi
	rm -rf .venv .demo .bench .fuzz .peers .cache build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	rm -rf metastore_db derby.log spark-warehouse
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(installed): requirements.lock pyproject.toml | prerequisites
	@echo "Installing the pinned packages into .venv: one to four minutes, once."
	@"$$(sh .ci/prerequisites "$(interpreter)")" -m venv .venv
	@$(python) -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	@$(python) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(delta_spark)/.installed: tests/interop/delta_spark/requirements.txt | prerequisites
	@echo "Installing delta-spark into $(delta_spark): some minutes, once."
	@"$$(sh .ci/prerequisites "$(interpreter)")" -m venv $(delta_spark)
	@$(delta_spark)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

$(site)/.installed: docs/website-requirements.txt | prerequisites
	@echo "Installing mkdocs into $(site): a minute, once."
	@"$$(sh .ci/prerequisites "$(interpreter)")" -m venv $(site)
	@$(site)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

$(floor)/.installed: pyproject.toml requirements.lock | $(installed)
	@echo "Installing the oldest versions into $(floor): some minutes, once."
	@rm -rf $(floor)
	@"$$(sh .ci/prerequisites "$(interpreter)")" -m venv $(floor)
	@for name in $(floor_judges); do sed -n "s/^\($$name==[^ ]*\).*/\1/p" requirements.lock; done > $(floor)/judges.txt
	@$(python) -m uv pip compile --quiet --resolution lowest-direct --python $(floor)/bin/python --no-header --no-annotate \
	    --extra airflow --extra quality --extra s3 --extra spark --no-emit-package pyspark-client \
	    --output-file $(floor)/oldest.txt pyproject.toml $(floor)/judges.txt
	@$(floor)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r $(floor)/oldest.txt
	@$(floor)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(browser)/.installed: tests/browser/requirements.txt | $(installed)
	@rm -rf $(browser)
	@$(python) -m pip install --quiet --disable-pip-version-check --no-deps --target $(browser) -r $<
	@touch $@

$(s3_server):
	@command -v go > /dev/null || { echo "the tests on S3 need Go to build an S3 server from source" >&2; exit 1; }
	@echo "Building an S3 server into .peers/bin: some minutes, once."
	@GOBIN="$(CURDIR)/.peers/bin" go install github.com/versity/versitygw/cmd/versitygw@$(s3_server_version)

$(s3_jars): | $(installed)
	@echo "Downloading Hadoop's S3 client into .peers/ivy: 0.7 GB, once."
	@mkdir -p .peers/ivy; : > .peers/ivy/nothing.py
	@SPARK_LOCAL_IP=127.0.0.1 PYSPARK_PYTHON=$(python) .venv/bin/spark-submit --master 'local[1]' --conf spark.jars.ivy=$(CURDIR)/.peers/ivy \
	    --packages org.apache.hadoop:hadoop-aws:$(hadoop_aws) \
	    --exclude-packages org.apache.hadoop:hadoop-client-api,org.apache.hadoop:hadoop-client-runtime \
	    .peers/ivy/nothing.py > .peers/ivy/log 2>&1 || { cat .peers/ivy/log >&2; exit 1; }

$(peer_tables)/.written: $(delta_spark)/.installed $(wildcard tests/interop/delta_spark/tables/*.sql) \
    tests/interop/delta_spark/write.py tests/interop/delta_spark/scripts.py
	@$(delta_spark)/bin/python tests/interop/delta_spark/write.py $(peer_tables)
	@touch $@
