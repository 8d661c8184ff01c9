"""What runs in the container: the boot, which starts a job's processes and says why they failed.

Shipped as `slipway.pyz` beside the job's source, so it must run on the Python of every image: 3.8 and
later, the standard library alone. What scripts import of it (`slipway.even_batches`) stands in
`_OFFERED` and is loaded when it is asked for: `import slipway` costs nothing and needs no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slipway.batches.even import even_batches as even_batches
    from slipway.batches.inputs import sorted_inputs as sorted_inputs
    from slipway.errors import SlipwayError as SlipwayError
    from slipway.health.guard import guard as guard

_OFFERED = {
    "SlipwayError": "slipway.errors",
    "even_batches": "slipway.batches.even",
    "guard": "slipway.health.guard",
    "sorted_inputs": "slipway.batches.inputs",
}
"""What scripts may import from here, and the module that has it."""


def __getattr__(name: str) -> object:
    if name in _OFFERED:
        return getattr(import_module(_OFFERED[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_OFFERED])
