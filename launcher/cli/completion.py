"""`launch --install-completion`: the shell completes commands, options and their values."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from launcher.cli.output import message
from launcher.failure_modes.refusal import Refusal

Shell = Literal["bash", "zsh", "fish"]


def install_completion(
    *,
    shell: Annotated[Shell | None, Parameter(help="The shell; by default the one that runs this.")] = None,
) -> int:
    """Let the shell complete commands and options: writes a script, and a line into its start-up file.

    Again after an update: the script holds the commands and options of this version.
    """
    from cyclopts.completion.detect import ShellDetectionError, detect_shell

    from launcher.cli.app import app

    try:
        script = app.install_completion(shell=shell or detect_shell())
    except ShellDetectionError:
        raise Refusal(
            "which shell this is cannot be seen, so that nothing was written.",
            "Name it: launch --install-completion --shell bash",
        ) from None
    except OSError as error:
        raise Refusal(
            f"the script cannot be written: {error.filename}: {error.strerror}.",
            "Make the folder writable, or do without completion.",
        ) from error
    message(f"completion was written to {script}; it works in every shell that is started from now on")
    return 0
