# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: install demo test fuzz kills lint format bench clean

install: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

demo: install
	$(BIN)/purgegate demo

test: install lint
	@tools/install_browser.sh
	$(BIN)/python -m pytest

# Minutes of damaged files and odd arguments, without the checks at the door that the tests have.
INPUTS ?= 1000
fuzz: install
	PURGEGATE_FUZZ=$(INPUTS) $(BIN)/python -m pytest tests/fuzz -o addopts=--strict-markers --timeout 3600

kills: install
	PURGEGATE_KILLS=20 $(BIN)/python -m pytest tests/kills

lint: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: install
	$(BIN)/python benchmarks/bench_gate.py

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache build *.egg-info
