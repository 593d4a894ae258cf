# make demo   audit a small network on the embedded digits; pages land in nescio-audit/
# make test   run the test suite
# make check  format, lint and type-check
# make bench  measure against the peers and rewrite docs/benchmarks.md
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test check bench clean

demo: $(READY)
	$(BIN)/nescio audit

test: $(READY)
	$(BIN)/python -m pytest

check: $(READY)
	$(BIN)/ruff format $(if $(CI),--check) .
	$(BIN)/ruff check $(if $(CI),,--fix) .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/pip install -q -c constraints.txt -r benchmarks/requirements.txt
	$(BIN)/python -m benchmarks

# Torch goes first and alone, so that the pinned CPU build is taken and nothing pulls another.
$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $(READY)

clean:
	rm -rf $(VENV) build dist src/*.egg-info
