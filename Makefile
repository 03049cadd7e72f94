# make demo   learn when to order, and draw what was learned
# make test   check style and types, run the tests
# make docs   build the documentation into out/docs; a warning is an error
# make wheel  build dist/*.whl with the machine code of all kernels, which starts at once
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
INSTALLED := $(VENV)/installed
COMPILED := $(VENV)/compiled
KERNELS := $(wildcard src/zooming/kernels/*/*.py src/zooming/envs/*.py src/zooming/envs/gallery/*.py src/zooming/envs/gallery/*/*.py)
# Three processes on two cores: many tests wait for processes that they start.
THREE := -n 3 --dist worksteal
# The tests start many interpreters. With bytecode on disk, each takes half a second less.
unexport PYTHONDONTWRITEBYTECODE
BOUNDS := NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(VENV)/cache-boundscheck

.PHONY: demo test wheel test-bounds test-plain test-fast compile-bounds lint bench leaderboard tables browser compiler postgres docs figures clean

demo: $(COMPILED)
	$(BIN)/python examples/demo.py
	$(BIN)/zooming reproduce 1 --quick --out out/paper
	$(BIN)/zooming report out/paper

# The tests twice: without compilation, where NumPy checks the bounds of arrays, and compiled.
# Many compiled tests wait for processes that they start. Lint and the first pass use that time.
test: $(INSTALLED) $(COMPILED) browser compiler postgres
	@($(MAKE) --no-print-directory lint test-plain >$(VENV)/beside.log 2>&1; \
		echo $$? >$(VENV)/beside.code) & \
	$(BIN)/pytest $(THREE); code=$$?; wait; cat $(VENV)/beside.log; \
	exit $$((code + $$(cat $(VENV)/beside.code)))

# Compile every kernel again, with the bounds of arrays checked: for edits of kernels.
test-bounds: compile-bounds
	$(BOUNDS) $(BIN)/pytest $(THREE) -m "(kernels or plain) and not slow and not process"

test-plain: $(INSTALLED)
	NUMBA_DISABLE_JIT=1 $(BIN)/pytest -m plain $$(grep -l mark.plain tests/test_*.py)

compile-bounds: $(INSTALLED)
	$(BOUNDS) $(BIN)/zooming warm --native

wheel: $(INSTALLED) $(COMPILED)
	$(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation -w dist .
	@ls -sh dist/*.whl

test-fast: $(INSTALLED) $(COMPILED)
	$(BIN)/pytest $(THREE) -m "not slow"

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The report is tested in a real browser; Debian and its relatives have one as a package.
browser:
	@command -v chromium chromium-browser google-chrome >/dev/null || { apt-get update -qq && apt-get install -y -qq chromium >/dev/null; } \
		|| { echo "install Chromium (apt-get install chromium): the report is tested in it"; exit 1; }

# Exported C headers are tested in a real compiler.
compiler:
	@command -v cc gcc clang >/dev/null || { apt-get update -qq && apt-get install -y -qq gcc libc6-dev >/dev/null; } \
		|| { echo "install a C compiler (apt-get install gcc): exported policies are tested in it"; exit 1; }
	@command -v qemu-arm >/dev/null && command -v arm-linux-gnueabi-gcc >/dev/null || apt-get install -y -qq --no-install-recommends \
		gcc-arm-linux-gnueabi libc6-dev-armel-cross qemu-user valgrind >/dev/null 2>&1 \
		|| echo "without qemu-user and gcc-arm-linux-gnueabi, learners are not tested on ARM"

# A desk is tested in a real server too. Without one, these tests are skipped.
postgres:
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || { apt-get update -qq && apt-get install -y -qq postgresql >/dev/null; } \
		|| echo "no PostgreSQL (apt-get install postgresql): a desk is tested in SQLite only"

bench: $(COMPILED)
	$(BIN)/python benchmarks/speed.py

# The tables of docs/lab/leaderboard.md, in out/gallery and out/foreign: 25 minutes of processor time.
# Foreign ones without vendor, where random actions lose a million, so that every agent is at 100 %,
# with one disc, and without resolver: it takes minutes with three axes, and categories as numbers.
FOREIGN := hotel bakery maintenance crop dosing plant dividends clinic greenhouse springs fishery \
	disc-1 dike exam purchase crossing
BOARD := $(abspath $(BIN))/zooming leaderboard --seeds 6
leaderboard: $(INSTALLED) $(COMPILED)
	$(BOARD) --out out/gallery --problems newsvendor inventory pricing queue admission storage \
		autoscaling bidding allocation graph-ambulance river-swim regulator
	cd benchmarks && $(BOARD) --out ../out/foreign --problems $(patsubst %,foreign:%-v0,$(FOREIGN)) --agents \
		auto,planner,tree-q,adaptive-q,net-q,single-partition-q,randomized-q,net-mb,adaptive-mb,grid-q,sb3:PPO

tables:  # which tables of measured results are older than the code that they measure
	@$(PYTHON) tools/tables.py

docs: $(INSTALLED)
	$(BIN)/sphinx-build -W --keep-going -q -d out/doctrees docs out/docs
	@echo "out/docs/index.html"

figures: $(INSTALLED)  # every example draws out/NAME.png
	rm -rf out/study
	for name in $(basename $(notdir $(wildcard examples/*.py))); do \
		$(BIN)/python examples/$$name.py || exit 1; [ ! -f out/$$name.png ] || cp out/$$name.png docs/figures/; done
	$(BIN)/python tools/problems.py
	$(BIN)/zooming reproduce 1 --quick --out out/paper
	$(BIN)/python -c "from PIL import Image; \
		Image.open('out/paper/figures/figure-01-ambulance-shifting-0.png').convert('RGB').reduce(2).quantize(256, method=2, dither=0).save('docs/figures/figure_1.png', optimize=True)"

# What users need; developing takes 2 GB more, for the clients that the tests use.
$(READY): pyproject.toml
	@echo "setting up $(VENV) (once; about a minute)"
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'zooming needs Python 3.11 or later; make PYTHON=python3.12 ...')"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[lab]'
	@touch $(READY)

# Compile every kernel once, for processors of the last ten years, in one process per core.
$(COMPILED): $(READY) $(KERNELS)
	$(BIN)/zooming warm
	@touch $(COMPILED)

$(INSTALLED): $(READY)
	@echo "installing what the tests need (once; about two minutes, 2 GB)"
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps or-gym==0.5.0
	@touch $(INSTALLED)

clean:
	rm -rf $(VENV) out .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf dist src/zooming/kernels/compiled
	find . -name __pycache__ -prune -exec rm -rf {} +
