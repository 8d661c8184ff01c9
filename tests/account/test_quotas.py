"""The codes of SageMaker's quotas that come with the launcher."""

from __future__ import annotations

import json
from importlib import resources
from typing import get_args

import pytest

from launcher.account.quotas import Use, known_code, quota_name
from launcher.cluster.instances import instance_facts, training_instance_types

CODES: dict[str, dict[str, str]] = json.loads(
    resources.files("launcher.account").joinpath("quota_codes.json").read_text("utf-8")
)["codes"]

WITHOUT_A_KNOWN_CODE = ("ml.g7.", "ml.g7e.", "ml.p2.", "ml.p6-b300.", "ml.p6e-gb200.", "ml.trn2.")
"""What no public list shows yet, or no longer: looked for by the names of the quotas."""


@pytest.mark.parametrize("use", get_args(Use))
def test_the_quotas_of_hosts_with_accelerators_are_known_by_their_codes(use: Use) -> None:
    accelerated = [name for name in training_instance_types() if _accelerators(name)]
    unknown = [name for name in accelerated if known_code(quota_name(name, use)) is None]
    assert unknown == [name for name in accelerated if name.startswith(WITHOUT_A_KNOWN_CODE)]
    assert len(accelerated) > 2 * len(unknown)


def test_no_two_quotas_have_one_code() -> None:
    codes = [code for by_type in CODES.values() for code in by_type.values()]
    assert len(codes) == len(set(codes)) > 300


def _accelerators(instance_type: str) -> int:
    facts = instance_facts(instance_type)
    return facts.accelerators if facts else 0
