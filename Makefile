# Set-up, checks and the demo. Every target can be run by itself, first, and as often as you like.
#
# It needs Python 3.11 or 3.12 with venv, and a package index that pip reaches; everything goes into .venv.

candidates := python3.11 python3.12 python3
in_range := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))
PYTHON ?= $(firstword $(foreach name,$(candidates),$(shell $(name) -c '$(in_range)' >/dev/null 2>&1 && echo $(name))) python3.11)

V := .venv
PACKAGES := device models export calib tui bench
DEBIAN_PACKAGES := libportaudio2 pulseaudio pulseaudio-utils libasound2-plugins
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-train train-speaker train-distance recordings lint format types wheel links apt clean

help: ## show what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

demo: $(V)/.core | apt ## install the core and run the gate over a bundled scene of two people
	@echo "== voxgate demo"
	@$(V)/bin/voxgate demo

test: $(V)/.dev | apt ## install what the tests need (no torch) and run them
	@echo "== tests"
	@$(V)/bin/python -m pytest -q

test-train: $(V)/.train | apt ## add torch and the export tools, and run all tests, those marked torch among them
	@echo "== tests, with torch"
	@$(V)/bin/python -m pytest -q

train-speaker: recordings $(V)/.voices ## train the robust speaker network: DATA=recordings [OUT=runs/speaker]
	@echo "== train speaker"
	@OMP_NUM_THREADS=1 $(V)/bin/voxgate train speaker --data "$(DATA)" --out "$(or $(OUT),runs/speaker)"

train-distance: recordings $(V)/.train ## train the near-or-far network: DATA=recordings [OUT=runs/distance]
	@echo "== train distance"
	@OMP_NUM_THREADS=1 $(V)/bin/voxgate train distance --data "$(DATA)" --out "$(or $(OUT),runs/distance)"

# Said before anything is installed.
recordings:
	@[ -d "$(DATA)" ] || { echo "which recordings? make $(or $(MAKECMDGOALS),train-speaker) DATA=/path/to/folder (with librispeech-train and noise)" >&2; exit 1; }

lint: $(V)/.dev ## ruff: rules and format
	@echo "== ruff"
	@$(V)/bin/ruff check .
	@$(V)/bin/ruff format --check .

format: $(V)/.dev ## let ruff put the format right
	@$(V)/bin/ruff check --fix-only --quiet .
	@$(V)/bin/ruff format .

types: $(V)/.dev links ## mypy --strict
	@echo "== mypy"
	@MYPYPATH=.links $(V)/bin/mypy -p voxgate
	@MYPYPATH=.links $(V)/bin/mypy --exclude '^tests/data/' tests

wheel: $(V)/.dev ## build sdist and wheel, check what is in them, install the wheel alone and start it
	@echo "== wheel"
	@rm -rf build dist && mkdir dist
	@$(V)/bin/python -m build --outdir dist . >dist/build.log 2>&1 || { tail -n 30 dist/build.log >&2; exit 1; }
	@$(V)/bin/python tests/check_wheel.py dist
	@$(PYTHON) -m venv dist/venv && dist/venv/bin/python -m pip install -q dist/*.whl
	@cd dist && venv/bin/voxgate --version
	@rm -rf dist/venv

# The links let type checkers follow the package mapping, which they cannot read from an editable install.
links:
	@mkdir -p .links/voxgate
	@for name in $(PACKAGES); do ln -sfn ../../$$name .links/voxgate/$$name; done

apt: ## install the Debian packages for live capture when root and missing, else name them
	@command -v dpkg-query >/dev/null 2>&1 || exit 0; \
	missing=; \
	for name in $(DEBIAN_PACKAGES); do \
	  dpkg-query -W -f='$${Status}' $$name 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$name"; \
	done; \
	[ -n "$$missing" ] || exit 0; \
	by_hand="live capture needs$$missing (apt-get install them); everything else works without"; \
	if [ "$$(id -u)" != 0 ]; then echo "$$by_hand"; exit 0; fi; \
	echo "installing Debian packages:$$missing"; \
	export DEBIAN_FRONTEND=noninteractive; \
	install() { apt-get -q -o DPkg::Lock::Timeout=300 install -y --no-install-recommends $$missing </dev/null >/dev/null 2>&1; }; \
	install || { apt-get -q -o DPkg::Lock::Timeout=300 update </dev/null >/dev/null 2>&1; install; } || echo "$$by_hand"

clean: ## remove what was built or cached; .venv stays
	@rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .links *.egg-info
	@find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

$(V)/bin/python:
	@echo "creating $(V) with $(PYTHON)"
	@$(PYTHON) -c '$(in_range)' 2>/dev/null || { echo "voxgate needs Python 3.11 or 3.12: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -m venv $(V) || { rm -rf $(V); echo "needs venv (Debian: apt-get install python3.11-venv)" >&2; exit 1; }

# A stamp is written only when pip has finished, so a failed installation is tried again. A larger set holds the smaller
# ones and writes their stamps too.
$(V)/.core: pyproject.toml | $(V)/bin/python
	@echo "installing the core into $(V)"
	@$(V)/bin/python -m pip install -q -e .
	@touch $@

$(V)/.dev: pyproject.toml | $(V)/bin/python
	@echo "installing what tests and checks need into $(V)"
	@$(V)/bin/python -m pip install -q -e '.[dev,bench]'
	@touch $(V)/.core $@

$(V)/.train: pyproject.toml | $(V)/bin/python
	@echo "installing torch and the export tools into $(V) (several minutes)"
	@$(V)/bin/python -m pip install -q -e '.[train,dev,bench]'
	@touch $(V)/.core $(V)/.dev $@

# Without these engines training goes on with recorded voices alone.
$(V)/.voices: pyproject.toml $(V)/.train
	@echo "installing the engines of the synthesised voices into $(V)"
	@$(V)/bin/python -m pip install -q -e '.[train,dev,bench,voices]'
	@touch $@
