"""The way of a launch on AWS, shown on the command line: one for `launch`, several for a pair or a ladder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from launcher.aws.clients import Clients
    from launcher.jobs.load import LoadedJob
    from launcher.session.launching import Launch
    from launcher.source.tree import SourceTree


def launch_of(
    loaded: LoadedJob,
    ignore: Sequence[str],
    clients: Clients,
    run_id: str | None,
    *,
    queued: bool = False,
    share: str | None = None,
    source: SourceTree | None = None,
) -> Launch:
    """The launch of a job that was read, with the views of the command line.

    `source` is the job's code where it was read already, else it is read now. The rest is as in `Launch`.
    """
    from launcher.aws.session import session_region
    from launcher.cli.live_view import LiveView
    from launcher.cli.source_view import read_code
    from launcher.cli.submission_view import show_progress
    from launcher.session.launching import Launch

    return Launch(
        loaded,
        clients,
        session_region(),
        ignore,
        queued,
        share,
        run_id,
        LiveView,
        show_progress,
        read_code(loaded) if source is None else source,
    )
