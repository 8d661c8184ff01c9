"""The live stage on a terminal, all on stderr: how far it is, and what `--fix` would add."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING

from launcher.cli.attendance import confirmed
from launcher.cli.output import console, message
from launcher.failure_modes.refusal import Refusal

if TYPE_CHECKING:
    from launcher.account.file_system import FileSystem
    from launcher.aws.clients import Clients
    from launcher.rules.live.missing_rules import MissingRule

_LINE_EVERY_SECONDS = 60


class LiveView:
    """Shows how far the look into the account is: a status that changes, or lines where none can.

    Rich draws only on a terminal; a log gets one line at the start, and one a minute while waiting.
    """

    def __init__(self) -> None:
        self._screen = console(stderr=True)
        self._status = self._screen.status("looking at the account")
        self._stack = ExitStack()
        self._next_line = 0.0

    def __enter__(self) -> LiveView:
        if self._screen.is_terminal:
            self._stack.enter_context(self._status)
        else:
            message("looking at the account")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def progress(self, answered: int, asked: int, waiting_for: str) -> None:
        """Called after each answer of AWS."""
        if self._screen.is_terminal:
            waiting = f", waiting for {waiting_for}" if waiting_for else ""
            self._status.update(f"looking at the account: {answered} of {asked} answers{waiting}")

    def waiting(self, file_system: FileSystem, seconds: float) -> None:
        """Called at each look at a file system that is being created."""
        text = f"{file_system.id} is {file_system.lifecycle}, waiting for AVAILABLE ({seconds / 60:.0f} min)"
        if self._screen.is_terminal:
            self._status.update(text)
        elif seconds >= self._next_line:
            self._next_line = seconds + _LINE_EVERY_SECONDS
            message(text)


def offer_repairs(
    rules: Mapping[str, Sequence[MissingRule]], region: str, clients: Clients, *, yes: bool
) -> bool:
    """Show the rules, group by group, ask, and add them; says whether any were.

    Raises Refusal where there is nobody to ask, AwsRefusal where AWS refuses.
    """
    from launcher.session.live import repair

    if not rules:
        message("--fix: no security group rule is missing")
        return False
    # All are shown before the first is added, so that a refusal leaves no half repair unseen.
    for group_id, missing in rules.items():
        message("\n".join([f"{group_id} lacks:", *(f"  {rule} ({rule.code})" for rule in missing)]))
    if not yes and not sys.stdin.isatty():
        raise Refusal(
            "--fix asks before it changes a security group, and there is no terminal to ask on.",
            "Add --yes to add the rules above, or run it in a terminal.",
        )
    chosen = [missing for group_id, missing in rules.items() if yes or _agreed(group_id, len(missing))]
    for missing in chosen:
        for rule, added in repair(missing, region, clients):
            message(f"{rule.group_id}: {'added' if added else 'was there already'}: {rule}")
    return bool(chosen)


def _agreed(group_id: str, count: int) -> bool:
    return confirmed(f"Add {count} rule{'s' if count > 1 else ''} to {group_id}?")
