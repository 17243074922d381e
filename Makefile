# Needs only make and Python 3.11 or newer; everything else is installed into .venv.
PYTHON ?= python3

# What serving needs is installed in a third of the time that all of it takes. Both are named after
# the interpreter, so that another PYTHON builds the environment anew.
pip := .venv/bin/python -m pip install --quiet --disable-pip-version-check
compile := .venv-lock/bin/uv pip compile --quiet --no-config --upgrade --universal --python-version 3.11 \
	--generate-hashes --no-emit-index-url --custom-compile-command "make lock"
served := .venv/.served-with-$(notdir $(PYTHON))
installed := .venv/.installed-with-$(notdir $(PYTHON))

.PHONY: serve browser test test-long simulate clients docs lint lint-dashboard format check install lock clean

serve: $(served)
	.venv/bin/duly serve duly_birthday:app

test: $(installed) browser
	@# Hundreds of processes are started; none of them should have to compile first.
	@.venv/bin/python -m compileall -q src birthday tests
	@# pytest compiles tests in a way of its own: here once, not once in each of its processes.
	@PYTHONDONTWRITEBYTECODE= .venv/bin/pytest --collect-only --quiet >/dev/null || true
	.venv/bin/pytest --numprocesses 4 --dist loadfile --no-loadscope-reorder -m "not long and not clients"

# A browser and what checks pages in it; without them a message, and in CI a failure.
browser: $(installed)
	@.venv/bin/python -m tests.support.chromium
	@.venv/bin/python -m tests.support.axe

# Tests that take long and that few changes break: mutants, kills, long walks, long loads.
test-long: $(installed) browser
	.venv/bin/pytest --numprocesses 4 --no-loadscope-reorder -m long

# Seeds of the simulation, in as many processes as there are cores: make simulate SEEDS=3000
SEEDS ?= 1000
simulate: $(installed)
	.venv/bin/python -m tests.simulation.seeds --seeds $(SEEDS) --processes $$(nproc)

# Programs of users, as their tools see them: clients in TypeScript, generated from the API's
# description, and the types of handlers and of `.sync` in pyright.
clients: $(installed)
	@command -v npm >/dev/null || { \
		echo "make clients needs npm, with Node.js 20 or newer; install Node.js first" >&2; \
		exit 1; \
	}
	@$(MAKE) --no-print-directory $(node)/pyright
	.venv/bin/pytest -m clients tests/surfaces/remote/test_generated_clients.py \
		tests/services/handlers/test_types.py tests/services/sync/test_types.py

# The documentation as a site, in site/.
docs: $(installed)
	@# Without --quiet, which hides warnings from --strict too.
	NO_MKDOCS_2_WARNING=1 .venv/bin/python -m mkdocs build --strict
	@echo "open site/index.html"

lint: $(installed)
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory lint-dashboard; \
	else echo "npm is not installed: the dashboard's types are not checked" >&2; fi

# The types and the format of the dashboard's modules; only this and the clients need npm.
static := src/duly/surfaces/dashboard/static
node := .venv/node/node_modules/.bin
lint-dashboard: $(node)/tsc
	$(node)/tsc -p $(static)/jsconfig.json
	$(node)/prettier --log-level warn --print-width 110 --check "$(static)/**/*.js"

$(node)/tsc:
	@npm install --silent --no-fund --no-audit --prefix .venv/node typescript@5.9.3 prettier@3.9.10

$(node)/pyright:
	@npm install --silent --no-fund --no-audit --prefix .venv/node pyright@1.1.407

format: $(installed)
	.venv/bin/ruff check --fix
	.venv/bin/ruff format
	@if test -e $(node)/prettier; then \
		$(node)/prettier --log-level warn --print-width 110 --write "$(static)/**/*.js"; fi

check: lint test

install: $(installed)

$(served): lock := requirements/deploy.txt
$(installed): lock := requirements/dev.txt
$(served) $(installed): pyproject.toml $(wildcard requirements/*.txt)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "duly needs Python 3.11 or newer, and $(PYTHON) is not:" \
			"$$($(PYTHON) --version 2>&1)." \
			"Name another one: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; \
		exit 1; \
	}
	@echo "installing into .venv, which takes a minute once" >&2
	@test -e $(served) -o -e $(installed) || $(PYTHON) -m venv --clear .venv
	$(pip) --require-hashes --requirement requirements/build.txt --requirement $(lock)
	$(pip) --no-deps --no-build-isolation --editable . --editable ./birthday
	@touch $(served) $@

# After a change of the dependencies in pyproject.toml: which versions are installed, each by its hash.
lock:
	$(PYTHON) -m venv --clear .venv-lock
	.venv-lock/bin/python -m pip install --quiet --disable-pip-version-check 'uv>=0.9,<1'
	$(compile) requirements/build.in --output-file requirements/build.txt
	$(compile) pyproject.toml --all-extras --constraint requirements/build.txt \
		--output-file requirements/dev.txt
	$(compile) pyproject.toml --extra analytics --extra tracing --constraint requirements/dev.txt \
		--output-file requirements/deploy.txt
	rm -rf .venv-lock

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist site
	find src birthday tests -name __pycache__ -type d -prune -exec rm -rf {} +
