"""Copies of a state: apart from what the training changes, in memory that is kept, of plain values alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from slipway.saving.write_checkpoint import Copies


def taken(copies: Copies, value: Any) -> Any:
    copies.begin()
    copy = copies.take(value, "state")
    copies.end()
    return copy


def test_a_copy_does_not_change_with_its_tensor() -> None:
    tensor = torch.ones(3)
    copy = taken(Copies(), {"a": [tensor]})
    tensor.fill_(2)
    assert copy["a"][0].tolist() == [1, 1, 1]


def test_the_memory_is_used_again() -> None:
    copies, tensor = Copies(), torch.ones(3)
    first = taken(copies, {"a": tensor})["a"].data_ptr()
    assert taken(copies, {"a": tensor * 2})["a"].data_ptr() == first


def test_memory_that_is_no_longer_needed_is_given_back() -> None:
    copies = Copies()
    taken(copies, {"a": torch.ones(3)})
    taken(copies, {"b": torch.ones(3)})
    assert [key[0] for key in copies._memory] == ["state['b']"]


def test_tied_weights_stay_one_tensor() -> None:
    tensor = torch.ones(3)
    copy = taken(Copies(), {"a": tensor, "b": tensor.detach()})
    assert copy["a"] is copy["b"]


def test_parts_of_one_memory_stay_apart() -> None:
    whole = torch.arange(4.0)
    copy = taken(
        Copies(), {"first": whole[:2], "last": whole[2:], "all": whole, "turned": whole.view(2, 2).T}
    )
    assert copy["first"].tolist() == [0, 1] and copy["last"].tolist() == [2, 3]
    assert copy["all"].tolist() == [0, 1, 2, 3] and copy["turned"].tolist() == [[0, 2], [1, 3]]


@pytest.mark.parametrize("value", [object(), {1, 2}, print, [{"a": object()}], {object(): 1}])
def test_what_could_not_be_loaded_as_plain_data_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match=r"^state"):
        taken(Copies(), value)
