"""CloudFormation as it bites, for the resource types of the project's templates.

moto 5.2.5's own CloudFormation creates, skips what it does not know, and changes or deletes next to nothing.
This takes its place: exports that are in use stay, create-only properties replace, deletion policies hold,
and the services refuse to delete what something else needs. What it does not know it refuses, and says so.

Not as in AWS: everything is done when the call returns; there are no change sets, conditions, nested stacks
or drift; stack tags do not reach the resources; a resource whose old form is replaced takes the new
template's UpdateReplacePolicy, as AWS's documentation does not say which one counts.
"""

from __future__ import annotations

from tests.emulator.cloudformation import answers
from tests.emulator.cloudformation.kinds import (  # noqa: F401  (each registers its kinds)
    access,
    buckets,
    hyperpod,
    lustre,
    network,
    recorded,
    security_groups,
    waking,
    watching,
)


def install() -> None:
    """Let moto answer CloudFormation's calls with this; may be called more than once."""
    answers.install()
