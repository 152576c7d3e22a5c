# Every target makes its own virtual environment first; nothing else needs to be installed.
PYTHON ?= python3
BIN := .venv/bin
EXPERTS := driving/slow driving/fast reacher/clockwise reacher/counter-clockwise swimmer/back-disabled swimmer/front-disabled \
	ant/x-axis ant/y-axis

.PHONY: demo test test-all check format experts speed golden

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
	for task in $(EXPERTS); do $(BIN)/imitable expert $$task -o src/imitable/policies || exit 1; done

speed: .venv/ready
	$(BIN)/python benchmarks/speed.py

golden: .venv/ready
	$(BIN)/python tests/make_golden.py
