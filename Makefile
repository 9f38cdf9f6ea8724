# make demo      installs everything into .venv, trains on several learners, compares
#                with stock TensorFlow, prints a table and saves a plot
# make test      lint, C++ tests, Python tests
# make runtime-test C++ tests of what needs TensorFlow
# make fuzz      sessions against stock sessions and NumPy, at random, for half an hour
# make peers     installs what benchmarks/peers.py compares with
# make docs      the API reference, in build/docs
# make lint · make bench · make sanitize · make format · make clean

PYTHON ?= python3
VENV := .venv
BIN := $(abspath $(VENV))/bin
export PATH := $(BIN):$(PATH)
export TF_CPP_MIN_LOG_LEVEL ?= 2

NATIVE_SOURCES := $(shell find cc tf_ops -name '*.cc' -o -name '*.h' 2>/dev/null)
ALL_CPP := $(shell find cc tf_ops tests/cc -name '*.cc' -o -name '*.h' 2>/dev/null)
PYTHON_DIRS := tensorbow tests benchmarks examples tools setup.py

.PHONY: all install demo test lint format cc-test runtime-test py-test fuzz bench peers docs sanitize clean

all: install

$(VENV)/requirements.stamp: tools/requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet -r tools/requirements.txt
	touch $@

$(VENV)/install.stamp: $(VENV)/requirements.stamp CMakeLists.txt setup.py pyproject.toml \
		tools/tensorflow_flags.py $(wildcard cmake/*.cmake) $(NATIVE_SOURCES)
	$(BIN)/pip install --quiet --no-build-isolation --no-deps -e .
	touch $@

install: $(VENV)/install.stamp

demo: install
	$(BIN)/tensorbow train --model lenet --compare stock --plot demo.png --json demo.json

test: lint cc-test py-test

lint: $(VENV)/requirements.stamp
	$(BIN)/ruff check $(PYTHON_DIRS)
	$(BIN)/ruff format --check $(PYTHON_DIRS)
	$(BIN)/clang-format --dry-run --Werror $(ALL_CPP)
	$(BIN)/mypy
	tools/thread_safety.sh

format: $(VENV)/requirements.stamp
	$(BIN)/ruff check --fix $(PYTHON_DIRS)
	$(BIN)/ruff format $(PYTHON_DIRS)
	$(BIN)/clang-format -i $(ALL_CPP)

# The folders that know no TensorFlow, by themselves.
cc-test: $(VENV)/requirements.stamp
	tools/core_tests.sh build/core

# What needs TensorFlow, linked with the installed one.
runtime-test: $(VENV)/requirements.stamp
	tools/runtime_tests.sh build/runtime

# Two tests at a time: files share what they set up, so that each stays together.
py-test: install
	$(BIN)/pytest -n 2 --dist loadfile

# Histories of the oracle drawn at random: TENSORBOW_FUZZ of them, at most for
# TENSORBOW_FUZZ_SECONDS.
fuzz: export TENSORBOW_FUZZ ?= 10000
fuzz: export TENSORBOW_FUZZ_SECONDS ?= 1800
fuzz: install
	$(BIN)/pytest tests/oracle

bench: install
	$(BIN)/python benchmarks/throughput.py

# PyTorch and JAX, in an environment of their own.
peers: build/peers/requirements.stamp

build/peers/requirements.stamp: tools/peers_requirements.txt
	$(PYTHON) -m venv build/peers
	build/peers/bin/pip install --quiet -r tools/peers_requirements.txt
	touch $@

# pdoc sees the installed package, and is kept apart from what it needs.
docs: install build/docs-packages/requirements.stamp
	PYTHONPATH=build/docs-packages $(BIN)/python tools/api_reference.py build/docs

build/docs-packages/requirements.stamp: tools/docs_requirements.txt | $(VENV)/requirements.stamp
	rm -rf build/docs-packages
	$(BIN)/pip install --quiet --target build/docs-packages -r tools/docs_requirements.txt
	touch $@

sanitize: $(VENV)/requirements.stamp
	for s in thread address undefined; do \
	  tools/core_tests.sh build/core-$$s -DTENSORBOW_SANITIZER=$$s || exit 1; done

clean:
	rm -rf build $(VENV) *.egg-info tensorbow/*.so
