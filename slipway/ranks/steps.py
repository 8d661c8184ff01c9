"""Which steps a script makes: told by PyTorch's optimizers, without a change to the script.

torch is never imported here: the script may never do it, and what it sets in `os.environ` for the loading of
torch must come first.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

_WRAPPED = "_slipway_counts"


def counted(beat: Callable[..., None]) -> bool:
    """Call `beat` after every step of every optimizer from now on; False where torch is not loaded yet.

    Since torch 2.0 by its own hook (register_optimizer_step_post_hook of torch/optim/optimizer.py), which
    optimizers that were made before call as well; before by wrapping `step` of each class, as
    Optimizer.__init__ does there (_hook_for_profile).
    """
    optimizers = _optimizers(sys.modules)
    if optimizers is None:
        return False
    register = getattr(optimizers, "register_optimizer_step_post_hook", None)
    if register is not None:
        register(beat)
    else:
        _wrap_classes(optimizers.Optimizer, beat)
    return True


def _optimizers(modules: dict[str, ModuleType]) -> Any:
    """The module of optimizers, once torch is loaded to its end."""
    torch, optimizers = modules.get("torch"), modules.get("torch.optim.optimizer")
    if torch is None or getattr(torch.__spec__, "_initializing", False):
        return None
    return optimizers if hasattr(optimizers, "Optimizer") else None


def _wrap_classes(base: Any, beat: Callable[..., None]) -> None:
    """Wrap the classes that are there, and those that are still to come when one is made of them."""
    for each in _with_subclasses(base):
        _wrap(each, beat)
    made = base.__init__

    @functools.wraps(made)
    def make(self: Any, *arguments: Any, **named: Any) -> None:
        for each in type(self).__mro__:
            if issubclass(each, base):
                _wrap(each, beat)
        made(self, *arguments, **named)

    base.__init__ = make


def _wrap(optimizer: Any, beat: Callable[..., None]) -> None:
    step = optimizer.__dict__.get("step")
    if not callable(step) or getattr(step, _WRAPPED, False):
        return

    @functools.wraps(step)
    def stepped(*arguments: Any, **named: Any) -> Any:
        result = step(*arguments, **named)
        beat()
        return result

    setattr(stepped, _WRAPPED, True)
    optimizer.step = stepped


def _with_subclasses(base: Any) -> Iterator[Any]:
    yield base
    for each in base.__subclasses__():
        yield from _with_subclasses(each)
