"""torchrun: one process per accelerator, started by PyTorch's own launcher on every host."""

from __future__ import annotations

from launcher.planning.strategies.boot import BootStrategy


class Torchrun(BootStrategy):
    """PyTorch's elastic launcher with a static rendezvous on the first host."""

    boot_name = "torchrun"
