"""`load_state`: the one prefix that makes all keys fit, or nothing is loaded."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import slipway
from slipway.saving.load_checkpoint import PREFIXES


def net(width: int = 3) -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, width), nn.BatchNorm1d(width))


def compiled() -> nn.Module:
    return torch.compile(net(), backend="eager")  # type: ignore[return-value]


@pytest.mark.parametrize(
    "make", [net, compiled, lambda: nn.DataParallel(net())], ids=["bare", "compiled", "parallel"]
)
@pytest.mark.parametrize("prefix", PREFIXES)
def test_every_wrapping_loads_into_every_other(prefix: str, make: object) -> None:
    saved = net()
    with torch.no_grad():
        saved[0].weight.fill_(0.5)
    model = make()  # type: ignore[operator]
    slipway.load_state(model, {prefix + key: value for key, value in saved.state_dict().items()})
    assert all(
        torch.equal(one, other)
        for one, other in zip(model.state_dict().values(), saved.state_dict().values(), strict=True)
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda state: state.pop("0.bias"), r"1 keys of the model are missing \(0.bias\)"),
        (lambda state: state.update({"2.bias": torch.zeros(1)}), r"1 are not the model's \(2.bias\)"),
        (
            lambda state: state.update({"module.0.bias": state.pop("0.bias")}),
            r"missing \(0.bias\).*\(module.0.bias\)",
        ),
        (lambda state: state.clear(), r"7 keys of the model are missing \(0.weight, 0.bias, 1.weight, …\)"),
    ],
    ids=["missing", "unexpected", "mixed", "empty"],
)
def test_keys_at_odds_are_named_and_nothing_is_loaded(change: object, said: str) -> None:
    model, state = net(), net().state_dict()
    before = model[0].weight.detach().clone()
    change(state)  # type: ignore[operator]
    with pytest.raises(slipway.CheckpointError, match=rf"^CKPT005 .*{said}"):
        slipway.load_state(model, state)
    assert torch.equal(model[0].weight, before)


def test_another_shape_is_another_models_and_nothing_is_loaded() -> None:
    model = net()
    before = model[0].weight.detach().clone()
    with pytest.raises(slipway.CheckpointError, match=r"^CKPT009 0.weight is 4x2 in the checkpoint and 3x2 "):
        slipway.load_state(model, net(4).state_dict())
    assert torch.equal(model[0].weight, before)


def test_a_state_keeps_its_own_keys() -> None:
    state = {f"module.{key}": value for key, value in net().state_dict().items()}
    slipway.load_state(net(), state)
    assert all(key.startswith("module.") for key in state)
