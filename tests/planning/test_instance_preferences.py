"""The types from which the service chooses: sent as a list, and only where one request serves them all."""

from __future__ import annotations

from typing import Any

import pytest

from launcher.planning.cost import cost_in_words, estimate_cost
from launcher.planning.training_plan import TrainingPlan
from tests.planning.test_service_options import JOB, TUNING, plan

P4D, P5, P5E, P5EN, G5 = (
    "ml.p4d.24xlarge",
    "ml.p5.48xlarge",
    "ml.p5e.48xlarge",
    "ml.p5en.48xlarge",
    "ml.g5.xlarge",
)


def chosen_from(*types: str, **fields: Any) -> TrainingPlan:
    """The plan of a job whose type the service chooses among these."""
    resources = {"instance_type": types[0], "instance_types": list(types[1:]), "instance_choice": "service"}
    resources |= fields.pop("resources", {})
    return plan(resources=resources, **fields)


def refusals(made: TrainingPlan) -> list[tuple[str, str | None, str]]:
    return [(each.code, each.subject, each.message) for each in made.findings if each.blocks]


def test_the_types_are_sent_in_order_with_one_count_for_all() -> None:
    made = chosen_from(P5, P5E, P5EN)
    assert refusals(made) == []
    resources = (made.request or {})["ResourceConfig"]
    assert resources["InstancePreferences"] == [{"InstanceType": each} for each in (P5, P5E, P5EN)]
    assert resources["InstanceCount"] == 2
    assert "InstanceType" not in resources


def test_all_else_is_the_request_of_the_first_type() -> None:
    made, alone = chosen_from(P5, P5E), plan(resources={"instance_type": P5})
    differs = {"ResourceConfig"}
    assert {k: v for k, v in (made.request or {}).items() if k not in differs} == {
        k: v for k, v in (alone.request or {}).items() if k not in differs
    }


def test_a_setting_that_differs_by_type_is_named_with_both_values() -> None:
    ((code, subject, message),) = refusals(chosen_from(P4D, P5))
    assert (code, subject) == ("SPEC003", "resources.instance_types.0")
    assert f"Environment.OMP_NUM_THREADS of the request is 12 on {P4D} and 24 on {P5}" in message


def test_a_setting_that_the_user_gives_for_all_types_differs_no_more() -> None:
    assert refusals(chosen_from(P4D, P5, environment={"OMP_NUM_THREADS": 12})) == []


def test_a_type_with_another_number_of_processes_is_refused() -> None:
    said = [message for _, _, message in refusals(chosen_from(P5, "ml.p5.4xlarge"))]
    assert any("AlgorithmSpecification.ContainerArguments" in message for message in said)


def test_a_type_without_efa_beside_one_with_it_is_refused_for_several_hosts() -> None:
    given = {"environment": {"OMP_NUM_THREADS": 8}, "distribution": {"processes_per_host": 8}}
    several = refusals(chosen_from(P4D, "ml.g5.48xlarge", "ml.p2.8xlarge", **given))
    assert any("ml.p2.8xlarge has none" in message for _, _, message in several)
    assert not any("ml.g5.48xlarge has none" in message for _, _, message in several)
    alone = refusals(chosen_from(P4D, "ml.p2.8xlarge", **given, resources={"instance_count": 1}))
    assert not any("has none" in message for _, _, message in alone)


def test_a_type_on_which_there_is_no_request_is_refused() -> None:
    said = refusals(chosen_from(P5, "ml.p9.48xlarge"))
    assert ("SPEC003", "resources.instance_types.0", "the job has no request on ml.p9.48xlarge") in said


def test_more_types_than_the_api_takes_are_refused_at_their_field() -> None:
    types = ("ml.g6.12xlarge", "ml.g6.24xlarge", "ml.g6.48xlarge", P5, P5E, P5EN)
    found = [each for each in chosen_from(*types).findings if each.code == "SPEC004"]
    assert [each.subject for each in found] == ["resources.instance_types"]
    assert "has 6 entries" in found[0].message


def test_tuning_jobs_do_not_choose() -> None:
    subjects = [subject for _, subject, _ in refusals(chosen_from(P5, P5E, tuning=TUNING))]
    assert "resources.instance_choice" in subjects


def test_the_cost_is_that_of_the_dearest_type() -> None:
    types = ("ml.g5.xlarge", "ml.g5.2xlarge")
    view = chosen_from(*types, environment={"OMP_NUM_THREADS": 4}).view
    dearest = plan(resources={"instance_type": types[1]}, environment={"OMP_NUM_THREADS": 4}).view
    assert view is not None and dearest is not None
    assert estimate_cost(view, "us-west-2") == estimate_cost(dearest, "us-west-2") is not None
    assert "the dearest of its types" in cost_in_words(view, "us-west-2")
    assert "dearest" not in cost_in_words(dearest, "us-west-2")


def test_the_cost_of_a_type_without_a_price_is_unknown() -> None:
    view = chosen_from("ml.g5.xlarge", "ml.p2.xlarge", environment={"OMP_NUM_THREADS": 4}).view
    assert view is not None
    assert "has no ml.p2.xlarge" in cost_in_words(view, "us-west-2")


@pytest.mark.parametrize("field", ["instance_choice", "instance_types"])
def test_the_launchers_own_choice_sends_one_type(field: str) -> None:
    resources = {"instance_types": [P5], "instance_choice": "launcher"}
    made = plan(resources={field: resources[field]})
    assert made.request == plan().request
    assert JOB["resources"]["instance_type"] == made.request["ResourceConfig"]["InstanceType"]
