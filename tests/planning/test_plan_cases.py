"""What is planned of a job: the sentences and tables of `cases/*.yaml`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.planning.plan_cases import Group, complaints, make_plan, read_groups

GROUPS = list(read_groups())


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_each_job_of_the_table_is_planned_as_it_says(group: Group, manifest: dict[str, Any]) -> None:
    found = [
        f"{changes}: {complaint}"
        for changes, expected in group.cases
        for complaint in complaints(make_plan(changes, manifest), expected)
    ]
    assert not found, "\n".join(found)
