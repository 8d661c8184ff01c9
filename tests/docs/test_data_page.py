"""The example of the page on data and numbers is a program that trains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from tests.docs.pages import ROOT, blocks


def test_the_example_of_the_page_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("b.tar", "a.tar", "notes.txt"):
        (tmp_path / name).touch()
    monkeypatch.setenv("SM_CHANNEL_TRAIN", str(tmp_path))
    inputs = torch.randn(32, 4, generator=torch.Generator().manual_seed(0))
    listed: list[str] = []

    def make_loader(files: list[str]) -> Any:
        listed.extend(Path(file).name for file in files)
        return DataLoader(TensorDataset(inputs, inputs.sum(1, keepdim=True)), batch_size=8)

    model = torch.nn.Linear(4, 1)
    names: dict[str, Any] = {
        "model": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "criterion": torch.nn.functional.mse_loss,
        "make_loader": make_loader,
        "epochs": 20,
    }
    exec(blocks((ROOT / "docs" / "data-and-numbers.md").read_text("utf-8"), "python")[0], names)
    assert listed == ["a.tar", "b.tar"]
    assert names["loss"].item() < 0.05
