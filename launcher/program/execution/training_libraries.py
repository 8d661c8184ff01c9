"""What the functions of training libraries give, to a program that is run on its syntax tree as one rank."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from launcher.program.execution.objects import OWN, CallMade, Function, Native, Object, Symbol, is_known
from launcher.program.execution.option_parsers import like_default
from launcher.program.execution.process import Process
from launcher.program.execution.python_functions import items_of
from launcher.program.execution.python_library import joined_path
from launcher.program.surroundings.options import given_in_words
from launcher.program.values import LIBRARY_TABLES, canonical_name

Model = Callable[..., Any]
_BY_MPI = "mpi"
_JOINING = (
    *LIBRARY_TABLES["joining_calls"],
    *("accelerate.PartialState", "torch.distributed.init_device_mesh", "lightning.pytorch.Trainer"),
    *("transformers.TrainingArguments", "transformers.Trainer", "transformers.Seq2SeqTrainingArguments"),
)
"""What makes a process one of several, where its launcher tells it so."""


_XLA_TESTS = tuple(
    f"transformers.{room}{name}"
    for room in ("", "utils.", "utils.import_utils.", "file_utils.", "trainer_utils.")
    for name in ("is_torch_tpu_available", "is_torch_xla_available")
)


def _joined(run: Process, event: CallMade) -> object:
    run.group = run.group or event
    return NotImplemented


def _rank(run: Process, event: CallMade) -> object:
    made = run.group
    given = None if made is None else made.argument("rank", 4)
    if (
        made is not None
        and made.name.endswith("init_process_group")
        and isinstance(given, int)
        and given >= 0
    ):
        return given
    return run.world.rank


def _size(run: Process, event: CallMade) -> object:
    made = run.group
    given = None if made is None else made.argument("world_size", 3)
    if made is not None and made.name.endswith("init_process_group") and isinstance(given, int) and given > 0:
        return given
    return run.world.size


def _by_mpi(of_mpi: Callable[[Process], int], alone: int) -> Model:
    """What a library asks MPI for, of which every process of another launcher is a world of one."""
    return lambda run, asked: of_mpi(run) if run.world.strategy == _BY_MPI else alone


_MPI_RANK = _by_mpi(lambda run: run.world.rank, 0)
_MPI_LOCAL = _by_mpi(lambda run: run.world.local_rank, 0)
_MPI_SIZE = _by_mpi(lambda run: run.world.size, 1)


def _set_device(run: Process, event: CallMade) -> object:
    run.device = event.argument("device", 0)
    return None


def _spawned(run: Process, event: CallMade) -> object:
    """One of the processes that a program starts itself."""
    function, given = event.argument("fn", 0), event.argument("args", 1)
    args = list(given) if isinstance(given, tuple | list) else []
    with run.in_own_process():
        run.call(function, [run.world.child, *args], {}, event.node)
    return None


def _submitted(run: Process, event: CallMade) -> object:
    """What a scheduler or a pool would start a rank runs itself: of many the first."""
    function, *given = event.args or (None,)
    named = event.keywords
    if not event.name.endswith("submit"):
        given, named = [(items_of(run, each) or [Symbol()])[0] for each in given], {}
    run.call(function, given, dict(named), event.node)
    return Symbol(f"{event.name}()", event)


_POOLS = {
    **{f"submitit.{each}Executor": ("submit", "map_array") for each in ("Auto", "Local", "Slurm")},
    **{f"concurrent.futures.{each}PoolExecutor": ("submit", "map") for each in ("Thread", "Process")},
    **{f"multiprocessing.{each}": ("map", "imap", "imap_unordered") for each in ("Pool", "pool.ThreadPool")},
}
"""What runs functions that it is given, by its methods."""


def _process_made(run: Process, event: CallMade) -> object:
    made = Symbol(f"{event.name}()", event)
    function, given = event.argument("target", 1), event.keywords.get("args", ())
    named = event.keywords.get("kwargs", {})
    args = list(given) if isinstance(given, tuple | list) else []
    made.attributes["start"] = Native("start", lambda: run.call(function, args, dict(named), event.node))
    return made


def _run_function(run: Process, event: CallMade) -> object:
    """A library's starter calls the function that it is given, with what the command line says."""
    function = event.args[0] if event.args else None
    args = event.args[1] if event.name.endswith("notebook_launcher") and len(event.args) > 1 else ()
    given = {}
    for name, default in function.defaults.items() if isinstance(function, Function) else ():
        text = given_in_words(run.words, name)
        if text is not None:
            given[name] = like_default(default, text)
    return run.call(function, list(args) if isinstance(args, tuple | list) else [], given, event.node)


def _main_with_words(run: Process, event: CallMade) -> object:
    return run.call(event.args[0] if event.args else None, [[run.script, *run.words]], {}, event.node)


def _trainer_made(run: Process, event: CallMade) -> object:
    """Lightning's Trainer with what the command line says, which its other arguments go before."""
    said = event.argument("args", 0)
    entries = (
        {name: each for name, each in said.items() if each is not None} if isinstance(said, dict) else {}
    )
    given = {**entries, **{name: each for name, each in event.keywords.items() if name != "args"}}
    return run.call(Symbol("lightning.pytorch.Trainer"), [], given, event.node)


_STARTERS = ("fire.Fire", "typer.run", "tyro.cli", "jsonargparse.CLI", "jsonargparse.auto_cli")
"""What calls a function with the words of the command line."""
_WRITERS = ("torch.utils.tensorboard", "tensorboardX")


def _log_folder(run: Process, owner: Symbol) -> object:
    """Where TensorBoard's records go, below `runs` by the time and the host where nobody says it."""
    made = owner.made_by
    given = None if made is None else made.argument("logdir", 0) or made.argument("log_dir", 0)
    return f"runs/{OWN}" if given is None else given


def _same(run: Process, event: CallMade) -> object:
    return event.args[0] if len(event.args) == 1 else tuple(event.args)


def _module_itself(run: Process, event: CallMade) -> object:
    """What a module gives that is moved or set: itself."""
    return event.owner if isinstance(event.owner, Object | Symbol) else NotImplemented


_GIVING_ITSELF = (
    *("cuda", "to", "cpu", "half", "float", "double", "bfloat16", "type", "to_empty", "share_memory"),
    *("train", "eval", "requires_grad_", "apply"),
)
"""The methods of a module that give the module."""
CALLING_PARTS = frozenset(
    {
        *("torch.nn.parallel.DistributedDataParallel()", "torch.nn.parallel.DataParallel()"),
        *("torch.distributed.fsdp.FullyShardedDataParallel()", "torch.compile()", "torch.nn.Sequential()"),
        *("torch.nn.SyncBatchNorm.convert_sync_batchnorm()", "apex.parallel.DistributedDataParallel()"),
        *(
            f"torchvision.transforms.{version}{each}()"
            for version in ("", "v2.")
            for each in ("Compose", "Lambda", "RandomApply", "RandomChoice", "RandomOrder")
        ),
    }
)
"""What calls the functions and modules that it was made of, where it is called."""


_WHO_AM_I: dict[str, Callable[[Process], object]] = {
    "global": lambda run: run.world.rank,
    "local": lambda run: run.world.local_rank,
    "node": lambda run: run.world.rank // run.world.processes_per_host,
    "world": lambda run: run.world.size,
}
_AM_I_THE_ONE: dict[str, Callable[[Process], object]] = {
    "global": lambda run: run.world.rank == 0,
    "local": lambda run: run.world.local_rank == 0,
    "last": lambda run: run.world.rank == run.world.size - 1,
}
"""What the tables of libraries call the ranks that attributes are, and those of which they are tests."""
_METHODS = ("transformers.Trainer.",)
_BY_MPI_ALONE = ("mpi4py.", "horovod.")


def _of_tables(table: str, kinds: Mapping[str, Callable[[Process], object]]) -> dict[str, Model]:
    """The ranks that libraries tell by the attributes of their objects, and by functions."""
    found: dict[str, Model] = {}
    for name, kind in LIBRARY_TABLES[table].items():
        if not name.startswith(_BY_MPI_ALONE):
            made = re.sub(r"(\.[A-Z]\w*)(?=\.)", r"\1()", name, count=1)
            is_called = made == name or name.startswith(_METHODS)
            found[made if is_called else f"{made}="] = _asked_of_run(kinds[kind])
    return found


def _asked_of_run(read: Callable[[Process], object]) -> Model:
    return lambda run, asked: read(run)


class _ComparedVersion(str):
    """The version of torch as it names itself: a text that is older or newer than another by its numbers."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        """Whether it is older."""
        return _numbers_of(self) < _numbers_of(other)

    def __gt__(self, other: str) -> bool:
        """Whether it is newer."""
        return _numbers_of(self) > _numbers_of(other)

    def __le__(self, other: str) -> bool:
        """Whether it is not newer."""
        return not self > other

    def __ge__(self, other: str) -> bool:
        """Whether it is not older."""
        return not self < other


def _numbers_of(version: object) -> tuple[int, ...]:
    """A version's numbers without zeros at its end, by which two are compared; it may be given by them."""
    if isinstance(version, tuple):
        version = ".".join(map(str, version))
    if not isinstance(version, str):
        raise TypeError
    numbers = [int(each) for each in re.findall(r"\d{1,9}", version[:100].partition("+")[0])]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def _version(package: str) -> Model:
    kind = _ComparedVersion if package == "torch" else str

    def read(run: Process, owner: object) -> object:
        found = run.world.version_of(package)
        return Symbol() if found is None else kind(found)

    return read


PACKAGE_BY_VERSION: dict[str, str] = {
    canonical_name(f"{package.replace('-', '_')}.__version__"): package
    for package in ("torch", "torchvision", *LIBRARY_TABLES["newest_versions"])
}
"""The packages by the names under which their versions are read."""


def _version_made(run: Process, event: CallMade) -> object:
    given = event.args[0] if event.args else None
    return _numbers_of(given) if isinstance(given, str) and is_known(given) else Symbol()


_VERSIONS = (
    *("packaging.version.parse", "packaging.version.Version", "pkg_resources.parse_version"),
    *(f"distutils.version.{each}Version" for each in ("Loose", "Strict")),
)
"""What makes versions of texts, to be compared by their numbers."""


def _dataset_of_loader(run: Process, loader: Symbol | Object) -> object:
    """What a loader is given; one of a class of the program's own is taken for the one that was last made."""
    last = (each for each in reversed(run.events) if each.name == "torch.utils.data.DataLoader")
    made = loader.made_by if isinstance(loader, Symbol) else next(last, None)
    given = None if made is None else made.argument("dataset", 0)
    return Symbol("torch.utils.data.DataLoader().dataset", owner=loader) if given is None else given


TRAINING_MODELS: dict[str, Model] = {
    "torch.utils.data.DataLoader().dataset=": _dataset_of_loader,
    **dict.fromkeys(
        (f"{module}.{each}" for module in ("torch.nn.Module()", *CALLING_PARTS) for each in _GIVING_ITSELF),
        _module_itself,
    ),
    **{f"{name}=": _version(package) for name, package in PACKAGE_BY_VERSION.items()},
    **dict.fromkeys(_VERSIONS, _version_made),
    **dict.fromkeys(_JOINING, _joined),
    "torch.distributed.get_rank": _rank,
    "torch.distributed.get_world_size": _size,
    "torch.distributed.get_node_local_rank": lambda run, event: run.world.local_rank,
    "torch.distributed.is_available": lambda run, event: True,
    "torch.distributed.is_nccl_available": lambda run, event: True,
    "torch.distributed.is_torchelastic_launched": lambda run, event: run.world.strategy == "torchrun",
    "torch.distributed.is_initialized": lambda run, event: run.group is not None,
    "torch.cuda.is_available": lambda run, event: run.world.devices > 0,
    **dict.fromkeys(("torch.backends.mps.is_available", "torch.xpu.is_available"), lambda run, event: False),
    **dict.fromkeys(_XLA_TESTS, lambda run, event: not run.lacks("torch_xla") and NotImplemented),
    "torch.cuda.device_count": lambda run, event: run.world.devices,
    "torch.cuda.current_device": lambda run, event: run.device,
    "torch.cuda.set_device": _set_device,
    **dict.fromkeys(("horovod.torch.rank", "horovod.rank"), _MPI_RANK),
    **dict.fromkeys(("horovod.torch.local_rank", "horovod.local_rank"), _MPI_LOCAL),
    **dict.fromkeys(("horovod.torch.size", "horovod.size"), _MPI_SIZE),
    "mpi4py.MPI.COMM_WORLD.Get_rank": _MPI_RANK,
    "mpi4py.MPI.COMM_WORLD.rank=": _MPI_RANK,
    "mpi4py.MPI.COMM_WORLD.Get_size": _MPI_SIZE,
    "mpi4py.MPI.COMM_WORLD.size=": _MPI_SIZE,
    "mpi4py.MPI.COMM_WORLD.bcast": _same,
    **dict.fromkeys(("torch.multiprocessing.spawn", "torch.multiprocessing.start_processes"), _spawned),
    **dict.fromkeys(
        (f"{each}multiprocessing.{way}Process" for each in ("torch.", "") for way in ("", "get_context().")),
        _process_made,
    ),
    **dict.fromkeys((*_STARTERS, "accelerate.notebook_launcher"), _run_function),
    "absl.app.run": _main_with_words,
    "lightning.pytorch.Trainer.from_argparse_args": _trainer_made,
    **{f"{made}().{way}": _submitted for made, ways in _POOLS.items() for way in ways},
    "timm.utils.get_outdir": joined_path,
    "ultralytics.utils.files.increment_path": lambda run, event: event.argument("path", 0),
    **dict.fromkeys(
        (f"{each}.SummaryWriter().{name}=" for each in _WRITERS for name in ("log_dir", "logdir")),
        _log_folder,
    ),
    **_of_tables("rank_attributes", _WHO_AM_I),
    **_of_tables("one_rank_tests", _AM_I_THE_ONE),
    **{
        f"accelerate.Accelerator().{name}": _same
        for name in ("prepare_model", "unwrap_model", "prepare_optimizer")
    },
    "accelerate.Accelerator().prepare": _same,
}
