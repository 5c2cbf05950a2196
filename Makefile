# Two commands do everything: `make demo` and `make test`. Both can be repeated; what is done is not done again.

PYTHON ?= python3
VENV := .venv

# llama-cpp-python has no wheel on the package index and is compiled once; what is left out here is never used.
export CMAKE_ARGS ?= -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_OPENSSL=OFF
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(shell nproc)

.PHONY: audit demo test

demo: $(VENV)/.with-runtime
	$(VENV)/bin/spanparse demo

test: $(VENV)/.with-dev
	$(VENV)/bin/ruff check
	$(VENV)/bin/mypy
	$(VENV)/bin/pytest

# Every published template against every conversation shape, on two processes; see docs/support.md, which it writes.
audit: $(VENV)/.with-dev
	$(VENV)/bin/python -m tests.audit --write docs/support.md

# pip comes last, so a venv that was left half made (Debian without python3-venv) is made again.
$(VENV)/bin/pip:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.with-runtime: pyproject.toml | $(VENV)/bin/pip
	@echo 'Installing. The first time llama.cpp is compiled, which takes some minutes.'
	$(VENV)/bin/pip install --quiet --editable '.[runtime]'
	touch $@

$(VENV)/.with-dev: pyproject.toml | $(VENV)/.with-runtime
	$(VENV)/bin/pip install --quiet --editable '.[runtime,dev]'
	touch $@
