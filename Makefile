# `make help` lists the commands.
VENV ?= .venv
PYTHON ?= $(shell for python in python3 python3.15 python3.14 python3.13 python3.12 python3.11; do \
	if $$python -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 16))' >/dev/null 2>&1; \
	then echo $$python; break; fi; done)
PORT ?= $(or $(TRAINFARE_PORT),8000)
ARGS ?=
BIN := $(VENV)/bin
PYTEST_ALL := $(BIN)/python tests/support/postgresql.py $(BIN)/pytest -n 2 --slow
# The locks keep extras: pip looks for the newest release of a package that is pinned without its extra.
UV_COMPILE := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate --no-strip-extras --upgrade
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Two fits or tests at once must not each take all cores.
export OMP_NUM_THREADS ?= 1
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
FRAMEWORKS := $(VENV)-frameworks
IMPORTERS := $(VENV)-importers
LAUNCHERS := $(VENV)-launchers
TESTS_OF_IMPORTERS := $(addprefix client/tests_frameworks/test_,spark.py mlflow.py wandb.py)
TESTS_OF_LAUNCHERS := client/tests_frameworks/test_skypilot.py
.PHONY: help demo serve test suite coverage lint unit frameworks launchers clusters importers sbom audit fuzz pythons openapi lock clean

help: ## list the commands
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1	\2/p' Makefile

demo: $(VENV)/.installed ## upload measured runs, fit, forecast, recommend (ARGS=--exit ends it)
	@exec $(BIN)/trainfare demo $(if $(filter command line environment,$(origin PORT)),--port $(PORT)) $(ARGS)

serve: $(VENV)/.installed ## run service and fitter until Ctrl-C (PORT=8000, TRAINFARE_* settings)
	@exec $(BIN)/trainfare serve --with-fitter --migrate --port $(PORT) $(ARGS)

# With -j2 the others run beside the suite: they wait more than they compute.
test: lint suite frameworks launchers clusters ## everything that CI runs: lint, types, layers, tests on SQLite and PostgreSQL

suite: $(VENV)/.installed-dev
	$(PYTEST_ALL) -m "not cluster" $(ARGS)

clusters: $(VENV)/.installed-dev ## test fits on a real Ray cluster
	$(BIN)/python tests/support/postgresql.py $(BIN)/pytest -q --slow -m cluster --durations=5 tests/services

coverage: $(VENV)/.installed-dev ## the same tests with coverage, which must reach 95 % (takes a third longer)
	$(PYTEST_ALL) --cov --cov-report=term:skip-covered $(ARGS)

lint: $(VENV)/.installed-dev ## style, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --python-version 3.10 -p trainfare_client
	$(BIN)/lint-imports
	$(BIN)/hadolint Dockerfile

unit: $(VENV)/.installed-dev ## the quick tests, on SQLite only
	$(BIN)/pytest -q -n 2 -m "not (postgresql or slow or browser or lengthy)" $(ARGS)

frameworks: $(FRAMEWORKS)/.installed $(VENV)/.installed-dev ## test the collectors with torch, lightning, transformers, accelerate, ray
	TRAINFARE_TEST_PYTHON=$(BIN)/python $(FRAMEWORKS)/bin/python -m pytest -q --durations=5 \
		-o filterwarnings=default -o addopts=--import-mode=importlib client/tests_frameworks \
		$(addprefix --ignore=,$(TESTS_OF_IMPORTERS) $(TESTS_OF_LAUNCHERS))

launchers: $(LAUNCHERS)/.installed $(VENV)/.installed-dev ## test the hook of launchers with SkyPilot's own optimizer
	TRAINFARE_TEST_PYTHON=$(BIN)/python $(LAUNCHERS)/bin/python -m pytest -q --durations=5 \
		-o filterwarnings=default -o addopts=--import-mode=importlib $(TESTS_OF_LAUNCHERS)

importers: $(IMPORTERS)/.installed $(VENV)/.installed-dev ## test the importers on what a real Spark, MLflow and W&B write (Java 17)
	TRAINFARE_TEST_PYTHON=$(BIN)/python PATH="$(abspath $(IMPORTERS)/bin):$$PATH" \
		$(IMPORTERS)/bin/python -m pytest -q --durations=5 -o filterwarnings=default \
		-o addopts=--import-mode=importlib $(TESTS_OF_IMPORTERS)

sbom: $(VENV)/.installed-dev ## list the locked packages as a CycloneDX document (sbom.cdx.json)
	$(BIN)/python -m tests.support.dependencies sbom sbom.cdx.json

audit: $(VENV)/.installed-dev ## check known vulnerabilities (needs the network) and licences of the locked packages
	$(BIN)/python -m tests.support.dependencies audit

fuzz: $(VENV)/.installed-dev ## fuzz the readers of uploads and batches, a minute each (Python 3.11, Linux on x86-64)
	$(PIP_INSTALL) --require-hashes -r requirements-fuzz.lock
	$(BIN)/python -m tests.fuzz.csv_reader -max_total_time=60 -max_len=4096 -timeout=10 $(ARGS)
	$(BIN)/python -m tests.fuzz.entry_reader -max_total_time=60 -max_len=4096 -timeout=10 $(ARGS)

pythons: $(VENV)/.installed-dev ## try service and client on every installed Python that they name
	$(BIN)/python -m tests.pythons

openapi: $(VENV)/.installed-dev ## write the OpenAPI document that the service publishes
	$(BIN)/python -m tests.support.openapi_document

lock: ## pin the newest dependencies, with hashes (needs uv)
	$(UV_COMPILE) -o requirements.lock pyproject.toml requirements-build.in
	$(UV_COMPILE) --extra dev -c requirements.lock -o requirements-dev.lock \
		pyproject.toml requirements-build.in
	$(UV_COMPILE) --extra ray -c requirements.lock -o requirements-ray.lock \
		pyproject.toml requirements-build.in
	$(UV_COMPILE) --extra otel --extra oidc -c requirements.lock -o requirements-platform.lock \
		pyproject.toml requirements-build.in
	$(UV_COMPILE) client/requirements-frameworks.in client/pyproject.toml \
		| awk '/^[^ ]/ {cuda = /^(nvidia-|cuda-|triton=|torch=)/} !cuda' \
		> client/requirements-frameworks.lock
	$(UV_COMPILE) client/requirements-importers.in client/pyproject.toml \
		> client/requirements-importers.lock
	$(UV_COMPILE) client/requirements-launchers.in client/pyproject.toml \
		> client/requirements-launchers.lock

clean: ## remove the environment and the caches, not the data in var/
	rm -rf $(VENV) $(FRAMEWORKS) $(IMPORTERS) $(LAUNCHERS) .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .coverage.* build

$(BIN)/python:
	@if [ -z "$(PYTHON)" ]; then \
		echo "Python 3.11 to 3.15 with its venv module is needed:" \
			"install it (Debian: apt-get install python3 python3-venv) or set PYTHON=..."; exit 1; fi
	@echo "Creating $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: requirements.lock pyproject.toml | $(BIN)/python
	@echo "Installing the locked dependencies (once) ..."
	@$(PIP_INSTALL) --require-hashes -r requirements.lock
	@$(PIP_INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.installed-dev: requirements-dev.lock client/pyproject.toml $(VENV)/.installed
	@echo "Installing the locked development tools (once) ..."
	@$(PIP_INSTALL) --require-hashes -r requirements-dev.lock
	@$(PIP_INSTALL) --no-deps --no-build-isolation -e client
	@touch $@

# The others' environments are separate: they need other versions of the same packages.
$(FRAMEWORKS)/.installed: client/requirements-frameworks.lock client/requirements-torch.lock
$(FRAMEWORKS)/.installed: CONTENT := the locked frameworks for the collectors' tests (once, about 2 GB)
$(IMPORTERS)/.installed: client/requirements-importers.lock
$(IMPORTERS)/.installed: CONTENT := Spark, MLflow and W&B for the importers' tests (once, about 1 GB)
$(LAUNCHERS)/.installed: client/requirements-launchers.lock
$(LAUNCHERS)/.installed: CONTENT := SkyPilot for the launchers' tests (once, about .5 GB)
$(FRAMEWORKS)/.installed $(IMPORTERS)/.installed $(LAUNCHERS)/.installed: client/pyproject.toml | $(BIN)/python
	@echo "Installing $(CONTENT) ..."
	@$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes \
		$(addprefix -r ,$(filter %.lock,$^))
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check \
		--no-deps --no-build-isolation -e client
	@touch $@
