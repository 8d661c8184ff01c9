"""The errors and stalls that the five guides behind the catalogue describe, as programs print them.

`seed_symptoms.json` has for each symptom the document that describes it, a short log, and the code that the
diagnosis must give: as the root cause, or as a mere finding where the job does not fail of it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.failure_modes.registry import CATALOGUE
from tests.diagnosis.cases import records

SYMPTOMS: list[dict[str, Any]] = json.loads(
    Path(__file__).with_name("seed_symptoms.json").read_text("utf-8")
)["symptoms"]
CASES = [pytest.param(each, id=f"{each['document']}: {each['symptom']}") for each in SYMPTOMS]


@pytest.mark.parametrize("symptom", CASES)
def test_a_symptom_of_the_guides_is_named(symptom: dict[str, Any]) -> None:
    diagnosis = diagnose(records("\n".join(symptom["log"]), host="algo-1"))
    if symptom.get("root_cause", True):
        assert diagnosis.root_cause is not None
        assert diagnosis.root_cause.finding.code == symptom["code"]
    else:
        assert diagnosis.root_cause is None
        assert [finding.code for finding in diagnosis.findings] == [symptom["code"]]


@pytest.mark.parametrize("prefix", ["model.", "module.", "_orig_mod.", "net.backbone.", "student."])
def test_whichever_prefix_the_keys_have_is_named_in_message_and_remedy(prefix: str) -> None:
    keys = [f"layers.{number}.weight" for number in range(2000)]
    prefixed = [prefix + key for key in keys]
    for missing, unexpected, in_the_checkpoint in ((keys, prefixed, True), (prefixed, keys, False)):
        root = diagnose(records(load_state_dict_error(missing, unexpected), host="algo-1")).root_cause
        assert root is not None and root.finding.code == "CKPT005"
        owner = "the checkpoint's" if in_the_checkpoint else "the model's"
        assert f"{owner} keys begin with '{prefix}'" in root.finding.message
        assert f"'{prefix}'" in root.finding.remedy


def test_keys_of_another_model_have_no_prefix() -> None:
    text = load_state_dict_error(["fc.weight", "fc.bias"], ["model.head.weight", "model.head.bias"])
    root = diagnose(records(text, host="algo-1")).root_cause
    assert root is not None and root.finding.code == "CODE001"


def load_state_dict_error(missing: list[str], unexpected: list[str]) -> str:
    """What torch/nn/modules/module.py raises, under its traceback."""
    listed = [", ".join(f'"{key}"' for key in keys) for keys in (missing, unexpected)]
    return (
        "Traceback (most recent call last):\n"
        '  File "/opt/ml/input/data/code/train.py", line 7, in main\n'
        "    model.load_state_dict(state)\n"
        "RuntimeError: Error(s) in loading state_dict for Net:\n"
        f"\tMissing key(s) in state_dict: {listed[0]}. \n"
        f"\tUnexpected key(s) in state_dict: {listed[1]}. "
    )


def test_every_document_and_only_known_codes_are_among_them() -> None:
    documents = {each["document"] for each in SYMPTOMS}
    assert documents == {"data parallel", "model parallel", "training compiler", "DDP guide", "DDP article"}
    assert {each["code"] for each in SYMPTOMS} <= set(CATALOGUE)
