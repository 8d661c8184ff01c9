"""What all tests share: no AWS configuration of the machine, and a job file to vary."""

from __future__ import annotations

import gc
import os
import subprocess
from collections.abc import Callable, Iterator
from datetime import date
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml

from launcher.backends.interface import Polling
from launcher.backends.local import layout, overlay
from launcher.backends.local.backend import LocalBackend
from launcher.session import prepare_plan, submit_job
from launcher.source import packaging
from tests import compiled_boot
from tests.emulator import done_once
from tests.examples.forking import ForkedRanks
from tests.exhaustive import mark_exhaustive

done_once.install()

# Programs of tests have a home and a cache of their own. Into an empty cache jsii unpacks the CDK, for half a
# minute of the processor: they get the one of the tests' own process.
_CACHES = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
os.environ.setdefault("JSII_RUNTIME_PACKAGE_CACHE_ROOT", str(_CACHES / "aws" / "jsii" / "package-cache"))

# Every launch packs the boot, and parses its files to do so: a fifth of a second, for hundreds of launches.
packaging.without_docstrings = cache(packaging.without_docstrings)

# Every plan reads the boot's files for its digest.
packaging._boot_digest = cache(packaging._boot_digest)

# Every local run starts the boot several times, and each start compiles it: a quarter of a second each.
layout.build_boot = overlay.build_boot = compiled_boot.build_boot

# The scripts of tests take less time than a fifth of a second, after which a local run is looked at again.
LocalBackend.polling = Polling(seconds=0.05, seconds_per_host=0.0, end_reads=1)

# Which images are still patched must not depend on the day on which the tests run.
prepare_plan.plan_date = lambda: date(2026, 3, 1)

# Python looks for garbage after 700 new objects, and at times through all there are: a twelfth of the time.
gc.set_threshold(50_000, 20, 20)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Say which cases are for `make test-all` alone, before pytest selects by markers."""
    mark_exhaustive(items, whole=not any("::" in word for word in config.args))


def pytest_collection_finish() -> None:
    """Leave the million objects that live to the end, modules and tests, out of every look for garbage."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Folders that are not there, a new one for each test: most tests make none, and `mktemp` is slow."""
    folder = tmp_path_factory.mktemp("homes")
    return (f"{folder}/{number}" for number in count())


@pytest.fixture(autouse=True)
def no_aws_configuration(monkeypatch: pytest.MonkeyPatch, homes: Iterator[str]) -> None:
    """Keep the machine's AWS settings, CI run and caches out of the tests, and the tests out of them."""
    runs = {name for names in submit_job.RUNS for name in names}
    for name in [name for name in os.environ if name.startswith("AWS_") or name in runs]:
        monkeypatch.delenv(name)
    # Job files have no variables in CI; what is tested is the same there and at home.
    monkeypatch.delenv("CI", raising=False)
    # Workers of pytest-xdist have it, and what is printed into a pipe minds it.
    monkeypatch.delenv("COLUMNS", raising=False)
    nowhere = next(homes)
    monkeypatch.setenv("AWS_CONFIG_FILE", f"{nowhere}/config")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", f"{nowhere}/credentials")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("XDG_CACHE_HOME", f"{nowhere}/cache")


@pytest.fixture
def aws_configuration(no_aws_configuration: None) -> Path:
    """Where the test may write the user's AWS settings."""
    file = Path(os.environ["AWS_CONFIG_FILE"])
    file.parent.mkdir()
    return file


@pytest.fixture(scope="session")
def forked_ranks() -> Iterator[ForkedRanks]:
    """Trains on several ranks, without importing torch for each of them."""
    ranks = ForkedRanks()
    yield ranks
    ranks.close()


@pytest.fixture
def deepest_folder(tmp_path: Path) -> Iterator[Path]:
    """The lowest of 1,100 folders below `tmp_path`, more than Python nests calls."""
    folder = tmp_path
    for _ in range(1_100):
        folder /= "d"
        folder.mkdir()
    yield folder
    # Python's own removal of folders recurses as well.
    subprocess.run(["rm", "-r", str(tmp_path / "d")], check=True)


JOB: dict[str, Any] = {
    "name": "digits",
    "code": {"source_dir": "src", "entry_point": "train.py"},
    "framework": {"name": "pytorch", "version": "2.8.0", "python": "py312"},
    "resources": {"instance_type": "ml.p4d.24xlarge", "instance_count": 2},
    "distribution": {"strategy": "torchrun"},
}


@pytest.fixture
def job_data() -> dict[str, Any]:
    """A valid job as plain data, to be changed by the test."""
    return yaml.safe_load(yaml.safe_dump(JOB))


@pytest.fixture
def write_job(tmp_path: Path, job_data: dict[str, Any]) -> Callable[..., Path]:
    """Write a job file with an entry point beside it; keyword arguments replace top-level fields."""

    def write(text: str | None = None, **changes: Any) -> Path:
        source = tmp_path / "src"
        source.mkdir(exist_ok=True)
        (source / "train.py").write_text("print('trained')\n")
        data = {key: value for key, value in {**job_data, **changes}.items() if value is not None}
        file = tmp_path / "job.yaml"
        file.write_text(text if text is not None else yaml.safe_dump(data))
        return file

    return write


@pytest.fixture
def manifest() -> dict[str, Any]:
    """A cluster manifest as the stacks write it."""
    return {
        "name": "dev",
        "region": "us-west-2",
        "vpc_id": "vpc-0123456789abcdef0",
        "subnets": [{"id": "subnet-0123456789abcdef0", "availability_zone": "us-west-2a"}],
        "security_group_ids": ["sg-0123456789abcdef0"],
        "role_arn": "arn:aws:iam::111122223333:role/slipway-dev-training",
        "buckets": {"code": "dev-code", "checkpoints": "dev-checkpoints", "output": "dev-output"},
        "kms_key_arn": None,
        "lustre": {
            "id": "fs-0123456789abcdef0",
            "mount_name": "abcdefgh",
            "subnet_id": "subnet-0123456789abcdef0",
            "availability_zone": "us-west-2a",
            "security_group_id": "sg-0fedcba9876543210",
        },
        "queue_arn": None,
        "topic_arn": None,
    }
