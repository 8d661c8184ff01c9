"""A checkpoint into model, optimizer, sampler and random numbers: everything is checked, then loaded."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slipway.checkpoints.choosing import Choice
from slipway.checkpoints.errors import CheckpointError
from slipway.checkpoints.loading import Loader, Resumed, read, section
from slipway.checkpoints.prefix import fitting, unwrapped
from slipway.checkpoints.randomness import set_generators
from slipway.checkpoints.sampler import GlobalSampler
from slipway.checkpoints.sharded import METADATA, ShardsLoad, is_sharded
from slipway.checkpoints.writer import MODEL_FILE, rank_file


def restore(
    loader: Loader,
    choice: Choice,
    folder: Path,
    model: Any,
    optimizer: Any,
    sampler: GlobalSampler | None,
) -> Resumed:
    """Load a chosen checkpoint; a collective. Raises CheckpointError on all ranks where one cannot."""
    manifest = choice.manifest
    assert manifest is not None
    rank, world_size = loader.call.rank, loader.call.world_size
    own_file = rank_file(rank if rank < manifest.world_size else 0)
    sharded = manifest.file(METADATA) is not None
    loader.provide(choice, [MODEL_FILE, own_file, *([METADATA] if sharded else [])])

    checked: dict[str, Any] = {}

    def check() -> None:
        whole, own = read(folder / MODEL_FILE), read(folder / own_file)
        checked["whole"], checked["rng"] = whole, section(own, "rng", folder / own_file)
        checked["extra"] = own.get("extra")
        if sampler is not None:
            sampler.check(manifest.position)
        if sharded:
            checked["rest"] = section(whole, "rest", folder / MODEL_FILE)
            if model is None and optimizer is not None:
                raise CheckpointError("CKPT009", f"{folder} is sharded: resume its optimizer with the model")
        else:
            checked["load"] = _plain(whole, folder / MODEL_FILE, model, optimizer)

    together(loader, check)
    if sharded and model is not None:
        _read_sharded(loader, choice, folder, checked, model, optimizer)
    else:
        together(loader, checked.get("load", lambda: None))
    if sampler is not None and manifest.position is not None:
        sampler.restore(manifest.position)
    if world_size == manifest.world_size:
        set_generators(checked["rng"])
    loader.settle(choice)
    return Resumed(manifest.step, checked["extra"], manifest.position)


def together(loader: Loader, action: Callable[[], None]) -> None:
    """Do something on every rank; where it fails on one, all raise its CheckpointError."""
    failure: CheckpointError | None = None
    try:
        action()
    except CheckpointError as error:
        failure = error
    except Exception as error:
        # Whatever a foreign file makes torch raise is no message for people.
        failure = CheckpointError(
            "CKPT009", f"the checkpoint cannot be loaded into this model: {type(error).__name__}: {error}"
        )
    loader.agree(failure)


def _read_sharded(
    loader: Loader, choice: Choice, folder: Path, checked: dict[str, Any], model: Any, optimizer: Any
) -> None:
    plans: list[ShardsLoad] = []
    together(loader, lambda: plans.append(ShardsLoad(folder, model, optimizer)))
    loader.provide(choice, plans[0].files())
    together(loader, lambda: plans[0].load(checked["rest"], read))


def _plain(whole: Any, file: Path, model: Any, optimizer: Any) -> Callable[[], None]:
    """What loads it, once all of it is checked."""
    state: Any = None
    if model is not None:
        if is_sharded(model):
            raise CheckpointError(
                "CKPT009",
                f"{file} was saved from a model that is not sharded, and this one is. Load it before the "
                "model is sharded, with slipway.load_state",
            )
        named = OrderedDict(section(whole, "model", file))
        named._metadata = OrderedDict(whole.get("versions") or {})  # type: ignore[attr-defined]
        state = fitting(unwrapped(model), named)
    groups = section(whole, "optimizer", file) if optimizer is not None else None
    if optimizer is not None:
        _check_groups(groups, optimizer, file)

    def load() -> None:
        if model is not None:
            unwrapped(model).load_state_dict(state)
        if optimizer is not None:
            optimizer.load_state_dict(groups)

    return load


def _check_groups(state: Any, optimizer: Any, file: Path) -> None:
    """The optimizer's own check would come when the model is loaded already."""
    try:
        saved = [len(group["params"]) for group in state["param_groups"]]
    except (KeyError, TypeError):
        raise CheckpointError("CKPT009", f"{file} holds no state of an optimizer. Take another one") from None
    own = [len(group["params"]) for group in optimizer.param_groups]
    if saved != own:
        raise CheckpointError(
            "CKPT009",
            f"{file} holds an optimizer of {saved} parameters by group, this one has {own}. Nothing was "
            "loaded. Build the optimizer as it was when it was saved",
        )
