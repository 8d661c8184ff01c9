"""Whom the number of the epoch is told, and from where it goes on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from slipway.batches.epochs import Epochs


class Listener:
    """Something with set_epoch, as a sampler; it counts how often it was told."""

    def __init__(self) -> None:
        self.epoch = 0
        self.told: list[int] = []

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch
        self.told.append(epoch)


def epochs_of(loader: Any, count: int) -> list[int]:
    epochs = Epochs()
    return [epochs.begin(loader) for _ in range(count)]


def test_the_sampler_within_a_batch_sampler_and_the_dataset_are_told_too() -> None:
    sampler, inner, dataset = Listener(), Listener(), Listener()
    loader = SimpleNamespace(sampler=sampler, batch_sampler=SimpleNamespace(sampler=inner), dataset=dataset)
    assert epochs_of(loader, 3) == [0, 1, 2]
    assert sampler.told == inner.told == dataset.told == [1, 2]


def test_one_that_is_found_twice_is_told_once() -> None:
    sampler = Listener()
    epochs_of(SimpleNamespace(sampler=sampler, batch_sampler=SimpleNamespace(sampler=sampler)), 2)
    assert sampler.told == [1]


def test_an_epoch_that_the_script_set_counts() -> None:
    sampler, epochs = Listener(), Epochs()
    loader = SimpleNamespace(sampler=sampler)
    sampler.epoch = 5
    assert [epochs.begin(loader), epochs.begin(loader)] == [5, 6]
    sampler.epoch = 2
    assert [epochs.begin(loader), epochs.begin(loader)] == [2, 3]


def test_what_does_not_show_its_epoch_is_told_all() -> None:
    told: list[int] = []
    epochs_of(SimpleNamespace(dataset=SimpleNamespace(set_epoch=told.append)), 2)
    assert told == [0, 1]


def test_a_plain_list_has_no_listeners() -> None:
    assert epochs_of([1, 2], 2) == [0, 1]
