"""The files of a script's data: the order in which they are listed, who downloads them, and the channels."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from launcher.failure_modes import data
from launcher.failure_modes.model import Finding, Fix, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.dataflow import all_arguments, argument_of, origins, parts_of
from launcher.program.index import (
    FunctionNode,
    ancestors,
    class_of,
    file_of,
    is_main_guard,
    last_name,
    nodes_within,
    parent_of,
    scope_of,
)
from launcher.program.process_environment import COMMANDS, is_for_one_host, process_starts
from launcher.program.program import Program
from launcher.program.ranks.guards import Guards
from launcher.program.ranks.participants import Participants
from launcher.program.ranks.reachability import Reachability
from launcher.program.ranks.training_loops import shares_its_result
from launcher.program.ranks.truths import Guard
from launcher.program.ranks.uniformity import Uniformity
from launcher.program.surroundings.channels import (
    CHANNEL_VARIABLE,
    channel_key,
    channel_reads,
    option_with_default,
    reads_any,
)
from launcher.program.values import (
    Constant,
    Defined,
    External,
    Instance,
    Made,
    RankValue,
    Value,
    alternatives,
)
from launcher.rules.script.data.loaders import Loaders, is_numbered, names_in, subscript_by_index
from launcher.rules.script.data.shards import class_around, follow_list, is_cut_by_rank
from launcher.rules.script.findings import (
    ScriptSubject,
    finding_at,
    given_option,
    related_at,
    spelled_commands,
    wrap_node,
)
from launcher.text.values import nearest

LISTINGS = (
    "os.listdir",
    "os.scandir",
    "os.walk",
    "glob.glob",
    "glob.iglob",
    "pathlib.Path.iterdir",
    "pathlib.Path.glob",
    "pathlib.Path.rglob",
    *("mmcv.scandir", "mmcv.utils.scandir", "mmengine.scandir", "mmengine.utils.scandir"),
)
"""What answers in the order of the file system."""


@finds(Stage.SCRIPT, data.FILES_UNSORTED)
def listings_are_sorted(program: Program) -> Iterator[Finding]:
    """A listing of files in the order of the file system, whose order decides which rank reads what.

    Two hosts may list one folder in different orders. Found where the list is cut by rank, or where a Dataset
    keeps it and reads it by index while a DistributedSampler gives each rank its indices: ranks of different
    hosts then read some files twice, and others never. Listing to count, to delete, to look for a file or for
    the newest checkpoint is fine, and so is what is sorted before it is used. Informational where it is not
    known that a sampler cuts just this Dataset: another may be the one that it cuts; and where the program
    spawns its processes itself, as one host lists a folder for all of them alike.

    Bad: `files = glob.glob(pattern)[rank::world_size]`
    Good: `files = sorted(glob.glob(pattern))[rank::world_size]`

    Source: Python documentation of os.listdir and glob.
    """
    severity = Severity.INFO if is_for_one_host(program) else None
    listings = [
        (call, f"{_last(name)} answers in the order of the file system", _sorted(call, name), severity)
        for call, name in program.calls(*LISTINGS)
        if (name != "os.walk" or not _is_sorted_within(call))
        and not shares_its_result(program, scope_of(call))
    ]
    sets = [(each, _OF_A_SET, None, None) for each in _sets_of_files(program)]
    ended = set[ast.expr]()
    for made, why, fix, severity in (*listings, *sets):
        for end in follow_list(program, made):
            use = _use_by_order(program, end)
            if use is None:
                continue
            place, how, consequence, is_sure = use
            if place not in ended:
                ended.add(place)
                yield finding_at(
                    data.FILES_UNSORTED,
                    made,
                    f"{why}, and {consequence}",
                    related=[] if place is made else [related_at(place, how)],
                    severity=severity if is_sure else Severity.INFO,
                    fix=fix,
                )
            break


_OF_A_SET = "a set of texts has another order in each process, by the seed of its hashes"


def _sets_of_files(program: Program) -> Iterator[ast.expr]:
    """The sets of texts that are made of listings, also of keys: numbers have the same hash everywhere."""
    calls = {call for call, _ in program.calls(*LISTINGS)}
    for file in program.files if calls else ():
        adding = [each for name in ("add", "update") for each in file.calls_of.get(name, ())]
        keys = (parent_of(each) for each in file.calls_of.get("keys", ()))
        made: list[ast.expr] = [each for each in keys if isinstance(each, ast.BinOp)]
        made += [each for each in file.scopes if isinstance(each, ast.SetComp)]
        made += [each for name in ("set", "frozenset") for each in file.calls_of.get(name, ())]
        for each in made:
            given = [each]
            for call in adding:
                owner = call.func.value if isinstance(call.func, ast.Attribute) else None
                given += call.args if owner is not None and each in origins(program, owner) else []
            parts = {part for one in given for part in parts_of(program, one)}
            if not parts.isdisjoint(calls) and not any(map(_is_of_numbers, parts)):
                yield each


def _is_of_numbers(part: ast.AST) -> bool:
    """Whether a comprehension, or a map, makes numbers of what it goes through."""
    if isinstance(part, ast.Call):
        return last_name(part.func) == "map" and last_name(part.args[0]) == "int" if part.args else False
    key = part.key if isinstance(part, ast.DictComp) else getattr(part, "elt", None)
    return isinstance(key, ast.Call) and last_name(key.func) in ("int", "len", "hash")


def _use_by_order(program: Program, end: ast.expr) -> tuple[ast.expr, str, str, bool] | None:
    """Where the order of a list decides which rank reads what: the place, how, what comes of it, and whether
    it is surely this list that the ranks share."""
    if is_cut_by_rank(program, end):
        cut = "the ranks cut the list as if it were the same on all: files are read twice, and others never"
        return end, "cut by rank here", cut, True
    if is_numbered(end) and _splits_by_index(program):
        return end, "numbered here", "a name has another number elsewhere, as a class or an index", True
    kept = _kept_by_dataset(program, end) or _as_dataset(program, end)
    if kept is None or not _splits_by_index(program):
        return None
    read = "an index of a sampler means another file elsewhere: files are read twice, and others never"
    return kept, "read by index here", read, _is_sampled(program, kept)


def _sorted(listing: ast.Call, name: str) -> Fix | None:
    """`sorted(...)` around a listing.

    Not of scandir, whose entries have no order, nor of walk, whose folders have one of their own, nor where a
    set may bring it out of order again.
    """
    if name in ("os.scandir", "os.walk") or {"set", "frozenset"} & set(file_of(listing).calls_of):
        return None
    return Fix(True, wrap_node(listing, "sorted(", ")"))


def _is_sorted_within(walk: ast.Call) -> bool:
    """Whether the loop or comprehension over `os.walk` sorts: `dirs.sort()`, `for name in sorted(names)`."""
    loop = parent_of(walk)
    if isinstance(loop, ast.comprehension):
        loop = parent_of(loop)
    if not isinstance(loop, ast.For | ast.ListComp | ast.GeneratorExp):
        return True  # What becomes of the triples is not followed.
    return any(
        isinstance(node, ast.Call) and last_name(node.func) in ("sort", "sorted", "natsorted")
        for node in ast.walk(loop)
    )


def _splits_by_index(program: Program) -> bool:
    """Whether ranks get indices of one dataset: by a sampler of the script, or of a library that wraps it."""
    loaders = program.analysis(Loaders)
    return bool(loaders.samplers) or any(True for _ in program.calls("accelerate.Accelerator.prepare"))


def _is_sampled(program: Program, kept: ast.expr) -> bool:
    """Whether a DistributedSampler is made of a Dataset that reads here, or of a list itself."""
    owner = class_around(kept)
    for sampler in program.analysis(Loaders).samplers:
        given = argument_of(sampler, "dataset", 0)
        made = alternatives(program.value(given)) if given is not None else ()
        if given is kept or any(isinstance(each, Made) and each.definition is owner for each in made):
            return True
    return False


def _as_dataset(program: Program, node: ast.expr) -> ast.expr | None:
    """A list that a DistributedSampler is given as the dataset: what a ConcatDataset makes of the files."""
    call = parent_of(node)
    samplers = program.analysis(Loaders).samplers
    return node if isinstance(call, ast.Call) and call in samplers and call.args[:1] == [node] else None


def _kept_by_dataset(program: Program, node: ast.expr) -> ast.Subscript | None:
    """Where a map-style Dataset reads by its index what a method of it sets: `self.files[index]`."""
    statement = parent_of(node)
    if isinstance(statement, ast.Subscript) and statement.value is node:
        owner = class_around(node)
        return subscript_by_index(program, statement, owner) if isinstance(node, ast.Attribute) else None
    return None


# Whether every rank writes the same files when the data is not there yet.


_ARCHIVES = ("tarfile.open", "tarfile.TarFile", "zipfile.ZipFile")
_CLIENTS = ("boto3.client", "boto3.session.Session.client")
FETCHING = (
    "torch.hub.download_url_to_file",
    "torchvision.datasets.utils.download_url",
    "torchvision.datasets.utils.download_and_extract_archive",
    "urllib.request.urlretrieve",
    "wget.download",
    "gdown.download",
    "nltk.download",
    "shutil.copytree",
    "shutil.unpack_archive",
    *(f"{name}.{verb}" for name in _ARCHIVES for verb in ("extract", "extractall")),
    *(f"{made}.download_file" for made in _CLIENTS),
    "boto3.resource.Bucket.download_file",
    "boto3.resource.Object.download_file",
    "s3fs.S3FileSystem.get",
    "s3fs.S3FileSystem.download",
    "sagemaker.s3.S3Downloader.download",
    "google.cloud.storage.Client.bucket.blob.download_to_filename",
)
"""What writes files in place, without a lock. huggingface_hub and datasets take locks, and are not here."""

_DATASETS = ("torchvision.datasets.", "torchaudio.datasets.")
_GROUP = (
    "torch.distributed.init_process_group",
    "deepspeed.init_distributed",
    "horovod.torch.init",
)
_EXISTENCE = frozenset(
    {"os.path.exists", "os.path.isfile", "os.path.isdir", "pathlib.Path.exists", "pathlib.Path.is_dir"}
)
_LOOKING_INTO = ("any", "len", "list", "bool", "sorted")
_ABOUT_FILES = frozenset({"endswith", "startswith", "is_file", "iterdir", "listdir", "glob", "getsize"})
_OPENING_URLS = (
    *("requests.get", "requests.Session.get", "requests.session.get", "urllib.request.urlopen"),
    *("httpx.get", "httpx.stream", "fsspec.open", "smart_open.open", "s3fs.S3FileSystem.open"),
    *(f"{made}.{verb}" for made in _CLIENTS for verb in ("download_fileobj", "get_object")),
    *("boto3.resource.Bucket.download_fileobj", "boto3.resource.Object.download_fileobj"),
)
_HARMLESS = frozenset(
    {
        "tarfile.open",
        "zipfile.ZipFile",
        "open",
        "pathlib.Path.open",
        "torch.no_grad",
        "warnings.catch_warnings",
        "contextlib.closing",
        "concurrent.futures.ThreadPoolExecutor",
        "multiprocessing.pool.ThreadPool",
        "tqdm.tqdm",
        "tqdm.auto.tqdm",
        *_OPENING_URLS,
    }
)
"""Context managers that let every rank through at once."""

_MEASURING = ("torch.profiler.", "torch.autograd.", "torch.cuda.amp.", "contextlib.nullcontext")
_OF_A_PROCESS = (
    *("os.environ", "os.getenv", "os.getpid", "socket.", "platform.", "torch.distributed.", "sys.argv"),
)

_DEEPEST_DOWNLOAD = 6
"""So many calls are followed from a function to its callers."""


@finds(Stage.SCRIPT, data.EVERY_RANK_DOWNLOADS)
def one_rank_downloads(program: Program) -> Iterator[Finding]:
    """A download or the unpacking of an archive that every rank surely runs, into a path that all share.

    The processes of a host write the same files at once: one reads what another has half written, checksums
    differ, archives are torn. Asking first whether the file is there does not help, as all ask at the same
    moment. Found only in programs that make a process group, where no test, context manager or decorator
    stands around it that may let one rank through before the others; a data set that all ranks choose by
    its name, `if args.data == "CIFAR10":`, is one that all of them fetch. So too, as a warning, what every
    rank makes where it is not there, such as an index or a tokenizer that the next run finds. Not found in a
    demo that shares a module with the training and makes no group itself.

    Bad: `dataset = torchvision.datasets.CIFAR10("data", download=True)`
    Good: `if local_rank == 0: CIFAR10("data", download=True)`, then `dist.barrier()` for all, then
    `dataset = CIFAR10("data")`

    Source: torchvision/datasets/utils.py, which writes to the final name, without a lock.
    """
    caches = list(_caches(program))
    found = [*fetches(program), *caches]
    if not found or not program.analysis(Reachability).joins_others(
        call for call, _ in program.calls(*_GROUP)
    ):
        return
    paths = _Paths(program)
    # After a rank has fetched it alone, the others find it there.
    fetched = {name for call, name in found if paths.is_guarded(call)}
    for call, name in found:
        if name not in fetched and not _differs(program, call) and paths.is_run_by_all(call):
            yield finding_at(
                data.EVERY_RANK_DOWNLOADS,
                call,
                f"every rank runs {_last(name)} at the same moment, into one folder: one reads what another "
                "has half written",
                severity=Severity.WARNING if any(call is each for each, _ in caches) else None,
            )


def _last(name: str) -> str:
    return ".".join(name.rsplit(".", 2)[-2:])


def fetches(program: Program) -> Iterator[tuple[ast.Call, str]]:
    """What writes files that it downloads, copies or unpacks, and by what."""
    yield from program.calls(*FETCHING)
    yield from (each for each in program.calls(*COMMANDS) if _fetches_by_command(program, each[0]))
    yield from ((call, "a download") for call in _writes_of_urls(program))
    yield from ((call, ast.unparse(call.func)) for call in _processed_datasets(program))
    for file in program.files:
        for call in file.calls:
            download = argument_of(call, "download")
            absent = isinstance(download, ast.UnaryOp) and program.qualified(download.operand) in _EXISTENCE
            if download is not None and (absent or program.value(download) == Constant(True)):
                names = [_dataset_of(program, each) for each in alternatives(program.value(call.func))]
                if names[0] and all(names):
                    yield call, names[0]


_PROCESSING = tuple(f"torch_geometric.data.{name}" for name in ("Dataset", "InMemoryDataset"))
_GRAPHS = re.compile(r"torch_geometric\.datasets\.[A-Z]\w*")
"""Data sets whose constructors download and process what is not there, in place."""


def _processed_datasets(program: Program) -> Iterator[ast.Call]:
    """Where a data set of PyTorch Geometric is made, of the library or of a class of the program."""
    if not any("torch_geometric" in file.text for file in program.files):
        return
    for file in program.files:
        for call in file.calls:
            made = program.value(call.func)
            if isinstance(made, External) and _GRAPHS.fullmatch(made.name):
                yield call
            elif isinstance(made, Defined) and isinstance(made.node, ast.ClassDef):
                own = {getattr(each, "name", "") for each in made.node.body}
                bases = {program.qualified(each) for each in made.node.bases}
                if bases & set(_PROCESSING) and own & {"download", "process"}:
                    yield call


def _dataset_of(program: Program, kind: Value, depth: int = 4) -> str | None:
    """The data set of a library that something is, or that a class of the program is made of and hands its
    `download` to."""
    if isinstance(kind, External):
        return kind.name if kind.name.startswith(_DATASETS) else None
    if not isinstance(kind, Defined) or not isinstance(kind.node, ast.ClassDef) or not depth:
        return None
    own = next((each for each in kind.node.body if getattr(each, "name", "") == "__init__"), None)
    if isinstance(own, ast.FunctionDef) and not own.args.kwarg and "download" not in names_in(own):
        return None
    bases = (_dataset_of(program, program.value(each), depth - 1) for each in kind.node.bases)
    return next(filter(None, bases), None)


def _fetches_by_command(program: Program, call: ast.Call) -> bool:
    """Whether a command that is run writes files: `aws s3 cp s3://...`, `tar xf`, `wget`."""
    words = next(iter(spelled_commands(program, call)), [])
    match words:
        case ["tar", flags, *_]:
            return "x" in flags
        case ["unzip" | "wget" | "gdown", *_]:
            return True
        case ["curl", *given]:
            return any(each in given for each in ("-o", "-O", "--output"))
        case ["aws", "s3", "cp" | "sync", source, *_]:
            return source.startswith("s3:")
    return False


def _writes_of_urls(program: Program) -> Iterator[ast.Call]:
    """Where files are opened in the functions that open URLs: what is read there is written here."""
    scopes = {scope_of(call) for call, _ in program.calls(*_OPENING_URLS)}
    for scope in scopes:
        for call in scope.file.calls_of.get("write_bytes", ()):
            if scope_of(call) is scope:
                yield call
        for call in scope.file.calls_of.get("open", ()):
            mode = argument_of(call, "mode", 0 if isinstance(call.func, ast.Attribute) else 1)
            if scope_of(call) is scope and isinstance(mode, ast.Constant) and mode.value in ("wb", "xb"):
                yield call


_WRITERS = dict.fromkeys(("numpy.save", "numpy.savez", "numpy.savez_compressed"), ("file", 0))
"""Functions that write a cache, and which argument is its file; torch.save is looked at as a checkpoint."""
_WRITING_METHODS = ("save", "save_to_disk", "to_csv", "to_parquet", "to_pickle", "save_model")
"""Methods of tables and tokenizers that write the file or folder which they are given first."""


def _caches(program: Program) -> Iterator[tuple[ast.Call, str]]:
    """What is written where it is not there: `if not os.path.exists(path): torch.save(made, path)`."""
    for call, name in program.calls(*_WRITERS):
        if _is_made_once(program, call, argument_of(call, *_WRITERS[name])):
            yield call, name
    for file in program.files:
        for call in file.calls_of.get("open", ()):
            mode = argument_of(call, "mode", 1)
            written = isinstance(mode, ast.Constant) and str(mode.value)[:1] in ("w", "x")
            if written and _is_made_once(program, call, argument_of(call, "file", 0)):
                yield call, "open"
        for method in _WRITING_METHODS:
            for call in file.calls_of.get(method, ()):
                known = program.qualified(call.func) or ""
                if known not in _WRITERS and call.args and _is_made_once(program, call, call.args[0]):
                    yield call, ast.unparse(call.func)


def _is_made_once(program: Program, write: ast.Call, path: ast.expr | None) -> bool:
    """Whether a file is written because a test around it did not find it there."""
    if path is None:
        return False
    written = {ast.unparse(each) for each in (path, *getattr(path, "args", ()))}
    inner: ast.AST = write
    for outer in ancestors(write):
        if isinstance(outer, FunctionNode):
            break
        if isinstance(outer, ast.If) and inner is not outer.test:
            absent = isinstance(outer.test, ast.UnaryOp) and isinstance(outer.test.op, ast.Not)
            asked = outer.test.operand if isinstance(outer.test, ast.UnaryOp) else outer.test
            is_missing = absent if inner in outer.body else not absent
            if is_missing and isinstance(asked, ast.Call) and program.qualified(asked.func) in _EXISTENCE:
                of = asked.args[:1] or [getattr(asked.func, "value", asked)]
                return ast.unparse(of[0]) in written
        inner = outer
    return False


def _differs(program: Program, call: ast.Call) -> bool:
    """Whether the path may differ between the ranks: a rank or a temporary folder is in it."""
    return any(
        isinstance(part, ast.Name | ast.Attribute | ast.Call)
        and (
            isinstance(program.value(part), RankValue)
            or (program.qualified(part) or "").startswith(("tempfile.", "os.getpid", "uuid."))
        )
        for given in all_arguments(call)
        for part in parts_of(program, given)
    )


class _Paths:
    """The ways from the start of a program to a call."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.uniformity = program.analysis(Uniformity)
        # A program that is started is mostly a tool, and no parent of ranks.
        self.spawns = frozenset(
            each for each in process_starts(program) if program.qualified(each.func) != "subprocess.Popen"
        )

    def is_guarded(self, call: ast.Call) -> bool:
        """Whether a call stands where some ranks come alone."""
        return any(
            isinstance(outer, ast.If | ast.IfExp)
            and isinstance(self.program.analysis(Guards).truth(outer.test), Guard)
            for outer in ancestors(call)
        )

    def is_run_by_all(self, call: ast.Call) -> bool:
        """Whether a call is surely run by every rank, all at the same time."""
        return self._reached(call, set(), 0)

    def _reached(self, node: ast.expr, seen: set[ast.AST], depth: int) -> bool:
        if not self._is_open(node, seen):
            return False
        scope = scope_of(node).function
        if scope is None:
            # Where processes are spawned, a module's own code runs in the parent as well.
            return not self.spawns
        function = scope.node
        assert isinstance(function, FunctionNode)
        if function in seen or depth >= _DEEPEST_DOWNLOAD:
            return False
        seen.add(function)
        decorators = [] if isinstance(function, ast.Lambda) else function.decorator_list
        if not all(map(self.program.analysis(Participants).keeps_every_rank, decorators)):
            return False
        sites = self.program.evaluation.callers.call_sites(function)
        calls: list[ast.expr] = [site.call for site in sites or ()]
        if sites is None and getattr(function, "name", "") == "__init__":
            # A class that stands in a table is called where nobody sees its name.
            made = getattr(class_of(function), "name", "")
            calls = [each for file in self.program.files for each in file.names.get(made, ())]
        return any(each in self.spawns or self._reached(each, seen, depth + 1) for each in calls)

    def _is_open(self, node: ast.expr, fetching: Collection[ast.AST]) -> bool:
        """Whether nothing within its function may hold some ranks back from a node, or let one go first."""
        inner: ast.AST = node
        for outer in ancestors(node):
            if isinstance(outer, FunctionNode):
                break
            if (
                isinstance(outer, ast.If | ast.IfExp)
                and inner is not outer.test
                and not self._is_alike(outer.test)
            ):
                return False
            if isinstance(outer, ast.With) and not all(self._is_harmless(each) for each in outer.items):
                return False
            if isinstance(outer, ast.While | ast.Match | ast.ExceptHandler | ast.ClassDef):
                return False
            inner = outer
        return not self._waits_before(node, fetching)

    def _is_alike(self, test: ast.expr) -> bool:
        """Whether all ranks of a host have one answer: it always holds, or asks for names or files."""
        if is_main_guard(test):
            return file_of(test) is self.program.entry
        known = (self.program.analysis(Guards).truth(test), self.program.value(test))
        if True in known or Constant(True) in known or self._chooses(test) or self._counts(test):
            return True
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self._is_alike(test.operand)
        if isinstance(test, ast.BoolOp):
            truth, decides = self.program.analysis(Guards).truth, isinstance(test.op, ast.Or)
            return all(
                self._is_alike(each) for each in test.values if not decides or truth(each) is not False
            )
        if isinstance(test, ast.NamedExpr):
            return self._is_alike(test.value)
        if isinstance(test, ast.Compare):
            sides = [test.left, *test.comparators]
            return any(map(self._asks_for_files, sides)) and all(
                self._asks_for_files(each) or self.uniformity.is_uniform(each) for each in sides
            )
        return self._asks_for_files(test)

    def _asks_for_files(self, node: ast.expr) -> bool:
        """Whether an expression asks which files there are, how they end, or how many: not what a rank is."""
        if isinstance(node, ast.Call) and node.args and last_name(node.func) in _LOOKING_INTO:
            return self._asks_for_files(node.args[0])
        if self.program.qualified(node) in _EXISTENCE:
            return True
        if not isinstance(node, ast.Call):
            return isinstance(node, ast.Attribute) and node.attr in ("suffix", "suffixes", "stem")
        parts = [each for each in parts_of(self.program, node) if isinstance(each, ast.expr)]
        if any(isinstance(self.program.value(each), RankValue) for each in parts):
            return False
        asked = (self.program.qualified(each.func) or "" for each in parts if isinstance(each, ast.Call))
        return last_name(node.func) in _ABOUT_FILES or any(each.startswith("hashlib.") for each in asked)

    def _chooses(self, test: ast.expr) -> bool:
        """Whether a test chooses by a name that all ranks have alike: `args.data == "CIFAR10"`.

        Not an option that is on or off: `--download` may be given to one process before the others start.
        """
        if isinstance(test, ast.BoolOp):
            return all(map(self._chooses, test.values))
        if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Eq | ast.In | ast.NotEq):
            return False
        names = [*ast.walk(test.comparators[-1]), test.left]
        literal = any(isinstance(each, ast.Constant) and isinstance(each.value, str) for each in names)
        if literal and isinstance(test.left, ast.Name) and self.program.evaluation.sources(test.left):
            preparing = _PARTING.search(ast.unparse(test.comparators[-1]))
            if not preparing and self._is_of_no_process(test):
                return True
        return (literal or isinstance(test.ops[0], ast.In)) and self.uniformity.is_uniform(test)

    def _is_of_no_process(self, test: ast.expr) -> bool:
        """Whether neither a rank nor what tells processes and hosts apart goes into a test."""
        parts = [each for each in parts_of(self.program, test) if isinstance(each, ast.expr)]
        return not any(
            isinstance(self.program.value(each), RankValue)
            or (self.program.qualified(each) or "").startswith(_OF_A_PROCESS)
            for each in parts
        )

    def _counts(self, test: ast.expr) -> bool:
        """Whether a test asks how far the training is, which is the same for all: `step % 100 == 0`."""
        parts = list(parts_of(self.program, test)) if isinstance(test, ast.BoolOp | ast.Compare) else []
        counted = any(isinstance(each, ast.For) for each in parts)
        asks = any(isinstance(each, ast.Attribute | ast.Call) for each in ast.walk(test))
        return counted and not asks and self.uniformity.is_uniform(test)

    def _is_harmless(self, item: ast.withitem) -> bool:
        expression = item.context_expr
        if isinstance(expression, ast.Name):
            made = alternatives(self.program.value(expression))
            return all(isinstance(each, Instance) and each.name.startswith(_MEASURING) for each in made)
        called = self.program.value(expression.func) if isinstance(expression, ast.Call) else None
        return called is not None and all(
            (isinstance(each, External) and each.name in _HARMLESS)
            or (isinstance(each, Defined) and self._lets_all_through(each.node))
            for each in alternatives(called)
        )

    def _lets_all_through(self, manager: ast.AST) -> bool:
        """Whether a context manager of the program only prints or takes the time: it asks nothing, and waits
        for nobody."""
        if not isinstance(manager, ast.FunctionDef) or manager not in file_of(manager).yields_of:
            return False
        nodes = [each for statement in manager.body for each in ast.walk(statement)]
        called = [self.program.qualified(each.func) or "?" for each in nodes if isinstance(each, ast.Call)]
        asks = any(isinstance(each, ast.If | ast.IfExp | ast.While | ast.With) for each in nodes)
        return not asks and all(each.startswith(("time.", "print", "logging.")) for each in called)

    def _waits_before(self, node: ast.expr, fetching: Collection[ast.AST]) -> bool:
        """Whether ranks part ways in the function before a call: some wait, return, or fetch the files by one
        of these functions."""
        names = {getattr(each, "name", None) for each in fetching}
        names |= {getattr(class_around(each), "name", None) for each in fetching}
        names -= {None}
        file = scope_of(node).file
        return any(
            isinstance(branch, ast.If)
            and branch.lineno < node.lineno
            and scope_of(branch) is scope_of(node)
            and not isinstance(self.program.analysis(Guards).truth(branch.test), bool)
            and not self._is_alike(branch.test)
            and self._may_part(branch, names)
            for branch in file.statements.get(ast.If, ())
        )

    def _may_part(self, branch: ast.If, names: Collection[str | None]) -> bool:
        """Whether a branch ends its function, or is for some ranks alone, which wait or may fetch files."""
        nodes = list(ast.walk(branch))
        called = [last_name(each.func) or "" for each in nodes if isinstance(each, ast.Call)]
        guarded = isinstance(self.program.analysis(Guards).truth(branch.test), Guard)
        parting = any(each in names or _PARTING.search(each) for each in called)
        return (guarded and parting) or any(isinstance(each, ast.Return) for each in nodes)


_PARTING = re.compile(
    r"barrier|wait|sync|sleep|broadcast|download|fetch|prepare|extract|from_pretrained|load"
)
"""What the names of calls hold that may have files fetched, or let others do so first."""


# The channels that a script reads, against those that the job has.


@finds(Stage.SCRIPT, data.CHANNELS_DIFFER)
def channels_are_there(subject: ScriptSubject) -> Iterator[Finding]:
    """A channel that the script reads and the job lacks, or one that the job has and nobody reads.

    `os.environ["SM_CHANNEL_TRAIN"]` without a channel `train` is a KeyError on every host, once they run. A
    path below /opt/ml/input/data that is not there is a warning, as the script may not come to it, and so is
    a channel that no text of the script, hyperparameter or argument names: every host downloads it for
    nothing. Reads under a test or in a try statement, and options that the job gives, are left alone.

    Bad: `parser.add_argument("--data", default=os.environ["SM_CHANNEL_TRAINING"])`, for a job with `train`
    Good: `parser.add_argument("--data", default=os.environ["SM_CHANNEL_TRAIN"])`

    Source: SageMaker's documentation of training storage.
    """
    # The job's models cost time that a lint without a job does not pay.
    from launcher.jobs.script_inputs import CHECKPOINT_CHANNEL, RESERVED_CHANNEL

    job, program = subject.job, subject.program
    there = {channel_key(name) for name in (*job.inputs, RESERVED_CHANNEL, CHECKPOINT_CHANNEL)}
    there |= {
        name.removeprefix(CHANNEL_VARIABLE) for name in job.environment if name.startswith(CHANNEL_VARIABLE)
    }
    reads = list(channel_reads(program))
    for read in reads:
        option = option_with_default(read.node)
        if (
            read.key in there
            or not read.is_needed
            or (not read.by_variable and option and given_option(subject.job, option) is not None)
        ):
            continue
        meant = nearest(read.name, list(job.inputs))
        has = ", ".join(sorted(job.inputs)) or "none"
        what = "the variable is not set" if read.by_variable else "no such folder on the hosts"
        what = "KeyError" if isinstance(read.node, ast.Subscript) else what
        yield finding_at(
            data.CHANNELS_DIFFER,
            read.node,
            f"the job has no channel `{read.name}` (it has {has}): {what}",
            severity=None if read.by_variable else Severity.WARNING,
            remedy=f"Did you mean `{meant[0]}`?" if meant else f"Add `inputs: {{{read.name}: s3://BUCKET}}`.",
        )
    if reads and not reads_any(program):
        texts = {text.lower() for text in _texts(subject)}
        for name in job.inputs:
            if channel_key(name) not in {read.key for read in reads} and not any(
                name.lower() in text for text in texts
            ):
                yield finding_at(
                    data.CHANNELS_DIFFER,
                    reads[0].node,
                    f"the script reads other channels, and nowhere `{name}` of the job: every host downloads "
                    "it for nothing",
                    severity=Severity.WARNING,
                    remedy=f"Remove `inputs.{name}`, or read it from {CHANNEL_VARIABLE}{channel_key(name)}.",
                )


def _texts(subject: ScriptSubject) -> Iterator[str]:
    """All that could name a channel: texts of the script, and what the job gives it."""
    for file in subject.program.files:
        for node in nodes_within(file.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
    job = subject.job
    yield from map(str, (*job.hyperparameters.values(), *job.code.arguments, *job.environment.values()))
