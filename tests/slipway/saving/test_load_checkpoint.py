"""`load_state`: the one prefix that makes all keys fit, or nothing is loaded."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import torch
from torch import nn

import slipway
from slipway.saving import load_checkpoint
from slipway.saving.load_checkpoint import PREFIXES, send_file
from slipway.saving.stored_checkpoints import CheckpointFile


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


@pytest.mark.parametrize("damaged", [0, 1, 999])
def test_a_file_that_came_with_other_bytes_than_its_manifest_says_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damaged: int
) -> None:
    """As from a disk that gives other bytes on the second reading: the length is right, one bit is not."""
    content = bytearray(b"w" * 1000)
    entry = CheckpointFile("model.pt", len(content), hashlib.sha256(content).hexdigest(), "algo-1")
    content[damaged] ^= 1
    sent = bytes(content)

    def broadcast(block: torch.Tensor, source: int) -> None:
        block.copy_(torch.frombuffer(bytearray(sent), dtype=torch.uint8))

    monkeypatch.setattr("torch.distributed.get_backend", lambda: "gloo")
    monkeypatch.setattr("torch.distributed.get_rank", lambda: 1)
    monkeypatch.setattr("torch.distributed.broadcast", broadcast)
    assert len(content) < load_checkpoint.BLOCK
    said = send_file(tmp_path, entry, source=0, receivers=[1])
    assert said == "model.pt came with another SHA-256 than its manifest says"
    assert list(tmp_path.iterdir()) == []
    content[damaged] ^= 1
    sent = bytes(content)
    assert send_file(tmp_path, entry, source=0, receivers=[1]) is None
    assert (tmp_path / "model.pt").read_bytes() == sent


def test_a_file_of_a_checkpoint_is_intact_by_its_content_and_not_by_its_length(tmp_path: Path) -> None:
    entry = CheckpointFile("model.pt", 7, hashlib.sha256(b"weights").hexdigest(), "algo-1")
    for content, intact in ((b"weights", True), (b"weightz", False), (b"weight", False)):
        (tmp_path / "model.pt").write_bytes(content)
        assert load_checkpoint._is_intact(tmp_path, entry) is intact
