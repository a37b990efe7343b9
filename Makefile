# Every target runs the tools of $(BIN): `make install` makes that folder. `make check` is the one command to trust.
.DEFAULT_GOAL := check
BIN ?= .venv/bin
PYTHON ?= python3
# glibc of the GPU hosts that sglang ships wheels for; the extras cannot be resolved for an older one
EXTRAS_PLATFORM ?= x86_64-manylinux_2_35
PIP_COMPILE = $(BIN)/uv pip compile -q pyproject.toml --no-header --no-annotate --python-version 3.11

.PHONY: help install check format lint types arrows test extras constraints readme bench clean

help: ## This list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

install: ## The folder .venv with recon (editable) and the tools, at the versions of constraints.txt
	$(PYTHON) -m venv .venv
	.venv/bin/pip install -q -U pip
	.venv/bin/pip install -q -c constraints.txt -e . --group dev

check: format lint types arrows test ## Format, lint, types, arrows, tests: what CI runs

format: ## Is everything formatted (`ruff format` does it)
	$(BIN)/ruff format --check

lint: ## Lint
	$(BIN)/ruff check

types: ## mypy --strict over recon
	$(BIN)/mypy

arrows: ## The import contracts of pyproject.toml
	$(BIN)/lint-imports

test: ## All tests
	$(BIN)/pytest -q -n auto

extras: ## Do both extras go with the pins of constraints.txt (resolves, installs nothing)
	$(PIP_COMPILE) --extra gpu --extra sglang -c constraints.txt --python-platform $(EXTRAS_PLATFORM) --prerelease if-necessary -o /dev/null

constraints: ## Write constraints.txt anew: the newest versions that also go with both extras
	mkdir -p build
	$(PIP_COMPILE) --extra gpu --extra sglang --group dev --python-platform $(EXTRAS_PLATFORM) --prerelease if-necessary -o build/with-extras.txt
	$(PIP_COMPILE) --group dev --universal -c build/with-extras.txt -o build/constraints.txt
	(sed -n '/^#/p' constraints.txt; grep -v '^#' build/constraints.txt) > build/new && mv build/new constraints.txt

readme: ## Write the real output of the commands into README.md
	$(BIN)/python tests/support/readme_blocks.py --write

bench: ## Cost per task against a bare loop (and peers: PEERS=/path/to/python)
	$(BIN)/python benchmarks/engine.py $(if $(PEERS),--python $(PEERS))

clean: ## Remove what tools leave behind; never state.db
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
