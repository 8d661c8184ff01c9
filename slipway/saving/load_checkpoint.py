"""A checkpoint put back: verified by all ranks together, fetched where a host lacks it, checked, then loaded.

It goes into model, optimizer, sampler and random numbers; nothing is loaded before everything is checked.
"""

from __future__ import annotations

import ctypes
import hashlib
import inspect
import os
import random
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from slipway.errors import CheckpointError, failed_write_error, say
from slipway.saving.stored_checkpoints import (
    FILE_NAME,
    CheckpointFile,
    CheckpointManifest,
    Choice,
    file_digest,
    files_present,
    leading_rank,
    make_folder,
    mark_damaged,
    order_candidates,
    parse_candidate,
    plan_transfers,
    put_file,
    put_text,
    survey_disk,
    verified_host,
    verifying_rank,
)
from slipway.saving.write_checkpoint import MODEL_FILE, SHARDS_METADATA, ShardsLoad, is_sharded, rank_file
from slipway.training.agreement import RollCall
from slipway.training.data_order import GlobalSampler

# A checkpoint into model, optimizer, sampler and random numbers.


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
    sharded = manifest.file(SHARDS_METADATA) is not None
    loader.fetch_and_verify(choice, [MODEL_FILE, own_file, *([SHARDS_METADATA] if sharded else [])])

    checked: dict[str, Any] = {}

    def check() -> None:
        whole, own = read_saved(folder / MODEL_FILE), read_saved(folder / own_file)
        checked["whole"], checked["rng"] = whole, saved_section(own, "rng", folder / own_file)
        checked["extra"] = own.get("extra")
        if sampler is not None:
            sampler.check(manifest.position)
        if sharded:
            checked["rest"] = saved_section(whole, "rest", folder / MODEL_FILE)
            if model is None and optimizer is not None:
                raise CheckpointError("CKPT009", f"{folder} is sharded: resume its optimizer with the model")
        else:
            checked["load"] = _plain(whole, folder / MODEL_FILE, model, optimizer)

    on_all_ranks(loader, check)
    if sharded and model is not None:
        _read_sharded(loader, choice, folder, checked, model, optimizer)
    else:
        on_all_ranks(loader, checked.get("load", lambda: None))
    if sampler is not None and manifest.position is not None:
        sampler.restore(manifest.position)
    if world_size == manifest.world_size:
        set_generator_states(checked["rng"])
    loader.write_missing_manifest(choice)
    return Resumed(manifest.step, checked["extra"], manifest.position)


def on_all_ranks(loader: Loader, action: Callable[[], None]) -> None:
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
    loader.raise_any_error(failure)


def _read_sharded(
    loader: Loader, choice: Choice, folder: Path, checked: dict[str, Any], model: Any, optimizer: Any
) -> None:
    plans: list[ShardsLoad] = []
    on_all_ranks(loader, lambda: plans.append(ShardsLoad(folder, model, optimizer)))
    loader.fetch_and_verify(choice, plans[0].files())
    on_all_ranks(loader, lambda: plans[0].load(checked["rest"], read_saved))


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
        named = OrderedDict(saved_section(whole, "model", file))
        named._metadata = OrderedDict(whole.get("versions") or {})  # type: ignore[attr-defined]
        state = state_under_bare_keys(unwrap_model(model), named)
    groups = saved_section(whole, "optimizer", file) if optimizer is not None else None
    if optimizer is not None:
        _check_groups(groups, optimizer, file)

    def load() -> None:
        if model is not None:
            unwrap_model(model).load_state_dict(state)
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


# The newest checkpoint that is whole, verified by all ranks together.


_WHERE = "resume()"


class Loader:
    """What one rank does, together with all others, to find a checkpoint that is whole.

    `hosts` are the ranks' hosts by rank; `mirror` has copies of checkpoints elsewhere, if anything.
    """

    def __init__(self, shelf: Path, call: RollCall, hosts: Sequence[str], mirror: Mirror | None) -> None:
        self.call = call
        self._shelf, self._hosts, self._mirror = shelf, hosts, mirror
        self._host = hosts[call.rank]
        self._leads = call.rank == leading_rank(hosts, self._host)
        self._verified: set[str] = set()

    def choose(self) -> Choice | None:
        """The newest checkpoint whose files all have their SHA-256, the same on all ranks; None without any.

        Raises CheckpointError (CKPT009) where there are some and none can be used: to train from the start
        in silence would throw them away.
        """
        found = survey_disk(self._shelf) if self._leads else None
        told = self.call.meet(_WHERE, found, self._candidates)
        refused: list[str] = []
        for one in told:
            choice = parse_candidate(one)
            reason = choice.reason or self._damage(choice, mirrored=one["mirrored"])
            if reason is None:
                return choice
            refused.append(f"{choice.name}: {reason}")
            if self.call.rank == 0:
                text = f"{CheckpointError('CKPT009', refused[-1])}: not loaded, the one before is tried"
                say(text)
        if refused:
            raise CheckpointError(
                "CKPT009",
                f"none of the {len(refused)} checkpoints in {self._shelf} can be used ({refused[0]}). "
                "Training from the start would throw them away: remove the folder if that is what you want",
            )
        return None

    def fetch_and_verify(self, choice: Choice, names: Sequence[str]) -> None:
        """Have these files of the checkpoint, verified, on this host's disk. A collective.

        Raises CheckpointError where a file cannot be had.
        """
        folder = self._shelf / choice.name
        entries = {entry.name: entry for entry in _files(choice)}
        foreign = [name for name in names if name not in entries]
        if foreign:
            wrong: str | None = f"{choice.name} has no {foreign[0]} in its manifest"
            lacks: list[str] = []
        else:
            wrong = None
            lacks = [name for name in names if not self._has(folder, entries[name])]

        def decide(values: list[dict[str, Any]]) -> Any:
            _raise_first_reason([value["wrong"] for value in values])
            return plan_transfers([value["lacks"] for value in values], choice, self._hosts)

        plan = self.call.meet(_WHERE, {"lacks": lacks, "wrong": wrong}, decide)
        if not plan:
            return

        went_wrong = [send_file(folder, entries[name], source, receivers) for name, source, receivers in plan]
        first = next((wrong for wrong in went_wrong if wrong), None)
        self.raise_any_error(CheckpointError("CKPT009", f"{choice.name}: {first}") if first else None)

    def write_missing_manifest(self, choice: Choice) -> None:
        """Once a host has its files it has the manifest too, so that the checkpoint counts there."""
        file = self._shelf / choice.name / FILE_NAME
        if self._leads and choice.manifest is not None and not file.exists():
            try:
                make_folder(file.parent)
                put_text(file, choice.manifest.to_json())
            except OSError as error:
                raise failed_write_error(error, choice.manifest.step) from None

    def raise_any_error(self, error: CheckpointError | None) -> None:
        """Go on together: an error of one rank is raised by all."""
        value = {"code": error.code, "message": error.message} if error else None

        def decide(values: list[dict[str, str] | None]) -> None:
            for told in values:
                if told:
                    raise CheckpointError(told["code"], told["message"])

        self.call.meet(_WHERE, value, decide)

    def _candidates(self, surveys: list[Any]) -> list[dict[str, Any]]:
        by_host = {self._hosts[rank]: found for rank, found in enumerate(surveys) if found is not None}
        mirrored: dict[str, str] = {}
        if self._mirror is not None:
            try:
                mirrored = dict(self._mirror.manifests())
            except OSError as error:
                raise CheckpointError(
                    "CKPT009", f"the mirror of the checkpoints cannot be read: {error}"
                ) from None
        return order_candidates(by_host, mirrored)

    def _damage(self, choice: Choice, *, mirrored: bool) -> str | None:
        """Why a checkpoint is not what its manifest says, None where it is; what is missing is fetched."""
        self._verified = set()
        lacking = choice.lacking()
        wrong = self._fetch(choice, lacking) if lacking else None
        if wrong:
            return wrong
        bad = self._verify(choice, _files(choice))
        if bad and mirrored and self._mirror is not None:
            wrong = self._fetch(choice, bad)
            bad = [] if wrong else self._verify(choice, bad)
        if not (bad or wrong):
            return None
        if bad and self._leads:
            mark_damaged(self._shelf / choice.name)
        return wrong or f"{bad[0].name} has another SHA-256 than the manifest says: its content has changed"

    def _verify(self, choice: Choice, entries: Sequence[CheckpointFile]) -> list[CheckpointFile]:
        """The files that are not what the manifest says; each is read by one rank."""
        folder = self._shelf / choice.name
        bad = []
        for index, entry in enumerate(entries):
            holders = choice.holders.get(entry.name, ())
            if verified_host(entry, holders, self._hosts) == self._host:
                self._verified.add(entry.name)
            if verifying_rank(entry, index, holders, self._hosts) == self.call.rank and not _is_intact(
                folder, entry
            ):
                bad.append(entry.name)
        named = set(self.call.meet(_WHERE, bad, lambda values: [name for names in values for name in names]))
        self._verified -= named
        return [entry for entry in entries if entry.name in named]

    def _fetch(self, choice: Choice, entries: Sequence[CheckpointFile]) -> str | None:
        """Have the mirror's copies written where they are verified; why not, on all ranks alike."""
        own = [
            entry.name
            for entry in entries
            if verified_host(entry, choice.holders.get(entry.name, ()), self._hosts) == self._host
        ]
        wrong = None
        if self._leads and own and self._mirror is not None:
            try:
                make_folder(self._shelf / choice.name)
                self._mirror.fetch(choice.name, own, self._shelf / choice.name)
            except OSError as error:
                wrong = f"{own[0]} cannot be fetched: {error}"
        first = self.call.meet(_WHERE, wrong, lambda values: next((one for one in values if one), None))
        return None if first is None else str(first)

    def _has(self, folder: Path, entry: CheckpointFile) -> bool:
        if entry.name in self._verified:
            return True
        return bool(files_present(folder, [entry])) and _is_intact(folder, entry)


def read_saved(file: Any) -> Any:
    """What torch.save wrote, of tensors and plain values alone. Raises CheckpointError.

    From torch 1.13 on (`weights_only`) a hostile file runs nothing; before, loading one is running it.
    """
    import torch

    safely: dict[str, Any] = (
        {"weights_only": True} if "weights_only" in inspect.signature(torch.load).parameters else {}
    )
    try:
        return torch.load(file, map_location="cpu", **safely)
    except Exception as error:
        # A file from anywhere can make the reader raise anything.
        reason = str(error).splitlines()[0][:160] if str(error) else type(error).__name__
        raise CheckpointError(
            "CKPT009", f"{file} is not what CheckpointManager saves ({reason}). Take another checkpoint"
        ) from None


def saved_section(content: Any, name: str, file: Path) -> Any:
    """A part of what was read. Raises CheckpointError where the file holds no such part."""
    if not isinstance(content, dict) or content.get(name) is None:
        raise CheckpointError(
            "CKPT009",
            f"{file} holds no {name}: it was saved without. Resume without {name}=, or take another",
        )
    return content[name]


def _files(choice: Choice) -> tuple[CheckpointFile, ...]:
    manifest: CheckpointManifest | None = choice.manifest
    return manifest.files if manifest else ()


def _is_intact(folder: Path, entry: CheckpointFile) -> bool:
    try:
        return bool(files_present(folder, [entry])) and file_digest(folder / entry.name) == entry.sha256
    except OSError:
        return False


def _raise_first_reason(reasons: Sequence[str | None]) -> None:
    for reason in reasons:
        if reason:
            raise CheckpointError("CKPT009", reason)


@dataclass(frozen=True)
class Resumed:
    """What training goes on from: the step, this rank's `extra`, and the position of the sampler if saved."""

    step: int
    extra: Any
    position: dict[str, Any] | None


# Where checkpoints are kept beside the disks of the hosts, as `resume` asks for them.


class Mirror(Protocol):
    """Copies of complete checkpoints elsewhere, such as in a bucket."""

    def manifests(self) -> Mapping[str, str]:
        """By folder name (`step-...`) the texts of the manifests; asked on rank 0 alone. Raises OSError."""
        ...

    def fetch(self, name: str, files: Sequence[str], folder: Path) -> None:
        """Put files of the checkpoint `name` into `folder`, under their names in its manifest.

        Asked on one rank of a host, for what no host has whole. What comes is verified by who asks.
        Raises OSError where it cannot be had.
        """
        ...


# Files of a checkpoint that some hosts lack, sent by a host that has them, over torch's own broadcast.


BLOCK = 32 * 1024 * 1024
"""Bytes that go at once: enough for the network, little beside a model."""


def send_file(folder: Path, entry: CheckpointFile, source: int, receivers: list[int]) -> str | None:
    """Send one file from rank `source` to the disks of `receivers`. A collective: every rank calls it.

    Returns what went wrong on this rank, None if nothing did. Whatever goes wrong, this rank takes part to
    the end, so that nobody waits for it.
    """
    import torch
    import torch.distributed as dist

    device = "cuda" if "nccl" in str(dist.get_backend()) else "cpu"
    rank = dist.get_rank()
    wrong: str | None = None
    file = folder / entry.name
    partial = file.with_name(f"{file.name}.{os.getpid()}.partial")
    sha256 = hashlib.sha256()
    for start in range(0, entry.bytes, BLOCK):
        block = torch.zeros(min(BLOCK, entry.bytes - start), dtype=torch.uint8)
        try:
            if rank == source:
                _fill(block, file, start)
        except OSError as error:
            wrong = f"{entry.name} cannot be read: {error.strerror}"
        block = block.to(device)
        dist.broadcast(block, source)
        if rank in receivers and wrong is None:
            host_block = block.cpu()
            content = ctypes.string_at(host_block.data_ptr(), host_block.numel())
            sha256.update(content)
            try:
                partial.parent.mkdir(parents=True, exist_ok=True)
                with partial.open("ab" if start else "wb") as out:
                    out.write(content)
            except OSError as error:
                wrong = f"{entry.name} cannot be written: {error.strerror}"
    if rank in receivers and wrong is None:
        wrong = _kept(partial, file, entry, sha256.hexdigest())
    return wrong


def _fill(block: Any, file: Path, start: int) -> None:
    with file.open("rb") as content:
        content.seek(start)
        data = bytearray(content.read(block.numel()))
    import torch

    if data:
        block[: len(data)] = torch.frombuffer(data, dtype=torch.uint8)


def _kept(partial: Path, file: Path, entry: CheckpointFile, digest: str) -> str | None:
    try:
        if entry.bytes == 0:
            partial.parent.mkdir(parents=True, exist_ok=True)
            partial.touch()
        if digest != entry.sha256:
            partial.unlink()
            return f"{entry.name} came with another SHA-256 than its manifest says"
        put_file(partial, file)
    except OSError as error:
        return f"{entry.name} cannot be written: {error.strerror}"
    return None


# The names of a model's parameters, under whatever wraps it: `module.` and `_orig_mod.`.


PREFIXES = ("", "module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module.")
"""What DistributedDataParallel, torch.compile and both together put before every key."""

_SHOWN = 3


def load_state(model: Any, state: Mapping[str, Any]) -> None:
    """Load a state dict into a model, whichever of the two is wrapped.

    Finds the one prefix (`module.` of DistributedDataParallel, `_orig_mod.` of torch.compile, both, none)
    with which all keys are the model's, and loads all or nothing. Raises slipway.CheckpointError: CKPT005
    with the first keys that are at odds, CKPT009 where a tensor has another shape.
    """
    bare = unwrap_model(model)
    bare.load_state_dict(state_under_bare_keys(bare, state))


def unwrap_model(model: Any) -> Any:
    """The model that DistributedDataParallel, DataParallel and torch.compile were given."""
    from torch.nn.parallel import DataParallel, DistributedDataParallel

    while True:
        if isinstance(model, (DistributedDataParallel, DataParallel)):
            model = model.module
        elif type(model).__name__ == "OptimizedModule" and hasattr(model, "_orig_mod"):
            model = model._orig_mod
        else:
            return model


def state_under_bare_keys(bare: Any, state: Mapping[str, Any]) -> Mapping[str, Any]:
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


# The random number generators of a rank: Python's, NumPy's, torch's and those of its devices.
#
# NumPy's only where the script has imported it, as nothing else draws from it.


def generator_states() -> dict[str, Any]:
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


def set_generator_states(states: dict[str, Any]) -> None:
    """Let all generators go on from `states`; those of what is not there now are left out."""
    import torch

    version, internal, gauss = states["python"]
    random.setstate((version, tuple(internal), gauss))
    torch.set_rng_state(states["torch"])
    if "numpy" in states and "numpy" in sys.modules:
        sys.modules["numpy"].random.set_state(states["numpy"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])
