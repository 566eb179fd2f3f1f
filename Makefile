# Two commands do everything: `make lab` and `make test`. All that they install lies in .venv
# and in labkit's cache; `make clean` removes the first.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
# Any Python from 3.11 on that can make a virtual environment; say PYTHON=... to choose.
USABLE := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	  if "$$p" -c '$(USABLE)' 2>/dev/null; then command -v "$$p"; break; fi; done)
PYTEST_ARGS ?=

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

.PHONY: setup
setup: $(VENV)/.installed ## Install labkit and what it needs into .venv

$(VENV)/.installed: requirements.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo "No usable Python 3.11+ found: install python3 and python3-venv, or say make PYTHON=/path/to/python3" >&2; exit 1; }
	"$(PYTHON)" -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

.PHONY: tools
tools: setup ## Get the Kubernetes binaries (found, downloaded or built)
	$(BIN)/labkit tools get

.PHONY: lab
lab: tools ## Bring up the default cluster and run the first lab on it
	$(BIN)/labkit up
	$(BIN)/labkit run 01
	@echo
	@echo "Your turn:   $(BIN)/labkit lab                      the course in JupyterLab"
	@echo "Look round:  $(BIN)/labkit kubectl get resourceslices"
	@echo "The end:     $(BIN)/labkit down"

.PHONY: test
test: tools ## Run all tests
	$(BIN)/python -m pytest $(PYTEST_ARGS)

.PHONY: lint
lint: setup ## Check style, types and the layering of the rooms
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell labkit tests notebooks clusters bench binder *.md

.PHONY: clean
clean: ## End the default cluster and remove .venv and reports
	if [ -x $(BIN)/labkit ]; then $(BIN)/labkit down; fi
	rm -rf $(VENV) reports build dist
