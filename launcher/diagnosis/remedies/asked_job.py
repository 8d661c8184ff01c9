"""What a job was asked to be, as far as a remedy can use it: plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from launcher.cluster.instances import InstanceFacts, instance_facts
from launcher.jobs.given_numbers import GivenNumber, given_numbers


@dataclass(frozen=True, slots=True)
class AskedJob:
    """What the request of a job says; None is what nobody knows.

    `hyperparameters` and `arguments` are what the script was given; of them only numbers of known names are
    ever told. `volume_size_gb` is the volume that was asked for, also where the type has disks of its own.
    """

    instance_type: str | None = None
    processes_per_host: int | None = None
    volume_size_gb: int | None = None
    hyperparameters: Mapping[str, str] = field(default_factory=dict, repr=False)
    arguments: tuple[str, ...] = field(default=(), repr=False)

    @property
    def facts(self) -> InstanceFacts | None:
        """What the hosts have; None for an unknown type."""
        return instance_facts(self.instance_type or "")

    def number(self, names: Sequence[str]) -> GivenNumber | None:
        """The number of the first of these names that the script was given.

        A name that was given twice with different values tells nothing.
        """
        numbers = tuple(given_numbers(self.hyperparameters, self.arguments))
        for name in names:
            known = {each.value: each for each in reversed(numbers) if each.plain_name == name}
            if len(known) == 1:
                return next(iter(known.values()))
        return None


NOTHING_ASKED: Final = AskedJob()
"""A job of which only its lines are known."""
