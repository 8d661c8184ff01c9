"""A local job's secrets: from the environment of whoever launches, in memory alone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from launcher.backends.interface import BackendError
from launcher.failure_modes import storage
from launcher.jobs.variables import Variables, allowed_by
from launcher.planning.request_view import RequestView

HERE_VARIABLE: Final = "SLIPWAY_SECRETS_HERE"
"""By which the boot knows that the values are in its environment already (`slipway/secrets.py`)."""


def secrets_here(request: RequestView, variables: Variables | None = None) -> Mapping[str, str]:
    """What the environment of a host's boot has besides, for the secrets that the job names.

    The values are those of the launcher's own variables of the same names, of which a job file may have no
    others than `${NAME}` may stand for; None is this process' environment by the usual rule. Raises
    BackendError for those that are not set, or may not be had.
    """
    named = request.secrets
    if not named:
        return {}
    given = variables or Variables(os.environ, allowed_by(os.environ, None))
    missing = [name for name in named if not given.values.get(name)]
    if missing:
        exports = " ".join(f"{name}=..." for name in missing)
        raise BackendError(
            f"{storage.SECRET_UNREADABLE.code} the job's secrets {', '.join(missing)} are not set here: a "
            "local run takes them from the environment, not from Secrets Manager; nothing was started.",
            f"Set them before the launch: export {exports}",
        )
    forbidden = [name for name in named if given.allowed is not None and name not in given.allowed]
    if forbidden:
        raise BackendError(
            f"{storage.SECRET_UNREADABLE.code} the job's secrets {', '.join(forbidden)} are not taken from "
            "the environment: in CI (the variable CI is set), or with --allow-env, a job file has only the "
            "variables that it is given; nothing was started.",
            "If the job may have them, add " + " ".join(f"--allow-env {name}" for name in forbidden) + ".",
        )
    return {HERE_VARIABLE: "1", **{name: given.values[name] for name in named}}
