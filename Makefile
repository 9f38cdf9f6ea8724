# make demo      installs everything into .venv, trains on several learners, compares
#                with stock TensorFlow, prints a table and saves a plot
# make test      lint, C++ tests, Python tests; make test TENSORFLOW=2.19 runs the Python
#                tests with another release of TensorFlow, in .venv-2.19 and build/tf-2.19,
#                TENSORFLOW=nightly with its latest, PYTHON=python3.13 with another Python
# make wheel     a wheel in dist/, which installs without a compiler; TENSORFLOW=2.19 likewise
# make wheel-test installs it into a new environment and trains
# make users     the steps of five users, from a wheel and an empty folder, with times
# make runtime-test C++ tests that need TensorFlow
# make fuzz      drawn histories and programs against stock sessions and NumPy, for half an hour
#                each; every tensor of all recorded learning runs against its row type
# make peers     installs what benchmarks/peers.py compares with
# make docs      the documentation as a site, in build/site; make charts draws its charts
# make lint · make bench · make sanitize · make format · make clean

PYTHON ?= python3
VENV := .venv
BIN := $(abspath $(VENV))/bin
export PATH := $(BIN):$(PATH)
export TF_CPP_MIN_LOG_LEVEL ?= 2

BUILD := build/release
# One line per file, with the numbers of completed and of all steps.
export NINJA_STATUS ?= [%f/%t, %es] 
# ninja chooses its number of jobs itself, whatever the -j of make.
NO_JOBS := env -u MAKEFLAGS

NATIVE_SOURCES := $(shell find cc tf_ops -name '*.cc' -o -name '*.h' 2>/dev/null)
ALL_CPP := $(shell find cc tf_ops tests/cc -name '*.cc' -o -name '*.h' 2>/dev/null)
PYTHON_DIRS := tensorbow tests benchmarks examples tools setup.py

.PHONY: all install demo test wheel wheel-test users lint format cc-test runtime-test py-test fuzz bench \
	peers docs charts sanitize clean

all: install

$(VENV)/build_requirements.stamp: tools/build_requirements.txt
	@echo "TensorFlow and what builds and tests use go into $(VENV) (about a minute)"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip -r tools/build_requirements.txt
	touch $@

$(VENV)/requirements.stamp: tools/requirements.txt $(VENV)/build_requirements.stamp
	$(BIN)/pip install --quiet -r tools/requirements.txt
	touch $@

$(VENV)/install.stamp: $(VENV)/requirements.stamp CMakeLists.txt setup.py pyproject.toml \
		$(wildcard cmake/*.cmake) tools/build_backend.py tools/installed_tensorflow.py \
		tools/tensorflow_flags.py $(NATIVE_SOURCES) | $(INSTALL_AFTER)
	@echo "The native runtime is compiled in $(BUILD) (the first time about 3 minutes on 2 cores)"
	$(NO_JOBS) cmake -S . -B $(BUILD) -G Ninja -DTENSORBOW_WITH_TENSORFLOW=ON \
	  -DPython_EXECUTABLE=$(BIN)/python
	$(NO_JOBS) cmake --build $(BUILD)
	$(NO_JOBS) $(BIN)/pip install --quiet --no-build-isolation --no-deps -e .
	touch $@

install: $(VENV)/install.stamp

demo: announce-demo install
	$(BIN)/tensorbow train --model lenet --compare stock --plot demo.png --json demo.json

.PHONY: announce-demo
announce-demo:
	@echo "make demo installs into $(VENV), the first time in about 4 minutes on 2 cores, then trains"
	@echo "LeNet with stock TensorFlow and on learners, in turns, for about a minute: on MNIST if Keras"
	@echo "has it in its cache, else on digits made of scikit-learn's"

# Only the Python tests run with another release: the others do not depend on it.
ifdef TENSORFLOW
WITH_RELEASE := tools/with_release.sh $(TENSORFLOW)

test:
	$(WITH_RELEASE) $(PYTEST) -n 3
wheel:
	$(WITH_RELEASE) python tools/build_wheel.py --output $(CURDIR)/dist
else
# Steps on one core (pip, mypy) run beside those on all cores. Objects of the core tests
# are reused.
test:
	$(MAKE) --no-print-directory -j2 lint cc-test runtime-test INSTALL_AFTER=cc-test
	$(MAKE) --no-print-directory py-test

wheel: install
	TENSORBOW_BUILD=$(BUILD) $(BIN)/python tools/build_wheel.py
endif

# Not in CI: it downloads TensorFlow into an environment of its own.
wheel-test: wheel
	tools/wheel_test.sh "$$(ls -t dist/tensorbow-*.whl | head -n 1)" build/wheel-test

# Not in CI, for the same reason.
users: wheel
	TENSORBOW_USERS="$(CURDIR)/$$(ls -t dist/tensorbow-*.whl | head -n 1)" \
	  $(BIN)/pytest -s tests/users

lint: $(VENV)/requirements.stamp
	$(BIN)/ruff check $(PYTHON_DIRS)
	$(BIN)/ruff format --check $(PYTHON_DIRS)
	$(BIN)/clang-format --dry-run --Werror $(ALL_CPP)
	$(BIN)/mypy
	$(BIN)/mypy --config-file= --strict --ignore-missing-imports --follow-imports=silent \
	  --allow-subclassing-any examples
	$(BIN)/yamllint --strict .github
	tools/thread_safety.sh
	$(BIN)/python tools/layers.py
	$(BIN)/python tools/comment_lint.py

format: $(VENV)/requirements.stamp
	$(BIN)/ruff check --fix $(PYTHON_DIRS)
	$(BIN)/ruff format $(PYTHON_DIRS)
	$(BIN)/clang-format -i $(ALL_CPP)

# Tests of the folders without TensorFlow.
cc-test: $(VENV)/build_requirements.stamp
	$(NO_JOBS) tools/core_tests.sh $(BUILD)

# Tests that need TensorFlow, linked with the installed one.
runtime-test: install
	$(NO_JOBS) tools/runtime_tests.sh $(BUILD)

# The slowest tests are printed with the summary.
PYTEST := pytest --durations=40 --durations-min=1

# Three files at a time on 2 cores: the tests of hosts wait most of the time (tests/conftest.py).
py-test: install
	$(BIN)/$(PYTEST) -n 3

# Histories and programs of the oracle drawn at random: TENSORBOW_FUZZ of each, each at most for
# TENSORBOW_FUZZ_SECONDS. Programs with all seeds, and more processes that are killed.
fuzz: export TENSORBOW_FUZZ ?= 10000
fuzz: export TENSORBOW_FUZZ_SECONDS ?= 1800
fuzz: install
	$(BIN)/pytest tests/oracle tests/row_types tests/programs tests/python/state_test.py \
	  tests/python/recording_census_test.py

bench: install
	$(BIN)/python benchmarks/throughput.py
	$(BIN)/python benchmarks/programs.py

# PyTorch and JAX, in an environment of their own.
peers: build/peers/requirements.stamp

build/peers/requirements.stamp: tools/peers_requirements.txt
	$(PYTHON) -m venv build/peers
	build/peers/bin/pip install --quiet -r tools/peers_requirements.txt
	touch $@

# It reads the package's sources, and needs no TensorFlow. Broken links are errors.
docs: build/docs-venv/requirements.stamp
	PYTHONPATH=tools NO_MKDOCS_2_WARNING=1 build/docs-venv/bin/mkdocs build --quiet --strict
	@echo "The site is build/site/index.html. Its search needs a server:"
	@echo "  python3 -m http.server --directory build/site"

build/docs-venv/requirements.stamp: tools/docs_requirements.txt
	$(PYTHON) -m venv build/docs-venv
	build/docs-venv/bin/pip install --quiet -r tools/docs_requirements.txt
	touch $@

charts:
	$(PYTHON) tools/charts.py

sanitize: $(VENV)/requirements.stamp
	for s in thread address undefined; do \
	  tools/core_tests.sh build/core-$$s -DTENSORBOW_SANITIZER=$$s || exit 1; done

clean:
	rm -rf build $(VENV) *.egg-info tensorbow/*.so
