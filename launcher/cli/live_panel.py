"""What changes at the bottom of a terminal while a command follows jobs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table

_REFRESHES_PER_SECOND = 4


class LivePanel(ABC):
    """A panel that is drawn again and again on a terminal, until it is left, and nowhere else."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None

    @abstractmethod
    def _panel(self) -> Table:
        """What is to be seen now."""

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            from rich.live import Live

            self._live = Live(
                get_renderable=self._panel,
                console=self._console,
                refresh_per_second=_REFRESHES_PER_SECOND,
                transient=True,
            )
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
