# make demo   audit a small network on the embedded digits; pages land in nescio-audit/
# make test   run the test suite
# make check  format, lint and type-check
# make docs   build the site into build/site; it opens without a server; make docs-serve watches the pages
# make live   make docs/live/audit.html again, the audit page that the documentation shows
# make bench  measure against the peers and rewrite docs/benchmarks.md
# make dist   build the wheel and the sdist into dist/, install the wheel elsewhere and try it
# make mutants      change sampled lines and see which tests notice; mutants.json has the survivors
# make test-oldest  run the tests with the oldest versions that pyproject.toml claims
# make test-newest  run the tests with the newest versions, on each of python3.11 to python3.13 found
#                   that pip has a torch for; one alone: make test-newest PYTHONS=python3.13
#                   TORCH=torch==2.13.0
PYTHON ?= python3
COUNT ?= 60
PYTHONS ?= python3.11 python3.12 python3.13
TORCH ?= torch
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test check docs docs-serve live bench dist mutants test-oldest test-newest clean

demo: $(READY)
	$(BIN)/nescio audit || [ $$? -eq 2 ]  # 2: attention, as for every ReLU network

# Tests start many processes: what they import is compiled once, also where bytecode is not wanted.
test: $(READY)
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest

check: $(READY)
	$(BIN)/ruff format $(if $(CI),--check) .
	$(BIN)/ruff check $(if $(CI),,--fix) .
	$(BIN)/mypy

docs: $(READY)
	$(BIN)/python docs/site/build.py

docs-serve: $(READY)
	$(BIN)/python docs/site/build.py --serve

live: $(READY)
	rm -rf build/live && mkdir -p build/live
	cd build/live && { $(abspath $(BIN))/nescio audit || [ $$? -eq 2 ]; }
	cp build/live/nescio-audit/audit.html docs/live/audit.html

bench: $(READY)
	$(BIN)/pip install -q -c constraints.txt -r benchmarks/requirements.txt
	$(BIN)/python -m benchmarks

dist: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt build
	rm -rf dist build/clean
	$(BIN)/python -m build --outdir dist .
	$(PYTHON) -m venv build/clean
	build/clean/bin/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt torch
	build/clean/bin/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt dist/*.whl
	cd build && clean/bin/python ../tests/smoke.py

mutants: $(READY)
	$(BIN)/python -m benchmarks.mutants --count $(COUNT)

test-oldest:
	python3.11 -m venv $(VENV)-oldest
	$(VENV)-oldest/bin/pip install --quiet -c constraints-oldest.txt torch
	$(VENV)-oldest/bin/pip install --quiet -c constraints-oldest.txt -e ".[scale,search,exploration]" pytest pytest-xdist hypothesis
	$(VENV)-oldest/bin/python -m pytest

test-newest:
	for python in $(PYTHONS); do \
		command -v $$python && $$python --version || continue; \
		$$python -m venv $(VENV)-$$python || exit 1; \
		$(VENV)-$$python/bin/pip install --quiet --upgrade $(TORCH) || { echo "no $(TORCH) for $$python: left out"; continue; }; \
		$(VENV)-$$python/bin/pip install --quiet --upgrade -e ".[scale,search,exploration]" pytest pytest-xdist hypothesis && \
		$(VENV)-$$python/bin/python -m pytest || exit 1; \
	done

# Torch goes first and alone, so that the pinned CPU build is taken and nothing pulls another.
# Nothing is compiled beforehand: of most packages only a few modules are ever imported.
$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e ".[dev]"
	touch $(READY)

clean:
	rm -rf $(VENV) $(VENV)-* build dist src/*.egg-info
