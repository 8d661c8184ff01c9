"""The random number generators of a rank: Python's, NumPy's, torch's and those of its devices.

NumPy's only where the script has imported it, as nothing else draws from it.
"""

from __future__ import annotations

import random
import sys
from typing import Any


def generators() -> dict[str, Any]:
    """The states of all generators, of tensors, numbers and texts alone."""
    import torch

    states: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    numpy = sys.modules.get("numpy")
    if numpy is not None and hasattr(numpy, "random"):
        kind, keys, position, has_gauss, gauss = numpy.random.get_state()
        states["numpy"] = (kind, keys.tolist(), int(position), int(has_gauss), float(gauss))
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def set_generators(states: dict[str, Any]) -> None:
    """Let all generators go on from `states`; those of what is not there now are left out."""
    import torch

    version, internal, gauss = states["python"]
    random.setstate((version, tuple(internal), gauss))
    torch.set_rng_state(states["torch"])
    if "numpy" in states and "numpy" in sys.modules:
        sys.modules["numpy"].random.set_state(states["numpy"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])
