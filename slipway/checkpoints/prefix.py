"""The names of a model's parameters, under whatever wraps it: `module.` and `_orig_mod.`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

from slipway.checkpoints.errors import CheckpointError

PREFIXES = ("", "module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module.")
"""What DistributedDataParallel, torch.compile and both together put before every key."""

_SHOWN = 3


def load_state(model: Any, state: Mapping[str, Any]) -> None:
    """Load a state dict into a model, whichever of the two is wrapped.

    Finds the one prefix (`module.` of DistributedDataParallel, `_orig_mod.` of torch.compile, both, none)
    with which all keys are the model's, and loads all or nothing. Raises slipway.CheckpointError: CKPT005
    with the first keys that are at odds, CKPT009 where a tensor has another shape.
    """
    bare = unwrapped(model)
    bare.load_state_dict(fitting(bare, state))


def unwrapped(model: Any) -> Any:
    """The model that DistributedDataParallel, DataParallel and torch.compile were given."""
    from torch.nn.parallel import DataParallel, DistributedDataParallel

    while True:
        if isinstance(model, (DistributedDataParallel, DataParallel)):
            model = model.module
        elif type(model).__name__ == "OptimizedModule" and hasattr(model, "_orig_mod"):
            model = model._orig_mod
        else:
            return model


def fitting(bare: Any, state: Mapping[str, Any]) -> Mapping[str, Any]:
    """The state under the bare model's keys, which `load_state_dict` takes whole. Raises as `load_state`."""
    from torch.nn.modules.utils import consume_prefix_in_state_dict_if_present

    own = bare.state_dict()
    prefix = _prefix(own, state)
    if prefix is None:
        raise CheckpointError("CKPT005", _at_odds(own, state))
    if prefix:
        stripped: Any = OrderedDict(state)
        if hasattr(state, "_metadata"):
            stripped._metadata = OrderedDict(state._metadata)
        consume_prefix_in_state_dict_if_present(stripped, prefix)
        state = stripped
    for key, tensor in own.items():
        wanted, given = getattr(tensor, "shape", None), getattr(state[key], "shape", None)
        if wanted != given:
            raise CheckpointError(
                "CKPT009",
                f"{key} is {_shape(given)} in the checkpoint and {_shape(wanted)} in the model: it is "
                "another model's. Nothing was loaded. Build the model as it was when it was saved, or take "
                "another folder",
            )
    return state


def _prefix(own: Mapping[str, Any], state: Mapping[str, Any]) -> str | None:
    for prefix in PREFIXES:
        if all(isinstance(key, str) and key.startswith(prefix) for key in state) and {
            key[len(prefix) :] for key in state
        } == set(own):
            return prefix
    return None


def _at_odds(own: Mapping[str, Any], state: Mapping[str, Any]) -> str:
    given = {str(key) for key in state}
    # The prefix that most keys have says which of them are really at odds.
    best = max(PREFIXES, key=lambda prefix: len(given & {prefix + key for key in own}))
    missing = [best + key for key in own if best + key not in given]
    unexpected = [key for key in map(str, state) if key not in {best + name for name in own}]
    parts = []
    if missing:
        parts.append(f"{len(missing)} keys of the model are missing ({_first(missing)})")
    if unexpected:
        parts.append(f"{len(unexpected)} are not the model's ({_first(unexpected)})")
    return (
        f"the checkpoint's keys are not the model's: {', '.join(parts)}. Nothing was loaded; a partial load "
        "would train from random weights in silence. Build the model as it was when it was saved"
    )


def _first(keys: Iterable[str]) -> str:
    keys = list(keys)
    return ", ".join(keys[:_SHOWN]) + (", …" if len(keys) > _SHOWN else "")


def _shape(shape: Any) -> str:
    return "no tensor" if shape is None else "x".join(str(size) for size in shape) or "a number"
