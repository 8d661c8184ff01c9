"""Every statement of every template can have an effect, by AWS's service authorization reference."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.stacks import synthesis
from tests.stacks.authorization_reference import actions, knows_key, matches, resource_types
from tests.stacks.statements import Statement, statements
from tests.stacks.synthesis import CLUSTERS, synthesize
from tests.stacks.test_templates import OTHERS

ON_EVERYTHING = {
    "servicequotas:GetServiceQuota": "it reads how much the account may use, whatever the service",
}
"""Actions that a statement allows on `*` although they know resources, each with its reason."""


@pytest.fixture(scope="session", params=[*CLUSTERS, *OTHERS])
def found(request: pytest.FixtureRequest) -> list[Statement]:
    name = request.param
    return list(statements(synthesis.cluster(name) if name in CLUSTERS else synthesize(OTHERS[name])))


def each_action(found: list[Statement]) -> Iterator[tuple[Statement, str]]:
    """The actions of the statements of identities, those of wildcards one by one."""
    for statement in found:
        if statement.of_identity:
            for pattern in statement.actions:
                for action in actions(pattern):
                    yield statement, action


def test_the_statements_of_all_policies_are_looked_at() -> None:
    found = list(statements(synthesis.cluster("p5-large")))
    for policy in ("access: TrainingRole", "access: LauncherPolicy"):
        assert any(statement.where.startswith(policy) for statement in found)


@pytest.mark.few_cases("dev", "everything")
def test_every_action_exists(found: list[Statement]) -> None:
    unknown = {
        (each.where, action)
        for each in found
        for action in each.actions
        if action != "*" and not actions(action)
    }

    assert unknown == set()


def test_an_action_knows_a_resource_that_its_statement_names(found: list[Statement]) -> None:
    without_effect = {
        (statement.where, action)
        for statement, action in each_action(found)
        if "*" not in statement.resources
        and not any(
            matches(action, kind, arn) for kind in resource_types(action) for arn in statement.resources
        )
    }

    assert without_effect == set()


def test_a_resource_is_known_to_an_action_of_its_statement(found: list[Statement]) -> None:
    unknown = {
        (statement.where, arn)
        for statement in found
        if statement.of_identity
        for arn in statement.resources
        if arn != "*"
        and not any(
            matches(action, kind, arn)
            for pattern in statement.actions
            for action in actions(pattern)
            for kind in resource_types(action)
        )
    }

    assert unknown == set()


def test_an_action_gets_each_resource_that_it_must_have(found: list[Statement]) -> None:
    """Somewhere in the same policy: EC2 asks for the interface and for its subnet."""
    arns: dict[tuple[str, str], set[str]] = {}
    for statement, action in each_action(found):
        arns.setdefault((statement.where.rpartition(": ")[0], action), set()).update(statement.resources)
    lacking = {
        (policy, action, kind)
        for (policy, action), named in arns.items()
        for kind, required in resource_types(action).items()
        if required and "*" not in named and not any(matches(action, kind, arn) for arn in named)
    }

    assert lacking == set()


def test_everything_is_allowed_only_where_nothing_narrower_can_be_said(found: list[Statement]) -> None:
    too_wide = {
        (statement.where, action)
        for statement, action in each_action(found)
        if "*" in statement.resources
        and resource_types(action)
        and not statement.condition_keys
        and action not in ON_EVERYTHING
    }

    assert too_wide == set()


def test_an_action_has_the_keys_of_its_conditions(found: list[Statement]) -> None:
    unknown = {
        (statement.where, action, key)
        for statement in found
        for pattern in statement.actions
        if pattern != "*"
        for action in actions(pattern)
        for key in statement.condition_keys
        if not knows_key(action, key)
    }

    assert unknown == set()


def test_every_reason_is_of_a_statement_that_is_there() -> None:
    of_all = {
        action for name in CLUSTERS for _, action in each_action(list(statements(synthesis.cluster(name))))
    }

    assert set(ON_EVERYTHING) <= of_all
