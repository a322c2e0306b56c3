# `make help` lists the targets. Everything that they make is in .venv/ and in the data folder.

PYTHON ?= python3
PORT ?= 8000
VENV := .venv
BIN := $(VENV)/bin
WORKER := agents/worker
ARGS ?=
# The instant that files in a wheel bear: the same source makes the same bytes, whenever and wherever.
SOURCE_DATE_EPOCH ?= 315532800

# Say it before anything fails for want of it.
CHECK_PYTHON = $(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit("fencepost: Python 3.11 or newer is needed; $(PYTHON) is %d.%d" % v[:2])'
# uv where it works, else pip: both install from the same hashed lock.
INSTALL = if uv --version >/dev/null 2>&1; then \
	uv pip install --quiet --python $(BIN)/python --require-hashes -r $(1); \
	else $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(1); fi
# The worker of this checkout, run from its source; all that it needs has come with the lock.
INSTALL_WORKER = if uv --version >/dev/null 2>&1; then \
	uv pip install --quiet --python $(BIN)/python --offline --no-deps --no-build-isolation -e $(WORKER); \
	else $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-index --no-deps \
	--no-build-isolation -e $(WORKER); fi

.DEFAULT_GOAL := help
.PHONY: help setup run demo demo-recovery test races simulate mutants lint types sizes docs wheels bench bench-barrier bench-claims bench-console bench-gateway release clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	@$(CHECK_PYTHON)
	@$(PYTHON) -m venv $(VENV)

# Done again only when a lock or the worker's description has changed.
$(VENV)/.installed: requirements.lock $(WORKER)/pyproject.toml | $(BIN)/python
	@echo "Installing what requirements.lock names into $(VENV) ..."
	@$(call INSTALL,requirements.lock)
	@$(INSTALL_WORKER)
	@touch $@

$(VENV)/.installed-dev: requirements-dev.lock $(WORKER)/pyproject.toml | $(BIN)/python
	@echo "Installing what requirements-dev.lock names into $(VENV) ..."
	@$(call INSTALL,requirements-dev.lock)
	@$(INSTALL_WORKER)
	@touch $@

setup: $(VENV)/.installed $(VENV)/.installed-dev ## make the environment from the hashed locks

run: $(VENV)/.installed ## run everything on this machine until Ctrl-C (PORT, DATABASE_URL, FENCEPOST_DATA)
	@exec $(BIN)/python manage.py up --port $(PORT) $(ARGS)

demo: $(VENV)/.installed ## the same, ending when the examples have arrived
	@exec $(BIN)/python manage.py up --once --port $(PORT) $(ARGS)

demo-recovery: $(VENV)/.installed ## attempt 6 of 6 failed: rework, extension 6 -> 7, attempt 7 settles
	@exec $(BIN)/python manage.py demo_recovery $(ARGS)

test: $(VENV)/.installed-dev ## run the suite on a PostgreSQL of its own (ARGS="-k claim")
	@$(BIN)/python -m pytest -n 2 --dist worksteal $(ARGS)

races: $(VENV)/.installed-dev ## run the two-connection tests only
	@$(BIN)/python -m pytest tests/races $(ARGS)

simulate: $(VENV)/.installed-dev ## ten minutes of unlucky lives, and 100 random ones (SIMULATION_SECONDS, SIMULATION_SEED, FENCEPOST_LIVES)
	@SIMULATION_SECONDS=$${SIMULATION_SECONDS:-600} SIMULATION_SEED=$${SIMULATION_SEED:-$$(date +%s)} \
		FENCEPOST_LIVES=$${FENCEPOST_LIVES:-100} \
		$(BIN)/python -m pytest tests/simulation tests/invariants/test_lives.py -s $(ARGS)

mutants: $(VENV)/.installed-dev ## break each guard in a copy and see the tests notice (ARGS="token")
	@$(BIN)/python -m tests.mutants $(ARGS)

lint: $(VENV)/.installed-dev ## style, format, import directions, spelling
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/codespell

types: $(VENV)/.installed-dev ## check the types
	@$(BIN)/mypy

sizes: $(VENV)/.installed-dev ## count the lines of product and tests
	@$(BIN)/python -m tests.house.sizes

docs: $(VENV)/.installed ## write the generated reference anew
	@$(BIN)/python manage.py write_reference

wheels: $(VENV)/.installed ## build the worker's wheel into dist/, the same bytes from the same source
	@SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) $(BIN)/python -m flit_core.wheel $(WORKER) --outdir dist

bench: $(VENV)/.installed-dev ## lifecycles over HTTP beside pgbench with the same SQL, as JSON
	@$(BIN)/python -m tests.benchmarks $(ARGS)

bench-barrier: $(VENV)/.installed-dev ## closing an agent over HTTP while 64 workers claim, as JSON
	@$(BIN)/python -m tests.benchmarks.barrier $(ARGS)

bench-claims: $(VENV)/.installed-dev ## claim-next on an empty queue, on a million, and behind an old snapshot, as JSON
	@$(BIN)/python -m tests.benchmarks.claims $(ARGS)

bench-console: $(VENV)/.installed-dev ## every console page on a large database, as JSON
	@$(BIN)/python -m tests.benchmarks.console $(ARGS)

bench-gateway: $(VENV)/.installed-dev ## what the model gateway adds to calls, as JSON
	@PYTHONPATH=agents/worker/src $(BIN)/python -m tests.benchmarks.gateway $(ARGS)

release: lint types test wheels ## check everything, then build the archive of a release and the wheel
	@git archive --format=tar.gz --prefix=fencepost/ -o fencepost-$$(git describe --tags --always).tar.gz HEAD

clean: ## remove the environment, not the data
	@rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache
