"""States that are sharded over the ranks (FSDP 1 and 2, DTensor), by torch.distributed.checkpoint.

The training thread plans and copies what this rank holds; the planning that all ranks take part in goes
over the roll-call instead of torch's collectives, so that the writer's thread may do it beside the training.
The files are torch's own, below `shards/`, and its tools read them.
"""

from __future__ import annotations

import base64
import io
import pickle
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from slipway.checkpoints.copying import Copies
from slipway.checkpoints.errors import CheckpointError
from slipway.checkpoints.shelf import put

FOLDER = "shards"
METADATA = f"{FOLDER}/.metadata"

_METADATA_CLASSES = frozenset(
    {
        "BytesStorageMetadata", "ChunkStorageMetadata", "Metadata", "MetadataIndex", "StorageMeta",
        "TensorProperties", "TensorStorageMetadata", "_MEM_FORMAT_ENCODING",
    }
)  # fmt: skip
"""What torch.distributed.checkpoint.metadata describes a checkpoint with, from torch 2.2 to 2.13."""


def is_sharded(model: Any) -> bool:
    """Whether a model's parameters are spread over the ranks.

    Raises RuntimeError where this torch cannot save such a model: the functions that name sharded states
    came with torch 2.2 (torch/distributed/checkpoint/state_dict.py).
    """
    fsdp = getattr(sys.modules.get("torch.distributed.fsdp"), "FullyShardedDataParallel", None)
    wrapped = fsdp is not None and any(isinstance(module, fsdp) for module in model.modules())
    if not wrapped and not any(type(parameter).__name__ == "DTensor" for parameter in _tensors(model)):
        return False
    try:
        from torch.distributed.checkpoint import state_dict  # noqa: F401
    except ImportError:
        raise RuntimeError(
            "this model is sharded, and before torch 2.2 its shards cannot be saved under their names. Take "
            "an image with torch 2.2 or later, or save it with FSDP's own full state dict"
        ) from None
    return True


def _tensors(model: Any) -> Iterable[Any]:
    for parameter in model.parameters():
        yield parameter
        # FSDP 2 keeps a parameter's class until it is used; its data tell as well.
        yield parameter.data


def split(tree: Any, name: str, tensors: dict[str, Any]) -> Any:
    """Move a state's tensors into a flat dict under dotted names; what is returned has None for each."""
    import torch

    if isinstance(tree, torch.Tensor) or hasattr(tree, "local_shards"):
        tensors[name] = tree
        return None
    if isinstance(tree, dict):
        return {key: split(one, f"{name}.{key}", tensors) for key, one in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [split(one, f"{name}.{index}", tensors) for index, one in enumerate(tree)]
    return tree


def joined(tree: Any, rest: Any) -> Any:
    """The state `tree` with its own tensors, and for everything else what `rest`, saved by `split`, says."""
    import torch

    if isinstance(tree, torch.Tensor) or hasattr(tree, "local_shards"):
        return tree
    if isinstance(tree, dict) and isinstance(rest, dict):
        return {key: joined(one, rest.get(key)) for key, one in tree.items()}
    if isinstance(tree, (list, tuple)) and isinstance(rest, list) and len(rest) == len(tree):
        return type(tree)([joined(one, rest[index]) for index, one in enumerate(tree)])
    return rest


def state_of(model: Any, optimizer: Any) -> dict[str, Any]:
    """The states of a model and its optimizer under the parameters' own names. A collective."""
    from torch.distributed.checkpoint.state_dict import get_model_state_dict, get_optimizer_state_dict

    tree = {"model": dict(get_model_state_dict(model))}
    if optimizer is not None:
        tree["optimizer"] = dict(get_optimizer_state_dict(model, optimizer))
    return tree


@dataclass
class Shards:
    """What a rank has copied of a sharded state, and how it is written. `rest` is all that is no tensor."""

    rest: Any
    _planner: Any
    _plan: Any
    _writer: Any = None
    _metadata: Any = None

    @classmethod
    def copied(cls, state: dict[str, Any], copies: Copies, is_first: bool) -> Shards:
        """Copy what this rank holds; `is_first` on rank 0. No communication."""
        from torch.distributed.checkpoint import DefaultSavePlanner

        tensors: dict[str, Any] = {}
        rest = copies.take(split(state, "state", tensors), "state")
        planner = DefaultSavePlanner(flatten_state_dict=False)
        planner.set_up_planner(state_dict=tensors, is_coordinator=is_first)
        plan = planner.create_local_plan()
        taken = {
            item.index: copies.take(planner.resolve_data(item), f"{item.index.fqn} {item.index.offset}")
            for item in plan.items
        }
        # From here on the planner hands out the copies: the training changes the tensors.
        planner.resolve_data = lambda item: taken[item.index]
        return cls(rest, planner, plan)

    def packed_plan(self) -> str:
        """This rank's plan, for `decide`."""
        return _packed(self._plan)

    def decide(self, plans: list[str]) -> list[str]:
        """On rank 0: from all ranks' plans to each rank's own, so that nothing is written twice."""
        from torch.distributed.checkpoint import FileSystemWriter

        whole, self._metadata = self._planner.create_global_plan([_unpacked(plan) for plan in plans])
        return [_packed(plan) for plan in FileSystemWriter(".").prepare_global_plan(whole)]

    def write(self, packed: str, partial: Path, folder: Path, is_first: bool) -> tuple[list[str], str]:
        """Write what the decided plan leaves to this rank, over the folder `partial` of its own.

        Returns the names of the files below the checkpoint's `folder`, and what rank 0 needs to `finish`.
        Raises OSError.
        """
        from torch.distributed.checkpoint import FileSystemWriter

        self._writer = FileSystemWriter(partial)
        self._writer.set_up_storage_writer(is_first)
        # Makes the folder; what it returns is for a planning that starts here.
        self._writer.prepare_local_plan(self._plan)
        plan = self._planner.finish_plan(_unpacked(packed))
        results = self._writer.write_data(plan, self._planner).wait()
        return self._moved(partial, folder), _packed(results)

    def finish(self, results: list[str], partial: Path, folder: Path) -> list[str]:
        """On rank 0: write where every tensor lies. Returns the names of the files. Raises OSError."""
        partial.mkdir(exist_ok=True)
        self._writer.finish(self._metadata, [_unpacked(result) for result in results])
        return self._moved(partial, folder)

    @staticmethod
    def _moved(partial: Path, folder: Path) -> list[str]:
        (folder / FOLDER).mkdir(exist_ok=True)
        names = [file.name for file in sorted(partial.iterdir())]
        for name in names:
            put(partial / name, folder / FOLDER / name)
        shutil.rmtree(partial)
        return [f"{FOLDER}/{name}" for name in names]


class ShardsLoad:
    """A sharded checkpoint that is to go into a model and its optimizer, resharded where they are."""

    def __init__(self, folder: Path, model: Any, optimizer: Any) -> None:
        """Plan the reading; a collective. Raises CheckpointError where it is not this model's."""
        from torch.distributed.checkpoint import DefaultLoadPlanner

        self._folder, self._model, self._optimizer = folder, model, optimizer
        self._metadata = _read_metadata(folder / METADATA)
        self._tree = state_of(model, optimizer)
        tensors: dict[str, Any] = {}
        split(self._tree, "state", tensors)
        _check(tensors, self._metadata.state_dict_metadata, with_optimizer=optimizer is not None)
        self._planner = DefaultLoadPlanner(flatten_state_dict=False)
        self._planner.set_up_planner(state_dict=tensors, metadata=self._metadata, is_coordinator=True)
        plan = self._planner.create_local_plan()
        self._plan = self._planner.finish_plan(self._planner.create_global_plan([plan])[0])

    def files(self) -> list[str]:
        """The names, below the checkpoint's folder, of those that this rank reads."""
        infos = (self._metadata.storage_data[item.storage_index] for item in self._plan.items)
        return sorted({f"{FOLDER}/{info.relative_path}" for info in infos})

    def load(self, rest: Any, read: Callable[[Any], Any]) -> None:
        """Read into the model and the optimizer; `rest` as saved, `read` loads a tensor. A collective."""
        from torch.distributed.checkpoint.state_dict import set_model_state_dict, set_optimizer_state_dict

        by_file: dict[str, list[Any]] = {}
        for item in self._plan.items:
            info = self._metadata.storage_data[item.storage_index]
            by_file.setdefault(info.relative_path, []).append(item)
        for name, items in by_file.items():
            with (self._folder / FOLDER / name).open("rb") as file:
                for item in items:
                    self._read(item, file, read)
        whole = joined(self._tree, rest)
        set_model_state_dict(self._model, whole["model"])
        if self._optimizer is not None:
            set_optimizer_state_dict(self._model, self._optimizer, whole["optimizer"])

    def _read(self, item: Any, file: Any, read: Callable[[Any], Any]) -> None:
        info = self._metadata.storage_data[item.storage_index]
        file.seek(info.offset)
        tensor = read(io.BytesIO(file.read(info.length)))
        for dimension, start in enumerate(item.storage_offsets):
            tensor = tensor.narrow(dimension, start, item.lengths[dimension])
        target = self._planner.resolve_tensor(item).detach()
        target.copy_(tensor)
        self._planner.commit_tensor(item, target)


def _check(tensors: dict[str, Any], saved: dict[str, Any], *, with_optimizer: bool) -> None:
    wanted = {name for name in saved if with_optimizer or not name.startswith("state.optimizer.")}
    odd = sorted(wanted ^ set(tensors))
    if odd:
        names = ", ".join(name[len("state.") :] for name in odd[:3]) + (", …" if len(odd) > 3 else "")
        raise CheckpointError(
            "CKPT005",
            f"the checkpoint's keys are not the model's: {len(odd)} are on one side alone ({names}). Nothing "
            "was loaded; a partial load would train from random weights in silence. Build model and "
            "optimizer as they were when they were saved",
        )
    for name, tensor in tensors.items():
        size, own = tuple(getattr(saved[name], "size", ())), tuple(tensor.size())
        if size != own:
            raise CheckpointError(
                "CKPT009",
                f"{name[len('state.') :]} is {size} in the checkpoint and {own} in the model: "
                "it is another model's. Nothing was loaded. Build the model as it was when it was saved",
            )


class _PlainUnpickler(pickle.Unpickler):
    """Reads torch's description of a checkpoint, and refuses every class that such a one has no need of."""

    def find_class(self, module: str, name: str) -> Any:
        import torch

        if module in ("pathlib", "pathlib._local") and name in ("PosixPath", "PurePosixPath"):
            return PurePosixPath
        known = (
            (module == "torch.distributed.checkpoint.metadata" and name in _METADATA_CLASSES)
            or (module, name) == ("torch.distributed.checkpoint.filesystem", "_StorageInfo")
            or (module, name) in (("torch", "Size"), ("torch.serialization", "_get_layout"))
            or (module == "torch" and isinstance(getattr(torch, name, None), torch.dtype))
        )
        if not known:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return super().find_class(module, name)


def _read_metadata(file: Path) -> Any:
    from torch.distributed.checkpoint.metadata import Metadata

    try:
        with file.open("rb") as content:
            metadata = _PlainUnpickler(content).load()
        if not isinstance(metadata, Metadata):
            raise TypeError(f"it is a {type(metadata).__name__}")
    except Exception as error:
        # Whatever hostile bytes make the reader do: it ends here.
        raise CheckpointError(
            "CKPT009", f"{file} is no description of a sharded checkpoint ({error}). Take another one"
        ) from None
    return metadata


def _packed(value: Any) -> str:
    # Plans are objects of torch's; they go between the ranks of one job, as in its own object collectives.
    return base64.b64encode(pickle.dumps(value)).decode("ascii")


def _unpacked(text: str) -> Any:
    return pickle.loads(base64.b64decode(text))
