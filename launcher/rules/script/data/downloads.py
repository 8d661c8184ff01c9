"""Who makes the files of a script's data: what is downloaded, unpacked, or calculated once and kept."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from launcher.failure_modes import data
from launcher.failure_modes.model import Finding, Related, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.call_graph import CallSite
from launcher.program.dataflow import all_arguments, argument_of, given_argument, origins, parts_of
from launcher.program.index import (
    FunctionNode,
    ancestors,
    class_of,
    file_of,
    is_main_guard,
    is_property,
    last_name,
    parent_of,
    scope_of,
)
from launcher.program.objects.nodes import walk
from launcher.program.process_starts import process_starts
from launcher.program.program import Program, joining_calls
from launcher.program.ranks.guards import Guards, branches_leaving_before, is_in_body
from launcher.program.ranks.participants import Participants, is_behind_lock
from launcher.program.ranks.reachability import Reachability
from launcher.program.ranks.truths import Guard, negate
from launcher.program.ranks.uniformity import Uniformity
from launcher.program.surroundings.commands import COMMANDS
from launcher.program.surroundings.options import DefaultRun
from launcher.program.values import (
    PROGRESS_BARS,
    Constant,
    Defined,
    External,
    Instance,
    Made,
    RankKind,
    RankValue,
    Value,
    alternatives,
    is_path,
    like,
)
from launcher.rules.script.data.by_libraries import is_hook_of_all, trainers_of_several
from launcher.rules.script.data.commands import fetches_by_command
from launcher.rules.script.data.lists import class_around
from launcher.rules.script.data.loaders import Loaders, names_in
from launcher.rules.script.default_values import default_constant
from launcher.rules.script.findings import (
    finding_at,
    related_at,
)

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

DATASETS = ("torchvision.datasets.", "torchaudio.datasets.")
"""How the names of data sets begin that are downloaded into a folder."""
EXISTENCE = frozenset(
    {"os.path.exists", "os.path.isfile", "os.path.isdir"}
    | {"pathlib.Path.exists", "pathlib.Path.is_file", "pathlib.Path.is_dir"}
)
"""What asks whether a file or folder is there."""
_MISSING = ("FileNotFoundError", "OSError", "IOError", "EnvironmentError", "LookupError", "Exception")
"""Exceptions of what opens a file that is not there; on the first run they come on all ranks."""
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
        *PROGRESS_BARS,
        *_OPENING_URLS,
    }
)
"""Context managers that let every rank through at once."""

_MEASURING = ("torch.profiler.", "torch.autograd.", "torch.cuda.amp.", "contextlib.nullcontext")
_OF_A_PROCESS = (
    *("os.environ", "os.getenv", "os.getpid", "socket.", "platform.", "torch.distributed.", "sys.argv"),
)

_TRAINERS = ("transformers.Trainer", "transformers.Seq2SeqTrainer", "trl.SFTTrainer")
"""What makes its process one of several by itself."""

_DEEPEST_DOWNLOAD = 6
"""So many calls are followed from a function to its callers."""


@finds(Stage.SCRIPT, data.EVERY_RANK_DOWNLOADS)
def one_rank_downloads(program: Program) -> Iterator[Finding]:
    """A download or the unpacking of an archive that every rank surely runs, into a path that all share.

    The processes of a host write the same files at once: one reads what another has half written, checksums
    differ, archives are torn. Asking first whether the file is there does not help, as all ask at the same
    moment. Found only in programs that make a process group, where no test, context manager or decorator
    stands around it that may let one rank through before the others; a data set that all ranks choose by
    its name, `if args.data == "CIFAR10":`, is one that all of them fetch. A warning where a test of settings
    stands around it that hints at no rank and that a run by its defaults passes. So too, as a warning, what
    every rank makes where it is not there, such as an index or a tokenizer that the next run finds. Of a
    class of Lightning the hooks count that its Trainer runs on every rank, unless it has `prepare_data`,
    which one process of a host runs before. Not found in a demo that shares a module with the training and
    makes no group itself.

    Bad: `dataset = torchvision.datasets.CIFAR10("data", download=True)`
    Good: `if local_rank == 0: CIFAR10("data", download=True)`, then `dist.barrier()` for all, then
    `dataset = CIFAR10("data")`

    Source: torchvision/datasets/utils.py, which writes to the final name, without a lock.
    """
    found = list(fetches(program))
    fetching = {call for call, _ in found}
    found += [each for each in _caches(program) if each[0] not in fetching]
    trainers = (*trainers_of_several(program), *program.calls(*_TRAINERS))
    joining = (call for call, _ in (*joining_calls(program), *trainers))
    if not found or not program.analysis(Reachability).joins_others(joining):
        return
    paths = _Paths(program, [call for call, _ in found])
    # After a rank has fetched it alone, the others find it there.
    fetched = {name for call, name in found if paths.is_guarded(call)}
    for call, name in found:
        if name in fetched or _differs(program, call) or is_behind_lock(call):
            continue
        surely = paths.is_run_by_all(call)
        if surely or paths.is_most_likely_run_by_all(call):
            yield finding_at(
                data.EVERY_RANK_DOWNLOADS,
                call,
                f"every rank runs {short_name(name)} at the same moment, into one folder: one reads what "
                "another has half written",
                severity=None if surely and call in fetching else Severity.WARNING,
                related=_asked_from(program, call),
            )


def _asked_from(program: Program, call: ast.Call) -> list[Related]:
    """The one call of a function that downloads, where whether to do so is decided."""
    function = next((each for each in ancestors(call) if isinstance(each, ast.FunctionDef)), None)
    sites = (program.evaluation.callers.call_sites(function) if function is not None else None) or []
    return [related_at(sites[0].call, "called here")] if len(sites) == 1 else []


def short_name(name: str) -> str:
    """The last two parts of a dotted name: `datasets.MNIST`."""
    return ".".join(name.rsplit(".", 2)[-2:])


def fetches(program: Program) -> Iterator[tuple[ast.Call, str]]:
    """What writes files that it downloads, copies or unpacks, and by what."""
    yield from program.calls(*FETCHING)
    for call, name in program.calls(*COMMANDS):
        yield from ((each, name) for each, run in _runs(program, call) if fetches_by_command(program, run))
    yield from ((call, "a download") for call in _writes_of_urls(program))
    yield from ((call, ast.unparse(call.func)) for call in _processed_datasets(program))
    yield from _told_to_download(program)
    for file in program.files:
        for call in file.calls_giving("download"):
            download = given_argument(program, call, "download")
            absent = isinstance(download, ast.UnaryOp) and program.qualified(download.operand) in EXISTENCE
            if download is not None and (absent or default_constant(program, download) == Constant(True)):
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


def _told_to_download(program: Program) -> Iterator[tuple[ast.Call, str]]:
    """Where a class of the program is told to download, `Reviews(root, download=True)`, and does so by a
    method of its own, in which nothing waits or asks for a rank."""
    for file in program.files:
        for call in file.calls_giving("download"):
            told = argument_of(call, "download")
            if told is None or default_constant(program, told) != Constant(True):
                continue
            made = program.value(call.func)
            definition = made.node if isinstance(made, Defined) else None
            if isinstance(definition, ast.ClassDef) and _downloads_itself(definition):
                yield call, definition.name


def _downloads_itself(definition: ast.ClassDef) -> bool:
    methods = {each.name: each for each in definition.body if isinstance(each, ast.FunctionDef)}
    begin = methods.get("__init__")
    asked = [
        part
        for each in (walk(begin) if begin is not None else ())
        if isinstance(each, ast.If) and "download" in names_in(each.test)
        for part in walk(each)
    ]
    called = {last_name(each.func) for each in asked if isinstance(each, ast.Call)}
    own = [methods[each] for each in called if each in methods and "download" in each]
    words = [
        last_name(part) or ""
        for each in own
        for part in walk(each)
        if isinstance(part, ast.Name | ast.Attribute)
    ]
    return bool(own) and not any(map(_TAKING_TURNS.search, words))


_TAKING_TURNS = re.compile(r"(?i)rank|barrier|lock|is_main|is_master|hf_hub|snapshot_download|load_dataset")
"""In the names of what lets one process go first, or of libraries that do."""


def _dataset_of(program: Program, kind: Value, depth: int = 4) -> str | None:
    """The data set of a library that something is, or that a class of the program is made of and hands its
    `download` to."""
    if isinstance(kind, External):
        return kind.name if kind.name.startswith(DATASETS) else None
    if not isinstance(kind, Defined) or not isinstance(kind.node, ast.ClassDef) or not depth:
        return None
    own = next((each for each in kind.node.body if getattr(each, "name", "") == "__init__"), None)
    if isinstance(own, ast.FunctionDef) and not own.args.kwarg and "download" not in names_in(own):
        return None
    bases = (_dataset_of(program, program.value(each), depth - 1) for each in kind.node.bases)
    return next(filter(None, bases), None)


def _runs(program: Program, call: ast.Call) -> Iterator[tuple[ast.Call, ast.Call]]:
    """The run of a command where it stands; that of a function which runs what it is told, at each call."""
    command = call.args[0] if call.args else None
    sources = program.evaluation.sources(command) if isinstance(command, ast.Name) else []
    parameter = sources[0].node if len(sources) == 1 else None
    if not isinstance(parameter, ast.arg):
        yield call, call
        return
    for site in program.evaluation.callers.call_sites_giving(parameter) or ():
        given = site.given(parameter)
        if given is not None:
            yield site.call, like(site.call, ast.Call(call.func, [given], []))


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


WRITERS = {
    **dict.fromkeys(("numpy.save", "numpy.savez", "numpy.savez_compressed", "soundfile.write"), ("file", 0)),
    **dict.fromkeys(("numpy.memmap", "joblib.dump", "cv2.imwrite"), ("filename", 0)),
    **{"joblib.dump": ("filename", 1), "safetensors.torch.save_file": ("filename", 1)},
    **{
        "torchaudio.save": ("uri", 0),
        "faiss.write_index": ("fname", 1),
        "scipy.sparse.save_npz": ("file", 0),
    },
    **{"h5py.File": ("name", 0), "zarr.open": ("store", 0), "scipy.io.savemat": ("file_name", 0)},
    **dict.fromkeys(("shutil.copy", "shutil.copy2", "shutil.copyfile"), ("dst", 1)),
}
"""Functions that write a cache, and which argument is its file; what torch.save writes is mostly none."""
_BY_MODE = {"numpy.memmap": 2, "h5py.File": 1, "zarr.open": 1}
"""Those that only write where their mode says so, by its position."""
_WRITING_METHODS = ("save", "save_to_disk", "to_csv", "to_parquet", "to_pickle", "tofile", "save_model")
"""Methods of tables and tokenizers that write the file or folder which they are given first."""


def _caches(program: Program) -> Iterator[tuple[ast.Call, str]]:
    """What is written where it is not there: `if not os.path.exists(path): torch.save(made, path)`."""
    for call, name in program.calls(*WRITERS, "torch.save"):
        writes = opens_to_write(call, name)
        if writes and is_made_once(program, call, argument_of(call, *WRITERS.get(name, ("f", 1)))):
            yield call, name
    for call, path in opened_to_write(program):
        if is_made_once(program, call, path):
            yield call, "open"
    for call in calls_of_writing_methods(program):
        if is_made_once(program, call, call.args[0]):
            yield call, ast.unparse(call.func)


def calls_of_writing_methods(program: Program) -> Iterator[ast.Call]:
    """Where a table or a tokenizer is written to the file or folder that it is given first."""
    for file in program.files:
        for method in _WRITING_METHODS:
            for call in file.calls_of.get(method, ()):
                if call.args and (program.qualified(call.func) or "") not in (*WRITERS, "torch.save"):
                    yield call


def opens_to_write(call: ast.Call, name: str) -> bool:
    """Whether one of WRITERS writes here, by its mode where it has one."""
    mode = argument_of(call, "mode", _BY_MODE[name]) if name in _BY_MODE else None
    return name not in _BY_MODE or str(getattr(mode, "value", None))[:1] in ("w", "x")


def opened_to_write(program: Program) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Where a file is opened that is then written, or written at once, and its path."""
    for file in program.files:
        for call in file.calls_of.get("open", ()):
            owner = _path_of_method(program, call)
            mode = argument_of(call, "mode", 1 if owner is None else 0)
            path = argument_of(call, "file", 0) if owner is None else owner
            if path is not None and isinstance(mode, ast.Constant) and str(mode.value)[:1] in ("w", "x"):
                yield call, path
        for method in ("write_text", "write_bytes"):
            for call in file.calls_of.get(method, ()):
                if (owner := _path_of_method(program, call)) is not None:
                    yield call, owner


def _path_of_method(program: Program, call: ast.Call) -> ast.expr | None:
    """The path of pathlib whose method is called."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    return owner if owner is not None and is_path(program.value(owner)) else None


def is_made_once(program: Program, write: ast.Call, path: ast.expr | None) -> bool:
    """Whether a file is written because it was not found: by a test, or by the exception of opening it, here
    or around all calls of the function."""
    return path is not None and _is_missing_at(program, write, _spellings(program, path), path, 3)


def _is_missing_at(
    program: Program, node: ast.AST, written: frozenset[str], path: ast.expr, depth: int
) -> bool:
    inner = node
    for outer in ancestors(node):
        tests = [(each.test, True) for each in branches_leaving_before(outer, inner)]
        if isinstance(outer, ast.If) and inner is not outer.test:
            tests.append((outer.test, not is_in_body(outer, inner)))
        if any(_asks_for(program, test, written, there=there) for test, there in tests):
            return True
        if isinstance(outer, ast.ExceptHandler) and catches_missing_files(outer):
            tried = parent_of(outer)
            body = tried.body if isinstance(tried, ast.Try) else []
            given = [one for each in body for one in walk(each) if isinstance(one, ast.expr)]
            return any(not written.isdisjoint(_spellings(program, each)) for each in given)
        if isinstance(outer, FunctionNode):
            sites = program.evaluation.callers.call_sites(outer) if depth else None
            return bool(sites) and all(
                _is_missing_at(program, each.call, *_as_given(program, each, written, path), depth - 1)
                for each in sites or ()
            )
        inner = outer
    return False


def _as_given(
    program: Program, site: CallSite, written: frozenset[str], path: ast.expr
) -> tuple[frozenset[str], ast.expr]:
    """How a path is written where its function is called."""
    sources = program.evaluation.sources(path) if isinstance(path, ast.Name) else []
    parameter = sources[0].node if len(sources) == 1 else None
    given = site.given(parameter) if isinstance(parameter, ast.arg) else None
    if given is not None:
        return _spellings(program, given), given
    same_class = class_around(site.call) is class_around(path)
    return frozenset(each for each in written if same_class or not each.startswith("self.")), path


def _asks_for(program: Program, test: ast.expr, written: frozenset[str], *, there: bool) -> bool:
    """Whether a test asks if a file is there, or if it is not, alone or beside others."""
    if isinstance(test, ast.BoolOp):
        return any(_asks_for(program, each, written, there=there) for each in test.values)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _asks_for(program, test.operand, written, there=not there)
    if not there or not isinstance(test, ast.Call) or program.qualified(test.func) not in EXISTENCE:
        return False
    asked = test.args[0] if test.args else getattr(test.func, "value", test)
    spelled = _spellings(program, asked)
    return not written.isdisjoint(spelled) or not _folders(written).isdisjoint(spelled | _folders(spelled))


def _folders(spelled: frozenset[str]) -> frozenset[str]:
    """The folders in which paths lie, as these are written: what is joined to them, or formatted behind."""
    return frozenset(filter(None, (_folder_of(each) for each in spelled)))


def _folder_of(spelled: str) -> str | None:
    made = ast.parse(spelled, mode="eval").body
    if isinstance(made, ast.Call) and last_name(made.func) == "join" and len(made.args) > 1:
        return ast.unparse(made.args[0])
    if isinstance(made, ast.BinOp) and isinstance(made.op, ast.Div | ast.Add):
        return ast.unparse(made.left)
    if isinstance(made, ast.JoinedStr) and isinstance(made.values[0], ast.FormattedValue):
        return ast.unparse(made.values[0].value)
    return None


def _spellings(program: Program, path: ast.expr) -> frozenset[str]:
    """How a path is written: by its name, by what that was set to, and without `str(...)` around it."""
    inner = path.args if isinstance(path, ast.Call) and len(path.args) == 1 else []
    made = [each for one in (path, *inner) for each in (one, *origins(program, one)) if each is not None]
    return frozenset(map(ast.unparse, made))


def catches_missing_files(handler: ast.ExceptHandler) -> bool:
    """Whether a handler is for the exceptions of a file that is not there, to which all ranks come alike."""
    kinds = getattr(handler.type, "elts", [handler.type])
    names = {last_name(each) for each in kinds if each is not None}
    return not names or not names.isdisjoint(_MISSING)


def _differs(program: Program, call: ast.Call) -> bool:
    """Whether the path may differ between the ranks: a rank or a temporary folder is in it."""
    return any(
        isinstance(part, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
        and (
            isinstance(program.value(part), RankValue)
            or (program.qualified(part) or "").startswith(("tempfile.", "os.getpid", "uuid."))
        )
        for given in all_arguments(call)
        for part in parts_of(program, given)
    )


def _reads_of_property(program: Program, function: FunctionNode) -> Iterator[ast.expr]:
    """Where a property of a class of the program is read of an object of it."""
    owner, name = class_of(function), getattr(function, "name", "")
    for file in program.mentioning(name):
        for read in file.attributes.get(name, ()):
            if owner is not None and program.value(read.value) == Made(owner):
                yield read


_NAMED = (ast.FunctionDef, ast.ClassDef)


class _Paths:
    """The ways from the start of a program to a call."""

    def __init__(self, program: Program, made: Collection[ast.Call]) -> None:
        self.program = program
        self.makers = {each.name for call in made for each in ancestors(call) if isinstance(each, _NAMED)}
        self.uniformity = program.analysis(Uniformity)
        self.is_lenient = False
        self._alike: dict[tuple[ast.expr, bool], bool] = {}
        # A program that is started is mostly a tool, and no parent of ranks.
        self.spawns = frozenset(
            each
            for each in process_starts(program)
            if program.qualified(each.func) != "subprocess.Popen"
            and not program.analysis(Reachability).is_named_nowhere(each)
        )

    def is_guarded(self, call: ast.Call) -> bool:
        """Whether a call stands where some ranks come alone, before the others."""
        inner: ast.AST = call
        for outer in ancestors(call):
            if isinstance(outer, ast.If | ast.IfExp) and inner is not outer.test:
                guarded = isinstance(self.program.analysis(Guards).truth(outer.test), Guard)
                if guarded and not self._is_for_nearly_all(outer, inner) and not _waits_in_arm(outer, inner):
                    return True
            inner = outer
        return False

    def _is_for_nearly_all(self, branch: ast.If | ast.IfExp, inner: ast.AST) -> bool:
        """Whether every rank of a host but one comes to this arm of a branch."""
        guard = self.program.analysis(Guards).truth(branch.test)
        arm = guard if is_in_body(branch, inner) or guard is None else negate(guard)
        return isinstance(arm, Guard) and arm.outside and _is_of_one(arm)

    def is_run_by_all(self, call: ast.Call) -> bool:
        """Whether a call is surely run by every rank, all at the same time."""
        return self._reached(call, set(), 0)

    def is_most_likely_run_by_all(self, call: ast.Call) -> bool:
        """Whether only tests that hint at no rank stand around a call, and a run by defaults passes them."""
        self.is_lenient = True
        try:
            return self._reached(call, set(), 0) and not self.program.analysis(DefaultRun).leaves_out(call)
        finally:
            self.is_lenient = False

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
        if is_hook_of_all(self.program, function):
            return True
        read = isinstance(function, ast.Lambda) or is_property(function)
        decorators = [] if read else getattr(function, "decorator_list", [])
        if not all(map(self.program.analysis(Participants).keeps_every_rank, decorators)):
            return False
        sites = self.program.evaluation.callers.call_sites(function)
        calls: list[ast.expr] = [*(site.call for site in sites or ()), *self._readers(function)]
        if not sites and is_property(function):
            calls = [*_reads_of_property(self.program, function)]
        if sites is None and getattr(function, "name", "") == "__init__":
            # A class that stands in a table is called where nobody sees its name.
            made = getattr(class_of(function), "name", "")
            calls = [each for file in self.program.files for each in file.names.get(made, ())]
        return any(each in self.spawns or self._reached(each, seen, depth + 1) for each in calls)

    def _readers(self, method: FunctionNode) -> Iterator[ast.expr]:
        """Where samplers and loaders are made of a dataset of the program, one of whose methods they call."""
        owner = class_of(method)
        if owner is None or getattr(method, "name", "") not in _CALLED_BY_LOADERS:
            return
        loaders = self.program.analysis(Loaders)
        for call in (*loaders.samplers, *loaders.calls):
            dataset = loaders.given(call, "dataset")
            if dataset is not None and Made(owner) in alternatives(self.program.value(dataset)):
                yield call

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
                and (not self._is_for_nearly_all(outer, inner) or _waits_in_arm(outer, inner))
            ):
                return False
            if isinstance(outer, ast.With) and not all(self._is_harmless(each) for each in outer.items):
                return False
            if isinstance(outer, ast.ExceptHandler) and not catches_missing_files(outer):
                return False
            if isinstance(outer, ast.While | ast.Match | ast.ClassDef):
                return False
            inner = outer
        return not self._waits_before(node, fetching)

    def _is_alike(self, test: ast.expr) -> bool:
        """Whether all ranks of a host have one answer, or most likely have."""
        key = test, self.is_lenient
        if key not in self._alike:
            surely = self._is_surely_alike(test)
            self._alike[key] = surely or (self.is_lenient and self._hints_at_no_process(test))
        return self._alike[key]

    def _is_surely_alike(self, test: ast.expr) -> bool:
        """Whether a test always holds, or asks for names or files."""
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

    def _hints_at_no_process(self, test: ast.expr) -> bool:
        """Whether a test is of options or settings, by what goes into it and what that is called."""
        nodes = [*walk(test)]
        words = [last_name(each) or "" for each in nodes if isinstance(each, ast.Name | ast.Attribute)]
        words += [str(each.value) for each in nodes if isinstance(each, ast.Constant)]
        told = any(_OF_SOME_PROCESSES.search(each) or _PARTING.search(each) for each in words)
        told = told or any(isinstance(each, ast.Call) for each in nodes)
        return not told and self._is_of_no_process(test)

    def _asks_for_files(self, node: ast.expr) -> bool:
        """Whether an expression asks which files there are, how they end, or how many: not what a rank is."""
        if isinstance(node, ast.Call) and node.args and last_name(node.func) in _LOOKING_INTO:
            return self._asks_for_files(node.args[0])
        if self.program.qualified(node) in EXISTENCE:
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
        names = [*walk(test.comparators[-1]), test.left]
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
        asks = any(isinstance(each, ast.Attribute | ast.Call) for each in walk(test))
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
        nodes = [each for statement in manager.body for each in walk(statement)]
        called = [self.program.qualified(each.func) or "?" for each in nodes if isinstance(each, ast.Call)]
        asks = any(isinstance(each, ast.If | ast.IfExp | ast.While | ast.With) for each in nodes)
        return not asks and all(each.startswith(("time.", "print", "logging.")) for each in called)

    def _waits_before(self, node: ast.expr, fetching: Collection[ast.AST]) -> bool:
        """Whether ranks part ways in the function before a call: some wait, return, or fetch the files by one
        of these functions."""
        names = {getattr(each, "name", None) for each in fetching}
        names |= {getattr(class_around(each), "name", None) for each in fetching}
        names = (names | self.makers) - {None}
        file, around = scope_of(node).file, set(ancestors(node))
        return any(
            branch.lineno < node.lineno
            and branch not in around
            and scope_of(branch) is scope_of(node)
            and not isinstance(self.program.analysis(Guards).truth(branch.test), bool)
            and not self._is_alike(branch.test)
            and self._may_part(branch, names)
            for branch in file.nodes(ast.If)
        )

    def _may_part(self, branch: ast.If, names: Collection[str | None]) -> bool:
        """Whether a branch ends its function, or is for some ranks alone, which wait or may fetch files."""
        nodes = list(walk(branch))
        called = [last_name(each.func) or "" for each in nodes if isinstance(each, ast.Call)]
        guard = self.program.analysis(Guards).truth(branch.test)
        guarded = isinstance(guard, Guard)
        parting = any(each in names or _PARTING.search(each) for each in called)
        if isinstance(guard, Guard) and not guard.outside and _is_of_one(guard) and not branch.orelse:
            # Where one rank only waits for the others, these come all at once.
            guarded = not called or not all(map(_WAITING.search, called))
        return (guarded and parting) or any(isinstance(each, ast.Return) for each in nodes)


def _waits_in_arm(branch: ast.If | ast.IfExp, inner: ast.AST) -> bool:
    """Whether ranks wait for others in their arm of a branch, before they come to a part of it."""
    arm = branch.body if is_in_body(branch, inner) else branch.orelse
    before = arm[: arm.index(inner)] if isinstance(arm, list) and isinstance(inner, ast.stmt) else []
    called = (each for one in before for each in walk(one) if isinstance(each, ast.Call))
    return any(_WAITING.search(last_name(each.func) or "") for each in called)


def _is_of_one(guard: Guard) -> bool:
    """Whether a guard parts one rank, of all or of a host, from the others."""
    of_processes = guard.kind in (RankKind.GLOBAL, RankKind.LOCAL)
    return of_processes and guard.exact and guard.members is not None and len(guard.members) == 1


_CALLED_BY_LOADERS = frozenset({"__len__", "__getitem__", "__getitems__", "__iter__"})
_WAITING = re.compile(r"barrier|wait|sleep")

_OF_SOME_PROCESSES = re.compile(
    r"(?i)rank|main|master|lead|chief|head|first|primary|local|node|root|zero|proc|worker|dist|world|coord"
)
"""In the names of what may be true on some processes alone."""

_PARTING = re.compile(
    r"barrier|wait|sync|sleep|broadcast|download|fetch|prepare|extract|from_pretrained|load"
)
"""What the names of calls hold that may have files fetched, or let others do so first."""
