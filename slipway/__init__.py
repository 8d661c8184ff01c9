"""What runs in the container: the boot, which starts a job's processes and says why they failed.

Shipped as `slipway.pyz` beside the job's source, so it must run on the Python of every image: 3.8 and
later, the standard library alone.

What a script may import stands in `_OFFERED`, and is loaded when it is first asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slipway.ranks.progress import progress as progress

_OFFERED = {
    "progress": "slipway.ranks.progress",
}


def __getattr__(name: str) -> Any:
    """What scripts import by name (PEP 562), from the module that has it."""
    if name not in _OFFERED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_OFFERED[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_OFFERED])
