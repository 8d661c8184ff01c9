"""What the app is run for; and when the CDK validates templates by itself: not while somebody only looks.

The CDK runs CloudFormation's validation on every synthesis, in a WebAssembly engine of 9 MB that
takes most of the time: 2.8 of the 3.7 seconds of the dev cluster, 1.7 of the 1.9 of an empty app (CPU
profiles of jsii's node). cdk-nag and Slipway's own rules run in any case.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from pathlib import PurePath

SWITCH = "CDK_VALIDATION"
"""The environment variable that aws-cdk-lib reads: `false` turns its own validation off."""


class Purpose(Enum):
    """What the CDK's command line runs the app for."""

    LOOKING = "looking"
    DEPLOYING = "deploying"
    DESTROYING = "destroying"


def purpose(command_lines: Iterable[Sequence[str]]) -> Purpose:
    """What the app is run for, by the command line of the CDK that started it.

    `command_lines` are those of the processes above the app, each as a list of its words. The CDK tells
    the app nothing about the command it runs for. What is not recognised, such as an option before the
    command, counts as a deployment, so that nothing is deployed without having been validated.
    """
    for words in command_lines:
        for position, word in enumerate(words[:-1]):
            if PurePath(word).name in ("cdk", "cdk.js"):
                return _PURPOSES.get(words[position + 1], Purpose.DEPLOYING)
    return Purpose.DEPLOYING


_PURPOSES = {
    **dict.fromkeys(("diff", "list", "ls", "synth", "synthesize"), Purpose.LOOKING),
    "destroy": Purpose.DESTROYING,
}
