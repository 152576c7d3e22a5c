# Every target makes its own virtual environment first; nothing else needs to be installed.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-all check format experts speed golden faults mutants

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: .venv/ready
	$(BIN)/python -m imitable demo -o demo

test: .venv/ready
	$(BIN)/python -m pytest -m 'not slow' -n 2

test-all: .venv/ready
	$(BIN)/python -m pytest -n 2

check: .venv/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: .venv/ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

experts: .venv/ready
	for task in $$($(BIN)/python -c 'from imitable.paper import TASK_NAMES; print(*TASK_NAMES)'); do \
		$(BIN)/imitable expert $$task -o src/imitable/paper/policies || exit 1; done

speed: .venv/ready
	$(BIN)/python benchmarks/speed.py

golden: .venv/ready
	$(BIN)/python tests/golden.py

faults: .venv/ready
	$(BIN)/python benchmarks/faults.py --write

mutants: .venv/ready
	$(BIN)/python benchmarks/mutants.py
