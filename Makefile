# `make help` lists the targets. Everything is installed into the folder VENV by the targets
# themselves; `make demo` needs no more than Python and make.

PYTHON ?= python3
VENV ?= .venv
CHAOS_ENGINE := $(or $(ENGINE),both)
ENGINE ?= sqlite
DURATION ?= 600

export PIP_DISABLE_PIP_VERSION_CHECK = 1
export PIP_ROOT_USER_ACTION = ignore

BIN := $(VENV)/bin
DEMO_STAMP := $(VENV)/.installed-demo
DEV_STAMP := $(VENV)/.installed-dev

.DEFAULT_GOAL := help
.PHONY: help venv demo test coverage lint format types imports docs wheel bench chaos check clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(DEV_STAMP) ## Set up the virtual environment (VENV=.venv) with all development tools

demo: $(DEMO_STAMP) ## Run the example shop: invoices, events, sales (ENGINE=sqlite or postgres)
	@ENGINE="$(ENGINE)" "$(BIN)/python" example_project/manage.py demo

test: $(DEV_STAMP) ## Run all tests on both engines (ARGS="..." goes to pytest)
	@.ci/tests "$(BIN)/python" $(ARGS)

coverage: $(DEV_STAMP) ## Run all tests and show which branches of the package none of them takes
	@"$(BIN)/coverage" erase
	@"$(BIN)/coverage" run -m pytest $(ARGS)
	@"$(BIN)/coverage" combine --quiet
	@"$(BIN)/coverage" report

lint: $(DEV_STAMP) ## Check style and format
	@.ci/lint "$(BIN)"

format: $(DEV_STAMP) ## Format the code, and mend what lint can mend by itself
	@"$(BIN)/ruff" check --quiet --fix-only .
	@"$(BIN)/ruff" format .

types: $(DEV_STAMP) ## Check the types of the package
	@.ci/types "$(BIN)"

imports: $(DEV_STAMP) ## Check that imports point one way
	@.ci/imports "$(BIN)"

docs: $(DEV_STAMP) ## Build the pages (docs/_build); the tests run what they show
	@.ci/docs "$(BIN)"

wheel: $(DEV_STAMP) ## Build the wheel, and run it in an environment without development packages
	@.ci/wheel "$(BIN)/python"

bench: $(DEV_STAMP) ## Measure both engines beside raw rows
	@"$(BIN)/python" -m benchmarks

chaos: $(DEV_STAMP) ## Kill, pause and cut off workers, and audit what they did (DURATION=600 seconds, ENGINE=both)
	@"$(BIN)/python" -m tests.concurrency.chaos --engine "$(CHAOS_ENGINE)" --duration "$(DURATION)" $(ARGS)
	@ALKSTORE_TEST_OUTAGE_S=60 ALKSTORE_TEST_CROWD_S=60 ALKSTORE_TEST_RELAYS=8 \
		"$(BIN)/python" -m pytest -q tests/concurrency/test_network.py \
		tests/concurrency/test_one_file.py tests/concurrency/test_outbox.py

check: lint types imports test docs wheel ## All checks of one Python, on both engines

clean: ## Remove what the other targets have made
	rm -rf $(VENV) .venv-* build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache \
		.import_linter_cache .hypothesis .coverage* htmlcov docs/_build .grimp_cache
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

$(BIN)/pip:
	@.ci/venv "$(PYTHON)" "$(VENV)"

$(DEMO_STAMP): pyproject.toml | $(BIN)/pip
	@echo "Installing the package into $(VENV) ..."
	@"$(BIN)/python" -m pip install -qq --group demo --editable '.[postgres,webhooks]'
	@touch $@

$(DEV_STAMP): pyproject.toml | $(BIN)/pip
	@echo "Installing the package and its development tools into $(VENV) ..."
	@"$(BIN)/python" -m pip install -qq --group dev --editable '.[postgres,webhooks,nats]'
	@touch $@
