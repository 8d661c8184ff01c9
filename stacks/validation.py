"""When the CDK validates the templates by itself: not while somebody only looks at them.

The CDK runs CloudFormation's validation on every synthesis, in a WebAssembly engine of 9 MB that
takes most of the time: 2.8 of the 3.7 seconds of the dev cluster, 1.7 of the 1.9 of an empty app (CPU
profiles of jsii's node). cdk-nag and Slipway's own rules run in any case.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePath

SWITCH = "CDK_VALIDATION"
"""The environment variable that aws-cdk-lib reads: `false` turns its own validation off."""

_LOOKING = frozenset({"diff", "list", "ls", "synth", "synthesize"})


def only_looks(command_lines: Iterable[Sequence[str]]) -> bool:
    """Whether one of these processes is the CDK's command line with a command that changes nothing.

    `command_lines` are those of the processes above the app, each as a list of its words. The CDK tells
    the app nothing about the command it runs for. What is not recognised, such as an option before the
    command, counts as a deployment, so that nothing is deployed without having been validated.
    """
    return _command(command_lines) in _LOOKING


def takes_away(command_lines: Iterable[Sequence[str]]) -> bool:
    """Whether one of these processes is the CDK's command line with the command that deletes stacks."""
    return _command(command_lines) == "destroy"


def _command(command_lines: Iterable[Sequence[str]]) -> str | None:
    for words in command_lines:
        for position, word in enumerate(words[:-1]):
            if PurePath(word).name in ("cdk", "cdk.js"):
                return words[position + 1]
    return None
