"""What runs in the container: the boot, which starts a job's processes and says why they failed.

Shipped as `slipway.pyz` beside the job's source, so it must run on the Python of every image: 3.8 and
later, the standard library alone. What scripts import of it (`slipway.CheckpointManager`) stands in
`_OFFERED` and is loaded when it is asked for: `import slipway` costs nothing and needs no torch.

`boot` is the sequence on a host. `container` reads what the job is, `script` its code and environment,
`host_assembly` joins the hosts; `gate/` refuses hosts that would hang, `processes/` starts the ranks and
starts them again, `watchdog/` sees them stall, `failure` writes the reason. `ranks/` runs inside of each
rank's process. `training/` and `saving/` are what scripts call; of `saving/` the boot also runs the
uploads. `fabric/` is what `launch proof` runs, `environment` what runs outside of SageMaker install with.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slipway.errors import CheckpointError as CheckpointError
    from slipway.errors import SlipwayError as SlipwayError
    from slipway.ranks.attendant import progress as progress
    from slipway.saving.load_checkpoint import load_state as load_state
    from slipway.saving.manager import CheckpointManager as CheckpointManager
    from slipway.training.data_order import GlobalSampler as GlobalSampler
    from slipway.training.data_order import sorted_inputs as sorted_inputs
    from slipway.training.even_batches import even_batches as even_batches
    from slipway.training.guard import guard as guard

__version__ = "0.1.0"
"""The same as in pyproject.toml."""

_OFFERED = {
    "CheckpointError": "slipway.errors",
    "CheckpointManager": "slipway.saving.manager",
    "GlobalSampler": "slipway.training.data_order",
    "SlipwayError": "slipway.errors",
    "even_batches": "slipway.training.even_batches",
    "guard": "slipway.training.guard",
    "load_state": "slipway.saving.load_checkpoint",
    "progress": "slipway.ranks.attendant",
    "sorted_inputs": "slipway.training.data_order",
}
"""What scripts may import from here, and the module that has it."""


def __getattr__(name: str) -> object:
    if name in _OFFERED:
        return getattr(import_module(_OFFERED[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_OFFERED])
