"""`${SM_MODEL_DIR}` and the like in the job's arguments, hyperparameters and environment.

The launcher leaves the names of the container's folders as they are, so that a job means the same on
every machine; here they become what the script's environment says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from slipway.failure import BootError

_REFERENCE = re.compile(r"(\$?)\$\{(SM_[A-Za-z0-9_.-]+|SLIPWAY_CHECKPOINT_DIR)\}")


def replaced(text: str, folders: Mapping[str, str]) -> str:
    """The text with each `${SM_...}` as `folders` has it; `$${SM_...}` becomes a literal `${SM_...}`.

    What was put in is not looked at again. Raises BootError (CODE002) for a name that is not there.
    """

    def value_of(match: re.Match[str]) -> str:
        escape, name = match.groups()
        if escape:
            return match[0][1:]
        if name not in folders:
            raise BootError(
                "CODE002",
                f"${{{name}}} in the job's arguments, hyperparameters or environment is none of the folders "
                f"of this container: {', '.join(sorted(folders))}. Correct the name, or add the channel "
                "to `inputs`",
            )
        return folders[name]

    return _REFERENCE.sub(value_of, text)
