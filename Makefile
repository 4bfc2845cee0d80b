# `make demo` and `make test` do everything, set-up included. `make check` is exactly what CI runs.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
INSTALLED_DOCS := .venv/.installed-docs
INSTALLED_PEERS := .venv-peers/.installed

.PHONY: setup peers demo test test-slow test-docs test-spark test-browser reproduce-quick coverage lint types layers docs figures format check clean

setup: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; v = sys.version.split()[0]; sys.exit(f"stopwise needs Python 3.11 or newer; $(PYTHON) is {v}. Try: make setup PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

# The environment of aeon's early classifiers, for `stopwise reproduce archive` and `fig4`: aeon does not
# install next to our numpy.
peers: $(INSTALLED_PEERS)

$(INSTALLED_PEERS): constraints-peers.txt
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --constraint constraints-peers.txt aeon
	touch $@

demo: setup
	$(BIN)/stopwise demo

test: setup
	$(BIN)/python -m pytest -n 2 --dist worksteal -q

# With the notebooks of the gallery, for which the packages of the documentation are installed.
test-slow: $(INSTALLED_DOCS)
	$(BIN)/python -m pytest -n 2 --dist worksteal -q -m slow

# The code blocks of the README and of the documentation.
test-docs: setup
	$(BIN)/python -m pytest -n 2 -q -m docs tests

# Needs Java 17. ARGS passes options to pytest, such as ARGS="-s -k many_keys".
test-spark: setup
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[spark]'
	$(BIN)/python -m pytest -q -m spark tests/spark -W default $(ARGS)

# The pages of the report in headless Chromium, if there is one.
test-browser: setup
	@if command -v chromium >/dev/null; then \
		$(BIN)/python -m pytest -q -m browser tests $(ARGS); \
	else \
		echo "Skipped the browser tests: there is no Chromium (Debian: apt-get install chromium)."; \
	fi

# All figures of the paper and the further comparisons, small: about ten minutes on two cores. If it is
# interrupted, it resumes.
reproduce-quick: setup
	$(BIN)/stopwise reproduce all --preset quick --repeats 1 --out stopwise-results/quick

# Branch coverage of the quick tests, least covered files first; fails below 92 %.
coverage: setup
	$(BIN)/python -m pytest -n 2 -q --cov --cov-report=term

lint: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/python tools/check_words.py

types: setup
	$(BIN)/mypy

layers: setup
	$(BIN)/lint-imports

# The site in docs/_build/html. Warnings, broken links and missing references are errors.
docs: $(INSTALLED_DOCS)
	OMP_NUM_THREADS=1 $(BIN)/sphinx-build --fail-on-warning --keep-going --nitpicky -q docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

$(INSTALLED_DOCS): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	touch $@

# Every table and picture of the documentation again, from the stored results. Runs no experiment.
figures: setup
	for preset in medium paper; do $(BIN)/stopwise reproduce main --preset $$preset --stored --out results/gaussian; done
	for figure in fig1 fig5; do $(BIN)/stopwise reproduce $$figure --preset paper --stored --out results/gaussian; done
	$(BIN)/stopwise reproduce fig2 --preset paper --world a2 --stored --out results/gaussian
	$(BIN)/stopwise reproduce drift --preset paper --world a2 --world a1 --stored --out results/gaussian
	$(BIN)/stopwise reproduce alpha --preset medium --stored --out results/gaussian
	for figure in fig1 fig2 precision; do $(BIN)/stopwise reproduce $$figure --preset medium --stored --out results/gaussian; done
	$(BIN)/stopwise reproduce precision --preset paper --world gaussian-a2 --world gaussian-a1 --stored --out results/gaussian
	$(BIN)/stopwise reproduce guarantees --preset medium --stored --out results/guarantees
	for data in nosaic_mnist ucf101_14_vgg16 jhmdb21 uci_hapt ucr_ecg5000 utd_mhad_skeleton physionet2012 ucr_electricdevices; do $(BIN)/stopwise reproduce fig4 --data $$data --preset medium --stored --out results/real; done
	for data in ucf101_14_vgg16 jhmdb21; do $(BIN)/stopwise reproduce fig4 --data $$data --protocol paper --preset medium --stored --out results/real; done
	$(BIN)/stopwise reproduce archive --preset full --stored --out results/archive
	$(BIN)/python tools/bench_table.py
	$(BIN)/python tools/result_tables.py
	$(BIN)/python docs/examples/deadline.py docs/img/deadline
	$(BIN)/python docs/examples/decision_gif.py docs/img/decision.gif

format: setup
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

check: lint types layers test test-docs test-browser

clean:
	rm -rf .venv .venv-peers build dist docs/_build docs/reference/generated src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .coverage
