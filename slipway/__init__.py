"""What runs in the container: the boot, which starts a job's processes and says why they failed.

Shipped as `slipway.pyz` beside the job's source, so it must run on the Python of every image: 3.8 and
later, the standard library alone. What scripts import of it (`slipway.CheckpointManager`) stands in
`_OFFERED` and is loaded when it is asked for: `import slipway` costs nothing and needs no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slipway.checkpoints.errors import CheckpointError as CheckpointError
    from slipway.checkpoints.manager import CheckpointManager as CheckpointManager
    from slipway.checkpoints.prefix import load_state as load_state
    from slipway.checkpoints.sampler import GlobalSampler as GlobalSampler

__version__ = "0.1.0"
"""The same as in pyproject.toml."""

_OFFERED = {
    "CheckpointError": "slipway.checkpoints.errors",
    "CheckpointManager": "slipway.checkpoints.manager",
    "GlobalSampler": "slipway.checkpoints.sampler",
    "load_state": "slipway.checkpoints.prefix",
}
"""What scripts may import from here, and the module that has it."""


def __getattr__(name: str) -> object:
    if name in _OFFERED:
        return getattr(import_module(_OFFERED[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_OFFERED])
