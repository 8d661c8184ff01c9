"""Which losses are finite, and what is said of the others."""

from __future__ import annotations

import math

import pytest
import torch

from slipway.health.losses import FINITE, INFINITE, NAN, NEGATIVE, Loss, not_finite


@pytest.mark.parametrize(
    ("loss", "kind"),
    [
        (1.5, FINITE),
        (math.nan, NAN),
        (-math.inf, NEGATIVE),
        (torch.tensor(2.0, requires_grad=True), FINITE),
        (torch.tensor([math.inf]), INFINITE),
        (torch.tensor(70000.0).half(), INFINITE),
        (torch.tensor(1e300, dtype=torch.float64), FINITE),
        (torch.tensor([3e38, 3e38]), FINITE),
        (torch.tensor([1.0, math.nan]), NAN),
        (torch.tensor(3), FINITE),
    ],
)
def test_a_loss_of_any_kind_is_judged(loss: object, kind: int) -> None:
    assert Loss(loss).kind() == kind


def test_a_loss_on_the_processor_is_read_in_its_own_step() -> None:
    loss = torch.tensor(1.0)
    assert not Loss(loss).is_late


def test_a_loss_on_a_gpu_is_read_later() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no GPU here")
    loss = Loss(torch.tensor(math.nan, device="cuda"))
    assert loss.is_late
    assert loss.kind() == NAN


def test_the_first_rank_is_named_and_the_others_are_counted() -> None:
    hosts = ["algo-1", "algo-1", "algo-2", "algo-2"]
    assert not_finite(5, [0, 0, 2, 0], hosts) == "the loss of rank 2 on algo-2 is inf in step 5"
    assert not_finite(5, [0, 3, 1, 0], hosts) == (
        "the loss of rank 1 on algo-1 is -inf in step 5, and of 1 more ranks of 4 not finite"
    )
