"""A checkpoint written beside the training: the state is copied, and a thread writes it.

Files come first, the manifest when every rank has its own. The writer runs in a thread of its own and meets
the other ranks' writers over the roll-call alone.
"""

from __future__ import annotations

import base64
import io
import os
import pickle
import platform
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from slipway.errors import CheckpointError, failed_write_error
from slipway.saving.stored_checkpoints import (
    FILE_NAME,
    CheckpointFile,
    CheckpointManifest,
    entry_of,
    folder_name,
    incomplete_checkpoints,
    leading_rank,
    make_folder,
    put_file,
    put_text,
    remove_surplus,
    stored_checkpoints,
)
from slipway.training.agreement import RollCall

MODEL_FILE = "model.pt"
"""The states of model and optimizer; of sharded ones what is no tensor."""


def rank_file(rank: int) -> str:
    """The file of what every rank has for itself: its random numbers and its `extra`."""
    return f"rank-{rank:05d}.pt"


@dataclass
class Snapshot:
    """The copies of one step: `own` of this rank, `whole` on rank 0, `shards` of a sharded state."""

    step: int
    own: dict[str, Any]
    whole: dict[str, Any] | None
    shards: Shards | None
    position: dict[str, Any] | None


class CheckpointWriter:
    """Writes the snapshots of one rank below `shelf`, and keeps the newest `keep` checkpoints there.

    `hosts` are the ranks' hosts by rank, `token` the same 8 hex digits on all ranks of this start.
    """

    def __init__(self, shelf: Path, call: RollCall, hosts: Sequence[str], token: str, keep: int) -> None:
        self._shelf, self._call, self._hosts, self._token, self._keep = shelf, call, hosts, token, keep
        self._host = hosts[call.rank]

    def write(self, snapshot: Snapshot) -> None:
        """Write it and let it count. Raises CheckpointError, on every rank, where one could not write."""
        folder = self._shelf / folder_name(snapshot.step, self._token)
        partial = folder / f"{rank_file(self._call.rank)}.{os.getpid()}.partial"
        names: list[str] = []
        try:
            report = self._report(snapshot, folder, partial, names)
            decided = self._call.meet(
                f"save(step={snapshot.step})",
                report,
                lambda reports: self._complete(snapshot, reports, partial),
            )
        except CheckpointError:
            # Its room may be what is missing. Only what is this rank's: others may be further already.
            for name in names:
                _unlink(folder / name)
            raise
        if self._call.rank == leading_rank(self._hosts, self._host):
            self._settle(folder, decided, snapshot.step)

    def _report(self, snapshot: Snapshot, folder: Path, partial: Path, names: list[str]) -> dict[str, Any]:
        """What rank 0 gets to know; `names` grows by each file that is written."""
        report: dict[str, Any] = {"step": snapshot.step, "rank": self._call.rank, "host": self._host}
        try:
            make_folder(folder)
            if snapshot.whole is not None:
                names.append(_save_file(snapshot.whole, partial, folder, MODEL_FILE))
            names.append(_save_file(snapshot.own, partial, folder, rank_file(self._call.rank)))
        except OSError as error:
            report["error"] = _error_as_json(failed_write_error(error, snapshot.step))
        if snapshot.shards is not None:
            self._write_shards(snapshot, folder, partial, names, report)
        if "error" not in report:
            try:
                report["files"] = [asdict(entry_of(folder, name, self._host)) for name in names]
            except OSError as error:
                report["error"] = _error_as_json(failed_write_error(error, snapshot.step))
        if self._call.rank == leading_rank(self._hosts, self._host):
            report["incomplete"] = incomplete_checkpoints(self._shelf, self._host)
        return report

    def _write_shards(
        self, snapshot: Snapshot, folder: Path, partial: Path, names: list[str], report: dict[str, Any]
    ) -> None:
        shards = snapshot.shards
        assert shards is not None

        def decide(values: list[dict[str, Any]]) -> list[str]:
            _refuse_failures(values)
            return shards.decide([value["plan"] for value in values])

        value = {**report, "plan": shards.packed_plan()}
        plan = self._call.meet(f"save(step={snapshot.step})", value, decide, each=True)
        try:
            written, report["results"] = shards.write(plan, partial, folder, self._call.rank == 0)
            names += written
        except (OSError, RuntimeError) as error:
            # torch's writer reports a full disk as a RuntimeError.
            report["error"] = _error_as_json(_of_failed_shards(error, folder, snapshot.step))

    def _complete(self, snapshot: Snapshot, reports: list[dict[str, Any]], partial: Path) -> dict[str, Any]:
        """On rank 0, when all have written: the manifest, and which checkpoints stay."""
        check_same_step(reports)
        _refuse_failures(reports)
        folder = self._shelf / folder_name(snapshot.step, self._token)
        files = [CheckpointFile(**entry) for report in reports for entry in report["files"]]
        try:
            if snapshot.shards is not None:
                results = [report["results"] for report in reports]
                names = snapshot.shards.finish(results, partial, folder)
                files += [entry_of(folder, name, self._host) for name in names]
            manifest = CheckpointManifest(
                snapshot.step, self._call.world_size, tuple(files), snapshot.position, writing_versions()
            ).to_json()
            put_text(folder / FILE_NAME, manifest)
        except OSError as error:
            raise failed_write_error(error, snapshot.step) from None
        halves = {name for report in reports for name in report.get("incomplete", ())}
        whole = [
            one.name for one in stored_checkpoints(self._shelf) if one.name not in halves | {folder.name}
        ]
        return {"manifest": manifest, "keep": [folder.name, *whole[: self._keep - 1]]}

    def _settle(self, folder: Path, decided: Mapping[str, Any], step: int) -> None:
        """On each host: its disk has the manifest too, and nothing that is no longer kept."""
        try:
            if not (folder / FILE_NAME).exists():
                put_text(folder / FILE_NAME, decided["manifest"])
        except OSError as error:
            raise failed_write_error(error, step) from None
        remove_surplus(self._shelf, decided["keep"], self._token, step)


def writing_versions() -> dict[str, str]:
    """What wrote a checkpoint, for people who wonder why another version does not read it."""
    import torch

    # Not imported: the package's front imports this module.
    own = sys.modules[__name__.partition(".")[0]].__version__
    return {"torch": str(torch.__version__), "slipway": own, "python": platform.python_version()}


def check_same_step(reports: Sequence[Mapping[str, Any]]) -> None:
    """Raises CheckpointError where ranks save different steps at one time."""
    first = reports[0]
    for report in reports:
        if report["step"] != first["step"]:
            raise CheckpointError(
                "CKPT003",
                f"rank {report['rank']} saves step {report['step']} while rank 0 saves step {first['step']}: "
                "the checkpoint would be of no step. Call save on every rank after the same step",
            )


def _refuse_failures(reports: Sequence[Mapping[str, Any]]) -> None:
    for report in reports:
        if report.get("error"):
            told = report["error"]
            raise CheckpointError(
                told["code"], f"rank {report['rank']} on {report['host']}: {told['message']}"
            )


def _save_file(content: dict[str, Any], partial: Path, folder: Path, name: str) -> str:
    import torch

    file = partial.with_name(f"{partial.name}.pt")
    try:
        with file.open("wb") as out:
            torch.save(content, out)
    except RuntimeError as error:
        # torch's zip writer gives the reason of a failed write to its context alone.
        if isinstance(error.__context__, OSError):
            raise error.__context__ from None
        raise
    put_file(file, folder / name)
    return name


def _of_failed_shards(error: Exception, folder: Path, step: int) -> CheckpointError:
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__context__
    if isinstance(cause, OSError):
        return failed_write_error(cause, step)
    return CheckpointError("CKPT004", f"the shards of step {step} could not be written to {folder}: {error}")


def _error_as_json(error: CheckpointError) -> dict[str, str]:
    return {"code": error.code, "message": error.message}


def _unlink(file: Path) -> None:
    try:
        file.unlink()
    except OSError:
        return


# States that are sharded over the ranks (FSDP 1 and 2, DTensor), by torch.distributed.checkpoint.
#
# The training thread plans and copies what this rank holds; the planning that all ranks take part in goes
# over the roll-call instead of torch's collectives, so that the writer's thread may do it beside the
# training. The files are torch's own, below `shards/`, and its tools read them.


SHARDS_FOLDER = "shards"
SHARDS_METADATA = f"{SHARDS_FOLDER}/.metadata"

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


def split_tensors(tree: Any, name: str, tensors: dict[str, Any]) -> Any:
    """Move a state's tensors into a flat dict under dotted names; what is returned has None for each."""
    import torch

    if isinstance(tree, torch.Tensor) or hasattr(tree, "local_shards"):
        tensors[name] = tree
        return None
    if isinstance(tree, dict):
        return {key: split_tensors(one, f"{name}.{key}", tensors) for key, one in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [split_tensors(one, f"{name}.{index}", tensors) for index, one in enumerate(tree)]
    return tree


def join_tensors(tree: Any, rest: Any) -> Any:
    """The state `tree` with its own tensors, and for everything else what `rest`, saved by `split`, says."""
    import torch

    if isinstance(tree, torch.Tensor) or hasattr(tree, "local_shards"):
        return tree
    if isinstance(tree, dict) and isinstance(rest, dict):
        return {key: join_tensors(one, rest.get(key)) for key, one in tree.items()}
    if isinstance(tree, (list, tuple)) and isinstance(rest, list) and len(rest) == len(tree):
        return type(tree)([join_tensors(one, rest[index]) for index, one in enumerate(tree)])
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
        rest = copies.take(split_tensors(state, "state", tensors), "state")
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
        (folder / SHARDS_FOLDER).mkdir(exist_ok=True)
        names = [file.name for file in sorted(partial.iterdir())]
        for name in names:
            put_file(partial / name, folder / SHARDS_FOLDER / name)
        shutil.rmtree(partial)
        return [f"{SHARDS_FOLDER}/{name}" for name in names]


class ShardsLoad:
    """A sharded checkpoint that is to go into a model and its optimizer, resharded where they are."""

    def __init__(self, folder: Path, model: Any, optimizer: Any) -> None:
        """Plan the reading; a collective. Raises CheckpointError where it is not this model's."""
        from torch.distributed.checkpoint import DefaultLoadPlanner

        self._folder, self._model, self._optimizer = folder, model, optimizer
        self._metadata = _read_metadata(folder / SHARDS_METADATA)
        self._tree = state_of(model, optimizer)
        tensors: dict[str, Any] = {}
        split_tensors(self._tree, "state", tensors)
        _check(tensors, self._metadata.state_dict_metadata, with_optimizer=optimizer is not None)
        self._planner = DefaultLoadPlanner(flatten_state_dict=False)
        self._planner.set_up_planner(state_dict=tensors, metadata=self._metadata, is_coordinator=True)
        plan = self._planner.create_local_plan()
        self._plan = self._planner.finish_plan(self._planner.create_global_plan([plan])[0])

    def files(self) -> list[str]:
        """The names, below the checkpoint's folder, of those that this rank reads."""
        infos = (self._metadata.storage_data[item.storage_index] for item in self._plan.items)
        return sorted({f"{SHARDS_FOLDER}/{info.relative_path}" for info in infos})

    def load(self, rest: Any, read: Callable[[Any], Any]) -> None:
        """Read into the model and the optimizer; `rest` as saved, `read` loads a tensor. A collective."""
        from torch.distributed.checkpoint.state_dict import set_model_state_dict, set_optimizer_state_dict

        by_file: dict[str, list[Any]] = {}
        for item in self._plan.items:
            info = self._metadata.storage_data[item.storage_index]
            by_file.setdefault(info.relative_path, []).append(item)
        for name, items in by_file.items():
            with (self._folder / SHARDS_FOLDER / name).open("rb") as file:
                for item in items:
                    self._read(item, file, read)
        whole = join_tensors(self._tree, rest)
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


# Copies of a state in host memory, made by the training thread and written by another one.
#
# The memory is kept from one save to the next: allocating it anew takes longer than the copy itself. What
# is copied holds only what `torch.load(weights_only=True)` reads again: tensors, numbers, texts and their
# lists, tuples and dicts.


_PLAIN = (int, float, complex, str, bytes, bool, type(None))


class Copies:
    """The host memory of one writer: what `take` returned is valid until the next `begin`."""

    def __init__(self) -> None:
        self._memory: dict[Any, Any] = {}
        self._used: dict[Any, Any] = {}
        self._seen: dict[Any, Any] = {}

    def begin(self) -> None:
        """Start a new set of copies, in the memory of those before."""
        self._memory, self._used, self._seen = {**self._memory, **self._used}, {}, {}

    def take(self, value: Any, name: str) -> Any:
        """A copy of a state; `name` is what people call it. Raises TypeError for what could not be loaded."""
        import torch

        kind = type(value)
        if isinstance(value, torch.Tensor):
            return self._tensor(value, name)
        if kind in _PLAIN or isinstance(value, torch.dtype):
            return value
        if isinstance(value, Mapping):
            return {self._key(key, name): self.take(one, f"{name}[{key!r}]") for key, one in value.items()}
        if kind is list:
            return [self.take(one, f"{name}[{index}]") for index, one in enumerate(value)]
        if kind in (tuple, torch.Size):
            return tuple(self.take(one, f"{name}[{index}]") for index, one in enumerate(value))
        if kind.__module__ == "numpy" and hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
            return value.item()
        raise TypeError(
            f"{name} is a {kind.__module__}.{kind.__qualname__}, which could only be loaded again by running "
            "what a checkpoint says. Save tensors, numbers, texts and lists, tuples and dicts of those (an "
            "array as torch.from_numpy(array))"
        )

    def end(self) -> None:
        """Wait for the copies that a device still makes; memory that is no longer needed is given back."""
        self._memory, self._seen = self._used, {}
        if any(tensor.is_pinned() for tensor in self._used.values() if _has_cuda()):
            import torch

            torch.cuda.synchronize()

    def _tensor(self, tensor: Any, name: str) -> Any:
        import torch

        tensor = tensor.detach()
        if tensor.layout is not torch.strided or tensor.is_quantized:
            return tensor.cpu().clone()
        # Tied weights are one tensor under two names, and are to be one in the file.
        same = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, str(tensor.device))
        if tensor.numel() and same in self._seen:
            return self._seen[same]
        shape = (name, tensor.shape, tensor.stride(), tensor.dtype, str(tensor.device))
        copy = self._memory.get(shape)
        if copy is None:
            pinned = tensor.is_cuda
            copy = torch.empty_like(tensor, device="cpu", pin_memory=pinned, requires_grad=False)
        copy.copy_(tensor, non_blocking=tensor.is_cuda)
        self._used[shape] = self._seen[same] = copy
        return copy

    @staticmethod
    def _key(key: Any, name: str) -> Any:
        if type(key) in (str, int, float, bool, tuple):
            return key
        raise TypeError(f"{name} has a key that is a {type(key).__qualname__}; use texts and numbers")


def _has_cuda() -> bool:
    import torch

    return bool(torch.cuda.is_available())
