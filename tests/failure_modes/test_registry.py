"""Finders register themselves, and stay what they are."""

from __future__ import annotations

import pytest

from launcher.failure_modes import network, registry
from launcher.failure_modes.model import Stage
from launcher.failure_modes.registry import Registration, finds, register, registered


@pytest.fixture(autouse=True)
def empty_registry(monkeypatch: pytest.MonkeyPatch) -> list[Registration]:
    """A registry of the test's own, so that nothing stays in the real one."""
    registrations: list[Registration] = []
    monkeypatch.setattr(registry, "REGISTRY", registrations)
    return registrations


def double(number: int) -> int:
    return 2 * number


def test_a_marked_function_stays_the_same_object() -> None:
    assert finds(Stage.LIVE, network.NO_WAY_OUT)(double) is double


def test_a_marked_function_is_recorded_with_stage_and_modes(empty_registry: list[Registration]) -> None:
    finds(Stage.LIVE, network.NO_WAY_OUT, network.NO_EGRESS_TO_ITSELF)(double)
    (registration,) = empty_registry
    assert registration == Registration(
        Stage.LIVE, (network.NO_WAY_OUT, network.NO_EGRESS_TO_ITSELF), f"{__name__}.double", double
    )


def test_a_table_of_data_registers_by_its_name(empty_registry: list[Registration]) -> None:
    register(Stage.LOG, [network.EFA_NOT_USED], "signatures")
    assert empty_registry == [Registration(Stage.LOG, (network.EFA_NOT_USED,), "signatures")]


def test_a_finder_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="registers no failure mode"):
        finds(Stage.SPEC)(double)


def test_all_rooms_are_imported_before_their_registrations_are_given(
    monkeypatch: pytest.MonkeyPatch, empty_registry: list[Registration]
) -> None:
    imported: list[str] = []
    monkeypatch.setattr(registry, "_import_all", imported.append)
    assert registered() == []
    assert imported == list(registry.ROOMS)
